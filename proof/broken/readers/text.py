"""Broken readers: the bytes of the header as text, what stands around its object, and valid JSON refused.

HDR-01 to HDR-08, HDR-14 and HDR-15.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from proof.planted import Planted
from safetensors_corpus.judging.answer import Refused

from ..correct.json import ESCAPES, Grammar, Pairs, join_surrogates, paired
from ..correct.reader import IGNORING, READER, SmallReader, utf8
from ..variant import named, reading

LENGTHS = {range(0xC0, 0xE0): 2, range(0xE0, 0xF0): 3, range(0xF0, 0xF8): 4}


def unchecked_utf8(header: bytes) -> str:
    """Decode by the leading bytes alone: overlong forms, surrogates and values above U+10FFFF pass."""
    out, at = [], 0
    while at < len(header):
        lead = header[at]
        width = next((width for leads, width in LENGTHS.items() if lead in leads), 1)
        tail = header[at + 1 : at + width]
        if len(tail) < width - 1 or any(byte & 0xC0 != 0x80 for byte in tail):
            raise Refused("utf-8")
        point = lead if width == 1 else lead & (0x7F >> width)
        for byte in tail:
            point = point << 6 | byte & 0x3F
        out.append(chr(point) if point < 0x110000 else "\ufffd")
        at += width
    return "".join(out)


def _overlong(header: bytes) -> str:
    text = unchecked_utf8(header)
    if re.search("[\ud800-\udfff\ufffd]", text):
        raise Refused("utf-8")
    return text


def _modified(header: bytes) -> str:
    return utf8(header.replace(b"\xc0\x80", b"\0"))


def _cut_at_end(header: bytes) -> str:
    return utf8(re.sub(rb"[\xc2-\xf4][\x80-\xbf]{0,2}( *)\Z", rb"\1", header))


def _utf16_by_mark(header: bytes) -> str:
    marked = header[:2] in (b"\xff\xfe", b"\xfe\xff")
    return header.rstrip(b" ").decode("utf-16") if marked else utf8(header)


def _guessed(header: bytes) -> str:
    codec = json.detect_encoding(header)
    return (header if codec.startswith("utf-8") else header.rstrip(b" ")).decode(codec)


def _ascii(header: bytes) -> str:
    if not header.isascii():
        raise Refused("ascii")
    return header.decode("ascii")


def _codec(codec: str, errors: str = "strict") -> Callable[[bytes], str]:
    def decode(header: bytes) -> str:
        return header.decode(codec, errors)

    return decode


KEEPING = Grammar(finish=paired)
"""Keeps lone surrogates, as decoders that let them pass go with parsers that do."""

DECODERS: tuple[tuple[str, str, SmallReader], ...] = (
    ("latin-1", "Decodes the header as Latin-1.", replace(IGNORING, decode=_codec("latin-1"))),
    ("ascii", "Refuses headers that are not ASCII.", replace(IGNORING, decode=_ascii)),
    ("ignored", "Drops bytes that are not UTF-8.", replace(IGNORING, decode=_codec("utf-8", "ignore"))),
    ("replaced", "Replaces bytes that are not UTF-8.", replace(IGNORING, decode=_codec("utf-8", "replace"))),
    ("smuggled", "Keeps bytes that are not UTF-8 as lone surrogates.",
     replace(IGNORING, decode=_codec("utf-8", "surrogateescape"), grammar=KEEPING)),
    ("surrogates", "Takes encoded surrogates.",
     replace(IGNORING, decode=_codec("utf-8", "surrogatepass"), grammar=KEEPING)),
    ("unchecked", "Decodes without any check.", replace(IGNORING, decode=unchecked_utf8, grammar=KEEPING)),
    ("overlong", "Takes overlong forms.", replace(IGNORING, decode=_overlong)),
    ("overlong-nul", "Takes NUL in the overlong form of modified UTF-8.",
     replace(IGNORING, decode=_modified, grammar=Grammar(raw=""))),
    ("cut-at-end", "Drops a sequence that breaks off at the end.", replace(IGNORING, decode=_cut_at_end)),
    ("byte-order-mark", "Skips a byte-order mark.", replace(IGNORING, decode=_codec("utf-8-sig"))),
    ("utf-16-by-mark", "Takes UTF-16 with a byte-order mark.", replace(IGNORING, decode=_utf16_by_mark)),
    ("guessed", "Guesses between UTF-8, UTF-16 and UTF-32.", replace(IGNORING, decode=_guessed)),
    ("until-nul", "Takes a NUL for the end of the header.",
     replace(IGNORING, decode=lambda header: utf8(header.split(b"\0")[0]))),
)  # fmt: skip

BEFORE = {
    "form-feed": ("a form feed or vertical tab", r"[ \t\n\r\f\v]*"),
    "nul": ("NUL bytes", r"\0*"),
    "no-break-space": ("a no-break space", "\xa0?"),
    "text": ("anything", r"[^{]*"),
    "byte-order-mark": ("a byte-order mark", "\ufeff?"),
}
BEHIND = {
    "form-feed": ("a form feed or vertical tab", r"[ \f\v]*"),
    "nul": ("NUL bytes", r"[ \0]*"),
    "no-break-space": ("a no-break space", "[ \xa0]*"),
    "byte-order-mark": ("a byte-order mark", " *\ufeff? *"),
    "comma": ("a comma", r" *,? *"),
    "object": ("a second object", r" *(\{.*\})? *"),
    "text": ("anything", r"(?s:.*)"),
}


class HeaderInArray(SmallReader):
    """Unpacks an array around the header object."""

    def members(self, header: bytes) -> Pairs:
        text = header.strip(b" ")
        whole = text.startswith(b"[{") and text.endswith(b"}]")
        return super().members(text[1:-1] if whole else header)


class HeadersMerged(SmallReader):
    """Merges several header objects."""

    def members(self, header: bytes) -> Pairs:
        text, at, found = self.decode(header), 0, Pairs()
        while text[at : at + 1] == "{":
            value, at = self.grammar.value(text, at)
            assert isinstance(value, Pairs)
            found += value
            at = len(text) - len(text[at:].lstrip(" \n"))
        self.demand("padding", at == len(text) > 0)
        return found


class HeaderNotBraceEmpty(SmallReader):
    """Takes a header without brace for an empty one."""

    def members(self, header: bytes) -> Pairs:
        return super().members(header) if header[:1] == b"{" else Pairs()

    def check_layout(self, tensors: object, size: int) -> None:
        if tensors:
            super().check_layout(tensors, size)  # type: ignore[arg-type]


def _around() -> tuple[Planted, ...]:
    before = [
        reading(f"skips-{name}-before", f"Skips {what} before the object.", replace(READER, before=pattern))
        for name, (what, pattern) in BEFORE.items()
    ]
    behind = [
        reading(f"skips-{name}-behind", f"Skips {what} behind the object.", replace(READER, padding=pattern))
        for name, (what, pattern) in BEHIND.items()
    ]
    return (*before, *behind)


def _without_escape(letter: str) -> dict[str, Any]:
    return {"escapes": {key: char for key, char in ESCAPES.items() if key != letter}}


def _refusing(pattern: str) -> dict[str, Callable[[str], str]]:
    find = re.compile(pattern).search

    def finish(text: str) -> str:
        joined = join_surrogates(text)
        if find(text) or find(joined):
            raise Refused("string")
        return joined

    return {"finish": finish}


STRICT: tuple[tuple[str, str, dict[str, Any]], ...] = (
    *((f"escape-{name}", f"Does not know the escape {name}.", _without_escape(letter))
      for name, letter in (("solidus", "/"), ("backspace", "b"), ("form-feed", "f"), ("line-feed", "n"),
                           ("carriage-return", "r"), ("tab", "t"), ("quote", '"'), ("backslash", "\\"))),
    ("escapes", "Knows no escapes.", {"escapes": {}, "hex4": "(?!)"}),
    ("escape-code-point", "Does not know escapes of code points.", {"hex4": "(?!)"}),
    ("lower-case-hex", "Takes lower-case digits only.", {"hex4": "[0-9a-f]{4}"}),
    ("upper-case-hex", "Takes upper-case digits only.", {"hex4": "[0-9A-F]{4}"}),
    ("surrogate-pairs", "Refuses pairs of escaped surrogates.", _refusing("[\ud800-\udfff]")),
    ("astral", "Refuses characters beyond the basic plane.", _refusing("[\U00010000-\U0010ffff]")),
    ("non-ascii", "Refuses characters beyond ASCII in strings.", _refusing("[^\x00-\x7f]")),
    ("nul", "Refuses NUL in strings.", _refusing("\0")),
    ("controls", "Refuses control characters in strings even when they are escaped.",
     _refusing("[\x01-\x1f]")),
    ("delete", "Refuses the character DEL.", {"raw": r"\x00-\x1f\x7f"}),
    ("noncharacters", "Refuses noncharacters.", _refusing("[\ufdd0-\ufdef\ufffe\uffff]")),
    ("byte-order-mark", "Refuses a byte-order mark inside a string.", _refusing("\ufeff")),
    ("bidirectional", "Refuses bidirectional controls.", _refusing("[\u200e\u200f\u202a-\u202e]")),
    ("separators", "Refuses the line separators of Unicode.", _refusing("[\u2028\u2029]")),
    ("joiners", "Refuses invisible characters.", _refusing("[\u200b-\u200d]")),
    ("long-string-255", "Refuses strings above 255 characters.", _refusing("(?s).{256}")),
    ("long-string-1023", "Refuses strings above 1,023 characters.", _refusing("(?s).{1024}")),
    ("long-string-32767", "Refuses strings above 32,767 characters.", _refusing("(?s).{32768}")),
    ("empty-string", "Refuses empty strings.", _refusing(r"\A\Z")),
    ("paths", "Refuses strings that look like a path.", _refusing(r"\.\./|\A/|\A[A-Z]:\\")),
    ("markup", "Refuses markup in strings.", _refusing("[<>]")),
    ("format-letters", "Refuses signs of format strings.", _refusing("[%{}$`]")),
    ("whitespace", "Takes no whitespace between tokens.", {"space": ""}),
    ("space-only", "Takes only spaces between tokens.", {"space": " *"}),
    ("no-tab", "Refuses TAB between tokens.", {"space": r"[ \n\r]*"}),
    ("no-carriage-return", "Refuses CR between tokens.", {"space": r"[ \n\t]*"}),
    ("no-line-feed", "Refuses line feeds between tokens.", {"space": r"[ \r\t]*"}),
    ("one-space", "Takes one whitespace character between tokens.", {"space": r"[ \t\n\r]?"}),
)  # fmt: skip


VARIANTS: tuple[Planted, ...] = (
    *named(globals(), "read", SmallReader),
    *(reading(f"text-{name}", about, reader) for name, about, reader in DECODERS),
    *_around(),
    reading("padding-below-64", "Refuses 64 or more spaces of padding.", replace(READER, padding=" {0,63}")),
    reading("header-any-value", "Takes a header that is no object for an empty one.",
            READER.without("first-brace", "header-object", "trailing")),
    *(reading(f"refuses-{name}", about, replace(READER, grammar=replace(READER.grammar, **changes)))
        for name, about, changes in STRICT),
)  # fmt: skip
