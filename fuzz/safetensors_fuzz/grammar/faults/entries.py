"""Faults of tensor entries, dtypes and metadata (ENT, DTY, MET)."""

from __future__ import annotations

import random

from ..entries import Entry, entries, metadata, numbers, shift, some
from ..model import Arr, File, Obj, Value, copy
from ..registry import fault
from ..vocabulary import (
    BITS,
    DTYPES,
    FIELDS,
    NEAR_FIELDS,
    NEAR_RESERVED,
    NO_DTYPES,
    PACKED,
    RESERVED,
    UNKNOWN_FIELDS,
    WORDS,
)


@fault("ENT-01", "MET-05")
def entry_of_another_type(rng: random.Random, file: File) -> bool:
    """Put another JSON value in place of an entry, or add one beside the entries."""
    if type(file.root) is not Obj or file.raw is not None:
        return False
    entry = some(rng, file)
    if entry is None or rng.random() < 0.4:
        row: list[Value] = [b'"extra"', rng.choice(WORDS)]
        file.root.members.insert(rng.randint(0, len(file.root.members)), row)
    else:
        entry.member[1] = rng.choice(WORDS)
    return True


@fault("ENT-02")
def entry_as_array(rng: random.Random, file: File) -> bool:
    """Write an entry as the array of its values, in order or not, whole or not."""
    entry = some(rng, file)
    if entry is None:
        return False
    items = [value for _, value in entry.obj.members]
    how = rng.randrange(4)
    if how == 1:
        rng.shuffle(items)
    elif how == 2:
        items.pop()
    elif how == 3:
        items.append(b"0")
    entry.member[1] = Arr(items)
    return True


@fault("ENT-03")
def field_missing(rng: random.Random, file: File) -> bool:
    """Leave out a field of an entry, or all."""
    entry = some(rng, file)
    if entry is None:
        return False
    if rng.random() < 0.15:
        entry.obj.members = []
    else:
        entry.obj.members.pop(rng.randrange(len(entry.obj.members)))
    return True


@fault("ENT-03", "ENT-05", "DTY-03", "SHP-01", "OFF-01")
def field_null(rng: random.Random, file: File) -> bool:
    """Give a field the value null."""
    entry = some(rng, file)
    if entry is None:
        return False
    rng.choice(entry.obj.members)[1] = b"null"
    return True


@fault("ENT-04")
def field_unknown(rng: random.Random, file: File) -> bool:
    """Add a field that the format does not define."""
    entry = some(rng, file)
    if entry is None:
        return False
    row: list[Value] = [
        rng.choice(UNKNOWN_FIELDS),
        rng.choice((*WORDS, numbers(1, 2), Obj([[b'"dtype"', b'"F32"']]))),
    ]
    entry.obj.members.insert(rng.randint(0, len(entry.obj.members)), row)
    return True


@fault("ENT-05")
def field_name_near(rng: random.Random, file: File) -> bool:
    """Write the name of a field in another way, in place of it or beside it."""
    entry = some(rng, file)
    if entry is None:
        return False
    rows = [m for m in entry.obj.members if m[0] in FIELDS]
    if not rows:
        return False
    member = rng.choice(rows)
    assert type(member[0]) is bytes
    near = rng.choice(NEAR_FIELDS[member[0]])
    if rng.random() < 0.6:
        member[0] = near
    else:
        entry.obj.members.insert(rng.randint(0, len(entry.obj.members)), [near, copy(member[1])])
    return True


@fault("DTY-01", "DTY-06", "DTY-15")
def dtype_unknown(rng: random.Random, file: File) -> bool:
    """Name a dtype that the format does not have."""
    entry = some(rng, file)
    if entry is None:
        return False
    near = [d for d in NO_DTYPES if d.strip().upper() == entry.dtype]
    entry.retype(rng.choice(near if near and rng.random() < 0.3 else NO_DTYPES))
    return True


@fault("DTY-02")
def dtype_as_object(rng: random.Random, file: File) -> bool:
    """Write the dtype as an object around its code."""
    entry = some(rng, file)
    if entry is None:
        return False
    key = b'"%b"' % entry.dtype
    rows: list[list[Value]] = [[key, rng.choice((b"null", b"null", b"null", Obj([]), Arr([]), b"0"))]]
    if rng.random() < 0.2:
        rows.append([b'"F32"', b"null"])
    entry.put(b'"dtype"', Obj(rows))
    return True


@fault("DTY-03")
def dtype_of_another_type(rng: random.Random, file: File) -> bool:
    """Write the dtype as no string."""
    entry = some(rng, file)
    if entry is None:
        return False
    entry.put(
        b'"dtype"', rng.choice((b"null", b"true", b"0", b"11", b"1.5", Arr([]), Arr([b'"%b"' % entry.dtype])))
    )
    return True


@fault("DTY-05", "OFF-05", "DTY-08")
def dtype_of_other_width(rng: random.Random, file: File) -> bool:
    """Name a dtype of another width than the range has room for."""
    found = [e for e in entries(file) if e.begin < e.end and e.dtype in BITS]
    if not found:
        return False
    entry = rng.choice(found)
    entry.retype(rng.choice([d for d in DTYPES if BITS[d] != BITS[entry.dtype]]))
    return True


@fault("DTY-09")
def part_of_a_byte(rng: random.Random, file: File) -> bool:
    """Add a packed tensor whose bits do not fill whole bytes, with its size rounded up or down."""
    if type(file.root) is not Obj or file.raw is not None:
        return False
    dtype = rng.choice(PACKED)
    shapes = (
        ([1], [3], [5], [1, 1], [3, 3], [7], [2, 3, 3], [])
        if dtype == b"F4"
        else ([1], [2], [3], [], [5], [7, 2])
    )
    shape = rng.choice(shapes)
    bits = BITS[dtype]
    for dim in shape:
        bits *= dim
    if bits % 8 == 0:
        return False
    count = bits // 8 + rng.randrange(2)
    found = entries(file)
    replaced = rng.choice(found) if found and rng.random() < 0.6 else None
    if replaced is None:
        begin = len(file.data)
        file.data += bytes(count)
        rows: list[list[Value]] = [[b'"dtype"', b'"%b"' % dtype], [b'"shape"', numbers(*shape)]]
        rows.append([b'"data_offsets"', numbers(begin, begin + count)])
        file.root.members.append([b'"packed"', Obj(rows)])
        return True
    replaced.retype(dtype)
    replaced.reshape(list(shape))
    resize(file, replaced, count)
    return True


def resize(file: File, entry: Entry, count: int) -> None:
    """Give an entry's range another size, and move all behind it, so that the layout stays whole."""
    old = entry.end
    if not entry.begin <= old <= len(file.data):  # an earlier fault; there is no data to follow it
        entry.move(entry.begin, entry.begin + count)
        return
    by = entry.begin + count - old
    file.data = (
        file.data[: entry.begin] + file.data[entry.begin : old][:count] + bytes(max(by, 0)) + file.data[old:]
    )
    shift(file, old, by, but=entry)
    entry.move(entry.begin, entry.begin + count)


@fault("DTY-10", "DTY-12")
def shape_in_bytes(rng: random.Random, file: File) -> bool:
    """Let the shape of a packed tensor count bytes in place of elements."""
    found = [e for e in entries(file) if e.dtype in PACKED and e.begin < e.end and e.shape]
    if not found:
        entry = some(rng, file)
        if entry is None or not entry.shape:
            return False
        entry.retype(rng.choice(PACKED))  # its bytes are taken for elements
        return entry.begin < entry.end
    entry = rng.choice(found)
    entry.reshape(
        [entry.end - entry.begin] if rng.random() < 0.5 else [*entry.shape[:-1], max(entry.shape[-1] // 2, 1)]
    )
    return True


def _with_metadata(rng: random.Random, file: File) -> list[Value] | None:
    """Return the metadata member; one is added when there is none."""
    member = metadata(file)
    if member is None and type(file.root) is Obj and file.raw is None:
        member = [RESERVED, Obj([[b'"a"', b'"b"'], [b'"format"', b'"pt"']])]
        file.root.members.insert(rng.choice((0, len(file.root.members))), member)
    return member


@fault("MET-01")
def metadata_no_map(rng: random.Random, file: File) -> bool:
    """Write metadata as another JSON value."""
    member = _with_metadata(rng, file)
    if member is None:
        return False
    member[1] = rng.choice([w for w in WORDS if w not in (b"null", b"{}", b'{"a":0}')])
    return True


@fault("MET-02")
def metadata_null(rng: random.Random, file: File) -> bool:
    """Write metadata as null."""
    member = _with_metadata(rng, file)
    if member is None:
        return False
    member[1] = b"null"
    return True


@fault("MET-01")
def metadata_value_no_string(rng: random.Random, file: File) -> bool:
    """Give a metadata key a value that is no string."""
    member = _with_metadata(rng, file)
    if member is None or type(member[1]) is not Obj:
        return False
    rows = member[1].members
    if not rows or rng.random() < 0.3:
        rows.append([b'"z"', b'"z"'])
    bad = rng.choice([w for w in WORDS if not w.startswith(b'"')])
    rng.choice((rows[0], rows[-1], rng.choice(rows)))[1] = bad
    return True


@fault("MET-07")
def tensor_as_metadata(rng: random.Random, file: File) -> bool:
    """Give a tensor the reserved name."""
    entry = some(rng, file)
    if entry is None or type(file.root) is not Obj:
        return False
    old = metadata(file)
    if old is not None:
        file.root.members.remove(old)
    entry.member[0] = RESERVED
    return True


@fault("MET-05", "MET-06")
def reserved_name_near(rng: random.Random, file: File) -> bool:
    """Write the reserved key nearly right, so that it names a tensor."""
    member = _with_metadata(rng, file)
    if member is None:
        return False
    member[0] = rng.choice(NEAR_RESERVED)
    return True
