"""Writer: several tensors in one memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...author.case import ACCEPT, accepts, chooses, reject
from ...author.file import pattern
from ...author.write import WriteBuilder

if TYPE_CHECKING:
    from ...author.case import Accept, Reject

REFUSED = reject("WRT_SHARED_STORAGE")
ONE_HOLDS_ALL: dict[str, Accept | Reject] = {
    "copy": ACCEPT,
    "refuse": REFUSED,
    "once": ACCEPT,
    "noted": ACCEPT,
}
NONE_HOLDS_ALL: dict[str, Accept | Reject] = {
    "copy": ACCEPT,
    "refuse": REFUSED,
    "once": REFUSED,
    "noted": REFUSED,
}


def stored_once(f: WriteBuilder, kept: str, *left_out: str, others: tuple[str, ...] = ()) -> None:
    """Say what the file holds when of the tensors that share memory ``kept`` alone is stored."""
    f.holds(kept, *others, option="once")
    f.holds(kept, *others, metadata=dict.fromkeys(left_out, kept), option="noted")


@chooses("shared-memory", options=ONE_HOLDS_ALL, level="must", importance="high")
def one_view_twice(f: WriteBuilder) -> None:
    """One tensor under two names: tied weights."""
    f.storage("memory", pattern("t", 16))
    f.give("a", "F32", [4], storage="memory")
    f.give("b", "F32", [4], storage="memory")
    stored_once(f, "a", "b")


@chooses("shared-memory", options=ONE_HOLDS_ALL, level="must")
def one_view_under_three_names(f: WriteBuilder) -> None:
    """One tensor under three names, beside one of its own."""
    f.storage("memory", pattern("t", 16))
    for name in "abc":
        f.give(name, "F32", [4], storage="memory")
    f.give("d", "F32", [2])
    stored_once(f, "a", "b", "c", others=("d",))


@chooses("shared-memory", options=ONE_HOLDS_ALL, level="must")
def one_memory_in_two_shapes(f: WriteBuilder) -> None:
    """A vector and a matrix of the same bytes."""
    f.storage("memory", pattern("t", 24))
    f.give("a", "F32", [6], storage="memory")
    f.give("b", "F32", [2, 3], storage="memory")
    stored_once(f, "a", "b")


@chooses("shared-memory", options=ONE_HOLDS_ALL, level="must")
def part_of_another_tensor(f: WriteBuilder) -> None:
    """A tensor that is a row of another one."""
    f.storage("memory", pattern("t", 24))
    f.give("a", "F32", [2, 3], storage="memory")
    f.give("b", "F32", [3], storage="memory", offset=12)
    stored_once(f, "a", "b")


@chooses("shared-memory", options=NONE_HOLDS_ALL, level="must", importance="high")
def overlapping_halves(f: WriteBuilder) -> None:
    """Two tensors that have their inner half in common; none of them holds all bytes."""
    f.storage("memory", pattern("t", 24))
    f.give("a", "F32", [4], storage="memory")
    f.give("b", "F32", [4], storage="memory", offset=8)


DISJOINT: dict[str, list[tuple[int, list[int], list[int] | None]]] = {
    "side-by-side": [(0, [4], None), (16, [4], None)],
    "second-first": [(16, [4], None), (0, [4], None)],
    "with-a-gap": [(0, [2], None), (24, [2], None)],
}


@accepts("WRT-16", "WRT-01", importance="high", bugs=("FB-41",), over=DISJOINT)
def parts_of_one_storage(f: WriteBuilder, value: list[tuple[int, list[int], list[int] | None]]) -> None:
    """Two tensors in one storage that have no byte in common: $slug.

    Flat buffers of optimisers look like this. The tensors are as independent as any.
    """
    f.storage("memory", pattern("t", 32))
    for name, (offset, shape, strides) in zip("ab", value, strict=True):
        f.give(name, "F32", shape, storage="memory", offset=offset, strides=strides)


@accepts("WRT-16", "WRT-01", bugs=("FB-224",))
def empty_tensors_of_one_storage(f: WriteBuilder) -> None:
    """Two tensors without elements at one place share nothing."""
    f.storage("memory", pattern("t", 8))
    f.give("a", "F32", [0], storage="memory")
    f.give("b", "F32", [0], storage="memory")
    f.give("c", "F32", [2], storage="memory")


@accepts("WRT-16", "WRT-01")
def equal_tensors(f: WriteBuilder) -> None:
    """Two tensors with equal bytes in different memory are two tensors."""
    f.give("a", "F32", [2], pattern("t", 8))
    f.give("b", "F32", [2], pattern("t", 8))
