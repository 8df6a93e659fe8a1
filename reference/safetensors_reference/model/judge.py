"""Checks a model that consists of several files as one unit, before it is loaded.

This module opens no files; callers read the files first. Each finding names the rule, the file and the
position. Faults of single files are repeated for the model. They are marked ``inner``, because they have
already been reported for the file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from ..files.names import SUFFIX, ModelFiles, index_stem, missing_numbers, parse_shard_number, sibling_name
from ..header.model import Header
from ..rules.book import ProfileName
from ..rules.faults import Fault, render_path
from ..source import MemorySource
from ..text import quote, quote_some
from .index import DCP_KEY, DCP_STEM, IndexNote
from .read import ABSENT, IndexExplanation, Shard, explain_index_source

Kind = Literal["fault", "tolerated", "note"]
Status = Literal["valid", "invalid", "unreadable"]
MAX_DUPLICATES = 1_000


@dataclass(frozen=True, slots=True)
class ModelFinding:
    """A fault or note in a file; ``inner`` means that a check of the file alone also reports it."""

    file: str
    issue: Fault | IndexNote
    kind: Kind
    inner: bool = False

    @property
    def code(self) -> str | None:
        return self.issue.code if isinstance(self.issue, Fault) else None

    @property
    def field(self) -> str | None:
        return None if self.issue.path is None else render_path(self.issue.path)

    def to_dict(self) -> dict[str, object]:
        about = {"kind": self.kind, "file": self.file, "code": self.code, **self.issue.to_dict()}
        about.pop("choice", None)
        return {**about, "inner": self.inner}


@dataclass(slots=True)
class ModelJudgement:
    """Result for one model; ``tensors`` and ``data_size`` are None if there are any faults or unread files.

    ``partial`` is True if the files contain parts of tensors from a distributed checkpoint.
    """

    stem: str
    index: str | None
    shards: tuple[str, ...] = ()
    tensors: int | None = None
    data_size: int | None = None
    findings: list[ModelFinding] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)
    complete: bool = True
    partial: bool = False

    def of(self, kind: Kind) -> list[ModelFinding]:
        return [f for f in self.findings if f.kind == kind]

    @property
    def status(self) -> Status:
        if any(f.kind == "fault" for f in self.findings):
            return "invalid"
        return "unreadable" if self.unread else "valid"

    def fault(self, file: str, code: str, rule: str, message: str, tensor: str | None = None) -> None:
        path = None if tensor is None else (tensor,)
        self.findings.append(ModelFinding(file, Fault(code, rule, message, 0, 0, path), "fault"))

    def note(self, file: str, rule: str, message: str) -> None:
        self.findings.append(ModelFinding(file, IndexNote(rule, message, 0, 0), "note"))


def judge_model(
    files: ModelFiles,
    index: bytes | IndexExplanation | None,
    shards: Mapping[str, Shard],
    names: Collection[str],
    profile: ProfileName = "hardened",
    describe: Callable[[str], str] = lambda _: "",
) -> ModelJudgement:
    """Check a model without opening files.

    Args:
        files: names of the files.
        index: content of the index or the result of reading it; None for a model without an index.
        shards: the files that were read.
        names: all names in the folder. Files in ``names`` that are not in ``shards`` were not read.
        profile: profile to use where readers may differ.
        describe: function that returns a clause about what exists in place of a missing file.
    """
    if files.index is None or index is None:
        out = _by_numbers(files, shards, describe)
        headers = {name: header for name in files.numbers if (header := _header(shards, name)) is not None}
        named: Collection[str] = files.numbers
    else:
        if isinstance(index, bytes):

            def lookup(name: str) -> Shard:
                return shards.get(name) or (Shard(unread="it was not read") if name in names else ABSENT)

            index = explain_index_source(MemorySource(index, files.index), profile, lookup)
        out = _by_index(files, files.index, index, names)
        named = set(index.weight_map.values())
        headers = {name: header for name in named if (header := _header(shards, name)) is not None}
        headers |= {n: s.header for n, s in index.shards.items() if s.header is not None}
    # Every file of a distributed checkpoint has this key, but only the names of parts begin like this.
    out.partial = files.stem.startswith(DCP_STEM) and any(
        DCP_KEY in (header.metadata or ()) for header in headers.values()
    )
    _report_leftovers(out, files, named, headers, shards)
    order: dict[Kind, int] = {"fault": 0, "tolerated": 1, "note": 2}
    out.findings.sort(key=lambda f: order[f.kind])
    return out


def _header(shards: Mapping[str, Shard], name: str) -> Header | None:
    shard = shards.get(name)
    return None if shard is None else shard.header


def _by_index(files: ModelFiles, name: str, seen: IndexExplanation, names: Collection[str]) -> ModelJudgement:
    shards = tuple(dict.fromkeys(seen.weight_map.values()))
    out = ModelJudgement(files.stem, name, shards, unread=dict(seen.unread), complete=seen.complete)
    out.findings += [ModelFinding(name, fault, "fault", inner=True) for fault in seen.faults]
    out.findings += [ModelFinding(name, fault, "tolerated", inner=True) for fault in seen.tolerated]
    out.findings += [ModelFinding(name, note, "note", inner=True) for note in seen.notes]
    if not seen.faults and not seen.unread:
        out.tensors, out.data_size = len(seen.weight_map), sum(seen.sizes.values())
    present = set(names)
    sets: dict[tuple[str, int], dict[int, str]] = {}
    for shard in out.shards:
        found = parse_shard_number(shard)
        if found is not None and not any(sign in shard for sign in "/\\"):
            sets.setdefault((found.stem, found.total), {})[found.number] = shard
    for (stem, total), numbers in sets.items():
        any_name = next(iter(numbers.values()))
        for first, last in missing_numbers(numbers, total):
            # A file that exists is reported as a leftover instead.
            if first != last or sibling_name(any_name, first) not in present:
                left = f"number {first:,}" if first == last else f"numbers {first:,} to {last:,}"
                text = f"the index names {len(numbers):,} of {total:,} shards of {quote(stem)}"
                out.note(name, "IDX-15", f"{text}, but not {left}")
    if len(sets) > 1:
        examples = quote_some([next(iter(numbers.values())) for numbers in sets.values()], 3)
        out.note(name, "IDX-15", f"the index names shards from {len(sets)} different sets: {examples}")
    return out


def _by_numbers(
    files: ModelFiles, shards: Mapping[str, Shard], describe: Callable[[str], str]
) -> ModelJudgement:
    out = ModelJudgement(files.stem, None, files.numbers)
    holders: dict[str, str] = {}
    size = 0
    for name in files.numbers:
        shard = shards.get(name, Shard(unread="it was not read"))
        if shard.absent is not None:
            out.fault(name, "IDX_SHARD_MISSING", "IDX-08", f"shard {quote(name)} {shard.absent}")
        if shard.unread is not None:
            out.unread[name] = shard.unread
        out.findings += [ModelFinding(name, fault, "fault", inner=True) for fault in shard.faults]
        out.findings += [ModelFinding(name, fault, "tolerated", inner=True) for fault in shard.tolerated]
        if shard.header is not None:
            size += shard.header.data_size
            _check_duplicates(out, name, shard.header, holders)
    _check_set(out, files, describe)
    if out.status == "valid":
        out.tensors, out.data_size = len(holders), size
    return out


def _check_duplicates(out: ModelJudgement, name: str, header: Header, holders: dict[str, str]) -> None:
    duplicates = 0
    for tensor in header.tensors:
        first = holders.setdefault(tensor, name)
        if first != name:
            duplicates += 1
            if duplicates <= MAX_DUPLICATES:
                text = f"{quote(name)} contains tensor {quote(tensor)}, which is also in {quote(first)}"
                out.fault(name, "IDX_TENSOR_DUPLICATE", "IDX-11", text, tensor)
    out.complete &= duplicates <= MAX_DUPLICATES


def _check_set(out: ModelJudgement, files: ModelFiles, describe: Callable[[str], str]) -> None:
    some = files.numbers[0]
    numbers: set[int] = set()
    total = 0
    for name in files.numbers:
        found = parse_shard_number(name)
        assert found is not None
        numbers.add(found.number)
        total = found.total
    beyond = max(numbers)
    if beyond > total:
        text = f"shard {beyond:,} of {total:,}: the number is greater than the number of shards"
        out.note(sibling_name(some, beyond), "IDX-15", text)
    for first, last in missing_numbers(numbers, total):
        name = sibling_name(some, first)
        missing = f"shard {quote(name)} does not exist"
        if last > first:
            end = quote(sibling_name(some, last))
            missing = f"{last - first + 1:,} shards from {quote(name)} to {end} do not exist"
        missing += describe(name)
        text = f"{missing}; according to the names of the other shards, there are {total:,}"
        out.fault(name, "IDX_SHARD_MISSING", "IDX-08", text)
    if total > 1:
        text = f"the {total:,} shards of {quote(files.stem)} have no index, which some loaders need"
        out.note(some, "IDX-15", text)


def _report_leftovers(
    out: ModelJudgement,
    files: ModelFiles,
    named: Collection[str],
    headers: Mapping[str, Header],
    shards: Mapping[str, Shard],
) -> None:
    # If the index cannot be read, it is unknown which shards are left over.
    numbers = files.numbers if named or not out.of("fault") else ()
    left = [name for name in numbers + files.rivals + files.strays if name not in named]
    tensors = {tensor for header in headers.values() for tensor in header.tensors} if left else set()
    indexes, others, consolidated = [], [], []
    for name in left:
        header = _header(shards, name)
        common = 0 if header is None else len(tensors & header.tensors.keys())
        shared = f"; {common:,} of its tensors are also in the model" if common else ""
        found = parse_shard_number(name)
        if name in files.strays:
            if common:
                text = f"{quote(name)} is not part of the model, but contains {common:,} of its tensors"
                out.note(name, "IDX-15", f"{text}; loaders that read every *{SUFFIX} file load both")
        elif name in files.numbers:
            text = f"{quote(name)} has the name of a shard, but the index does not name it{shared}"
            out.note(name, "IDX-19", text)
        elif index_stem(name) is not None:
            indexes.append(name)
        elif found is not None and found.stem == files.stem:
            others.append(name)
        elif name == f"{files.stem}{SUFFIX}":
            text = f"{quote(name)} is in the same folder as the shards of {quote(files.stem)}"
            out.note(name, "IDX-15", f"{text}; loaders use one or the other{shared}")
        else:
            consolidated.append(name)
    if indexes:
        text = f"the folder contains {1 + len(indexes)} indexes, including {quote_some(indexes, 3)}"
        out.note(out.index or indexes[0], "IDX-16", text)
    if consolidated:
        names = quote_some(consolidated, 3)
        text = f"besides the shards, the folder contains {names}; loaders use one or the other"
        out.note(consolidated[0], "IDX-15", text)
    if others:
        text = "the folder also contains shards from a set with a different number of shards"
        out.note(others[0], "IDX-19", f"{text}: {quote_some(others, 3)}")
