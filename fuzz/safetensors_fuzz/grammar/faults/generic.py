"""Generic changes to tokens and bytes, which target no rule."""

from __future__ import annotations

import random
import re

from safetensors_corpus.features import vocabulary as words
from safetensors_corpus.features.entries import NoPlaceError, framed, one, some_leaf, trees, values
from safetensors_corpus.features.feature import Change, Mutation, mutation
from safetensors_corpus.features.tree import File, copy, parse

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
