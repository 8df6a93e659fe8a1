"""What ``stc check`` looks at, files out of directories and patterns, and the result of checking one."""

from __future__ import annotations

import glob
import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from ..header.explain import Explanation, explain
from ..rules.faults import render_path
from ..sharded.index import INDEX_SUFFIX, SUFFIX
from ..source import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..header.model import Header
    from ..rules.book import ProfileName
    from ..rules.faults import Fault
    from ..sharded.index import Note
    from ..sharded.read import IndexExplanation

Status = Literal["valid", "invalid", "unreadable"]
INDEX_END = ".index.json"
"""End of the name of an index; everything else is taken for a safetensors file."""


@dataclass(frozen=True, slots=True)
class CheckInput:
    """A file to check, or with a ``problem`` the reason why there is nothing to check under this name."""

    name: str
    problem: str | None = None


def find_inputs(arguments: Iterable[str]) -> list[CheckInput]:
    """Expand the arguments, in their order; a file that is reached twice is listed once.

    A directory stands for every ``*.safetensors`` and ``*.safetensors.index.json`` below it, in sorted order.
    Files behind symbolic links are taken, linked directories are not entered. A pattern (``*``, ``?``,
    ``[...]``, ``**``) is expanded when no file has exactly that name. What leads to no file is listed with a
    problem: something that was not checked must never look like something without faults.
    """
    found: dict[CheckInput, None] = {}
    for argument in arguments:
        for item in _expand(argument):
            found.setdefault(item)
    return list(found)


def _expand(argument: str) -> Iterator[CheckInput]:
    if not os.path.lexists(argument) and any(sign in argument for sign in "*?["):
        names = sorted(glob.glob(argument, recursive=True))  # noqa: PTH207 - also absolute
        if not names:
            yield CheckInput(argument, "no file matches this pattern")
    else:
        names = [argument]
    for name in names:
        if os.path.isdir(name):  # noqa: PTH112 - a name must stay as it was spelled, "./" included
            yield from _walk(name)
        else:
            yield CheckInput(name)


def _walk(folder: str) -> Iterator[CheckInput]:
    problems: list[CheckInput] = []

    def refused(err: OSError) -> None:
        problems.append(CheckInput(str(err.filename), err.strerror or str(err)))

    empty = True
    for place, folders, files in os.walk(folder, onerror=refused):
        folders.sort()
        for name in sorted(files):
            if name.endswith((SUFFIX, INDEX_SUFFIX)):
                empty = False
                yield CheckInput(os.path.join(place, name))  # noqa: PTH118 - spelled as above
    yield from problems
    if empty and not problems:
        yield CheckInput(folder, f"no *{SUFFIX} or *{INDEX_SUFFIX} in this directory")


@dataclass(frozen=True, slots=True)
class Alignment:
    """Alignment of the data of one file: statistics, never faults (OFF-11).

    Attributes:
        data_start: file position of the first data byte.
        tensors: number of tensors in the file.
        unaligned: how many of them begin at a file position that is no multiple of their element size. Packed
            elements count as one byte, and an empty tensor is never unaligned: it has no element anywhere.
    """

    data_start: int
    tensors: int
    unaligned: int

    def to_dict(self) -> dict[str, int]:
        """Return the statistics as a JSON-serialisable dict."""
        return {
            "data_start": self.data_start,
            "data_start_mod_8": self.data_start % 8,
            "data_start_mod_64": self.data_start % 64,
            "unaligned_tensors": self.unaligned,
        }

    def __str__(self) -> str:
        """Say it in one line for people."""
        if not self.tensors:
            return f"data starts at {self.data_start:,}; no tensors"
        if not self.unaligned:
            return f"data starts at {self.data_start:,}; all tensors aligned"
        return f"data starts at {self.data_start:,}; {self.unaligned:,} of {self.tensors:,} tensors unaligned"


def alignment(header: Header) -> Alignment:
    """Return the alignment statistics of a header."""
    start = header.data_start
    unaligned = sum(
        (start + tensor.begin) % max(tensor.bits // 8, 1) != 0
        for tensor in header.tensors.values()
        if tensor.nbytes
    )
    return Alignment(start, len(header.tensors), unaligned)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of checking one input.

    Attributes:
        name: the path as it was given or found.
        profile: whose options were taken where readers legitimately differ.
        size: size of the file in bytes, None when it is unreadable.
        faults: every rule broken; for an index those of its shards too, with places in the index.
        tolerated: faults that the profile's options tolerate.
        explanation: more about a safetensors file, None for anything else.
        index: more about the index of a sharded model, None for anything else.
        error: why nothing could be read, None otherwise; ``code`` is the code that goes with it.
    """

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
        """One word for the whole input."""
        if self.error is not None:
            return "unreadable"
        return "invalid" if self.faults else "valid"

    @property
    def complete(self) -> bool:
        """False when there are so many faults that some were left out."""
        if self.index is not None:
            return self.index.complete
        return self.explanation is None or not self.explanation.cut

    @property
    def notes(self) -> list[Note]:
        """Notes on an index: legitimate, and worth knowing."""
        return [] if self.index is None else self.index.notes

    @property
    def tensors(self) -> int | None:
        """Number of tensors, None where faults leave it unclear."""
        if self.status != "valid":
            return None
        if self.index is not None:
            return len(self.index.weight_map)
        header = None if self.explanation is None else self.explanation.header
        return None if header is None else len(header.tensors)

    @property
    def data_size(self) -> int | None:
        """Bytes in the data buffer, or in those of all shards; None where faults leave it unclear."""
        if self.index is not None:
            return None if self.faults else sum(self.index.sizes.values())
        start = None if self.explanation is None else self.explanation.data_start
        return None if start is None or self.size is None else self.size - start

    @property
    def alignment(self) -> Alignment | None:
        """Alignment statistics; None unless this is a safetensors file without faults."""
        if self.explanation is None or self.explanation.header is None:
            return None
        return alignment(self.explanation.header)

    def to_dict(self) -> dict[str, object]:
        """Return the result as a JSON-serialisable dict; what does not apply or is not known is None."""
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
        """Return the result as one line of JSON, in ASCII whatever the names hold."""
        return json.dumps(self.to_dict())


def _note(note: Note) -> dict[str, object]:
    path = None if note.path is None else render_path(note.path)
    return {"rule": note.rule, "message": note.message, "start": note.start, "end": note.end, "path": path}


def check_input(item: CheckInput, profile: ProfileName) -> CheckResult:
    """Check one input. Never raises for what a file holds or for a file that cannot be read."""
    name = item.name
    if item.problem is not None:
        return CheckResult(name, profile, error=f"{name}: {item.problem}")
    try:
        if name.endswith(INDEX_END):
            return _check_index(name, profile)
        seen = explain(name, profile)
    except UnreadableError as err:
        return CheckResult(name, profile, error=str(err), code=err.code)
    return CheckResult(name, profile, seen.size, seen.faults, seen.tolerated, explanation=seen)


def _check_index(name: str, profile: ProfileName) -> CheckResult:
    # Most files are no index, so what reads one is loaded when the first is met.
    from ..sharded.read import explain_index

    seen = explain_index(name, profile)
    return CheckResult(name, profile, seen.size, seen.faults, seen.tolerated, index=seen)
