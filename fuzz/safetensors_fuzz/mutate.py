"""Mutations of corpus files: bytes, numbers of the header, and the framing."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

INTERESTING = (0, 1, 7, 8, 2**31 - 1, 2**32, 2**53 + 1, 2**61, 2**63 - 1, 2**63, 2**64 - 8, 2**64 - 1)
TOKENS = (
    b"{", b"}", b"[", b"]", b",", b":", b'"', b" ", b"\t", b"\n", b"null", b"true", b"1e1", b"-0", b"0.0",
    b"01",
    b'"__metadata__"', b'"dtype"', b'"shape"', b'"data_offsets"', b'"F32"', b'"U8"', b'"F4"', b"\\u0061",
    b"\\ud800", b"\xff", b"\x00", b"[0,0]", b"[]", b"{}",
)  # fmt: skip
_NUMBER = re.compile(rb"[0-9]+")


def flip(rng: random.Random, data: bytearray) -> None:
    """Change one byte, in the first 512 bytes three times out of four."""
    if data:
        reach = min(len(data), 512) if rng.random() < 0.75 else len(data)
        data[rng.randrange(reach)] = rng.randrange(256)


def insert(rng: random.Random, data: bytearray) -> None:
    """Insert a token, keeping the length prefix true half of the time."""
    token = rng.choice(TOKENS)
    at = rng.randrange(min(8, len(data)), len(data) + 1)
    data[at:at] = token
    if rng.random() < 0.5:
        _grow(data, len(token))


def remove(rng: random.Random, data: bytearray) -> None:
    """Remove a few bytes, keeping the length prefix true half of the time."""
    if len(data) > 8:
        at = rng.randrange(8, len(data))
        count = min(rng.randint(1, 8), len(data) - at)
        del data[at : at + count]
        if rng.random() < 0.5:
            _grow(data, -count)


def repeat(rng: random.Random, data: bytearray) -> None:
    """Repeat a stretch of the header, which makes duplicate keys and odd nesting."""
    if len(data) > 10:
        end = min(len(data), 8 + int.from_bytes(data[:8], "little")) if len(data) >= 8 else len(data)
        start = rng.randrange(8, max(end, 9))
        stretch = bytes(data[start : start + rng.randint(1, 80)])
        data[start:start] = stretch
        _grow(data, len(stretch))


def number(rng: random.Random, data: bytearray) -> None:
    """Replace a number of the header by an interesting one or a neighbour."""
    end = 8 + int.from_bytes(data[:8], "little")
    matches = list(_NUMBER.finditer(bytes(data), 8, min(end, len(data))))
    if not matches:
        return
    match = rng.choice(matches)
    old = int(match.group()[:20])
    new = rng.choice((*INTERESTING, old + 1, max(old - 1, 0), old * 2))
    text = str(new).encode()
    data[match.start() : match.end()] = text
    _grow(data, len(text) - (match.end() - match.start()))


def prefix(rng: random.Random, data: bytearray) -> None:
    """Change the length prefix."""
    old = int.from_bytes(data[:8], "little")
    new = rng.choice((*INTERESTING, (old + 1) % 2**64, max(old - 1, 0)))
    data[:8] = new.to_bytes(8, "little")


def tail(rng: random.Random, data: bytearray) -> None:
    """Cut the end of the file, or add to it."""
    if rng.random() < 0.5 and data:
        del data[-rng.randint(1, min(16, len(data))) :]
    else:
        data += rng.randbytes(rng.randint(1, 16))


MUTATIONS: tuple[Callable[[random.Random, bytearray], None], ...] = (
    flip,
    insert,
    remove,
    repeat,
    number,
    prefix,
    tail,
)


def _grow(data: bytearray, by: int) -> None:
    """Keep the length prefix true after the header grew by ``by`` bytes."""
    length = int.from_bytes(data[:8], "little") + by
    if len(data) >= 8 and 0 <= length < 2**64:
        data[:8] = length.to_bytes(8, "little")


def mutant(rng: random.Random, bases: Sequence[bytes]) -> bytes:
    """Return a base with one or two mutations; more would hide which one mattered."""
    data = bytearray(rng.choice(bases))
    for _ in range(rng.choice((1, 1, 2))):
        rng.choice(MUTATIONS)(rng, data)
    return bytes(data)
