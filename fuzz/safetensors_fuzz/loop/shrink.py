"""Making an input smaller while it stays wrong in the same way: parts first, then texts, then bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from ..grammar.entries import Entry, entries, metadata, shift, size
from ..grammar.model import Arr, File, Obj, Value, parse

MOST_TRIES = 4000
MOST_SECONDS = 1.0
"""Time for one input; what is reached by then is good enough to look at."""
LEAST_TRIES = 300
PATIENCE = 10
"""A slow reader gets up to ten times the time, for so many tries at least."""
_WORDS = (b"0", b"1", b'""', b'"a"')


def shrink(
    data: bytes,
    same: Callable[[bytes], bool],
    *,
    tries: int = MOST_TRIES,
    seconds: float = MOST_SECONDS,
) -> bytes:
    """Return a smaller input for which ``same`` still holds; ``data`` itself when there is none.

    Args:
        data: an input for which ``same`` holds.
        same: whether an input is wrong in the same way.
        tries: most calls of ``same``.
        seconds: time after which it ends, unless the reader is so slow that little was tried.
    """
    return _Shrinker(data, same, tries, seconds).run()


class _Shrinker:
    def __init__(self, data: bytes, same: Callable[[bytes], bool], tries: int, seconds: float) -> None:
        self.best = data
        self._same = same
        self._left = tries
        now = time.monotonic()
        self._end, self._last = now + seconds, now + PATIENCE * seconds
        self._due = min(tries, LEAST_TRIES)
        self._tried: set[bytes] = {data}

    def run(self) -> bytes:
        before = -1
        while len(self.best) != before and self._may():
            before = len(self.best)
            self._all(_parts)
            self._all(_texts)
            self._bytes()
        return self.best

    def _may(self) -> bool:
        if self._left <= 0:
            return False
        now = time.monotonic()
        return now < self._end or (len(self._tried) <= self._due and now < self._last)

    def _try(self, data: bytes) -> bool:
        """Take an input over if it is simpler and still wrong in the same way."""
        if not self._may() or data in self._tried or not _simpler(data, self.best):
            return False
        self._tried.add(data)
        self._left -= 1
        if not self._same(data):
            return False
        self.best = data
        return True

    def _all(self, candidates: Callable[[File], Iterator[File]]) -> None:
        """Try candidates of the best input until none is taken any more."""
        taken = True
        while taken and self._may():
            taken = any(self._try(file.render()) for file in candidates(parse(self.best)))

    def _bytes(self) -> None:
        """Remove stretches of the header text (the length follows) and of the data, longest first."""
        width = 64
        while width and self._may():
            file = parse(self.best)
            if file.raw is not None:
                for at in range(len(file.raw) - width, -1, -1):
                    if self._try(file.raw[:at] + file.raw[at + width :]):
                        break
                else:
                    width //= 2
                continue
            header = file.header()
            if not any(
                self._try(File(header[:at] + header[at + width :], file.data, length=file.length).render())
                for at in range(len(header) - width, -1, -max(width // 2, 1))
            ):
                width //= 2


def _simpler(new: bytes, old: bytes) -> bool:
    """Shorter, or of the same length and smaller by its bytes: zeros and early letters look simplest."""
    return len(new) < len(old) or (len(new) == len(old) and new < old)


def _parts(file: File) -> Iterator[File]:
    """Yield files with a part left out or put plainly, the most drastic first."""
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
            yield _without_members(file, range(start, stop))
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
    """Yield the file with bytes before an entry's range taken out, as of a hole that may be smaller."""
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


def _without_members(file: File, places: range) -> File:
    """Return the file without several members and their bytes."""
    for at in reversed(places):
        file = next(_without_member(file, at))
    return file


def _without_member(file: File, at: int) -> Iterator[File]:
    """Yield the file without a member: with its bytes gone too, then with the bytes left."""
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
    """Yield the file with one entry made plainer: fewer dimensions, smaller ones, a plain dtype."""

    def fresh() -> tuple[File, Entry]:
        out = file.copy()
        return out, entries(out)[at]

    _, entry = fresh()
    for shape in _smaller_shapes(entry.shape):
        out, entry = fresh()
        count = size(entry.dtype, shape)
        sound = size(entry.dtype, entry.shape) == entry.end - entry.begin and entry.end <= len(out.data)
        if count is not None and sound and count <= entry.end - entry.begin:
            _resize(out, entry, count)
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
                _resize(out, entry, count)
                yield out
    out, entry = fresh()
    for begin, end in ((0, 0), (0, 1), (entry.begin, entry.begin), (0, entry.end - entry.begin)):
        if 0 <= begin <= end:
            out, entry = fresh()
            entry.move(begin, end)
            yield out


def _resize(file: File, entry: Entry, count: int) -> None:
    old = entry.end
    by = entry.begin + count - old
    file.data = file.data[: entry.begin + min(count, old - entry.begin)] + bytes(max(by, 0)) + file.data[old:]
    shift(file, old, by, but=entry)
    entry.move(entry.begin, entry.begin + count)


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
    """Yield files with one text made shorter or plainer: names, values, whitespace."""
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
    """Return every key, value and item of the tree: (list, index)."""
    out: list[tuple[list[Value], int]] = []
    todo: list[Value] = [file.root]
    while todo:
        value = todo.pop()
        if type(value) is Obj:
            for member in value.members:
                out += [(member, 0), (member, 1)]
                todo.append(member[1])
        elif type(value) is Arr:
            out += [(value.items, at) for at in range(len(value.items))]
            todo += value.items
    return out


def _put(file: File, at: int, value: bytes) -> File:
    out = file.copy()
    holder, place = _slots(out)[at]
    holder[place] = value
    return out
