"""Faults of shapes and of single ranges (SHP, OFF-01 to OFF-05, OFF-13)."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import prod

from ..entries import Entry, entries, numbers, size, some
from ..model import Arr, File, Obj, Value
from ..registry import fault
from ..vocabulary import BIG, BITS, TOO_BIG, U64, WORDS, spellings


@fault("SHP-01")
def shape_of_another_type(rng: random.Random, file: File) -> bool:
    """Write the shape, or one dimension, as another JSON value."""
    entry = some(rng, file)
    if entry is None:
        return False
    plain = [b"%d" % d for d in entry.shape]
    if plain and rng.random() < 0.6:
        dims: list[Value] = [*plain]
        at = rng.randrange(len(dims))
        dims[at] = rng.choice((b'"%b"' % plain[at], b"null", b"true", b'""', Arr([plain[at]]), Obj([])))
        entry.put(b'"shape"', Arr(dims))
    else:
        whole = b'"%b"' % b",".join(b"%d" % d for d in entry.shape)
        other: list[Value] = [word for word in WORDS if word not in (b"[]", b"[0]")]
        entry.put(b'"shape"', rng.choice([whole, Arr([numbers(*entry.shape)]), *other]))
    return True


@fault("SHP-02")
def dimension_spelled_otherwise(rng: random.Random, file: File) -> bool:
    """Spell a dimension as a number that is no plain integer."""
    found = [e for e in entries(file) if e.shape]
    if not found:
        return False
    entry = rng.choice(found)
    return _respell(rng, entry, b'"shape"', entry.shape, spellings)


@fault("OFF-02")
def offset_spelled_otherwise(rng: random.Random, file: File) -> bool:
    """Spell an offset as a number that is no plain integer."""
    entry = some(rng, file)
    return entry is not None and _respell(rng, entry, b'"data_offsets"', [entry.begin, entry.end], spellings)


def _respell(
    rng: random.Random,
    entry: Entry,
    field: bytes,
    values: list[int],
    ways: Callable[[int], tuple[bytes, ...]],
) -> bool:
    texts: list[Value] = [b"%d" % v for v in values]
    at = rng.choice((0, len(values) - 1, rng.randrange(len(values))))
    near = ways(values[at])
    texts[at] = rng.choice(near)
    if rng.random() < 0.1:
        texts = [ways(v)[0] for v in values]
    entry.put(field, Arr(texts))
    return True


@fault("SHP-07", "OFF-02")
def number_of_65_bits(rng: random.Random, file: File) -> bool:
    """Write a dimension or an offset of 2^64 or more."""
    entry = some(rng, file)
    if entry is None:
        return False
    field, values = rng.choice(((b'"shape"', entry.shape), (b'"data_offsets"', [entry.begin, entry.end])))
    texts: list[Value] = [b"%d" % v for v in values] or [b"1"]
    at = rng.randrange(len(texts))
    # Half of them are right again when the high bits are cut off.
    old = texts[at]
    assert type(old) is bytes
    texts[at] = (
        rng.choice(TOO_BIG) if rng.random() < 0.5 else b"%d" % (int(old) + U64 * rng.choice((1, 1, 2)))
    )
    entry.put(field, Arr(texts))
    return True


@fault("OFF-05", "SHP-03", "SHP-04", "DTY-05")
def shape_of_other_size(rng: random.Random, file: File) -> bool:
    """Change a shape so that it needs more or fewer bytes than the range has."""
    entry = some(rng, file)
    if entry is None:
        return False
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
        shape = [rng.choice((*BIG, 0, 1, 2, 255, 256, 65536))]
    entry.reshape(shape)
    return prod(shape) != before


@fault("SHP-05", "SHP-09")
def shape_wraps(rng: random.Random, file: File) -> bool:
    """Write a shape whose size wraps at 2^64 (in elements, bits or bytes) to just what the range has."""
    entry = some(rng, file)
    if entry is None or entry.dtype not in BITS:
        return False
    bits = BITS[entry.dtype]
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
            return True
    if rng.random() < 0.5:
        entry.reshape([2**32, 2**32])
    else:
        entry.reshape([rng.choice(BIG), rng.choice(BIG), rng.choice((1, 2, 3))])
    return True


@fault("SHP-09", "SHP-05", "OFF-05")
def shape_just_too_large(rng: random.Random, file: File) -> bool:
    """Write a shape whose elements fit 64 bits and whose bits or bytes may not."""
    entry = some(rng, file)
    if entry is None or entry.dtype not in BITS:
        return False
    bits = BITS[entry.dtype]
    edge = rng.choice((U64 // bits, U64 // max(bits // 8, 1), U64 - 1, 2**63, 2**63 - 1))
    entry.reshape(
        rng.choice(([min(edge, U64 - 1)], [edge // 2, 2], [min(edge + 1, U64 - 1)], [max(edge - 1, 1)]))
    )
    return True


@fault("SHP-06", "SHP-08")
def overflow_beside_zero(rng: random.Random, file: File) -> bool:
    """Write a shape that holds a zero and would wrap without it."""
    found = [e for e in entries(file) if e.begin == e.end] or entries(file)
    if not found:
        return False
    entry = rng.choice(found)
    large = [rng.choice(BIG), rng.choice((2**32, 2**33, 2**63, U64 - 1, 3))]
    large.insert(rng.randint(0, 2), 0)
    entry.reshape(large)
    return True


@fault("OFF-05", "SHP-05", "SHP-10")
def shape_wraps_at_32_bits(rng: random.Random, file: File) -> bool:
    """Write a shape that is right only when cut to 32 bits."""
    entry = some(rng, file)
    if entry is None or entry.dtype not in BITS:
        return False
    want = (entry.end - entry.begin) * 8 // BITS[entry.dtype]
    how = rng.randrange(3)
    if how == 0:
        entry.reshape([want + 2**32])
    elif how == 1 and entry.shape:
        entry.reshape([entry.shape[0] + 2**32, *entry.shape[1:]])
    else:
        entry.reshape(
            rng.choice(([65536, 65536], [2**31, 2], [65536, 65536, max(want, 1)], [2**32 + want, 1]))
        )
    return True


@fault("OFF-01")
def offsets_no_pair(rng: random.Random, file: File) -> bool:
    """Write the offsets as anything but a pair."""
    entry = some(rng, file)
    if entry is None:
        return False
    b, e = b"%d" % entry.begin, b"%d" % entry.end
    choices: tuple[Value, ...] = (
        Arr([]), Arr([b]), Arr([e]), Arr([b, e, e]), Arr([b, e, b"0"]), Arr([Arr([b, e])]),
        Arr([Arr([b]), e]),
        Obj([[b'"0"', b], [b'"1"', e]]), Obj([]), b"null", e, b'"%b,%b"' % (b, e), b"true",
        Arr([b'"%b"' % b, e]), Arr([b, b'"%b"' % e]), Arr([b"null", e]), Arr([b, b"null"]),
        Arr([b"false", b"true"]),
    )  # fmt: skip
    entry.put(b'"data_offsets"', rng.choice(choices))
    return True


@fault("OFF-03")
def range_reversed(rng: random.Random, file: File) -> bool:
    """Let a range end before it begins."""
    entry = some(rng, file)
    if entry is None:
        return False
    begin, end = entry.begin, entry.end
    options = [(end, begin), (begin, begin - 1), (end + 1, end), (end, 0), (U64 - 1, end), (2**63, begin)]
    options += [(begin + 1, begin), (len(file.data), 0)]
    legal = [(x, y) for x, y in options if x > y >= 0]
    if not legal:
        return False
    entry.move(*rng.choice(legal))
    return True


@fault("OFF-04")
def range_past_end(rng: random.Random, file: File) -> bool:
    """Let a range end behind the data buffer; its size is right as often as not."""
    entry = some(rng, file)
    if entry is None:
        return False
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
def data_cut(rng: random.Random, file: File) -> bool:
    """Cut bytes off the end of the file."""
    if not file.data or file.raw is not None:
        return False
    file.data = file.data[: -rng.choice((1, 1, 2, 4, 8, len(file.data)))]
    return True


@fault("OFF-13")
def range_wraps(rng: random.Random, file: File) -> bool:
    """Let a range wrap round 2^64 or 2^32 when the start of the data is added."""
    entry = some(rng, file)
    if entry is None:
        return False
    count = size(entry.dtype, entry.shape) or entry.end - entry.begin
    start = 8 + len(file.header())
    begin = rng.choice(
        (
            U64 - start,
            U64 - start + entry.begin,
            U64 - 8,
            U64 - count,
            U64 - count - start,
            2**63 - start,
            2**32 - start,
            2**32,
        )
    )
    begin = max(begin + rng.choice((0, 0, 0, 1, -1)), 0)
    end = begin + count
    # An end beyond 64 bits is written as the wrapped one, which makes it run backwards too.
    entry.move(min(begin, U64 - 1), end if end < U64 else rng.choice((end - U64, U64 - 1)))
    return True


@fault("OFF-05")
def range_of_other_size(rng: random.Random, file: File) -> bool:
    """Make a range longer or shorter than its tensor; data and other ranges follow."""
    from .entries import resize

    entry = some(rng, file)
    if entry is None:
        return False
    count = entry.end - entry.begin
    new = max(count + rng.choice((-8, -4, -1, 1, 4, 8, count, -count)), 0)
    if new == count or entry.begin > entry.end or entry.end > len(file.data):
        return False
    resize(file, entry, new)
    return True
