"""Checks files and the models that they form, and describes the results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ..files.names import FileInput, Folder, ModelFiles, beside, find_gaps, find_models, is_index, is_remote
from ..files.neighbours import describe_missing
from ..header.explain import Explanation
from ..header.model import AlignedShare, Header, aligned_share, rows
from ..header.read import examine, examine_source
from ..model.index import DCP_KEY, IndexNote
from ..rules.book import ProfileName
from ..rules.dtypes import DTYPE_BITS
from ..rules.faults import Fault, Likeness
from ..source import UnreadableError
from ..text import quote, without_name

if TYPE_CHECKING:
    from ..model.judge import ModelFinding, ModelJudgement, Status
    from ..model.read import IndexExplanation, Shard


@dataclass(frozen=True, slots=True)
class Alignment:
    """Alignment of the data in one file. Elements smaller than a byte count as one byte."""

    data_start: int
    tensors: int
    unaligned: int
    share: AlignedShare | None = None

    def to_dict(self) -> dict[str, object]:
        out: dict[str, object] = {
            "data_start": self.data_start,
            "data_start_mod_8": self.data_start % 8,
            "data_start_mod_64": self.data_start % 64,
            "unaligned_tensors": self.unaligned,
        }
        return out if self.share is None else out | {"share": self.share._asdict()}

    def __str__(self) -> str:
        return f"data starts at {self.data_start:,}; {self.unaligned:,} of {self.tensors:,} tensors unaligned"


def _header_notes(header: Header) -> Iterator[IndexNote]:
    place = 8, header.data_start
    if not header.tensors:
        yield IndexNote("FRM-09", "the file contains no tensors", *place)
    elif not header.data_size:
        count = len(header.tensors)
        which = "the only tensor is" if count == 1 else f"all {count:,} tensors are"
        text = f"{which} empty, so the file contains no data"
        yield IndexNote("SHP-04", text, *place)
    if DCP_KEY in (header.metadata or ()):
        text = f"the tensors may be parts of larger tensors from a distributed checkpoint ({DCP_KEY})"
        yield IndexNote("MET-09", text, *place)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of checking one input. The result of an index includes the faults of its shards."""

    name: str
    profile: ProfileName
    size: int | None = None
    faults: list[Fault] = field(default_factory=list)
    tolerated: list[Fault] = field(default_factory=list)
    explanation: Explanation | None = None
    index: IndexExplanation | None = None
    error: str | None = None
    code: str = "IO_ERROR"
    # what the folder knows about the file, and the boundary of ``--alignment``
    folder_notes: tuple[IndexNote, ...] = ()
    boundary: int | None = None

    @property
    def status(self) -> Status:
        if self.error is not None:
            return "unreadable"
        return "invalid" if self.faults else "valid"

    @property
    def header(self) -> Header | None:
        return None if self.explanation is None else self.explanation.header

    @property
    def looks_like(self) -> Likeness | None:
        """Kind of file that an invalid file looks like, or None if it is not recognized."""
        seen = self.index or self.explanation
        return None if seen is None else seen.looks_like

    @property
    def hint(self) -> str:
        return "" if self.looks_like is None else f"; {self.looks_like.text}"

    @property
    def complete(self) -> bool:
        if self.index is not None:
            return self.index.complete
        return self.explanation is None or not self.explanation.cut

    @property
    def notes(self) -> list[IndexNote]:
        if self.index is not None:
            return self.index.notes
        return [*self.folder_notes, *(() if self.header is None else _header_notes(self.header))]

    @property
    def tensors(self) -> int | None:
        if self.status != "valid":
            return None
        if self.index is not None:
            return len(self.index.weight_map)
        return None if self.header is None else len(self.header.tensors)

    @property
    def data_size(self) -> int | None:
        """Number of bytes in the data buffer, or in the data buffers of all shards. None if unknown."""
        if self.index is not None:
            return None if self.faults else sum(self.index.sizes.values())
        start = None if self.explanation is None else self.explanation.data_start
        return None if start is None or self.size is None else self.size - start

    @property
    def alignment(self) -> Alignment | None:
        header = self.header
        if header is None:
            return None
        unaligned = sum(
            (header.data_start + begin) % max(DTYPE_BITS[dtype] // 8, 1) != 0
            for _, dtype, _, begin, end in rows(header.tensors)
            if end > begin
        )
        share = None if self.boundary is None else aligned_share(header, self.boundary)
        return Alignment(header.data_start, len(header.tensors), unaligned, share)

    def to_json(self) -> str:
        kind = "index" if is_index(self.name) else "file"
        if self.error is not None:
            row = {"file": self.name, "kind": kind, "readable": False, "code": self.code}
            return json.dumps({**row, "message": self.error})
        start = None if self.explanation is None else self.explanation.data_start
        stats = self.alignment
        row = {
            "file": self.name,
            "readable": True,
            "valid": not self.faults,
            "profile": self.profile,
            "kind": kind,
            "size": self.size,
            "tensors": self.tensors,
            "shards": None if self.index is None else len(self.index.shards),
            "header_length": None if start is None else start - 8,
            "data_size": self.data_size,
            "alignment": None if stats is None else stats.to_dict(),
            "complete": self.complete,
            "looks_like": None if self.looks_like is None else self.looks_like._asdict(),
            "faults": [f.to_dict() for f in self.faults],
            "tolerated": [f.to_dict() for f in self.tolerated],
            "notes": [note.to_dict() for note in self.notes],
        }
        return json.dumps(row)


def check_input(
    item: FileInput, profile: ProfileName, known: Mapping[str, Explanation] | None = None
) -> CheckResult:
    """Check one input. Never raises. Shards of an index that are ``known`` by name are not read again."""
    name = item.address
    if item.problem:
        return CheckResult(name, profile, error=f"{name}: {item.problem}")
    try:
        if is_index(name):
            return _check_index(name, profile, known or {})
        seen = _examine_remote(name, profile) if is_remote(name) else examine(name, profile)
    except UnreadableError as err:
        missing = isinstance(err.__cause__, FileNotFoundError) and not is_remote(name)
        text = f"{err}{describe_missing(name) if missing else ''}"
        return CheckResult(name, profile, error=text, code=err.code)
    return CheckResult(name, profile, seen.size, seen.faults, seen.tolerated, explanation=seen)


def _examine_remote(address: str, profile: ProfileName) -> Explanation:
    from ..files.stores import open_remote

    source = open_remote(address)
    out = examine_source(source, profile)
    if out.faults or out.tolerated:
        source.confirm()
    return out


def _check_index(name: str, profile: ProfileName, known: Mapping[str, Explanation]) -> CheckResult:
    # This import is deferred because most files are not indexes.
    from ..model.read import explain_index

    explain = _explain_remote_index if is_remote(name) else explain_index
    seen = explain(name, profile, known)
    error = None
    if seen.unread and not seen.faults:
        # If a shard cannot be read, it is unknown whether the model is valid.
        shard, why = next(iter(seen.unread.items()))
        error = f"{name}: shard {quote(shard)} cannot be read: {why}"
    return CheckResult(name, profile, seen.size, seen.faults, seen.tolerated, index=seen, error=error)


def _explain_remote_index(
    address: str, profile: ProfileName, known: Mapping[str, Explanation]
) -> IndexExplanation:
    from ..files.stores import open_remote
    from ..model.read import ABSENT, Shard, explain_index_source, shard_of

    shards: dict[str, Explanation] = {}

    # The validity of a shard that cannot be fetched is unknown.
    def lookup(name: str) -> Shard:
        place = beside(address, name)
        try:
            shards[name] = seen = known.get(name) or _examine_remote(place, profile)
        except UnreadableError as err:
            if isinstance(err.__cause__, FileNotFoundError):
                return ABSENT
            return Shard(unread=without_name(str(err), place))
        return shard_of(seen)

    source = open_remote(address)
    out = explain_index_source(source, profile, lookup)
    if out.faults:
        source.confirm()
    out.shards = shards
    return out


@dataclass(frozen=True, slots=True)
class ModelResult:
    """Result of checking one model, whose name is a folder and a stem, such as ``models/llama/model``."""

    name: str
    folder: str
    profile: ProfileName
    judgement: ModelJudgement

    @property
    def status(self) -> Status:
        return self.judgement.status

    @property
    def model_only(self) -> list[ModelFinding]:
        return [f for f in self.judgement.findings if not f.inner]

    def path_of(self, file: str) -> str:
        return f"{self.folder}/{file}"

    def to_json(self) -> str:
        judged = self.judgement
        row = {
            "model": self.name,
            "kind": "model",
            "readable": self.status != "unreadable",
            "valid": self.status == "valid",
            "profile": self.profile,
            "index": judged.index,
            "shards": len(judged.shards),
            "tensors": judged.tensors,
            "data_size": judged.data_size,
            "partial": judged.partial,
            "complete": judged.complete,
            "unread": judged.unread,
            "findings": [finding.to_dict() for finding in judged.findings],
        }
        return json.dumps(row)


class FolderModels:
    """Checks the files of one folder and then their models, reading each file only once."""

    def __init__(self, folder: Folder, profile: ProfileName, boundary: int | None = None) -> None:
        self._profile, self._boundary = profile, boundary
        items = folder.items if folder.listed else ()
        self._files = {item.address.rpartition("/")[2]: item for item in items}
        self._models = find_models(self._files)
        self._gaps = find_gaps(self._files)
        self._names = {name for model in self._models for name in model.files}
        self._results: dict[str, CheckResult] = {}

    def check(self, item: FileInput) -> CheckResult:
        result = check_input(item, self._profile, self._explanations() if is_index(item.address) else None)
        name = item.address.rpartition("/")[2]
        missing = self._gaps.get(name)
        if missing is not None:
            text = f"the numbers in the names have a gap: {quote(missing)} does not exist"
            text += self._describe(missing)
            result = replace(result, folder_notes=(IndexNote("IDX-15", text, 0, 0),))
        if self._boundary is not None:
            result = replace(result, boundary=self._boundary)
        if name in self._names:
            self._results[name] = result
        return result

    def judge(self) -> Iterator[ModelResult]:
        named: set[str] = set()
        for files in self._models:
            if files.index is None and named.issuperset(files.numbers):
                continue  # an index with another name covers these files
            judged = self._judge(files)
            if files.index is not None:
                named.update(judged.shards)
            folder = self._files[min(files.files)].address.rpartition("/")[0]
            yield ModelResult(f"{folder}/{files.stem}", folder, self._profile, judged)

    def _explanations(self) -> dict[str, Explanation]:
        return {name: r.explanation for name, r in self._results.items() if r.explanation is not None}

    def _judge(self, files: ModelFiles) -> ModelJudgement:
        # This import is deferred because most runs do not check models that consist of several files.
        from ..model.judge import ModelJudgement, judge_model

        wanted = [n for n in files.numbers if files.index is None or n in self._results]
        wanted += [n for n in files.rivals + files.strays if n in self._results]
        shards = {name: _shard(self._result(name)) for name in wanted}
        if files.index is None:
            return judge_model(files, None, shards, self._names, self._profile, self._describe)
        index = self._result(files.index)
        if index.index is None:
            why = without_name(index.error or "it was not read", index.name)
            return ModelJudgement(files.stem, files.index, unread={files.index: why})
        return judge_model(files, index.index, shards, self._names, self._profile)

    def _describe(self, name: str) -> str:
        place = beside(next(iter(self._files.values())).address, name)
        return "" if is_remote(place) else describe_missing(place)

    def _result(self, name: str) -> CheckResult:
        if name not in self._results:
            self._results[name] = check_input(self._files[name], self._profile, self._explanations())
        return self._results[name]


def _shard(result: CheckResult) -> Shard:
    from ..model.read import Shard, shard_of

    if result.error is not None:
        return Shard(unread=without_name(result.error, result.name))
    return Shard() if result.explanation is None else shard_of(result.explanation)
