"""Result of checking one file."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from ..files.names import is_index
from ..files.remote import is_remote
from ..header.model import rows
from ..header.read import examine
from ..rules.dtypes import DTYPE_BITS
from ..rules.faults import quote, render_path
from ..source import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..header.explain import Explanation
    from ..header.model import Header
    from ..model.index import IndexNote
    from ..model.read import IndexExplanation
    from ..rules.book import ProfileName
    from ..rules.faults import Fault
    from .inputs import CheckInput

Status = Literal["valid", "invalid", "unreadable"]


@dataclass(frozen=True, slots=True)
class Alignment:
    """Alignment of the data in one file. Unaligned data is not a fault (OFF-11).

    Packed elements count as one byte.
    """

    data_start: int
    tensors: int
    unaligned: int

    def to_dict(self) -> dict[str, int]:
        return {
            "data_start": self.data_start,
            "data_start_mod_8": self.data_start % 8,
            "data_start_mod_64": self.data_start % 64,
            "unaligned_tensors": self.unaligned,
        }

    def __str__(self) -> str:
        if not self.tensors:
            return f"data starts at {self.data_start:,}; no tensors"
        if not self.unaligned:
            return f"data starts at {self.data_start:,}; all tensors aligned"
        return f"data starts at {self.data_start:,}; {self.unaligned:,} of {self.tensors:,} tensors unaligned"


def alignment(header: Header) -> Alignment:
    start = header.data_start
    unaligned = sum(
        (start + begin) % max(DTYPE_BITS[dtype] // 8, 1) != 0
        for _, dtype, _, begin, end in rows(header.tensors)
        if end > begin
    )
    return Alignment(start, len(header.tensors), unaligned)


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

    @property
    def status(self) -> Status:
        if self.error is not None:
            return "unreadable"
        return "invalid" if self.faults else "valid"

    @property
    def complete(self) -> bool:
        if self.index is not None:
            return self.index.complete
        return self.explanation is None or not self.explanation.cut

    @property
    def notes(self) -> list[IndexNote]:
        return [] if self.index is None else self.index.notes

    @property
    def tensors(self) -> int | None:
        if self.status != "valid":
            return None
        if self.index is not None:
            return len(self.index.weight_map)
        header = None if self.explanation is None else self.explanation.header
        return None if header is None else len(header.tensors)

    @property
    def data_size(self) -> int | None:
        """Number of bytes in the data buffer, or in the data buffers of all shards. None if unknown."""
        if self.index is not None:
            return None if self.faults else sum(self.index.sizes.values())
        start = None if self.explanation is None else self.explanation.data_start
        return None if start is None or self.size is None else self.size - start

    @property
    def alignment(self) -> Alignment | None:
        if self.explanation is None or self.explanation.header is None:
            return None
        return alignment(self.explanation.header)

    def to_dict(self) -> dict[str, object]:
        if self.error is not None:
            return {"file": self.name, "readable": False, "code": self.code, "message": self.error}
        start = None if self.explanation is None else self.explanation.data_start
        stats = self.alignment
        return {
            "file": self.name,
            "readable": True,
            "valid": not self.faults,
            "profile": self.profile,
            "kind": "file" if self.index is None else "index",
            "size": self.size,
            "tensors": self.tensors,
            "shards": None if self.index is None else len(self.index.shards),
            "header_length": None if start is None else start - 8,
            "data_size": self.data_size,
            "alignment": None if stats is None else stats.to_dict(),
            "complete": self.complete,
            "faults": [f.to_dict() for f in self.faults],
            "tolerated": [f.to_dict() for f in self.tolerated],
            "notes": [_note(n) for n in self.notes],
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict())


def _note(note: IndexNote) -> dict[str, object]:
    path = None if note.path is None else render_path(note.path)
    return {"rule": note.rule, "message": note.message, "start": note.start, "end": note.end, "path": path}


def check_input(
    item: CheckInput, profile: ProfileName, known: Mapping[str, Explanation] | None = None
) -> CheckResult:
    """Check one input. Never raises.

    ``known`` contains the explanations of files beside an index that were already read.
    """
    name = item.name
    if item.problem is not None:
        return CheckResult(name, profile, error=f"{name}: {item.problem}")
    try:
        if is_remote(name):
            return _check_remote(name, profile, known)
        if is_index(name):
            return _check_index(name, profile, known)
        seen = examine(name, profile)
    except UnreadableError as err:
        return CheckResult(name, profile, error=str(err), code=err.code)
    return CheckResult(name, profile, seen.size, seen.faults, seen.tolerated, explanation=seen)


def _check_index(name: str, profile: ProfileName, known: Mapping[str, Explanation] | None) -> CheckResult:
    # This import is deferred because most files are not an index.
    from ..model.read import explain_index

    seen = explain_index(name, profile, known)
    return CheckResult(name, profile, seen.size, seen.faults, seen.tolerated, index=seen)


def _check_remote(name: str, profile: ProfileName, known: Mapping[str, Explanation] | None) -> CheckResult:
    from .remote import examine_remote, explain_remote_index

    if is_index(name):
        index = explain_remote_index(name, profile, known or {})
        error = None
        if index.unread and not index.faults:
            # Without this shard, the model is neither valid nor invalid.
            shard, why = next(iter(index.unread.items()))
            error = f"{name}: shard {quote(shard)} cannot be read: {why}"
        return CheckResult(name, profile, index.size, index.faults, index.tolerated, index=index, error=error)
    seen = examine_remote(name, profile)
    return CheckResult(name, profile, seen.size, seen.faults, seen.tolerated, explanation=seen)
