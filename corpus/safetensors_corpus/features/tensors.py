"""Features of tensors: their bytes, shapes, dtypes, number and order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from safetensors_reference.rules.dtypes import DTYPE_BITS

from .draft import Draft, Row
from .feature import Feature, Remover, change
from .vocabulary import MAGIC

FEW = 2
"""Number of tensors that every reader supports."""
MANY = 5
MUCH = 64
LONG_SIDE = 1000
PLAIN = "F32"
"""Replacement for all other dtypes. Every reader supports this dtype."""


def _refill(chosen: Callable[[Row], object], how: Callable[[Row], bytes]) -> Remover:
    def fill(row: Row) -> None:
        row.data = how(row)

    return lambda draft: change(draft.rows, chosen, fill)


def _without_magic(row: Row) -> bytes:
    word = max((word for word in MAGIC if row.data.startswith(word)), key=len)
    return bytes(len(word)) + row.data[len(word) :]


def _reshape(chosen: Callable[[Row], object], how: Callable[[Row], list[int]]) -> Remover:
    return lambda draft: change(draft.rows, chosen, lambda row: row.retype(row.dtype, how(row)))


def _eights(row: Row, count: int) -> list[int]:
    return [-(-count // 8) * 8 if row.packed else count]


def _crowded_empties(draft: Draft) -> bool:
    empties = [row for row in draft.rows if row.empty]
    close = any(a.empty and b.empty for a, b in zip(draft.rows, draft.rows[1:], strict=False))
    return close and change(empties[1:], lambda _: True, lambda row: row.retype(row.dtype, _eights(row, 1)))


def _rearrange(draft: Draft, rows: Sequence[Row]) -> bool:
    same, orderly = list(rows) == draft.rows, draft.orderly
    draft.rows[:] = rows
    if orderly:
        draft.sort()
    return not same


def _unaligned(draft: Draft) -> bool:
    """Align all tensors by putting wide elements first, without padding the header to a multiple of 8."""
    if all(at % row.width == 0 for row, at in draft.positions()):
        return False
    _rearrange(draft, sorted(draft.rows, key=lambda row: -row.width))
    if draft.rest:
        draft.rest = 4
        if draft.rows[0].width == 8:
            draft.add(0, "U8", [4])
    return True


def _disorder(draft: Draft) -> bool:
    disorderly = not draft.orderly
    draft.sort()
    return disorderly


def _nothing(draft: Draft) -> bool:
    empty = not draft.rows
    if empty:
        draft.add(0, "U8", [1])  # U8 is aligned at every position
    return empty


def _keep(draft: Draft, count: int) -> bool:
    by_rank = sorted(draft.rows, key=lambda r: (r.dtype == PLAIN) + (len(r.shape) == 1) - r.empty)
    for row in by_rank[count:]:
        draft.remove(row)
    return len(by_rank) > count


def _mixed(draft: Draft) -> bool:
    dtypes = [row.dtype for row in draft.rows]
    special = next((dtype for dtype in dtypes if dtype != PLAIN), PLAIN)

    def follow(row: Row) -> None:
        row.retype(special, [-(-row.count // 8) * 8] if DTYPE_BITS[special] % 8 else row.shape)

    return len(set(dtypes)) > 1 and change(draft.rows, lambda row: row.dtype != special, follow)


def _replace_dtype(dtype: str) -> Remover:
    return lambda draft: change(
        draft.rows, lambda row: row.dtype == dtype, lambda row: row.retype(PLAIN, row.shape)
    )


_BYTES = (
    Feature(
        "a BOOL byte other than 0 and 1",
        "DAT-05",
        _refill(
            lambda row: row.dtype == "BOOL" and row.data.strip(b"\0\1"),
            lambda row: bytes(byte & 1 for byte in row.data),
        ),
    ),
    Feature(
        "data that begins with the magic bytes of another format",
        "FRM-10",
        _refill(lambda row: row.data.startswith(MAGIC), _without_magic),
    ),
    Feature(
        "a data byte other than 0",
        "DAT-04",
        _refill(lambda row: any(row.data), lambda row: bytes(len(row.data))),
    ),
)
_SHAPES = (
    Feature(
        "an empty tensor with a large dimension",
        "SHP-08",
        _reshape(
            lambda row: row.empty and max(row.shape) >= LONG_SIDE,
            lambda row: [min(dim, 1) for dim in row.shape],
        ),
    ),
    Feature("several empty tensors at the same offset", "OFF-10", _crowded_empties),
    Feature(
        "an empty tensor after other tensors",
        "OFF-09",
        lambda draft: _rearrange(draft, sorted(draft.rows, key=lambda row: not row.empty)),
    ),
    Feature("an empty tensor", "SHP-04", _reshape(lambda row: row.empty, lambda row: _eights(row, 1))),
    Feature("a tensor without dimensions", "SHP-03", _reshape(lambda row: not row.shape, lambda _: [1])),
    Feature(
        "a packed tensor with an odd last dimension",
        "DTY-12",
        _reshape(lambda row: row.packed and row.shape[-1] % 2, lambda row: [row.count]),
    ),
    Feature(
        "a packed tensor whose number of elements is not a multiple of 8",
        "DTY-09",
        _reshape(lambda row: row.packed and row.count % 8, lambda row: _eights(row, row.count)),
    ),
    Feature(
        "a dimension of size 1 among others",
        "SHP-11",
        _reshape(
            lambda row: len(row.shape) > 1 and 1 in row.shape,
            lambda row: [dim for dim in row.shape if dim != 1] or [1],
        ),
    ),
    Feature("several dimensions", "SHP-10", _reshape(lambda r: len(r.shape) > 1, lambda r: [r.count])),
    Feature(
        "a tensor of more than 64 bytes",
        "SHP-09",
        _reshape(lambda row: len(row.data) > MUCH, lambda row: _eights(row, 1)),
    ),
)
_PLACES = (
    Feature("an unaligned tensor", "OFF-11", _unaligned),
    Feature("a header whose order differs from the order of the data", "HDR-17", _disorder),
    Feature("no tensors", "FRM-09", _nothing),
    Feature("many tensors", "ENT-11", lambda draft: len(draft.rows) >= MANY and _keep(draft, FEW)),
)
_DTYPES = (
    Feature("tensors with different dtypes", "API-04", _mixed),
    *(Feature(f"dtype {name}", "DTY-05", _replace_dtype(name)) for name in DTYPE_BITS if name != PLAIN),
)
TENSORS = (
    *_BYTES,
    *_SHAPES,
    *_PLACES,
    *_DTYPES,
    Feature("a second tensor", "ENT-11", lambda draft: _keep(draft, 1)),
)
