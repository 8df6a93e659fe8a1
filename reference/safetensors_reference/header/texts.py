"""Stores strings and maps of strings in about as much memory as their text needs (LIM-03).

As a Python object, a short string needs ten to forty times as much memory as its text, and the author of a
file decides how many strings its header contains. Here, all strings share one buffer, and objects are created
only on access.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence

_BLOCK = 4096
_SHARED = 1000
_FEW = 64
"""Size in bytes up to which a list of numbers is converted without sharing equal numbers."""


class _IntegerCache(dict[bytes, int]):
    def __missing__(self, text: bytes) -> int:
        value = int(text)
        if len(self) < _SHARED:
            self[text] = value
        return value


class Integers:
    """Comma-separated decimal integers, stored as a part of a longer text."""

    def __init__(self, text: bytes | bytearray, start: int, end: int) -> None:
        self._text, self._start, self._end = text, start, end

    def __len__(self) -> int:
        return self._text.count(b",", self._start, self._end) + (self._start < self._end)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Integers) and self._digits() == other._digits()

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[int]:
        if self._end - self._start <= _FEW:
            return map(int, self._digits().split(b",")) if self._start < self._end else iter(())
        return self._many()

    def _digits(self) -> bytes:
        return bytes(self._text[self._start : self._end])

    def _many(self) -> Iterator[int]:
        known = _IntegerCache()
        start, end = self._start, self._end
        while start < end:
            comma = -1 if end - start <= _BLOCK else self._text.rfind(b",", start, start + _BLOCK)
            stop = end if comma < 0 else comma
            yield from map(known.__getitem__, bytes(self._text[start:stop]).split(b","))
            start = stop + 1


class Strings:
    """Append-only list of strings, which may contain surrogates."""

    def __init__(self) -> None:
        self._text = bytearray()
        self._ends = array("I", [0])
        self._long = (-1, "")  # the last long string, kept so that repeated accesses share one object

    def append(self, text: str) -> None:
        # Encoding the whole string at once would need four bytes per character.
        for start in range(0, len(text), _BLOCK):
            self._text += text[start : start + _BLOCK].encode("utf-8", "surrogatepass")
        if len(text) > _BLOCK:
            self._long = len(self), text
        self._ends.append(len(self._text))

    def append_numbers(self, numbers: Sequence[int]) -> None:
        for start in range(0, len(numbers), _BLOCK):
            if start:
                self._text += b","
            self._text += ",".join(map(str, numbers[start : start + _BLOCK])).encode()
        self._ends.append(len(self._text))

    def numbers(self, index: int) -> Integers:
        return Integers(self._text, self._ends[index], self._ends[index + 1])

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, index: int) -> str:
        if not 0 <= index < len(self):
            raise IndexError(index)
        start, end = self._ends[index], self._ends[index + 1]
        if end - start <= _BLOCK:
            return self._text[start:end].decode("utf-8", "surrogatepass")
        if self._long[0] != index:
            self._long = index, self._text[start:end].decode("utf-8", "surrogatepass")
        return self._long[1]

    def __iter__(self) -> Iterator[str]:
        return map(self.__getitem__, range(len(self)))


class Names:
    """Distinct strings, numbered from 0 in the order in which they were added."""

    def __init__(self) -> None:
        self.texts = Strings()
        self._tags = array("I")  # 32 bits of each name's hash, or 0 for a hidden name
        # hash table whose slots contain the number of a name plus 1, or 0 if they are free
        self._slots = array("I", bytes(4 * 16))

    def find(self, text: str) -> int | None:
        tag = _tag(text)
        for number in self._numbers(tag):
            if self._tags[number] == tag and self.texts[number] == text:
                return number
        return None

    def add(self, text: str, *, hidden: bool = False) -> int:
        number = len(self.texts)
        if 3 * number >= 2 * len(self._slots):
            self._slots = array("I", bytes(8 * len(self._slots)))
            for old, tag in enumerate(self._tags):
                self._enter(old, tag)
        self.texts.append(text)
        self._tags.append(0 if hidden else _tag(text))
        self._enter(number, self._tags[number])
        return number

    def _numbers(self, tag: int) -> Iterator[int]:
        at = tag % len(self._slots)
        while number := self._slots[at]:
            yield number - 1
            at = (at + 1) % len(self._slots)

    def _enter(self, number: int, tag: int) -> None:
        if tag:
            size = len(self._slots)
            at = tag % size
            while self._slots[at]:
                at = (at + 1) % size
            self._slots[at] = number + 1

    # String hashes differ between processes, so the tags are computed again after unpickling.
    def __getstate__(self) -> tuple[Strings, list[bool]]:
        return self.texts, [not tag for tag in self._tags]

    def __setstate__(self, state: tuple[Strings, list[bool]]) -> None:
        Names.__init__(self)
        for text, hidden in zip(*state, strict=True):
            self.add(text, hidden=hidden)


def _tag(text: str) -> int:
    return hash(text) & 0xFFFFFFFF or 1


class Texts(Mapping[str, str]):
    """A mapping of strings to strings, in the order in which each key was first set."""

    def __init__(self) -> None:
        self._keys = Names()
        self._values = Strings()
        self._value_of = array("I")

    def set(self, key: str, value: str) -> None:
        number = self._keys.find(key)
        if number is None:
            number = self._keys.add(key)
            self._value_of.append(0)
        self._value_of[number] = len(self._values)
        self._values.append(value)

    def __getitem__(self, key: str) -> str:
        number = self._keys.find(key) if isinstance(key, str) else None
        if number is None:
            raise KeyError(key)
        return self._values[self._value_of[number]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys.texts)

    def __len__(self) -> int:
        return len(self._value_of)
