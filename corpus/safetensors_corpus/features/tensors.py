"""Features of tensors: their bytes, shapes, dtypes, number and order."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod

from safetensors_reference.rules.dtypes import DTYPE_BITS

from . import vocabulary as words
from .draft import Draft, Row
from .feature import Feature, of_file, of_parts, of_tensors
from .header import other_order, other_padding
from .tree import (
    File,
    Mutation,
    NoPlaceError,
    Value,
    content,
    entries,
    entry_tree,
    header,
    metadata_tree,
    one,
    pad,
    shift,
    size,
    some,
    text,
    variation,
    whole,
)

FEW = 2
"""Number of tensors that every reader supports."""
MANY = 5
MUCH = 64
LONG_SIDE = 1000
PLAIN = "F32"
"""Replacement for all other dtypes. Every reader supports this dtype."""
SIZES = (4096, 4096, 8192, 65535, 65536, 65537, 65544, 69632, 131_073)
"""Sizes of large tensors in bytes. Each one is a multiple of the page size, or near 64 KiB or 128 KiB."""
COUNTS = (64, 65, 100, 101, 255, 256, 257, 300, 1001)
"""Numbers of tensors near the sizes of tables, or near or above the limit of a one-byte counter."""
WIDE = (2**31, 2**32, 2**53 - 1, 2**53, 2**53 + 1, 2**53 + 3, 2**60 + 1)
"""Dimensions near or above 32 bits, or near or above the 53 bits of a double."""
_NANS = {
    b"F16": (b"\x01\x7c", b"\x00\xfc", b"\x00\x80"),
    b"BF16": (b"\x81\x7f", b"\x80\xff", b"\x00\x80"),
    b"F32": (b"\x01\x00\x80\x7f", b"\x01\x00\xa0\xff", b"\x00\x00\x80\x7f", b"\x00\x00\x00\x80"),
    b"F64": (b"\x01\0\0\0\0\0\xf0\x7f", b"\0\0\0\0\0\0\xf0\xff", b"\0\0\0\0\0\0\0\x80"),
}
"""Bytes that represent signalling NaNs, infinities and negative zero (DAT-01, DAT-04)."""


@variation()
def foreign_bytes(rng: random.Random, file: File) -> None:
    """Replace the start of a tensor's data with the magic bytes of another format."""
    entry = one(rng, [e for e in entries(file) if e.end - e.begin >= 2 and e.dtype != b"BOOL"])
    magic = rng.choice((*words.MAGIC, b'{"a":', bytes(8), b"\xff" * 8))[: entry.end - entry.begin]
    file.data = file.data[: entry.begin] + magic + file.data[entry.begin + len(magic) :]


@variation("DAT-01")
def special_elements(rng: random.Random, file: File) -> None:
    """Fill a tensor with special float values, such as NaNs, or with bytes that resemble a header."""
    found = [e for e in entries(file) if 0 < e.end - e.begin <= 4096 and e.end <= len(file.data)]
    entry = one(rng, [e for e in found if e.dtype != b"BOOL"])
    unit = rng.choice(_NANS.get(entry.dtype, (b" ", b"}", b"\0", b"\xff", b'"')))
    count = entry.end - entry.begin
    fresh = (unit * count)[:count]
    file.data = file.data[: entry.begin] + fresh + file.data[entry.end :]


@variation("DAT-02", "DAT-03")
def same_size_other_shape(rng: random.Random, file: File) -> None:
    """Give a tensor another shape with the same number of elements."""
    entry = some(rng, file)
    shape = [d for d in entry.shape if d != 1] if rng.random() < 0.3 else [*entry.shape]
    how = rng.randrange(4)
    if how == 0:
        shape.insert(rng.randint(0, len(shape)), 1)
    elif how == 1:
        rng.shuffle(shape)
    elif how == 2 and 0 in shape:
        shape[:] = [0, rng.choice((1, 3, 65536))]
    entry.reshape(shape)


@variation()
def more_dimensions(rng: random.Random, file: File) -> None:
    """Give a tensor up to eight dimensions."""
    entry = some(rng, file)
    if len(entry.shape) >= 8:
        raise NoPlaceError
    entry.reshape([1] * (rng.randint(len(entry.shape) + 1, 8) - len(entry.shape)) + entry.shape)


@variation(rare=True)
def rank_beyond_eight(rng: random.Random, file: File) -> None:
    """Give a tensor nine to twelve dimensions."""
    entry = some(rng, file, lambda entry: len(entry.shape) <= 8 and prod(entry.shape) < 2**31)
    shape = [*entry.shape, *[1] * (rng.randint(9, 12) - len(entry.shape))]
    if rng.random() < 0.5:
        rng.shuffle(shape)
    entry.reshape(shape)


@variation()
def empty_tensor(rng: random.Random, file: File) -> None:
    """Add an empty tensor at a boundary between tensors."""
    found, rows = whole(file)
    at = rng.choice([0, *(e.end for e in found)])
    shape = rng.choice(([0], [0, 3], [2, 0], [0, 0], [0, 0, 1]))
    name = b'"empty%d"' % len(found)
    if any(member[0] == name for member in rows):
        raise NoPlaceError
    place = rng.randint(0, len(rows))
    rows.insert(place, [name, entry_tree(rng.choice(words.DTYPES), shape, at, at)])


@variation()
def wide_dimension(rng: random.Random, file: File) -> None:
    """Add an empty tensor with one dimension near or above the limit of 32 or 53 bits."""
    found, rows = whole(file)
    dtype = rng.choice((b"U8", b"F32", b"F4", b"BOOL"))
    wide = rng.choice([dim for dim in WIDE if dim * words.BITS[dtype] < words.U64])
    shape = rng.choice(([0, wide], [wide, 0], [0, 1, wide], [1, wide, 0]))
    at = rng.choice([0, *(entry.end for entry in found)])
    if any(member[0] == b'"wide"' for member in rows):
        raise NoPlaceError
    rows.insert(rng.randint(0, len(rows)), [b'"wide"', entry_tree(dtype, shape, at, at)])


@variation("OFF-14", "OFF-05")
def larger_tensor(rng: random.Random, file: File) -> None:
    """Enlarge the first dimension of a tensor, and adjust its range and all later ranges."""
    entry = one(rng, [e for e in whole(file)[0] if e.shape and 0 not in e.shape and size(e.dtype, e.shape)])
    old, before = entry.end, size(entry.dtype, entry.shape) or 0
    shape = [entry.shape[0] * rng.choice((2, 3, 16, 17)), *entry.shape[1:]]
    after = size(entry.dtype, shape) or 0
    if after > 4096 or entry.end - entry.begin != before:
        raise NoPlaceError
    file.data = file.data[:old] + content(rng, entry.dtype, after - before) + file.data[old:]
    shift(file, old, after - before, but=entry)
    entry.reshape(shape)
    entry.move(entry.begin, old + after - before)


@variation("OFF-05", "DAT-06", rare=True)
def large_tensor(rng: random.Random, file: File) -> None:
    """Add one or two page-sized tensors before or after the others."""
    found, rows = whole(file)
    if len(file.data) > 4096 or any(e.begin > e.end for e in found):
        raise NoPlaceError
    count = rng.choice(SIZES)
    front = rng.random() < 0.5
    for number in range(2 if count <= 8192 and rng.random() < 0.5 else 1):
        name = b'"large%d"' % number
        if any(member[0] == name for member in rows):
            raise NoPlaceError
        begin, fresh = 0 if front else len(file.data), rng.randbytes(count)
        if front:
            file.data = fresh + file.data
            shift(file, 0, count)
        else:
            file.data += fresh
        shape = rng.choice(([count], [1, count], [count // 2, 2] if count % 2 == 0 else [count]))
        rows.insert(rng.randint(0, len(rows)), [name, entry_tree(b"U8", shape, begin, begin + count)])


@variation("DTY-08", "DTY-10", "DTY-11", "DAT-01", "DAT-06")
def another_tensor(rng: random.Random, file: File) -> None:
    """Add a tensor of a random dtype after the others."""
    rows, begin = header(file).members, len(file.data)
    dtype = rng.choice(words.DTYPES)
    shape = rng.choice(([8], [2, 4], [4, 2], [1, 8], [4], [8, 3]))
    count = size(dtype, shape) or 0
    name = b"t%d" % (100 + len(rows))
    if any(name in text(member[0]) for member in rows):
        raise NoPlaceError
    tree = entry_tree(dtype, shape, begin, begin + count)
    rows.insert(rng.randint(0, len(rows)), [b'"%b"' % name, tree])
    file.data += content(rng, dtype, count)


@variation("DTY-14", "DTY-06")
def other_dtype_of_same_width(rng: random.Random, file: File) -> None:
    """Give a tensor another dtype of the same width."""
    entry = some(rng, file)
    if entry.dtype not in words.BITS:
        raise NoPlaceError
    entry.retype(
        rng.choice([d for d in words.DTYPES if words.BITS[d] == words.BITS[entry.dtype] and d != b"BOOL"])
    )


@variation()
def many_tensors(rng: random.Random, file: File) -> None:
    """Add several small tensors, which makes the header larger than small buffers."""
    rows, begin = whole(file)[1], len(file.data)
    if len(rows) > 6:
        raise NoPlaceError
    count = rng.choice((5, 8, 9, 17))
    for at in range(begin, begin + count):
        rows.append([b'"m%d"' % len(rows), entry_tree(b"U8", [1], at, at + 1)])
    file.data += rng.randbytes(count)


@variation("DAT-06", rare=True)
def hundreds_of_tensors(rng: random.Random, file: File) -> None:
    """Add many small tensors, so that a table fills up or a one-byte counter overflows."""
    rows, begin = whole(file)[1], len(file.data)
    if len(rows) > 8:
        raise NoPlaceError
    count = rng.choice(COUNTS)
    more: list[list[Value]]
    more = [[b'"h%d"' % at, entry_tree(b"U8", [1], begin + at, begin + at + 1)] for at in range(count)]
    if rng.random() < 0.3:
        rng.shuffle(more)
    rows += more
    file.data += rng.randbytes(count)


@variation()
def no_tensors(rng: random.Random, file: File) -> None:
    """Remove all tensors."""
    root = header(file)
    root.members = [[words.RESERVED, metadata_tree(rng)]] if rng.random() < 0.4 else []
    file.data = b""
    pad(file)


def _filled(
    name: str, rule: str, chosen: Callable[[Row], object], fill: Callable[[Row], bytes], *put_in: Mutation
) -> Feature:
    def refill(row: Row) -> None:
        row.data = fill(row)

    return of_tensors(name, rule, chosen, refill, *put_in)


def _shaped(
    name: str,
    rule: str,
    chosen: Callable[[Row], object],
    reshape: Callable[[Row], list[int]],
    *put_in: Mutation,
) -> Feature:
    return of_tensors(name, rule, chosen, lambda row: row.retype(row.dtype, reshape(row)), *put_in)


def _without_magic(row: Row) -> bytes:
    word = max((word for word in words.MAGIC if row.data.startswith(word)), key=len)
    return bytes(len(word)) + row.data[len(word) :]


def _eights(row: Row, count: int) -> list[int]:
    return [-(-count // 8) * 8 if row.packed else count]


def _adjacent_empties(draft: Draft) -> list[Row]:
    """If at least two empty tensors are adjacent, return all empty tensors except the first."""
    empties = [row for row in draft.rows if row.empty]
    close = any(a.empty and b.empty for a, b in pairwise(draft.rows))
    return empties[1:] if close else []


def _rearrange(draft: Draft, rows: Sequence[Row]) -> None:
    in_order = draft.in_order
    draft.rows[:] = rows
    if in_order:
        draft.sort()


def _empties_first(draft: Draft) -> list[Row]:
    return sorted(draft.rows, key=lambda row: not row.empty)


def _is_unaligned(draft: Draft) -> bool:
    return any(at % row.width for row, at in draft.positions() if row.data)


def _align(draft: Draft) -> None:
    """Put wide elements first, without padding the header to a multiple of 8."""
    _rearrange(draft, sorted(draft.rows, key=lambda row: -row.width))
    if draft.rest:
        draft.rest = 4
        if draft.rows[0].width == 8:
            draft.add(0, "U8", [4])


def _put_metadata_first(draft: Draft) -> None:
    metadata = draft.metadata
    draft.members.sort(key=lambda member: member is not metadata)


def _has_high_rank(draft: Draft) -> bool:
    return any(len(row.shape) > 8 for row in draft.rows)


def _has_wide_dimension(draft: Draft) -> bool:
    return any(dim >= 2**31 for row in draft.rows for dim in row.shape)


def _keep(draft: Draft, count: int) -> None:
    by_rank = sorted(draft.rows, key=lambda r: (r.dtype == PLAIN) + (len(r.shape) == 1) - r.empty)
    for row in by_rank[count:]:
        draft.remove(row)


def _unify_dtypes(draft: Draft) -> None:
    special = next((row.dtype for row in draft.rows if row.dtype != PLAIN), PLAIN)
    for row in draft.rows:
        if row.dtype != special:
            packed = DTYPE_BITS[special] % 8
            row.retype(special, [-(-row.count // 8) * 8] if packed else row.shape)


def _of_dtype(dtype: str) -> Feature:
    return of_tensors(
        f"dtype {dtype}",
        "DTY-05",
        lambda t: t.dtype == dtype,
        lambda t: t.retype(PLAIN, t.shape),
        another_tensor,
    )


_BYTES = (
    _filled(
        "a BOOL byte other than 0 and 1",
        "DAT-05",
        lambda t: t.dtype == "BOOL" and t.data.strip(b"\0\1"),
        lambda t: bytes(byte & 1 for byte in t.data),
    ),
    _filled(
        "data that begins with the magic bytes of another format",
        "FRM-10",
        lambda t: t.data.startswith(words.MAGIC),
        _without_magic,
        foreign_bytes,
    ),
    _filled(
        "a data byte other than 0",
        "DAT-04",
        lambda t: any(t.data),
        lambda t: bytes(len(t.data)),
        special_elements,
    ),
)
_SHAPES = (
    _shaped(
        "an empty tensor with a large dimension",
        "SHP-08",
        lambda t: t.empty and max(t.shape) >= LONG_SIDE,
        lambda t: [min(dim, 1) for dim in t.shape],
        wide_dimension,
    ),
    of_parts(
        "several empty tensors at the same offset",
        "OFF-10",
        _adjacent_empties,
        lambda _: True,
        lambda _, t: t.retype(t.dtype, _eights(t, 1)),
        empty_tensor,
    ),
    of_file(
        "an empty tensor after other tensors",
        "OFF-09",
        lambda d: d.rows != _empties_first(d),
        lambda d: _rearrange(d, _empties_first(d)),
        empty_tensor,
    ),
    _shaped("a tensor of zero bytes", "SHP-04", lambda t: t.empty, lambda t: _eights(t, 1), empty_tensor),
    _shaped("a scalar", "SHP-03", lambda t: not t.shape, lambda _: [1], same_size_other_shape),
    _shaped(
        "a packed tensor with an odd last dimension",
        "DTY-12",
        lambda t: t.packed and t.shape[-1] % 2,
        lambda t: [t.count],
        another_tensor,
    ),
    _shaped(
        "a packed tensor whose number of elements is not a multiple of 8",
        "DTY-09",
        lambda t: t.packed and t.count % 8,
        lambda t: _eights(t, t.count),
        another_tensor,
    ),
    _shaped(
        "a dimension of size 1 among others",
        "SHP-11",
        lambda t: len(t.shape) > 1 and 1 in t.shape,
        lambda t: [dim for dim in t.shape if dim != 1] or [1],
        same_size_other_shape,
    ),
    _shaped("several dimensions", "SHP-10", lambda t: len(t.shape) > 1, lambda t: [t.count], more_dimensions),
    of_file("more than 8 dimensions", "SHP-10", _has_high_rank, None, rank_beyond_eight),
    of_file("dimensions of 2^31 or more", "SHP-08", _has_wide_dimension, None, wide_dimension),
    _shaped(
        "a tensor of more than 64 bytes",
        "SHP-09",
        lambda t: len(t.data) > MUCH,
        lambda t: _eights(t, 1),
        larger_tensor,
        large_tensor,
    ),
)
_PLACES = (
    of_file(
        "a tensor that does not begin at a multiple of its element size",
        "OFF-11",
        _is_unaligned,
        _align,
        other_padding,
    ),
    of_file(
        "entries in a different order than the data",
        "HDR-17",
        lambda d: not d.in_order,
        Draft.sort,
        other_order,
    ),
    of_file(
        "metadata that is not the first member",
        "HDR-17",
        lambda d: d.metadata not in (None, *d.members[:1]),
        _put_metadata_first,
        other_order,
    ),
    # U8 is aligned at every position.
    of_file("no tensors", "FRM-09", lambda d: not d.rows, lambda d: d.add(0, "U8", [1]), no_tensors),
    of_file("a hundred or more tensors", "ENT-11", lambda d: len(d.rows) >= 100, None, hundreds_of_tensors),
    of_file("many tensors", "ENT-11", lambda d: len(d.rows) >= MANY, lambda d: _keep(d, FEW), many_tensors),
)
_DTYPES = (
    of_file(
        "tensors with different dtypes",
        "API-04",
        lambda d: len({t.dtype for t in d.rows}) > 1,
        _unify_dtypes,
        other_dtype_of_same_width,
    ),
    *(_of_dtype(name) for name in DTYPE_BITS if name != PLAIN),
)
TENSORS = (
    *_BYTES,
    *_SHAPES,
    *_PLACES,
    *_DTYPES,
    of_file("a second tensor", "ENT-11", lambda d: len(d.rows) > 1, lambda d: _keep(d, 1), another_tensor),
)
