"""Faults in tensor entries, dtypes and metadata (ENT, DTY, MET)."""

from __future__ import annotations

import random
from math import prod

from safetensors_corpus.features import vocabulary as words
from safetensors_corpus.features.entries import (
    NoPlaceError,
    entries,
    entry_tree,
    header,
    members,
    metadata,
    numbers,
    one,
    resize,
    some,
)
from safetensors_corpus.features.tree import Arr, File, Obj, Value, copy

from . import fault


@fault("ENT-01", "MET-05")
def entry_of_another_type(rng: random.Random, file: File) -> None:
    """Replace an entry with a JSON value that is not an entry, or add such a value as a new entry."""
    rows, found = header(file).members, entries(file)
    entry = rng.choice(found) if found else None
    if entry is None or rng.random() < 0.4:
        row: list[Value] = [b'"extra"', rng.choice(words.WORDS)]
        rows.insert(rng.randint(0, len(rows)), row)
    else:
        entry.member[1] = rng.choice(words.WORDS)


@fault("ENT-02")
def entry_as_array(rng: random.Random, file: File) -> None:
    """Write an entry as an array of its values, in any order and possibly with some values missing."""
    entry = some(rng, file)
    items = [value for _, value in entry.obj.members]
    how = rng.randrange(4)
    if how == 1:
        rng.shuffle(items)
    elif how == 2:
        items.pop()
    elif how == 3:
        items.append(b"0")
    entry.member[1] = Arr(items)


@fault("ENT-03")
def field_missing(rng: random.Random, file: File) -> None:
    """Omit one or all fields of an entry."""
    entry = some(rng, file)
    if rng.random() < 0.15:
        entry.obj.members = []
    else:
        entry.obj.members.pop(rng.randrange(len(entry.obj.members)))


@fault("ENT-03", "ENT-05", "DTY-03", "SHP-01", "OFF-01")
def field_null(rng: random.Random, file: File) -> None:
    """Give a field the value null."""
    entry = some(rng, file)
    rng.choice(entry.obj.members)[1] = b"null"


@fault("ENT-04")
def field_unknown(rng: random.Random, file: File) -> None:
    """Add a field that the format does not define."""
    entry = some(rng, file)
    row: list[Value] = [
        rng.choice(words.UNKNOWN_FIELDS),
        rng.choice((*words.WORDS, numbers(1, 2), Obj([[b'"dtype"', b'"F32"']]))),
    ]
    entry.obj.members.insert(rng.randint(0, len(entry.obj.members)), row)


@fault("ENT-05")
def field_name_near(rng: random.Random, file: File) -> None:
    """Write a field with a similar name, either instead of the right field or in addition to it."""
    entry = some(rng, file)
    member = one(rng, [m for m in entry.obj.members if m[0] in words.FIELDS])
    assert type(member[0]) is bytes
    near = rng.choice(words.NEAR_FIELDS[member[0]])
    if rng.random() < 0.6:
        member[0] = near
    else:
        entry.obj.members.insert(rng.randint(0, len(entry.obj.members)), [near, copy(member[1])])


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
    entry = one(rng, [e for e in entries(file) if e.begin < e.end and e.dtype in words.BITS])
    entry.retype(rng.choice([d for d in words.DTYPES if words.BITS[d] != words.BITS[entry.dtype]]))


@fault("DTY-09")
def part_of_a_byte(rng: random.Random, file: File) -> None:
    """Give a packed tensor a shape that does not fill whole bytes, and round its size up or down."""
    root = header(file)
    dtype = rng.choice(words.PACKED)
    shapes = (
        ([1], [3], [5], [1, 1], [3, 3], [7], [3, 3, 3], [1, 5], [])
        if dtype == b"F4"
        else ([1], [2], [3], [], [5], [7, 2], [1, 1], [1, 2], [3, 1], [1, 1, 5])
    )
    shape = rng.choice(shapes)
    bits = words.BITS[dtype] * prod(shape)
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
    found = [e for e in entries(file) if e.dtype in words.PACKED and e.begin < e.end and e.shape]
    if not found:
        entry = some(rng, file)
        if not entry.shape:
            return False
        entry.retype(rng.choice(words.PACKED))  # the shape now counts bytes
        return entry.begin < entry.end
    entry = rng.choice(found)
    entry.reshape(
        [entry.end - entry.begin] if rng.random() < 0.5 else [*entry.shape[:-1], max(entry.shape[-1] // 2, 1)]
    )
    return True


def _with_metadata(rng: random.Random, file: File) -> list[Value]:
    """Return the metadata member, adding it if necessary. Raises NoPlaceError."""
    member, rows = metadata(file), header(file).members
    if member is None:
        member = [words.RESERVED, Obj([[b'"a"', b'"b"'], [b'"format"', b'"pt"']])]
        rows.insert(rng.choice((0, len(rows))), member)
    return member


@fault("MET-01")
def metadata_no_map(rng: random.Random, file: File) -> None:
    """Write the metadata as a JSON value that is not a map of strings."""
    member = _with_metadata(rng, file)
    member[1] = rng.choice([w for w in words.WORDS if w not in (b"null", b"{}", b'{"a":0}')])


@fault("MET-02")
def metadata_null(rng: random.Random, file: File) -> None:
    """Write the metadata as null."""
    _with_metadata(rng, file)[1] = b"null"


@fault("MET-01")
def metadata_value_no_string(rng: random.Random, file: File) -> None:
    """Give a metadata key a value that is not a string."""
    member = _with_metadata(rng, file)
    if type(member[1]) is not Obj:
        raise NoPlaceError
    rows = member[1].members
    if not rows or rng.random() < 0.3:
        rows.append([b'"z"', b'"z"'])
    bad = rng.choice([w for w in words.WORDS if not w.startswith(b'"')])
    rng.choice((rows[0], rows[-1], rng.choice(rows)))[1] = bad


@fault("MET-07")
def tensor_as_metadata(rng: random.Random, file: File) -> None:
    """Give a tensor the reserved name ``__metadata__``."""
    entry, old = some(rng, file), metadata(file)
    if old is not None:
        members(file).remove(old)
    entry.member[0] = words.RESERVED


@fault("MET-05", "MET-06")
def reserved_name_near(rng: random.Random, file: File) -> None:
    """Write a key that resembles the reserved name but names a tensor."""
    member = _with_metadata(rng, file)
    member[0] = rng.choice(words.NEAR_RESERVED)
