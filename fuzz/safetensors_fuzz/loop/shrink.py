"""Shrinks an input that triggers a wrong answer. It simplifies parts first, then strings, then bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from math import prod
from typing import TypeVar

from safetensors_corpus.features.tree import (
    Arr,
    File,
    Obj,
    TensorEntry,
    Value,
    entries,
    metadata,
    parse,
    resize,
    shift,
    size,
    trees,
)
from safetensors_corpus.features.vocabulary import BITS

MOST_TRIES = 4000
MAX_SECONDS = 1.0
LEAST_TRIES = 300
"""Number of tries after which the time limit applies even to a slow reader."""
OVERTIME = 10
"""Factor by which a slow reader may exceed the time limit."""
_WORDS = (b"0", b"1", b'""', b'"a"')


T = TypeVar("T", bound=Hashable)
Phase = Callable[[T], Iterator[T]]
"""Yields simpler inputs, starting with the most drastic changes."""


def shrink(
    data: bytes, same: Callable[[bytes], bool], *, tries: int = MOST_TRIES, seconds: float = MAX_SECONDS
) -> bytes:
    return simplest(data, same, FILE_PHASES, tries=tries, seconds=seconds)


def simplest(
    best: T,
    same: Callable[[T], bool],
    phases: Sequence[Phase[T]],
    *,
    tries: int = MOST_TRIES,
    seconds: float = MAX_SECONDS,
) -> T:
    """Return the simplest input found for which ``same`` returns True, starting from ``best``."""
    began, tried = time.monotonic(), {best}

    def is_over() -> bool:
        took = time.monotonic() - began
        late = took >= seconds and (len(tried) > min(tries, LEAST_TRIES) or took >= OVERTIME * seconds)
        return late or len(tried) > tries

    progress = True
    while progress:
        progress = False
        for phase in phases:
            candidates = phase(best)
            while (other := next(candidates, None)) is not None:
                if is_over():
                    return best
                if other in tried:
                    continue
                tried.add(other)
                if same(other):
                    best, candidates, progress = other, phase(other), True
    return best


def _of_file(candidates: Callable[[File], Iterator[File]]) -> Phase[bytes]:
    def phase(data: bytes) -> Iterator[bytes]:
        for file in candidates(parse(data)):
            other = file.render()
            if (len(other), other) < (len(data), data):
                yield other

    return phase


def _cut(width: int) -> Callable[[File], Iterator[File]]:
    def cut(file: File) -> Iterator[File]:
        if file.raw is not None:
            for at in range(len(file.raw) - width, -1, -1):
                yield _with(file, raw=file.raw[:at] + file.raw[at + width :])
            return
        header = file.header()
        for at in range(len(header) - width, -1, -max(width // 2, 1)):
            yield File(header[:at] + header[at + width :], file.data, length=file.length)

    return cut


def _parts(file: File) -> Iterator[File]:
    if file.raw is not None:
        return
    if file.data:
        yield _with(file, data=b"")
    if file.padding:
        yield _with(file, padding=b"")
    if file.length is not None:
        yield _with(file, length=None)
    if type(file.root) is Obj:
        count = len(file.root.members)
        for start, stop in ((0, count // 2), (count // 2, count)) if count > 3 else ():
            fewer = file
            for at in reversed(range(start, stop)):
                fewer = next(_without_member(fewer, at))
            yield fewer
        for at in range(count):
            yield from _without_member(file, at)
        for entry_at in range(len(entries(file))):
            yield from _smaller_entry(file, entry_at)
            yield from _closer(file, entry_at)
        yield from _less_metadata(file)
    for cut in (len(file.data) // 2, 8, 1):
        if 0 < cut <= len(file.data):
            yield _with(file, data=file.data[:-cut])


def _closer(file: File, at: int) -> Iterator[File]:
    """Yield the file without some of the bytes before an entry, so that a hole shrinks."""
    begin = entries(file)[at].begin
    for by in dict.fromkeys((begin - 1, begin // 2, 8, 1)):
        if 0 < by <= begin <= len(file.data):
            out = file.copy()
            out.data = out.data[: begin - by] + out.data[begin:]
            shift(out, begin, -by)
            yield out


def _less_metadata(file: File) -> Iterator[File]:
    found = metadata(file)
    if found is None or type(found[1]) is not Obj:
        return
    for at in range(len(found[1].members)):
        out = file.copy()
        again = metadata(out)
        assert again is not None
        assert type(again[1]) is Obj
        del again[1].members[at]
        yield out


def _with(file: File, **changes: object) -> File:
    out = file.copy()
    for name, value in changes.items():
        setattr(out, name, value)
    return out


def _without_member(file: File, at: int) -> Iterator[File]:
    out = file.copy()
    assert type(out.root) is Obj
    row = out.root.members[at]
    entry = next((e for e in entries(out) if e.member is row), None)
    del out.root.members[at]
    if entry is not None and 0 <= entry.begin < entry.end <= len(out.data):
        left = out.copy()
        out.data = out.data[: entry.begin] + out.data[entry.end :]
        shift(out, entry.end, entry.begin - entry.end)
        yield out
        yield left
    else:
        yield out


def _smaller_entry(file: File, at: int) -> Iterator[File]:
    def fresh() -> tuple[File, TensorEntry]:
        out = file.copy()
        return out, entries(out)[at]

    _, entry = fresh()
    for shape in _smaller_shapes(entry.shape):
        out, entry = fresh()
        count = _size(entry, shape)
        sound = _size(entry, entry.shape) == entry.end - entry.begin and entry.end <= len(out.data)
        if count is not None and sound and count <= entry.end - entry.begin:
            resize(out, entry, count)
            entry.reshape(shape)
            yield out
        out, entry = fresh()
        entry.reshape(shape)
        yield out
    for dtype in (b"U8", b"F4", b"I8"):
        if entry.dtype not in (b"U8", b"F4", b"I8"):
            out, entry = fresh()
            count = size(dtype, entry.shape)
            entry.retype(dtype)
            yield out
            if count is not None and count <= entry.end - entry.begin and entry.end <= len(out.data):
                resize(out, entry, count)
                yield out
    out, entry = fresh()
    for begin, end in ((0, 0), (0, 1), (entry.begin, entry.begin), (0, entry.end - entry.begin)):
        if 0 <= begin <= end:
            out, entry = fresh()
            entry.move(begin, end)
            yield out


def _size(entry: TensorEntry, shape: list[int]) -> int | None:
    if entry.dtype in BITS:
        return size(entry.dtype, shape)
    count = prod(entry.shape)
    width, rest = divmod(entry.end - entry.begin, count) if count else (0, 1)
    return None if rest else prod(shape) * width


def _smaller_shapes(shape: list[int]) -> Iterator[list[int]]:
    if shape:
        yield []
    if shape not in ([], [0], [1]):
        yield [0]
        yield [1]
    for at, dim in enumerate(shape):
        yield shape[:at] + shape[at + 1 :]
        for smaller in {0, 1, 2, dim // 2}:
            if smaller < dim:
                yield [*shape[:at], smaller, *shape[at + 1 :]]


def _texts(file: File) -> Iterator[File]:
    if file.raw is not None:
        return
    count = len(_slots(file))
    for at in range(count):
        holder, place = _slots(file)[at]
        value = holder[place]
        if type(value) is not bytes:
            yield _put(file, at, b"0")
            yield _put(file, at, b"[]")
            continue
        bare = value.strip(b" \t\r\n")
        if bare != value:
            yield _put(file, at, bare)
        for word in (
            _WORDS
            if bare[:1] != b'"'
            else (b'""', b'"a"', b'"b"', b'"' + bare[1 : 1 + len(bare) // 2] + b'"')
        ):
            if len(word) <= len(bare):
                yield _put(file, at, word)
        if bare.isdigit() and len(bare) < 30:
            for number in (int(bare) // 2, int(bare) // 10, max(int(bare) - 1, 0)):
                yield _put(file, at, b"%d" % number)
    if any(file.data):
        yield _with(file, data=bytes(len(file.data)))


def _slots(file: File) -> list[tuple[list[Value], int]]:
    out: list[tuple[list[Value], int]] = []
    for tree in trees(file):
        if type(tree) is Obj:
            out += [(member, place) for member in tree.members for place in (0, 1)]
        elif type(tree) is Arr:
            out += [(tree.items, at) for at in range(len(tree.items))]
    return out


def _put(file: File, at: int, value: bytes) -> File:
    out = file.copy()
    holder, place = _slots(out)[at]
    holder[place] = value
    return out


FILE_PHASES = tuple(map(_of_file, (_parts, _texts, *(_cut(width) for width in (64, 32, 16, 8, 4, 2, 1)))))
