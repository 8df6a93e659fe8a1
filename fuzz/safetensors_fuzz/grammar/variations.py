"""Mutations that do not aim to break a rule: valid variations, and generic changes of tokens and bytes."""

from __future__ import annotations

import random
import re

from safetensors_corpus.features import vocabulary as words
from safetensors_corpus.features.entries import (
    NoPlaceError,
    entries,
    escape,
    framed,
    free_strings,
    header,
    into_string,
    members,
    metadata,
    one,
    shift,
    size,
    some,
    some_leaf,
    trees,
    values,
    whole,
)
from safetensors_corpus.features.tree import Arr, File, Obj, copy, parse, text

from .faults import Change, Mutation, mutation, variation
from .valid import content, entry_tree, metadata_tree, pad


@variation("HDR-08")
def space_between_tokens(rng: random.Random, file: File) -> None:
    """Add whitespace where JSON allows it."""
    root = header(file)
    space, share = rng.choice(words.SPACES), rng.choice((0.1, 1.0))
    if rng.random() < 0.1:  # longer than the lookahead of readers
        space, share = rng.choice(words.LONG_SPACES), 0.1
    for tree in trees(file):
        if tree is not root and rng.random() < share:
            tree.head += space
            tree.foot = space + tree.foot if type(tree) is Obj else tree.foot
        if type(tree) is Obj:
            for member in tree.members:
                for place, half in enumerate(member):
                    if type(half) is bytes and rng.random() < share:
                        member[place] = space + half + space
        elif type(tree) is Arr:
            for at, item in enumerate(tree.items):
                if type(item) is bytes and rng.random() < share:
                    tree.items[at] = rng.choice((space + item, item + space))


@variation("HDR-17", "DAT-07")
def other_order(rng: random.Random, file: File) -> bool:
    """Shuffle the members of the header."""
    rng.shuffle(members(file))
    return len(members(file)) > 1


@variation("ENT-06")
def other_field_order(rng: random.Random, file: File) -> None:
    """Shuffle the fields of one entry, or the fields of all entries in the same way."""
    found = entries(file)
    for entry in found if found and rng.random() < 0.3 else [one(rng, found)]:
        rng.shuffle(entry.obj.members)


@variation("FRM-08", "HDR-04", "OFF-11")
def other_padding(rng: random.Random, file: File) -> None:
    """Change the number of padding spaces. The data may then begin at any offset."""
    file.padding = b" " * rng.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 64, 200))


@variation("FRM-08", "LIM-10")
def long_header(rng: random.Random, file: File) -> bool:
    """Pad the header to a length at the limit of an integer type or buffer."""
    want = rng.choice((255, 256, 257, 511, 512, 1023, 1024, 1025, 4095, 4096, 4097))
    file.padding = b""
    file.padding = b" " * max(want - len(file.header()), 0)
    return file.raw is None and bool(file.padding)


@variation("ENT-07", "ENT-08", "ENT-09", "HDR-19")
def other_name(rng: random.Random, file: File) -> None:
    """Rename a tensor."""
    found = entries(file)
    entry = rng.choice(found) if found else None
    name = b'"%b"' % rng.choice(words.NAMES)
    if entry is None or name in [member[0] for member in members(file)]:
        raise NoPlaceError
    entry.member[0] = name


@variation("HDR-15", "HDR-10")
def escaped_name(rng: random.Random, file: File) -> bool:
    """Write one character of a name as an escape sequence."""
    return escape(rng, some(rng, file).member, 0)


@variation("DTY-04")
def escaped_dtype(rng: random.Random, file: File) -> bool:
    """Write one character of a dtype as an escape sequence."""
    entry = some(rng, file)
    return any(escape(rng, member, 1) for member in entry.obj.members if member[0] == b'"dtype"')


@variation("ENT-05", "HDR-15")
def escaped_field(rng: random.Random, file: File) -> bool:
    """Write one character of a field name as an escape sequence."""
    entry = some(rng, file)
    return escape(rng, rng.choice(entry.obj.members), 0)


@variation("MET-06")
def escaped_reserved(rng: random.Random, file: File) -> bool:
    """Write one character of the reserved key as an escape sequence."""
    member = metadata(file)
    return member is not None and escape(rng, member, 0)


@variation("MET-03", "MET-04", "MET-08", "MET-09", "MET-05")
def with_metadata(rng: random.Random, file: File) -> None:
    """Add or remove the metadata."""
    rows, member = header(file).members, metadata(file)
    if member is not None:
        rows.remove(member)
    else:
        whole(file)  # raises NoPlaceError if the metadata key has an unusual spelling
        rows.insert(rng.randint(0, len(rows)), [words.RESERVED, metadata_tree(rng)])


@variation("HDR-15", "HDR-19", "MET-04")
def escapes(rng: random.Random, file: File) -> None:
    """Put an escape sequence into a name or into the metadata."""
    # The reserved key may be written with escapes, so do not change keys that contain escapes.
    spots = [s for s in free_strings(file) if s[1] == 1 or b"\\" not in text(s[0][0])]
    into_string(rng, *one(rng, spots), rng.choice(words.ESCAPED))


@variation("MET-04", "MET-10")
def other_metadata_value(rng: random.Random, file: File) -> None:
    """Replace the value of a metadata key."""
    member = metadata(file)
    if member is None or type(member[1]) is not Obj or not member[1].members:
        raise NoPlaceError
    rng.choice(member[1].members)[1] = b'"%b"' % rng.choice(words.META_VALUES)


@variation("SHP-03", "SHP-04", "SHP-11", "DAT-02", "DAT-03")
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


@variation("SHP-10")
def more_dimensions(rng: random.Random, file: File) -> None:
    """Give a tensor up to eight dimensions."""
    entry = some(rng, file)
    if len(entry.shape) >= 8:
        raise NoPlaceError
    entry.reshape([1] * (rng.randint(len(entry.shape) + 1, 8) - len(entry.shape)) + entry.shape)


@variation("OFF-10", "SHP-04", "OFF-09")
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


@variation("DTY-05", "DTY-08", "DTY-09", "DTY-10", "DTY-11", "DTY-12", "DAT-01", "DAT-06")
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


@variation("ENT-11")
def many_tensors(rng: random.Random, file: File) -> None:
    """Add several small tensors, which makes the header larger than small buffers."""
    rows, begin = whole(file)[1], len(file.data)
    if len(rows) > 6:
        raise NoPlaceError
    count = rng.choice((5, 8, 9, 17))
    for at in range(begin, begin + count):
        rows.append([b'"m%d"' % len(rows), entry_tree(b"U8", [1], at, at + 1)])
    file.data += rng.randbytes(count)


@variation("ENT-10")
def long_name(rng: random.Random, file: File) -> None:
    """Give a tensor a long name."""
    entry = some(rng, file)
    if any(len(member[0]) > 60 for member in members(file) if type(member[0]) is bytes):
        raise NoPlaceError
    length = rng.choice((64, 127, 128, 255, 256, 257, 1024))
    entry.member[0] = b'"%b"' % (b"n" * length)


@variation("FRM-10", "DAT-04")
def foreign_bytes(rng: random.Random, file: File) -> None:
    """Replace the start of a tensor's data with the magic bytes of another format."""
    entry = one(rng, [e for e in entries(file) if e.end - e.begin >= 2 and e.dtype != b"BOOL"])
    magic = rng.choice((*words.MAGIC, b'{"a":', bytes(8), b"\xff" * 8))[: entry.end - entry.begin]
    file.data = file.data[: entry.begin] + magic + file.data[entry.begin + len(magic) :]


@variation("FRM-09", "MET-03")
def no_tensors(rng: random.Random, file: File) -> None:
    """Remove all tensors."""
    root = header(file)
    root.members = [[words.RESERVED, metadata_tree(rng)]] if rng.random() < 0.4 else []
    file.data = b""
    pad(file)


@variation("OFF-14", "SHP-11", "OFF-05")
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


_NUMBER = re.compile(rb"[0-9]+")
TOKENS = (
    *words.WORDS, *words.BAD_WORDS, *words.SPACES, *words.MAGIC, b"\x00", b"\\", b"\\u0000",
    b"__metadata__", b"F32", b"U8", b"dtype",
)  # fmt: skip


def flip_byte(rng: random.Random, file: File) -> bool:
    """Change one byte, usually in the header."""
    data = bytearray(file.render())
    if not data:
        return False
    end = min(len(data), 8 + len(file.header())) if rng.random() < 0.8 else len(data)
    at = rng.randrange(max(end, 1))
    data[at] = rng.choice((rng.randrange(256), data[at] ^ (1 << rng.randrange(8)), 0, 255))
    _reparse(file, bytes(data))
    return True


def insert_token(rng: random.Random, file: File) -> None:
    _edit(rng, file, rng.choice(TOKENS), 0)


def remove_bytes(rng: random.Random, file: File) -> None:
    _edit(rng, file, b"", rng.randint(1, 8))


def replace_bytes(rng: random.Random, file: File) -> None:
    _edit(rng, file, rng.choice(TOKENS), rng.randint(1, 4))


def repeat_stretch(rng: random.Random, file: File) -> None:
    at = one(rng, range(len(framed(file))))
    stretch = file.header()[at : at + rng.randint(1, 60)]
    _splice(file, at, at, stretch)


def change_number(rng: random.Random, file: File) -> None:
    match = one(rng, list(_NUMBER.finditer(framed(file))))
    old = int(match.group()[:20])
    new = rng.choice(
        (rng.choice(words.BIG), old + 1, max(old - 1, 0), old * 2, old + 8, 0, 1, len(file.data))
    )
    _splice(file, match.start(), match.end(), b"%d" % new)


def change_length(rng: random.Random, file: File) -> None:
    true = len(file.header())
    file.length = max(
        rng.choice((*words.LENGTHS, true + 1, true - 1, true // 2, 8, 0, true + len(file.data))), 0
    )


def cut_or_grow(rng: random.Random, file: File) -> bool:
    data = file.render()
    by = rng.randint(1, 16)
    _reparse(file, data[:-by] if rng.random() < 0.5 else data + rng.randbytes(by))
    return True


def move_value(rng: random.Random, file: File) -> None:
    """Exchange two values of the tree, or replace one with a copy of the other."""
    spots = values(file)
    if len(spots) < 2:
        raise NoPlaceError
    (first, i), (second, j) = rng.sample(spots, 2)
    if any(holder is second for holder, _ in values(File(first[i]))) or any(
        holder is first for holder, _ in values(File(second[j]))
    ):
        raise NoPlaceError
    if rng.random() < 0.5:
        first[i], second[j] = second[j], first[i]
    else:
        first[i] = copy(second[j])


def remove_or_repeat_part(rng: random.Random, file: File) -> None:
    """Remove a member or an item, or write it twice."""
    parts = one(rng, [tree.parts for tree in trees(file) if tree.parts])
    at = rng.randrange(len(parts))
    if rng.random() < 0.5:
        del parts[at]
    else:
        part = parts[at]
        parts.append([copy(half) for half in part] if type(part) is list else copy(part))


def other_word(rng: random.Random, file: File) -> None:
    holder, place, _ = some_leaf(rng, file)
    holder[place] = rng.choice(words.WORDS)


def _edit(rng: random.Random, file: File, token: bytes, drop: int) -> None:
    at = rng.randint(0, len(framed(file)))
    _splice(file, at, at + drop, token)


def _splice(file: File, start: int, end: int, token: bytes) -> None:
    header = file.header()
    header = header[:start] + token + header[end:]
    fresh = parse(len(header).to_bytes(8, "little") + header)
    file.root, file.padding = (fresh.root, fresh.padding) if fresh.raw is None else (header, b"")


def _reparse(file: File, data: bytes) -> None:
    fresh = parse(data)
    file.root, file.padding, file.data = fresh.root, fresh.padding, fresh.data
    file.length, file.raw = fresh.length, fresh.raw


_ALL: tuple[Change, ...] = (
    flip_byte, insert_token, remove_bytes, replace_bytes, repeat_stretch, change_number, change_length,
    cut_or_grow, move_value, remove_or_repeat_part, other_word,
)  # fmt: skip
GENERIC: tuple[Mutation, ...] = tuple(map(mutation, _ALL))
"""Generic mutations. ``MUTATIONS`` does not include them, because they target no rule."""
