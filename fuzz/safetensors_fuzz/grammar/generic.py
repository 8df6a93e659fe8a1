"""Changes that aim at no rule: tokens and bytes, so that rules nobody thought of are within reach."""

from __future__ import annotations

import random
import re

from .entries import some_leaf, trees
from .model import Arr, File, Obj, Value, copy, parse
from .registry import Apply, Mutation
from .vocabulary import BAD_WORDS, BIG, LENGTHS, MAGIC, SPACES, WORDS

_NUMBER = re.compile(rb"[0-9]+")
TOKENS = (
    *WORDS,
    *BAD_WORDS,
    *SPACES,
    *MAGIC,
    b"\x00",
    b"\\",
    b"\\u0000",
    b"__metadata__",
    b"F32",
    b"U8",
    b"dtype",
)


def flip_byte(rng: random.Random, file: File) -> bool:
    """Change one byte, most often in the header."""
    data = bytearray(file.render())
    if not data:
        return False
    end = min(len(data), 8 + len(file.header())) if rng.random() < 0.8 else len(data)
    at = rng.randrange(max(end, 1))
    data[at] = rng.choice((rng.randrange(256), data[at] ^ (1 << rng.randrange(8)), 0, 255))
    _take(file, bytes(data))
    return True


def insert_token(rng: random.Random, file: File) -> bool:
    """Insert a token into the header; the length stays true."""
    return _edit(rng, file, rng.choice(TOKENS), 0)


def remove_bytes(rng: random.Random, file: File) -> bool:
    """Remove a few bytes of the header; the length stays true."""
    return _edit(rng, file, b"", rng.randint(1, 8))


def replace_bytes(rng: random.Random, file: File) -> bool:
    """Replace a few bytes of the header by a token."""
    return _edit(rng, file, rng.choice(TOKENS), rng.randint(1, 4))


def repeat_stretch(rng: random.Random, file: File) -> bool:
    """Repeat a stretch of the header."""
    header = file.header()
    if file.raw is not None or not header:
        return False
    at = rng.randrange(len(header))
    stretch = header[at : at + rng.randint(1, 60)]
    _retext(file, header[:at] + stretch + header[at:])
    return True


def change_number(rng: random.Random, file: File) -> bool:
    """Change a number of the header to a neighbour or an interesting one."""
    header = file.header()
    found = list(_NUMBER.finditer(header)) if file.raw is None else []
    if not found:
        return False
    match = rng.choice(found)
    old = int(match.group()[:20])
    new = rng.choice((rng.choice(BIG), old + 1, max(old - 1, 0), old * 2, old + 8, 0, 1, len(file.data)))
    _retext(file, header[: match.start()] + b"%d" % new + header[match.end() :])
    return True


def change_length(rng: random.Random, file: File) -> bool:
    """Declare another header length."""
    true = len(file.header())
    file.length = max(rng.choice((*LENGTHS, true + 1, true - 1, true // 2, 8, 0, true + len(file.data))), 0)
    return file.raw is None


def cut_or_grow(rng: random.Random, file: File) -> bool:
    """Cut the end of the file, or add to it."""
    data = file.render()
    by = rng.randint(1, 16)
    _take(file, data[:-by] if rng.random() < 0.5 else data + rng.randbytes(by))
    return True


def move_value(rng: random.Random, file: File) -> bool:
    """Exchange two values of the tree, or put a copy of one in place of another."""
    spots: list[tuple[list[Value], int]] = []
    for tree in trees(file):
        if type(tree) is Obj:
            spots += [(member, 1) for member in tree.members]
        elif type(tree) is Arr:
            spots += [(tree.items, at) for at in range(len(tree.items))]
    if len(spots) < 2:
        return False
    (first, i), (second, j) = rng.sample(spots, 2)
    if _inside(first[i], second) or _inside(second[j], first):
        return False
    if rng.random() < 0.5:
        first[i], second[j] = second[j], first[i]
    else:
        first[i] = copy(second[j])
    return True


def _inside(value: Value, holder: list[Value]) -> bool:
    """True when a list belongs to a value, so that putting the value there would tie a knot."""
    todo = [value]
    while todo:
        item = todo.pop()
        if type(item) is Obj:
            if any(member is holder for member in item.members):
                return True
            todo += [member[1] for member in item.members]
        elif type(item) is Arr:
            if item.items is holder:
                return True
            todo += item.items
    return False


def remove_or_repeat_part(rng: random.Random, file: File) -> bool:
    """Remove a member or an item, or write it twice."""
    found = [t for t in trees(file) if (t.members if type(t) is Obj else t.items if type(t) is Arr else [])]
    if not found:
        return False
    tree = rng.choice(found)
    if type(tree) is Obj:
        at = rng.randrange(len(tree.members))
        if rng.random() < 0.5:
            del tree.members[at]
        else:
            tree.members.append([copy(part) for part in tree.members[at]])
    elif type(tree) is Arr:
        at = rng.randrange(len(tree.items))
        if rng.random() < 0.5:
            del tree.items[at]
        else:
            tree.items.append(copy(tree.items[at]))
    return True


def other_word(rng: random.Random, file: File) -> bool:
    """Put a word of any type in place of a value."""
    found = some_leaf(rng, file)
    if found is None:
        return False
    holder, place, _ = found
    holder[place] = rng.choice(WORDS)
    return True


def _edit(rng: random.Random, file: File, token: bytes, drop: int) -> bool:
    header = file.header()
    if file.raw is not None:
        return False
    at = rng.randint(0, len(header))
    _retext(file, header[:at] + token + header[at + drop :])
    return True


def _retext(file: File, header: bytes) -> None:
    """Put a changed header text into the file, as a tree again where that works."""
    fresh = parse(len(header).to_bytes(8, "little") + header)
    file.root, file.padding = (fresh.root, fresh.padding) if fresh.raw is None else (header, b"")


def _take(file: File, data: bytes) -> None:
    """Make the file be these bytes."""
    fresh = parse(data)
    file.root, file.padding, file.data = fresh.root, fresh.padding, fresh.data
    file.length, file.raw = fresh.length, fresh.raw


_ALL: tuple[Apply, ...] = (
    flip_byte, insert_token, remove_bytes, replace_bytes, repeat_stretch, change_number, change_length,
    cut_or_grow, move_value, remove_or_repeat_part, other_word,
)  # fmt: skip
GENERIC: tuple[Mutation, ...] = tuple(
    Mutation(f.__name__.replace("_", "-"), (), f, valid=False) for f in _ALL
)
"""The changes of this module; they are no part of ``MUTATIONS``, as they aim at nothing."""
