"""Faults in dtypes, shapes and ranges, and in how these fit each other and the file (DTY, SHP, OFF)."""

from __future__ import annotations

import random
from itertools import pairwise
from math import prod

from safetensors_corpus.features import vocabulary as words
from safetensors_corpus.features.tree import (
    Arr,
    File,
    NoPlaceError,
    Obj,
    TensorEntry,
    Value,
    copy,
    entries,
    entry_of,
    entry_tree,
    header,
    members,
    numbers,
    one,
    resize,
    shift,
    size,
    some,
    whole,
)
from safetensors_corpus.features.vocabulary import BITS, DTYPES, PACKED, U64

from . import fault


@fault("DTY-01", "DTY-06", "DTY-15")
def dtype_unknown(rng: random.Random, file: File) -> None:
    """Use a dtype that the format does not define."""
    entry = some(rng, file)
    near = [d for d in words.NO_DTYPES if d.strip().upper() == entry.dtype]
    entry.retype(rng.choice(near if near and rng.random() < 0.3 else words.NO_DTYPES))


@fault("DTY-02")
def dtype_as_object(rng: random.Random, file: File) -> None:
    """Write the dtype as an object that contains the dtype string."""
    entry = some(rng, file)
    key = b'"%b"' % entry.dtype
    rows: list[list[Value]] = [[key, rng.choice((b"null", b"null", b"null", Obj([]), Arr([]), b"0"))]]
    if rng.random() < 0.2:
        rows.append([b'"F32"', b"null"])
    entry.put(b'"dtype"', Obj(rows))


@fault("DTY-03")
def dtype_of_another_type(rng: random.Random, file: File) -> None:
    """Write the dtype as a value that is not a string."""
    entry = some(rng, file)
    entry.put(
        b'"dtype"', rng.choice((b"null", b"true", b"0", b"11", b"1.5", Arr([]), Arr([b'"%b"' % entry.dtype])))
    )


@fault("DTY-05", "OFF-05", "DTY-08")
def dtype_of_other_width(rng: random.Random, file: File) -> None:
    """Write a dtype whose width does not match the range."""
    entry = one(rng, [e for e in entries(file) if e.begin < e.end and e.dtype in BITS])
    entry.retype(rng.choice([d for d in DTYPES if BITS[d] != BITS[entry.dtype]]))


@fault("DTY-09")
def part_of_a_byte(rng: random.Random, file: File) -> None:
    """Give a packed tensor a shape that does not fill whole bytes, and round its size up or down."""
    root = header(file)
    dtype = rng.choice(PACKED)
    shapes = (
        ([1], [3], [5], [1, 1], [3, 3], [7], [3, 3, 3], [1, 5], [])
        if dtype == b"F4"
        else ([1], [2], [3], [], [5], [7, 2], [1, 1], [1, 2], [3, 1], [1, 1, 5])
    )
    shape = rng.choice(shapes)
    bits = BITS[dtype] * prod(shape)
    if bits % 8 == 0:
        raise NoPlaceError
    count = bits // 8 + rng.randrange(2)
    found = entries(file)
    replaced = rng.choice(found) if found and rng.random() < 0.6 else None
    if replaced is None:
        begin = len(file.data)
        file.data += bytes(count)
        root.members.append([b'"packed"', entry_tree(dtype, shape, begin, begin + count)])
        return
    replaced.retype(dtype)
    replaced.reshape(list(shape))
    resize(file, replaced, count)


@fault("DTY-10", "DTY-12")
def shape_in_bytes(rng: random.Random, file: File) -> bool:
    """Write the shape of a packed tensor in bytes instead of elements."""
    found = [e for e in entries(file) if e.dtype in PACKED and e.begin < e.end and e.shape]
    if not found:
        entry = some(rng, file)
        if not entry.shape:
            return False
        entry.retype(rng.choice(PACKED))  # the shape now counts bytes
        return entry.begin < entry.end
    entry = rng.choice(found)
    entry.reshape(
        [entry.end - entry.begin] if rng.random() < 0.5 else [*entry.shape[:-1], max(entry.shape[-1] // 2, 1)]
    )
    return True


def spellings(number: int) -> tuple[bytes, ...]:
    """Return JSON numbers that resemble ``number`` but are not plain integers (SHP-02, OFF-02)."""
    n = b"%d" % number
    return (
        n + b".0", n + b".00", n + b"e0", n + b"E0", n + b"E+0", n + b"e-0", n + b".5", n + b"0e-1", b"-" + n,
        b"-0", b"-0.0", b"-1", b"0.0", b"0.1e1", b"1e2", b"1E400", b"-9223372036854775808",
    )  # fmt: skip


@fault("SHP-01")
def shape_of_another_type(rng: random.Random, file: File) -> None:
    """Write the shape or one dimension as a JSON value of the wrong type."""
    entry = some(rng, file)
    plain = [b"%d" % d for d in entry.shape]
    if plain and rng.random() < 0.6:
        dims: list[Value] = [*plain]
        at = rng.randrange(len(dims))
        dims[at] = rng.choice((b'"%b"' % plain[at], b"null", b"true", b'""', Arr([plain[at]]), Obj([])))
        entry.put(b'"shape"', Arr(dims))
    else:
        whole = b'"%b"' % b",".join(b"%d" % d for d in entry.shape)
        other: list[Value] = [word for word in words.WORDS if word not in (b"[]", b"[0]")]
        entry.put(b'"shape"', rng.choice([whole, Arr([numbers(*entry.shape)]), *other]))


@fault("SHP-02")
def dimension_spelled_otherwise(rng: random.Random, file: File) -> None:
    """Spell a dimension as a number that is not a plain integer."""
    entry = some(rng, file, lambda entry: entry.shape)
    _respell(rng, entry, b'"shape"', entry.shape)


@fault("OFF-02")
def offset_spelled_otherwise(rng: random.Random, file: File) -> None:
    """Spell an offset as a number that is not a plain integer."""
    entry = some(rng, file)
    _respell(rng, entry, b'"data_offsets"', [entry.begin, entry.end])


def _respell(rng: random.Random, entry: TensorEntry, field: bytes, values: list[int]) -> None:
    texts: list[Value] = [b"%d" % v for v in values]
    at = rng.choice((0, len(values) - 1, rng.randrange(len(values))))
    texts[at] = rng.choice(spellings(values[at]))
    if rng.random() < 0.1:
        texts = [spellings(v)[0] for v in values]
    entry.put(field, Arr(texts))


@fault("SHP-07", "OFF-02")
def number_of_65_bits(rng: random.Random, file: File) -> None:
    """Write a dimension or an offset of 2^64 or more."""
    entry = some(rng, file)
    field, values = rng.choice(((b'"shape"', entry.shape), (b'"data_offsets"', [entry.begin, entry.end])))
    values = values or [1]
    texts: list[Value] = [b"%d" % v for v in values]
    at = rng.randrange(len(texts))
    # After truncation to 64 bits, half of these numbers are right again.
    if rng.random() < 0.5:
        texts[at] = rng.choice(words.TOO_BIG)
    else:
        texts[at] = b"%d" % (values[at] + U64 * rng.choice((1, 1, 2)))
    entry.put(field, Arr(texts))


@fault("OFF-05", "SHP-03", "SHP-04", "DTY-05")
def shape_of_other_size(rng: random.Random, file: File) -> bool:
    """Change a shape so that it needs more or fewer bytes than the range has."""
    entry = some(rng, file)
    shape, before = [*entry.shape], prod(entry.shape)
    how = rng.randrange(6)
    if how == 0 and shape:
        at = rng.randrange(len(shape))
        shape[at] = max(shape[at] + rng.choice((-1, 1)), 0)
    elif how == 1 and shape:
        at = rng.randrange(len(shape))
        shape[at] *= rng.choice((2, 256, 65536, 2**32))
    elif how == 2:
        shape = []
    elif how == 3:
        shape.append(rng.choice((0, 2, 3)))
    elif how == 4 and shape:
        shape.pop(rng.randrange(len(shape)))
    else:
        shape = [rng.choice((*words.BIG, 0, 1, 2, 255, 256, 65536))]
    entry.reshape(shape)
    return prod(shape) != before


def _bits(entry: TensorEntry) -> int:
    if entry.dtype not in BITS:
        raise NoPlaceError
    return BITS[entry.dtype]


@fault("SHP-05", "SHP-09")
def shape_wraps(rng: random.Random, file: File) -> None:
    """Write a shape with a size in elements, bits or bytes that equals the size of the range modulo 2^64."""
    entry = some(rng, file)
    bits = _bits(entry)
    want = (entry.end - entry.begin) * 8 // bits
    modulus = rng.choice(
        (U64, U64 // bits * (1 if U64 % bits == 0 else bits), max(U64 * 8 // bits, U64), 2**32 * 2**32)
    )
    total = modulus * rng.choice((1, 1, 2)) + want
    split = [k for k in (1, 2, 3, 4, 5, 7, 8, 16, 256, 641, 65536, 2**32) if total % k == 0]
    rng.shuffle(split)
    for k in split:
        if total // k < U64:
            entry.reshape(
                rng.choice(([total // k, k], [k, total // k], [1, total // k, k])) if k > 1 else [total]
            )
            return
    if rng.random() < 0.5:
        entry.reshape([2**32, 2**32])
    else:
        entry.reshape([rng.choice(words.BIG), rng.choice(words.BIG), rng.choice((1, 2, 3))])


@fault("SHP-09", "SHP-05", "OFF-05")
def shape_just_too_large(rng: random.Random, file: File) -> None:
    """Write a shape whose number of elements fits in 64 bits, although its size in bits or bytes may not."""
    entry = some(rng, file)
    bits = _bits(entry)
    edge = rng.choice((U64 // bits, U64 // max(bits // 8, 1), U64 - 1, 2**63, 2**63 - 1))
    entry.reshape(
        rng.choice(([min(edge, U64 - 1)], [edge // 2, 2], [min(edge + 1, U64 - 1)], [max(edge - 1, 1)]))
    )


@fault("SHP-06", "SHP-08")
def overflow_beside_zero(rng: random.Random, file: File) -> None:
    """Write a shape that contains a zero and would overflow without it."""
    entry = one(rng, [e for e in entries(file) if e.begin == e.end] or entries(file))
    large = [rng.choice(words.BIG), rng.choice((2**32, 2**33, 2**63, U64 - 1, 3))]
    large.insert(rng.randint(0, 2), 0)
    entry.reshape(large)


_DIVISORS = [n for n in range(2, 300) if all(n % k for k in range(2, 18) if k < n)]


@fault("OFF-05", "SHP-05", "SHP-10")
def shape_wraps_at_32_bits(rng: random.Random, file: File) -> None:
    """Write a shape that is right only after truncation to 32 bits."""
    entry = some(rng, file)
    want = (entry.end - entry.begin) * 8 // _bits(entry)
    how = rng.randrange(3)
    if how == 0:
        entry.reshape([want + 2**32])
    elif how == 1 and entry.shape:
        entry.reshape([entry.shape[0] + 2**32, *entry.shape[1:]])
    else:
        shapes = [[65536, 65536], [2**31, 2], [65536, 65536, max(want, 1)], [2**32 + want, 1]]
        shapes += [[32768, 32768, 4], [16384, 16384, 16], _small_dimensions(rng, want)]
        entry.reshape(rng.choice(shapes))


def _small_dimensions(rng: random.Random, want: int) -> list[int]:
    """Return dimensions below 2^16 whose product equals ``want`` modulo 2^32 but is larger."""
    for _ in range(40):
        rest, shape = rng.randrange(1, 256) * 2**32 + want, [1]
        for divisor in _DIVISORS:
            while rest % divisor == 0:
                rest //= divisor
                if shape[-1] * divisor < 65536:
                    shape[-1] *= divisor
                else:
                    shape.append(divisor)
        if rest < 65536:
            return [*shape, rest]
    return [65536, 65536]


@fault("OFF-01")
def offsets_no_pair(rng: random.Random, file: File) -> None:
    """Write the offsets as something other than a pair."""
    entry = some(rng, file)
    b, e = b"%d" % entry.begin, b"%d" % entry.end
    choices: tuple[Value, ...] = (
        Arr([]), Arr([b]), Arr([e]), Arr([b, e, e]), Arr([b, e, b"0"]), Arr([Arr([b, e])]),
        Arr([Arr([b]), e]), Obj([[b'"0"', b], [b'"1"', e]]), Obj([]), b"null", e, b'"%b,%b"' % (b, e),
        b"true", Arr([b'"%b"' % b, e]), Arr([b, b'"%b"' % e]), Arr([b"null", e]), Arr([b, b"null"]),
        Arr([b"false", b"true"]),
    )  # fmt: skip
    entry.put(b'"data_offsets"', rng.choice(choices))


@fault("OFF-03")
def range_reversed(rng: random.Random, file: File) -> None:
    """Write a range that ends before it begins."""
    entry = some(rng, file)
    begin, end = entry.begin, entry.end
    options = [(end, begin), (begin, begin - 1), (end + 1, end), (end, 0), (U64 - 1, end), (2**63, begin)]
    options += [(begin + 1, begin), (len(file.data), 0)]
    entry.move(*one(rng, [(x, y) for x, y in options if x > y >= 0]))


@fault("OFF-04")
def range_past_end(rng: random.Random, file: File) -> bool:
    """Write a range that ends after the data buffer. Half of these ranges have the right size."""
    entry = some(rng, file)
    end = len(file.data)
    by = rng.choice((1, 1, 2, 4, 7, 8, 16, 4096, 2**31, 2**32, 2**53, 2**63 - end - 1))
    if rng.random() < 0.5:
        entry.move(entry.begin + by, entry.end + by)
    else:
        entry.move(entry.begin, end + by)
        bits = BITS.get(entry.dtype, 8)
        if rng.random() < 0.6 and (end + by - entry.begin) * 8 % bits == 0:
            entry.reshape([(end + by - entry.begin) * 8 // bits])
    return entry.end > end


@fault("OFF-04", "OFF-08", "OFF-05")
def data_cut(rng: random.Random, file: File) -> None:
    """Cut bytes off the end of the file."""
    if not file.data or file.raw is not None:
        raise NoPlaceError
    by = rng.choice((1, 1, 2, 4, 8, len(file.data)))
    if rng.random() < 0.3:  # cut at the end of a block
        by = (8 + len(file.header()) + len(file.data)) % rng.choice((64, 512, 512, 4096)) or by
    file.data = file.data[: -min(by, len(file.data))]


@fault("OFF-13")
def range_wraps(rng: random.Random, file: File) -> None:
    """Write a range that exceeds 2^64 or 2^32, and thus wraps, when the start of the data is added."""
    entry = some(rng, file)
    count = size(entry.dtype, entry.shape) or entry.end - entry.begin
    start = 8 + len(file.header())
    edges = (U64 - start, U64 - start + entry.begin, U64 - 8, U64 - count, U64 - count - start)
    begin = rng.choice((*edges, 2**63 - start, 2**32 - start, 2**32))
    begin = max(begin + rng.choice((0, 0, 0, 1, -1)), 0)
    end = begin + count
    # If the end does not fit in 64 bits, it is written modulo 2^64, which also reverses the range.
    entry.move(min(begin, U64 - 1), end if end < U64 else rng.choice((end - U64, U64 - 1)))


@fault("OFF-05")
def range_of_other_size(rng: random.Random, file: File) -> None:
    """Make a range longer or shorter than its tensor. The data and the other ranges are adjusted."""
    entry = some(rng, file)
    count = entry.end - entry.begin
    new = max(count + rng.choice((-8, -4, -1, 1, 4, 8, count, -count)), 0)
    if new == count or entry.begin > entry.end or entry.end > len(file.data):
        raise NoPlaceError
    resize(file, entry, new)


def _sound(file: File, least: int = 0) -> list[TensorEntry]:
    """Return the non-empty entries inside the data buffer, in the order of their bytes."""
    found = [e for e in entries(file) if e.begin + least <= e.end <= len(file.data)]
    return sorted(found, key=lambda e: (e.begin, e.end))


@fault("OFF-07", "OFF-12", "HDR-04")
def hole(rng: random.Random, file: File) -> None:
    """Insert unused bytes before a tensor."""
    found = _sound(file)
    entry = one(rng, found)
    entry = rng.choice((found[0], found[-1], entry))
    at = entry.begin
    gap = rng.choice((1, 1, 2, 3, 4, 7, 8, -at % 8 or 8, -at % 64 or 64, 4096))
    file.data = file.data[:at] + bytes(gap) + file.data[at:]
    shift(file, at, gap)


@fault("OFF-07", "OFF-09")
def hole_by_removal(rng: random.Random, file: File) -> None:
    """Remove an entry but keep its bytes."""
    entry, root = one(rng, _sound(file, 1)), header(file)
    root.members = [member for member in root.members if member is not entry.member]


@fault("OFF-08", "FRM-01")
def trailing(rng: random.Random, file: File) -> None:
    """Add bytes after the last tensor."""
    copy = file.render()
    to_boundary = bytes(-len(copy) % rng.choice((8, 8, 64))) or b"\x00"
    tails = (b"\x00", to_boundary, b"\n", b"\x00" * 8, b"\x00" * 4096, *words.MAGIC, file.data[-1:] or b"x")
    tail = rng.choice((*tails, copy if len(copy) < 65536 else copy[:8]))
    file.data += tail


@fault("OFF-06", "LIM-05", "DAT-07")
def overlap_whole(rng: random.Random, file: File) -> None:
    """Move a tensor to the range of another tensor, or add an alias with the same range."""
    found, rows = _sound(file, 1), members(file)
    entry = one(rng, found)
    others = [e for e in found if e.member is not entry.member and e.end - e.begin == entry.end - entry.begin]
    if others and rng.random() < 0.4:
        rng.choice(others).move(entry.begin, entry.end)
        return
    twin = [b'"alias%d"' % len(found), copy(entry.member[1])]
    rows.insert(rng.choice((0, len(rows))), twin)


@fault("OFF-06")
def overlap_partly(rng: random.Random, file: File) -> None:
    """Move a range so that it overlaps the previous range. Usually, later ranges move too."""
    entry = one(rng, [e for e in _sound(file, 1) if e.begin > 0])
    by = min(rng.choice((1, 1, 2, 4, 8, entry.begin)), entry.begin)
    if rng.random() < 0.3:
        entry.move(entry.begin - by, entry.end - by)
    else:
        shift(file, entry.begin, -by)
        file.data = file.data[: len(file.data) - by]


@fault("OFF-06")
def overlap_inside(rng: random.Random, file: File) -> None:
    """Add a tensor whose range is inside another range."""
    found, rows = _sound(file, 2), members(file)
    entry = one(rng, found)
    begin = rng.choice((entry.begin, entry.begin + 1, rng.randrange(entry.begin, entry.end)))
    end = rng.choice(
        (entry.end, begin + 1, rng.randint(begin + 1, entry.end) if begin < entry.end else entry.end)
    )
    if begin >= end:
        raise NoPlaceError
    row: list[Value] = [b'"inside%d"' % len(found), entry_tree(b"U8", [end - begin], begin, end)]
    rows.insert(rng.choice((0, len(rows))), row)


@fault("OFF-06", "OFF-07")
def ranges_swapped(rng: random.Random, file: File) -> bool:
    """Exchange the ranges of two tensors of different sizes, or move one range elsewhere."""
    found = _sound(file)
    if len(found) < 2:
        return False
    first, second = rng.sample(found, 2)
    if rng.random() < 0.5 and first.end - first.begin != second.end - second.begin:
        size = first.end - first.begin
        first.move(second.begin, second.begin + size)
        return True
    old = (first.begin, first.end)
    first.move(second.begin, second.end)
    second.move(*old)
    return first.end - first.begin != second.end - second.begin


@fault("OFF-09")
def empty_tensor_misplaced(rng: random.Random, file: File) -> None:
    """Put an empty tensor inside another tensor or after the end of the data."""
    rows, size = header(file).members, len(file.data)
    spots = [size + 1, size + 8, 2**32, 2**64 - 1]
    spots += [rng.randrange(e.begin + 1, e.end) for e in _sound(file, 2)] * 3
    at = rng.choice(spots)
    own = [e for e in entries(file) if e.begin == e.end]
    if own and rng.random() < 0.5:
        rng.choice(own).move(at, at)
    else:
        tree = entry_tree(rng.choice(DTYPES), list(rng.choice(((0,), (0, 2), (3, 0)))), at, at)
        rows.insert(rng.choice((0, len(rows))), [b'"nothing"', tree])


@fault("OFF-07", "OFF-05")
def first_tensor_late(rng: random.Random, file: File) -> None:
    """Start the first range after byte 0, as if offsets were relative to another position."""
    some(rng, file)
    by = rng.choice((1, 8, len(file.header()), 8 + len(file.header())))
    for each in entries(file):
        each.move(each.begin + by, each.end + by)
    if rng.random() < 0.5:
        file.data = bytes(by) + file.data


@fault("OFF-05", "OFF-07", "OFF-06")
def boundary_moved(rng: random.Random, file: File) -> None:
    """Move the boundary between two tensors. One tensor grows by as many bytes as the other shrinks."""
    first, second = one(rng, [(a, b) for a, b in pairwise(_sound(file, 1)) if a.end == b.begin])
    by = rng.choice((1, -1, 4, -4, 8, -8))
    if not first.begin <= first.end + by <= second.end:
        raise NoPlaceError
    which = rng.randrange(3)
    if which != 1:
        first.move(first.begin, first.end + by)
    if which != 2:
        second.move(second.begin + by, second.end)


TOTALS = (16, 17, 64, 65, 100, 101, 256, 257, 257, 300, 1001)
"""Numbers of tensors in a file, near the sizes of tables and the limits of counters."""


@fault("OFF-05", "OFF-06", "OFF-07")
def one_of_many(rng: random.Random, file: File) -> None:
    """Add many one-byte tensors, including one with a fault."""
    found, rows = whole(file)
    begin, count = len(file.data), rng.choice(TOTALS) - len(found)
    if len(found) > 8 or any(entry.begin > entry.end for entry in found):
        raise NoPlaceError
    at = rng.choice((0, 1, count // 2, count - 2, count - 1, count - 1, rng.randrange(count)))
    how = rng.choice(("hole", "overlap", "size", "dtype", "name"))
    moved = {"hole": 1, "overlap": -1}.get(how, 0)
    if begin + at + moved < 0:
        raise NoPlaceError
    more: list[list[Value]] = []
    for index in range(count):
        place = begin + index + moved * (index >= at)
        more.append([b'"h%d"' % index, entry_tree(b"U8", [1], place, place + 1)])
    entry = entry_of(more[at])
    assert entry is not None
    if how == "size":
        entry.reshape([2])
    elif how == "dtype":
        entry.retype(b"U7")
    elif how == "name":
        more[at][0] = more[rng.choice([other for other in (0, at - 1, count - 1) if other % count != at])][0]
    if rng.random() < 0.3:
        more.reverse()
    elif rng.random() < 0.3:
        more = more[count // 2 :] + more[: count // 2]
    rows += more
    file.data += rng.randbytes(count + moved)
