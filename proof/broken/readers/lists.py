"""Broken readers that check only some of the tensors in a list, or lose what crosses a block."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from proof.planted import Planted

from ..correct.json import Pairs
from ..correct.reader import READER, SmallReader, Tensor, by_offset
from ..variant import reading

KNOWING_ANY = READER.without("dtype-known")
LENIENT = READER.without("range-size", "dtype-known")


def _none(_index: int, _count: int) -> bool:
    return False


@dataclass(frozen=True)
class Unchecked(SmallReader):
    """Does not check the tensors that ``skips`` selects by their position and the number of tensors."""

    skips: Callable[[int, int], bool] = _none

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        pairs = [(name, value) for name, value in members if not self.reserved(name)]
        skipped = [self.skips(index, len(pairs)) for index in range(len(pairs))]
        keys = [name for (name, _), skip in zip(pairs, skipped, strict=True) if not skip]
        self.demand("name-twice", len(set(keys)) == len(keys))
        tensors = [
            (LENIENT if skip else READER).entry(name, value)
            for (name, value), skip in zip(pairs, skipped, strict=True)
        ]
        _, metadata = super().entries(Pairs(member for member in members if self.reserved(member[0])))
        return [tensor for tensor in tensors if tensor is not None], metadata

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        place = 0
        for index, tensor in enumerate(by_offset(tensors)):
            if not self.skips(index, len(tensors)):
                self.demand("hole", tensor.begin <= place)
                self.demand("overlap", tensor.begin >= place)
            place = max(place, tensor.end)
        self.demand("past-end", place <= size)
        self.demand("trailing", place >= size)


@dataclass(frozen=True)
class Table(SmallReader):
    """Enters the first 512 tensors into a table, and checks only sizes and holes of the others.

    It compares the name of every tensor with the names in the table.
    """

    room: int = 512

    def entries(self, members: Pairs) -> tuple[list[Tensor], dict[str, Any] | None]:
        pairs = [member for member in members if not self.reserved(member[0])]
        listed, others = pairs[: self.room], pairs[self.room :]
        reserved = [member for member in members if self.reserved(member[0])]
        tensors, metadata = super().entries(Pairs([*listed, *reserved]))
        self.demand("name-twice", not {name for name, _ in listed} & {name for name, _ in others})
        found = (KNOWING_ANY.entry(name, value) for name, value in others)
        return [*tensors, *(tensor for tensor in found if tensor is not None)], metadata

    def check_layout(self, tensors: Sequence[Tensor], size: int) -> None:
        listed = {tensor.name for tensor in tensors[: self.room]}
        place = 0
        for tensor in by_offset(tensors):
            sees = tensor.name in listed
            self.demand("hole", tensor.begin <= place or (not sees and tensor.begin == tensor.end))
            self.demand("overlap", tensor.begin >= place or not sees)
            if sees or tensor.begin < tensor.end:
                place = max(place, tensor.end)
        self.demand("past-end", place <= size)
        self.demand("trailing", place >= size)


SKIPS: Mapping[str, tuple[str, Callable[[int, int], bool]]] = {
    "second": ("the second tensor", lambda index, _: index == 1),
    "middle": ("the tensor in the middle", lambda index, count: 1 < index == count // 2),
    "next-to-last": ("the last but one of many tensors", lambda index, count: 1 < index == count - 2),
    "from-17": ("the tensors after the first 16", lambda index, _: index >= 16),
    "from-65": ("the tensors after the first 64", lambda index, _: index >= 64),
    "from-257": ("the tensors after the first 256", lambda index, _: index >= 256),
    "100th": ("the last tensor of every hundred", lambda index, _: index % 100 == 99),
    "257th": ("the 257th tensor", lambda index, _: index == 256),
    "over-1000": ("tensors in files with more than 1,000 of them", lambda _, count: count > 1000),
}


def _across(size: int) -> Callable[[Tensor, bytes], bytes]:
    """Return a function that sets to zero what lies behind the end of the first block of a tensor."""

    def values(tensor: Tensor, data: bytes) -> bytes:
        room = size - tensor.begin % size
        return data[:room].ljust(len(data), b"\0")

    return values


def _vectors(_: Tensor, data: bytes) -> bytes:
    whole = len(data) // 16 * 16
    return data if not whole else data[:whole].ljust(len(data), b"\0")


def _chunks(first: int) -> Callable[[bytes], str]:
    """Return a function that decodes ``first`` bytes, and then blocks of 4,096 bytes, separately."""

    def decode(header: bytes) -> str:
        cuts = [0, *range(first, len(header), 4096), len(header)]
        return "".join(header[a:b].decode("utf-8", "replace") for a, b in pairwise(cuts))

    return decode


VARIANTS: tuple[Planted, ...] = (
    *(
        reading(f"list-unchecked-{name}", f"Does not check {what}.", Unchecked(skips=skips))
        for name, (what, skips) in SKIPS.items()
    ),
    reading("list-table", "Checks only sizes and holes of the tensors after the first 512.", Table()),
    *(
        reading(
            f"data-across-{size >> 10}-kib",
            f"Loses the part of a tensor that lies behind the end of a block of {size >> 10} KiB.",
            replace(READER, values=_across(size)),
        )
        for size in (1 << 12, 1 << 16, 1 << 17)
    ),
    replace(
        reading(
            "data-across-1-mib",
            "Loses the part of a tensor that lies behind the end of a block of 1 MiB.",
            replace(READER, values=_across(1 << 20)),
        ),
        heavy=True,
    ),
    reading(
        "data-vectors", "Loses the bytes after the last 16 of a tensor.", replace(READER, values=_vectors)
    ),
    reading(
        "header-in-blocks",
        "Decodes 4,096 bytes of the header at a time.",
        replace(READER, decode=_chunks(4096)),
    ),
    reading(
        "file-in-blocks", "Decodes 4,096 bytes of the file at a time.", replace(READER, decode=_chunks(4088))
    ),
)
