"""Changes that the rules allow: a reader must read the file as before, or see just what was added."""

from __future__ import annotations

import random

from .entries import entries, escape, free_strings, into_string, members, metadata, shift, size, some, whole
from .model import Arr, File, Obj, Value, text
from .registry import variation
from .valid import content, entry_tree, metadata_tree, pad, plain_name
from .vocabulary import BITS, DTYPES, ESCAPED, MAGIC, META_VALUES, NAMES, RESERVED, SPACES


@variation("HDR-08")
def space_between_tokens(rng: random.Random, file: File) -> bool:
    """Put whitespace where JSON allows it."""
    if type(file.root) is not Obj or file.raw is not None:
        return False
    space = rng.choice(SPACES)
    todo: list[Value] = [file.root]
    share = rng.choice((0.1, 1.0))
    while todo:
        value = todo.pop()
        if type(value) is Obj:
            if value is not file.root and rng.random() < share:
                value.head, value.foot = value.head + space, space + value.foot
            for member in value.members:
                if type(member[0]) is bytes and rng.random() < share:
                    member[0] = space + member[0] + space
                if type(member[1]) is bytes and rng.random() < share:
                    member[1] = space + member[1] + space
                todo.append(member[1])
        elif type(value) is Arr:
            if rng.random() < share:
                value.head = value.head + space
            todo.extend(value.items)
    return True


@variation("HDR-17", "DAT-07")
def other_order(rng: random.Random, file: File) -> bool:
    """Shuffle the members of the header."""
    rng.shuffle(members(file))
    return len(members(file)) > 1


@variation("ENT-06")
def other_field_order(rng: random.Random, file: File) -> bool:
    """Shuffle the fields of one entry, or of all in the same way."""
    found = entries(file)
    if not found:
        return False
    for entry in found if rng.random() < 0.3 else [rng.choice(found)]:
        rng.shuffle(entry.obj.members)
    return True


@variation("FRM-08", "HDR-04", "OFF-11")
def other_padding(rng: random.Random, file: File) -> bool:
    """Pad with another number of spaces, so that the data begins anywhere."""
    file.padding = b" " * rng.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 64, 200))
    return file.raw is None


@variation("FRM-08", "LIM-10")
def long_header(rng: random.Random, file: File) -> bool:
    """Pad the header to a length at which some type or buffer ends."""
    want = rng.choice((255, 256, 257, 511, 512, 1023, 1024, 1025, 4095, 4096, 4097))
    file.padding = b""
    file.padding = b" " * max(want - len(file.header()), 0)
    return file.raw is None and bool(file.padding)


@variation("ENT-07", "ENT-08", "ENT-09", "HDR-19")
def other_name(rng: random.Random, file: File) -> bool:
    """Rename a tensor."""
    entry = some(rng, file)
    name = b'"%b"' % rng.choice(NAMES)
    if entry is None or name in [member[0] for member in members(file)]:
        return False
    entry.member[0] = name
    return True


@variation("HDR-15", "HDR-10")
def escaped_name(rng: random.Random, file: File) -> bool:
    """Write one character of a name as an escape."""
    entry = some(rng, file)
    return entry is not None and escape(rng, entry.member, 0)


@variation("DTY-04")
def escaped_dtype(rng: random.Random, file: File) -> bool:
    """Write one character of a dtype as an escape."""
    entry = some(rng, file)
    if entry is None:
        return False
    return any(escape(rng, member, 1) for member in entry.obj.members if member[0] == b'"dtype"')


@variation("ENT-05", "HDR-15")
def escaped_field(rng: random.Random, file: File) -> bool:
    """Write one character of a field's name as an escape."""
    entry = some(rng, file)
    return entry is not None and bool(entry.obj.members) and escape(rng, rng.choice(entry.obj.members), 0)


@variation("MET-06")
def escaped_reserved(rng: random.Random, file: File) -> bool:
    """Write one character of the reserved key as an escape."""
    member = metadata(file)
    return member is not None and escape(rng, member, 0)


@variation("MET-03", "MET-04", "MET-08", "MET-09", "MET-05")
def with_metadata(rng: random.Random, file: File) -> bool:
    """Add metadata, or take it away."""
    if type(file.root) is not Obj or file.raw is not None:
        return False
    member = metadata(file)
    if member is not None:
        file.root.members.remove(member)
    elif whole(file) is None:
        return False  # it may be there in another spelling
    else:
        place = rng.randint(0, len(file.root.members))
        file.root.members.insert(place, [RESERVED, metadata_tree(rng)])
    return True


@variation("HDR-15", "HDR-19", "MET-04")
def escapes(rng: random.Random, file: File) -> bool:
    """Put an escape into a name or into the metadata."""
    # The reserved key may be there in another spelling, and must stay what it is.
    spots = [s for s in free_strings(file) if s[1] == 1 or b"\\" not in text(s[0][0])]
    return bool(spots) and into_string(rng, *rng.choice(spots), rng.choice(ESCAPED))


@variation("MET-04", "MET-10")
def other_metadata_value(rng: random.Random, file: File) -> bool:
    """Give one metadata key another text."""
    member = metadata(file)
    if member is None or type(member[1]) is not Obj or not member[1].members:
        return False
    rng.choice(member[1].members)[1] = b'"%b"' % rng.choice(META_VALUES)
    return True


@variation("SHP-03", "SHP-04", "SHP-11", "DAT-02", "DAT-03")
def same_size_other_shape(rng: random.Random, file: File) -> bool:
    """Give a tensor another shape with as many elements."""
    entry = some(rng, file)
    if entry is None:
        return False
    shape = [d for d in entry.shape if d != 1] if rng.random() < 0.3 else [*entry.shape]
    how = rng.randrange(4)
    if how == 0:
        shape.insert(rng.randint(0, len(shape)), 1)
    elif how == 1:
        rng.shuffle(shape)
    elif how == 2 and 0 in shape:
        shape[:] = [0, rng.choice((1, 3, 65536))]
    entry.reshape(shape)
    return True


@variation("SHP-10")
def more_dimensions(rng: random.Random, file: File) -> bool:
    """Give a tensor up to eight dimensions."""
    entry = some(rng, file)
    if entry is None or len(entry.shape) >= 8:
        return False
    entry.reshape([1] * (rng.randint(len(entry.shape) + 1, 8) - len(entry.shape)) + entry.shape)
    return True


@variation("OFF-10", "SHP-04", "OFF-09")
def empty_tensor(rng: random.Random, file: File) -> bool:
    """Add an empty tensor on a boundary between tensors."""
    found = whole(file)
    if type(file.root) is not Obj or found is None:
        return False
    at = rng.choice([0, *(e.end for e in found)])
    shape = rng.choice(([0], [0, 3], [2, 0], [0, 0], [0, 0, 1]))
    name = b'"empty%d"' % len(found)
    if any(member[0] == name for member in file.root.members):
        return False
    place = rng.randint(0, len(file.root.members))
    file.root.members.insert(place, [name, entry_tree(rng.choice(DTYPES), list(shape), at, at)])
    return True


@variation("DTY-05", "DTY-08", "DTY-09", "DTY-10", "DTY-11", "DTY-12", "DAT-01", "DAT-06")
def another_tensor(rng: random.Random, file: File) -> bool:
    """Add a tensor of some dtype behind the others."""
    if type(file.root) is not Obj or file.raw is not None:
        return False
    dtype = rng.choice(DTYPES)
    shape = rng.choice(([8], [2, 4], [4, 2], [1, 8], [4], [8, 3]))
    count = size(dtype, list(shape)) or 0
    begin = len(file.data)
    name = plain_name(100 + len(file.root.members))
    if any(name in text(member[0]) for member in file.root.members):
        return False
    tree = entry_tree(dtype, list(shape), begin, begin + count)
    file.root.members.insert(rng.randint(0, len(file.root.members)), [b'"%b"' % name, tree])
    file.data += content(rng, dtype, count)
    return True


@variation("DTY-14", "DTY-06")
def other_dtype_of_same_width(rng: random.Random, file: File) -> bool:
    """Give a tensor another dtype of the same width."""
    entry = some(rng, file)
    if entry is None or entry.dtype not in BITS:
        return False
    entry.retype(rng.choice([d for d in DTYPES if BITS[d] == BITS[entry.dtype] and d != b"BOOL"]))
    return True


@variation("ENT-11")
def many_tensors(rng: random.Random, file: File) -> bool:
    """Add so many small tensors that the header outgrows small buffers."""
    if type(file.root) is not Obj or whole(file) is None or len(file.root.members) > 6:
        return False
    begin, count = len(file.data), rng.choice((5, 8, 9, 17))
    for number in range(count):
        file.root.members.append(
            [b'"m%d"' % len(file.root.members), entry_tree(b"U8", [1], begin + number, begin + number + 1)]
        )
    file.data += rng.randbytes(count)
    return True


@variation("ENT-10")
def long_name(rng: random.Random, file: File) -> bool:
    """Give a tensor a long name."""
    entry = some(rng, file)
    if entry is None or any(len(member[0]) > 60 for member in members(file) if type(member[0]) is bytes):
        return False
    length = rng.choice((64, 127, 128, 255, 256, 257, 1024))
    entry.member[0] = b'"%b"' % (b"n" * length)
    return True


@variation("FRM-10", "DAT-04")
def foreign_bytes(rng: random.Random, file: File) -> bool:
    """Let the data of a tensor begin like another format."""
    found = [e for e in entries(file) if e.end - e.begin >= 2 and e.dtype != b"BOOL"]
    if not found:
        return False
    entry = rng.choice(found)
    magic = rng.choice((*MAGIC, b'{"a":', bytes(8), b"\xff" * 8))[: entry.end - entry.begin]
    file.data = file.data[: entry.begin] + magic + file.data[entry.begin + len(magic) :]
    return True


@variation("FRM-09", "MET-03")
def no_tensors(rng: random.Random, file: File) -> bool:
    """Make the file an empty container."""
    if type(file.root) is not Obj or file.raw is not None:
        return False
    file.root.members = [[RESERVED, metadata_tree(rng)]] if rng.random() < 0.4 else []
    file.data = b""
    pad(file)
    return True


@variation("OFF-14", "SHP-11", "OFF-05")
def larger_tensor(rng: random.Random, file: File) -> bool:
    """Make the first dimension of a tensor larger, and its range and all behind it with it."""
    found = [e for e in whole(file) or () if e.shape and 0 not in e.shape and size(e.dtype, e.shape)]
    if not found:
        return False
    entry = rng.choice(found)
    old, before = entry.end, size(entry.dtype, entry.shape) or 0
    shape = [entry.shape[0] * rng.choice((2, 3, 16, 17)), *entry.shape[1:]]
    after = size(entry.dtype, shape) or 0
    if after > 4096 or entry.end - entry.begin != before:
        return False
    file.data = file.data[:old] + content(rng, entry.dtype, after - before) + file.data[old:]
    shift(file, old, after - before, but=entry)
    entry.reshape(shape)
    entry.move(entry.begin, old + after - before)
    return True
