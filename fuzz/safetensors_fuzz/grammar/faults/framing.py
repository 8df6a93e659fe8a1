"""Faults of the framing: length prefix, first byte, padding, encoding (FRM, HDR-01 to HDR-06)."""

from __future__ import annotations

import random

from ..entries import entries, into_string, spoilable
from ..model import File, Obj, text
from ..registry import fault
from ..valid import metadata_tree
from ..vocabulary import BOMS, ENCODINGS, LENGTHS, MAGIC, NO_SPACES, NOT_UTF8, SPACES, WORDS


@fault("FRM-03")
def too_short(rng: random.Random, file: File) -> bool:
    """Cut the file inside its length prefix."""
    file.raw = file.render()[: rng.randrange(8)]
    return True


@fault("FRM-01", "FRM-04")
def cut_header(rng: random.Random, file: File) -> bool:
    """Cut the file inside its header."""
    if file.raw is not None:
        return False
    header = file.header()
    file.length = len(header) if file.length is None else file.length
    end = 8 + rng.choice((0, 1, max(len(header) - 1, 0), rng.randint(0, max(len(header) - 1, 0))))
    file.raw = file.render()[:end]
    return True


@fault("FRM-04", "FRM-02")
def length_past_end(rng: random.Random, file: File) -> bool:
    """Declare a header that ends behind the file."""
    if file.raw is not None:
        return False
    room = len(file.header()) + len(file.data)
    file.length = rng.choice(
        (room + 1, room + 7, room + 8, room + 9, 2 * room + 1, 65536, 10_000_000, 99_999_999)
    )
    return file.length > room


@fault("FRM-06", "LIM-01", "FRM-02", "FRM-05")
def length_over_limit(rng: random.Random, file: File) -> bool:
    """Declare a header that is longer than any reader takes; often its low 32 bits are right."""
    true = len(file.header())
    options = (
        rng.choice(LENGTHS),
        true << 32,
        true << 56,
        true + 2**32,
        true + 2**63,
        2**64 - true,
        2**64 - 8 - true,
    )
    file.length = rng.choice(options) % 2**64
    return file.raw is None


@fault("FRM-02")
def length_big_endian(rng: random.Random, file: File) -> bool:
    """Write the length with its bytes turned round."""
    file.length = int.from_bytes(len(file.header()).to_bytes(8, "little"), "big")
    return file.raw is None and rng is not None


@fault("FRM-07")
def length_zero(rng: random.Random, file: File) -> bool:
    """Declare an empty header, with or without one there."""
    if rng.random() < 0.5:
        file.root, file.padding = b"", b""
    if rng.random() < 0.4:
        file.data = b""
    file.length = 0
    return file.raw is None


@fault("FRM-01", "HDR-06", "HDR-04", "OFF-08")
def length_off(rng: random.Random, file: File) -> bool:
    """Declare a header that is a few bytes too short or too long."""
    if file.raw is not None:
        return False
    true = len(file.header())
    by = rng.choice((-8, -4, -2, -1, 1, 2, 4, 8, -len(file.padding), -len(file.padding) - 1, len(file.data)))
    file.length = max(true + by, 0)
    return by != 0


@fault("FRM-01", "FRM-10")
def magic_before(rng: random.Random, file: File) -> bool:
    """Put another format's first bytes before the file."""
    file.raw = rng.choice((*MAGIC, b"\x00", b"\n", b"\xef\xbb\xbf")) + file.render()
    return True


@fault("HDR-01")
def not_utf8(rng: random.Random, file: File) -> bool:
    """Put bytes that are not UTF-8 into a string, or anywhere."""
    junk = rng.choice(NOT_UTF8)
    spots = spoilable(rng, file)
    if spots and rng.random() < 0.85:
        member, place = rng.choice(spots)
        return into_string(rng, member, place, junk)
    header = file.header()
    at = rng.randint(0, len(header))
    file.root, file.padding = header[:at] + junk + header[at:], b""
    return file.raw is None


@fault("HDR-02")
def space_before(rng: random.Random, file: File) -> bool:
    """Put whitespace before the opening brace."""
    return _before(file, rng.choice(SPACES) * rng.choice((1, 1, 2, 8)))


@fault("HDR-02")
def junk_before(rng: random.Random, file: File) -> bool:
    """Put something else before the opening brace."""
    return _before(file, rng.choice((*NO_SPACES, b"x", b",", b")]}'", b"//\n", b"[", b"{", b"\x80\x02")))


@fault("HDR-05")
def byte_order_mark(rng: random.Random, file: File) -> bool:
    """Put a byte-order mark at the start of the header."""
    return _before(file, BOMS[0] if rng.random() < 0.6 else rng.choice(BOMS))


def _before(file: File, junk: bytes) -> bool:
    if type(file.root) is Obj:
        file.root.head = junk + file.root.head
    else:
        file.root = junk + text(file.root)
    return file.raw is None


@fault("HDR-03")
def other_space_behind(rng: random.Random, file: File) -> bool:
    """Pad with whitespace other than spaces, somewhere in the padding."""
    return _padding(rng, file, rng.choice((b"\n", b"\t", b"\r", b"\r\n")))


@fault("HDR-03", "HDR-05")
def junk_behind(rng: random.Random, file: File) -> bool:
    """Pad with what is no whitespace at all."""
    return _padding(rng, file, rng.choice((*NO_SPACES, b"\x00" * 8, b"x", b"\xff", b"0", b";")))


@fault("HDR-06")
def more_behind(rng: random.Random, file: File) -> bool:
    """Put a second value, or the rest of one, behind the header object."""
    return _padding(rng, file, rng.choice((*WORDS, b"}", b"]", b",", b"{}{}", b'{"a":1}', b":0", b"}}")))


def _padding(rng: random.Random, file: File, junk: bytes) -> bool:
    blanks = len(file.padding)
    at = rng.choice((0, blanks, rng.randint(0, blanks)))
    file.padding = b" " * at + junk + b" " * (blanks - at)
    if rng.random() < 0.5:  # keep the length: a reader may look at multiples of eight only
        file.padding = file.padding[: max(blanks, at + len(junk))]
    return file.raw is None


@fault("HDR-06")
def no_object(rng: random.Random, file: File) -> bool:
    """Put a JSON value of another type in place of the header, or nothing but blanks."""
    inside = text(file.root)
    choices = (
        *WORDS,
        b" " * 8,
        b"[" + inside + b"]",
        b'"' + inside.replace(b'"', b'\\"') + b'"',
        b"",
        b"[]  ",
    )
    file.root = rng.choice([c for c in choices if c != b"{}"])
    file.padding = file.padding or b" " * 8
    return file.raw is None


@fault("HDR-01", "HDR-05")
def other_encoding(rng: random.Random, file: File) -> bool:
    """Write the header in UTF-16 or UTF-32."""
    try:
        wide = file.header().decode().encode(rng.choice(ENCODINGS))
    except UnicodeDecodeError:
        return False
    file.root, file.padding = wide, b""
    return file.raw is None


@fault("FRM-09", "OFF-08")
def data_without_tensors(rng: random.Random, file: File) -> bool:
    """Leave out all tensors and keep the data."""
    if type(file.root) is not Obj or not entries(file) or not file.data:
        return False
    file.root.members = [[b'"__metadata__"', metadata_tree(rng)]] if rng.random() < 0.3 else []
    return True
