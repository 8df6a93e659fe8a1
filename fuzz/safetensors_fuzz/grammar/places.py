"""Places in a file's tree at which something can be put: trees, values, strings."""

from __future__ import annotations

import random

from .model import Arr, File, Obj, Value, text
from .vocabulary import RESERVED


def strings(file: File) -> list[tuple[list[Value], int]]:
    """Return every string of the header that is a key or a member's value: (member, 0 or 1)."""
    out: list[tuple[list[Value], int]] = []
    todo: list[Value] = [file.root]
    while todo:
        value = todo.pop()
        if type(value) is Obj:
            for member in value.members:
                out.append((member, 0))
                if type(member[1]) is bytes and member[1].strip()[:1] == b'"':
                    out.append((member, 1))
                todo.append(member[1])
    return out if file.raw is None else []


def spoilable(rng: random.Random, file: File) -> list[tuple[list[Value], int]]:
    """Return strings to spoil: most often those whose text is free, so that nothing else breaks."""
    return strings(file) if rng.random() < 0.4 else free_strings(file) or strings(file)


def free_strings(file: File) -> list[tuple[list[Value], int]]:
    """Return the strings that may hold any text: names of tensors, keys and values of the metadata."""
    if type(file.root) is not Obj or file.raw is not None:
        return []
    out: list[tuple[list[Value], int]] = []
    for member in file.root.members:
        if text(member[0]).strip() != RESERVED:
            out.append((member, 0))
        elif type(member[1]) is Obj:
            out += [(row, place) for row in member[1].members for place in (0, 1)]
    return out


def into_string(rng: random.Random, member: list[Value], place: int, junk: bytes) -> bool:
    """Put bytes between the quotes of a string."""
    value = member[place]
    if type(value) is not bytes:
        return False
    first, last = value.find(b'"'), value.rfind(b'"')
    if first < 0 or last <= first:
        return False
    at = rng.choice((first + 1, last))
    member[place] = value[:at] + junk + value[at:]
    return True


def trees(file: File) -> list[Obj | Arr]:
    """Return all objects and arrays of the header."""
    out: list[Obj | Arr] = []
    todo: list[Value] = [file.root] if file.raw is None else []
    while todo:
        value = todo.pop()
        if type(value) is Obj:
            out.append(value)
            todo += [member[1] for member in value.members]
        elif type(value) is Arr:
            out.append(value)
            todo += value.items
    return out


def leaves(file: File) -> list[tuple[list[Value], int]]:
    """Return every value that is no tree: (list, index)."""
    out: list[tuple[list[Value], int]] = []
    for tree in trees(file):
        if type(tree) is Obj:
            out += [(member, 1) for member in tree.members if type(member[1]) is bytes]
        elif type(tree) is Arr:
            out += [(tree.items, at) for at, item in enumerate(tree.items) if type(item) is bytes]
    return out


def some_leaf(rng: random.Random, file: File) -> tuple[list[Value], int, bytes] | None:
    """Return a value that is no tree, by chance: the list that holds it, its index, its text."""
    spots = leaves(file)
    if not spots:
        return None
    holder, place = rng.choice(spots)
    value = holder[place]
    assert type(value) is bytes
    return holder, place, value


def some_member(rng: random.Random, file: File) -> list[Value] | None:
    """Return a member of an object, by chance."""
    members = [member for member, place in strings(file) if place == 0]
    return rng.choice(members) if members else None


def escape(rng: random.Random, member: list[Value], place: int) -> bool:
    """Escape one letter, digit or underscore of a plain string."""
    value = member[place]
    if type(value) is not bytes or b"\\" in value:
        return False
    spots = [at for at, byte in enumerate(value) if byte == 95 or 48 <= byte <= 57 or 65 <= byte <= 122]
    spots = [at for at in spots if value[at] not in b"[\\]^`"]
    if not spots:
        return False
    at = rng.choice(spots)
    form = rng.choice((b"\\u%04x", b"\\u%04X"))
    member[place] = value[:at] + form % value[at] + value[at + 1 :]
    return True
