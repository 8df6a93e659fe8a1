"""Broken readers that misread the header's text or the bytes around its object, or reject valid JSON.

Rules: HDR-01 to HDR-08, HDR-14 and HDR-15.
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
    """Decode by the leading bytes only, and accept overlong forms, surrogates and values above U+10FFFF."""
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
"""Grammar that keeps lone surrogates, because decoders and parsers that accept them occur together."""

DECODERS: tuple[tuple[str, str, SmallReader], ...] = (
    ("latin-1", "Decodes the header as Latin-1.", replace(IGNORING, decode=_codec("latin-1"))),
    ("ascii", "Rejects headers that are not ASCII.", replace(IGNORING, decode=_ascii)),
    ("ignored", "Drops bytes that are not UTF-8.", replace(IGNORING, decode=_codec("utf-8", "ignore"))),
    ("replaced", "Replaces bytes that are not UTF-8.", replace(IGNORING, decode=_codec("utf-8", "replace"))),
    ("smuggled", "Keeps bytes that are not UTF-8 as lone surrogates.",
     replace(IGNORING, decode=_codec("utf-8", "surrogateescape"), grammar=KEEPING)),
    ("surrogates", "Accepts encoded surrogates.",
     replace(IGNORING, decode=_codec("utf-8", "surrogatepass"), grammar=KEEPING)),
    ("unchecked", "Decodes the header without any checks.",
     replace(IGNORING, decode=unchecked_utf8, grammar=KEEPING)),
    ("overlong", "Accepts overlong forms.", replace(IGNORING, decode=_overlong)),
    ("overlong-nul", "Accepts NUL in the overlong form of modified UTF-8.",
     replace(IGNORING, decode=_modified, grammar=Grammar(raw=""))),
    ("cut-at-end", "Drops a truncated sequence at the end.", replace(IGNORING, decode=_cut_at_end)),
    ("byte-order-mark", "Skips a byte-order mark.", replace(IGNORING, decode=_codec("utf-8-sig"))),
    ("utf-16-by-mark", "Accepts UTF-16 with a byte-order mark.", replace(IGNORING, decode=_utf16_by_mark)),
    ("guessed", "Guesses between UTF-8, UTF-16 and UTF-32.", replace(IGNORING, decode=_guessed)),
    ("until-nul", "Ends the header at the first NUL.",
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
    """Treats a header without an opening brace as an empty one."""

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
        reading(f"skips-{name}-behind", f"Skips {what} after the object.", replace(READER, padding=pattern))
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
    *((f"escape-{name}", f"Does not support the escape {name}.", _without_escape(letter))
      for name, letter in (("solidus", "/"), ("backspace", "b"), ("form-feed", "f"), ("line-feed", "n"),
                           ("carriage-return", "r"), ("tab", "t"), ("quote", '"'), ("backslash", "\\"))),
    ("escapes", "Does not support escapes.", {"escapes": {}, "hex4": "(?!)"}),
    ("escape-code-point", "Does not support Unicode escapes.", {"hex4": "(?!)"}),
    ("lower-case-hex", "Accepts only lower-case hexadecimal digits.", {"hex4": "[0-9a-f]{4}"}),
    ("upper-case-hex", "Accepts only upper-case hexadecimal digits.", {"hex4": "[0-9A-F]{4}"}),
    ("surrogate-pairs", "Rejects pairs of escaped surrogates.", _refusing("[\ud800-\udfff]")),
    ("astral", "Rejects characters beyond the basic plane.", _refusing("[\U00010000-\U0010ffff]")),
    ("non-ascii", "Rejects non-ASCII characters in strings.", _refusing("[^\x00-\x7f]")),
    ("nul", "Rejects NUL in strings.", _refusing("\0")),
    ("controls", "Rejects control characters in strings even if they are escaped.",
     _refusing("[\x01-\x1f]")),
    ("delete", "Rejects the character DEL.", {"raw": r"\x00-\x1f\x7f"}),
    ("noncharacters", "Rejects noncharacters.", _refusing("[\ufdd0-\ufdef\ufffe\uffff]")),
    ("byte-order-mark", "Rejects a byte-order mark inside a string.", _refusing("\ufeff")),
    ("bidirectional", "Rejects bidirectional controls.", _refusing("[\u200e\u200f\u202a-\u202e]")),
    ("separators", "Rejects the Unicode line separators.", _refusing("[\u2028\u2029]")),
    ("joiners", "Rejects invisible characters.", _refusing("[\u200b-\u200d]")),
    ("long-string-255", "Rejects strings of more than 255 characters.", _refusing("(?s).{256}")),
    ("long-string-1023", "Rejects strings of more than 1,023 characters.", _refusing("(?s).{1024}")),
    ("long-string-32767", "Rejects strings of more than 32,767 characters.", _refusing("(?s).{32768}")),
    ("empty-string", "Rejects empty strings.", _refusing(r"\A\Z")),
    ("paths", "Rejects strings that look like a path.", _refusing(r"\.\./|\A/|\A[A-Z]:\\")),
    ("markup", "Rejects markup in strings.", _refusing("[<>]")),
    ("format-letters", "Rejects the special characters of format strings.", _refusing("[%{}$`]")),
    ("whitespace", "Rejects whitespace between tokens.", {"space": ""}),
    ("space-only", "Accepts only spaces between tokens.", {"space": " *"}),
    ("no-tab", "Rejects TAB between tokens.", {"space": r"[ \n\r]*"}),
    ("no-carriage-return", "Rejects CR between tokens.", {"space": r"[ \n\t]*"}),
    ("no-line-feed", "Rejects line feeds between tokens.", {"space": r"[ \r\t]*"}),
    ("one-space", "Accepts at most one whitespace character between tokens.", {"space": r"[ \t\n\r]?"}),
)  # fmt: skip


VARIANTS: tuple[Planted, ...] = (
    *named(globals(), "read", SmallReader),
    *(reading(f"text-{name}", about, reader) for name, about, reader in DECODERS),
    *_around(),
    reading("padding-below-64", "Rejects 64 or more spaces of padding.", replace(READER, padding=" {0,63}")),
    reading("header-any-value", "Treats a header that is not an object as an empty one.",
            READER.without("first-brace", "header-object", "trailing")),
    *(reading(f"refuses-{name}", about, replace(READER, grammar=replace(READER.grammar, **changes)))
        for name, about, changes in STRICT),
)  # fmt: skip
