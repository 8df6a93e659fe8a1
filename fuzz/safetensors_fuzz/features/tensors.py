"""Features of tensors: their bytes, shapes, dtypes, how many there are and where they lie."""

from __future__ import annotations

from collections.abc import Sequence

from safetensors_reference.rules.dtypes import DTYPE_BITS

from ..grammar.draft import Draft, Row
from ..grammar.vocabulary import MAGIC
from .feature import Feature, Lose, change, feature

FEW = 2
"""Tensors that nobody takes for many."""
MANY = 5
MUCH = 64
"""Bytes of a tensor that are more than a few."""
LONG_SIDE = 1000
"""Dimensions from here on are large."""
PLAIN = "F32"
"""The dtype that every reader has; it takes the place of all others."""

TENSORS: list[Feature] = []


# ---- bytes ----


@feature(TENSORS, "DAT-05")
def odd_bools(draft: Draft) -> bool:
    """A BOOL byte other than 0 and 1."""

    def halve(row: Row) -> None:
        row.data = bytes(byte & 1 for byte in row.data)

    return change(draft.rows, lambda r: r.dtype == "BOOL" and r.data.strip(b"\0\1"), halve)


@feature(TENSORS, "FRM-10")
def magic(draft: Draft) -> bool:
    """Data that begins like another format."""

    def blot(row: Row) -> None:
        word = max((word for word in MAGIC if row.data.startswith(word)), key=len)
        row.data = bytes(len(word)) + row.data[len(word) :]

    return change(draft.rows, lambda r: r.data.startswith(MAGIC), blot)


@feature(TENSORS, "DAT-04")
def values(draft: Draft) -> bool:
    """A byte of data other than 0."""

    def blank(row: Row) -> None:
        row.data = bytes(len(row.data))

    return change(draft.rows, lambda row: any(row.data), blank)


# ---- shapes ----


def _resize(row: Row, count: int) -> None:
    """Give a tensor one dimension of at least ``count`` elements; packed ones come in eights."""
    row.become(row.dtype, [-(-count // 8) * 8 if row.packed else count])


@feature(TENSORS, "SHP-08")
def wide_empties(draft: Draft) -> bool:
    """An empty tensor with a large dimension."""

    def narrow(row: Row) -> None:
        row.become(row.dtype, [min(dim, 1) for dim in row.shape])

    return change(draft.rows, lambda row: row.empty and max(row.shape) >= LONG_SIDE, narrow)


@feature(TENSORS, "OFF-10")
def crowded_empties(draft: Draft) -> bool:
    """Several empty tensors in one place."""
    empties = [row for row in draft.rows if row.empty]
    close = any(a.empty and b.empty for a, b in zip(draft.rows, draft.rows[1:], strict=False))
    return close and change(empties[1:], lambda _: True, lambda row: _resize(row, 1))


@feature(TENSORS, "OFF-09")
def late_empties(draft: Draft) -> bool:
    """An empty tensor behind others."""
    front = sorted(draft.rows, key=lambda row: not row.empty)
    return _rearrange(draft, front)


@feature(TENSORS, "SHP-04")
def empties(draft: Draft) -> bool:
    """An empty tensor."""
    return change(draft.rows, lambda row: row.empty, lambda row: _resize(row, 1))


@feature(TENSORS, "SHP-03")
def scalars(draft: Draft) -> bool:
    """A tensor without dimensions."""
    return change(draft.rows, lambda row: not row.shape, lambda row: row.become(row.dtype, [1]))


@feature(TENSORS, "DTY-12")
def odd_packed(draft: Draft) -> bool:
    """A packed tensor with an odd last dimension."""
    return change(draft.rows, lambda r: r.packed and r.shape[-1] % 2, lambda r: r.become(r.dtype, [r.count]))


@feature(TENSORS, "DTY-09")
def few_packed(draft: Draft) -> bool:
    """A packed tensor whose elements do not come in eights."""
    return change(draft.rows, lambda row: row.packed and row.count % 8, lambda row: _resize(row, row.count))


@feature(TENSORS, "SHP-11")
def ones(draft: Draft) -> bool:
    """A dimension of 1 among others."""

    def drop(row: Row) -> None:
        row.become(row.dtype, [dim for dim in row.shape if dim != 1] or [1])

    return change(draft.rows, lambda row: len(row.shape) > 1 and 1 in row.shape, drop)


@feature(TENSORS, "SHP-10")
def ranks(draft: Draft) -> bool:
    """Several dimensions."""
    return change(draft.rows, lambda r: len(r.shape) > 1, lambda r: r.become(r.dtype, [r.count]))


@feature(TENSORS, "SHP-09")
def large(draft: Draft) -> bool:
    """A tensor of more than 64 bytes."""
    return change(draft.rows, lambda row: len(row.data) > MUCH, lambda row: _resize(row, 1))


# ---- where they lie, and how many there are ----


def _rearrange(draft: Draft, rows: Sequence[Row]) -> bool:
    """Put the bytes of the tensors into another order, and the header too if it has the same one."""
    same, orderly = list(rows) == draft.rows, draft.orderly
    draft.rows[:] = rows
    if orderly:
        draft.sort()
    return not same


@feature(TENSORS, "OFF-11")
def unaligned(draft: Draft) -> bool:
    """A tensor that is not aligned.

    Let wide elements come first. The length of the header becomes a multiple of 8 only if it was one.
    """
    if all(at % row.width == 0 for row, at in draft.positions()):
        return False
    _rearrange(draft, sorted(draft.rows, key=lambda row: -row.width))
    if draft.rest:
        draft.rest = 4
        if draft.rows[0].width == 8:
            draft.add(0, "U8", [4])
    return True


@feature(TENSORS, "HDR-17")
def disorder(draft: Draft) -> bool:
    """A header in another order than the data."""
    if draft.orderly:
        return False
    draft.sort()
    return True


@feature(TENSORS, "FRM-09")
def nothing(draft: Draft) -> bool:
    """No tensors."""
    if draft.rows:
        return False
    draft.add(0, "U8", [1])  # one that lies aligned everywhere
    return True


def _keep(draft: Draft, count: int) -> bool:
    """Keep the most special tensors, no more than ``count``."""
    by_rank = sorted(draft.rows, key=lambda r: (r.dtype == PLAIN) + (len(r.shape) == 1) - r.empty)
    for row in by_rank[count:]:
        draft.remove(row)
    return len(by_rank) > count


@feature(TENSORS, "ENT-11")
def many(draft: Draft) -> bool:
    """Many tensors."""
    return len(draft.rows) >= MANY and _keep(draft, FEW)


# ---- dtypes ----


@feature(TENSORS, "API-04")
def mixed(draft: Draft) -> bool:
    """Tensors of several dtypes.

    Give all the dtype of the first that is not the plain one, so that what is special stays.
    """
    dtypes = [row.dtype for row in draft.rows]
    special = next((dtype for dtype in dtypes if dtype != PLAIN), PLAIN)

    def follow(row: Row) -> None:
        row.become(special, [-(-row.count // 8) * 8] if DTYPE_BITS[special] % 8 else row.shape)

    return len(set(dtypes)) > 1 and change(draft.rows, lambda row: row.dtype != special, follow)


def _plain_instead(dtype: str) -> Lose:
    def lose(draft: Draft) -> bool:
        return change(draft.rows, lambda row: row.dtype == dtype, lambda row: row.become(PLAIN, row.shape))

    lose.__doc__ = f"Dtype {dtype}."
    return lose


for _dtype in DTYPE_BITS:
    if _dtype != PLAIN:
        feature(TENSORS, "DTY-05")(_plain_instead(_dtype))


@feature(TENSORS, "ENT-11")
def second(draft: Draft) -> bool:
    """A second tensor."""
    return _keep(draft, 1)
