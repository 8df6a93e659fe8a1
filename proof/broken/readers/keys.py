"""Broken readers with a fault in repeated keys or in preserving strings (HDR-09 to HDR-13, HDR-19)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from proof.planted import Planted

from ..correct.json import ESCAPES, Grammar, Pairs, refusing_result
from ..correct.reader import FIELDS, READER, SmallReader
from ..variant import named, reading

SPELLED = Grammar(
    escapes={letter: f"\\{letter}" for letter in (*ESCAPES, "u")}, hex4="(?!)", finish=lambda text: text
)
"""Grammar that keeps escapes as they are spelled."""

CHECKS = {
    "name-twice": "tensor names",
    "field-twice": "fields of an entry",
    "metadata-key-twice": "metadata keys",
    "metadata-twice": "metadata maps",
}


def first_wins(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    return dict(reversed(pairs))


def _same_value(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    READER.demand("twice-with-other-value", all(found[key] == value for key, value in pairs))
    return found


def _merged(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        before = found.get(key)
        found[key] = (
            Pairs([*before, *value]) if isinstance(value, Pairs) and isinstance(before, Pairs) else value
        )
    return found


class KeysComparedAsSpelled(SmallReader, without=tuple(CHECKS)):
    """Checks for repeated keys before it decodes escapes.

    The last of two keys that are equal after decoding is used.
    """

    def members(self, header: bytes) -> Pairs:
        spelled = replace(READER, grammar=SPELLED).members(header)
        READER.without("field-missing", "field-unknown").entries(spelled)
        return super().members(header)


class NamesKeptTwice(SmallReader):
    """Returns two tensors with the same name."""

    def members(self, header: bytes) -> Pairs:
        seen: dict[str, int] = {}
        out = Pairs()
        for name, value in super().members(header):
            seen[name] = seen.get(name, 0) + 1
            out.append((name + "\0again" * (seen[name] - 1), value))
        return out

    def content(self, file: bytes) -> dict[str, object]:
        found = super().content(file)
        rows = [row | {"name": re.sub("(?:\0again)+\\Z", "", row["name"])} for row in found["tensors"]]
        return found | {"tensors": rows}


def _duplicates() -> list[Planted]:
    out = []
    for check, what in CHECKS.items():
        for wins, unique in (("last", READER.unique), ("first", first_wins)):
            out.append(
                reading(f"{check}-{wins}-wins", f"Uses the {wins} value of repeated {what}.",
                        replace(READER, unique=unique).without(check))
            )  # fmt: skip
        also = ("field-twice", "metadata-key-twice")
        for word, unique in (("if-same", _same_value), ("merged", _merged)):
            if word == "merged" and check not in ("name-twice", "metadata-twice"):
                continue
            about = f"Accepts repeated {what} " + (
                "if their values are equal." if word == "if-same" else "and merges them."
            )
            out.append(
                reading(f"{check}-{word}", about, replace(READER, unique=unique).without(check, *also))
            )
    return out


def _folding(pattern: str, by: str = "") -> Callable[[str], str]:
    return lambda text: re.sub(pattern, by, text)


def _form(form: str) -> Callable[[str], str]:
    return lambda text: unicodedata.normalize(form, text)  # type: ignore[arg-type]


CHANGES: tuple[tuple[str, str, Callable[[str], str]], ...] = (
    ("until-nul", "cuts {} at the first NUL", lambda text: text.split("\0")[0]),
    ("nfc", "composes {}", _form("NFC")),
    ("nfd", "decomposes {}", _form("NFD")),
    ("nfkc", "replaces compatibility characters in {}", _form("NFKC")),
    ("lower-case", "converts {} to lower case", str.lower),
    ("stripped", "strips {}", str.strip),
    ("left-stripped", "strips whitespace at the beginning of {}", str.lstrip),
    ("without-mark", "drops a byte-order mark from {}", _folding("\ufeff")),
    ("without-controls", "drops control characters from {}", _folding("[\x01-\x1f\x7f]")),
    ("without-format-characters", "drops invisible characters from {}",
     lambda text: "".join(c for c in text if unicodedata.category(c) != "Cf")),
    ("line-ends", "normalises line endings in {}", _folding("\n|\u2028|\u2029", "\r\n")),
    ("without-astral", "replaces characters beyond the basic plane in {}",
     _folding("[\U00010000-\U0010ffff]", "?")),
    ("without-noncharacters", "replaces noncharacters in {}",
     _folding("[\ufdd0-\ufdef\ufffe\uffff]", "\ufffd")),
    ("ascii", "replaces non-ASCII characters in {}", _folding("[^\x00-\x7f]", "?")),
    ("cut-at-63", "cuts {} at 63 characters", lambda text: text[:63]),
    ("cut-at-1023", "cuts {} at 1,023 characters", lambda text: text[:1023]),
    ("cut-at-32767", "cuts {} at 32,767 characters", lambda text: text[:32767]),
)  # fmt: skip
NAME_CHANGES: tuple[tuple[str, str, Callable[[str], str]], ...] = (
    ("base-name", "treats {} as paths and keeps their last part", lambda text: re.split(r"[/\\]", text)[-1]),
    ("slashes", "replaces the backslashes in {} with slashes", lambda text: text.replace("\\", "/")),
    ("up-to-point", "cuts {} at the first dot", lambda text: text.split(".")[0] or text),
    ("looks-alike", "replaces look-alike letters in {}", lambda text: text.translate({0x430: "a",
     0x435: "e"})),
    ("format-string", "uses {} as a format string",
     lambda text: re.sub(r"%[sdnx]|\{[^{}]*\}", "", text)),
    ("shell", "expands {} as a shell would", _folding(r"\$\([^)]*\)|`[^`]*`|;.*")),
    ("markup", "removes markup from {}", _folding("<[^>]*>")),
    ("numbers", "converts {} that consist of digits to numbers",
     lambda text: str(int(text)) if re.fullmatch("[0-9]+", text) else text),
    ("unset-if-empty", "replaces empty {}", lambda text: text or "unnamed"),
)  # fmt: skip


def _last_of_empty(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        READER.demand("key-twice", not found.get(key))
        found[key] = value
    return found


class NamesOfNothing(SmallReader):
    """Loses tensors and metadata keys that are named like a missing value."""

    def content(self, file: bytes) -> dict[str, object]:
        found: dict[str, Any] = super().content(file)
        lost = ("None", "null", "nil", "NULL", "undefined", "NaN", "void")
        rows = [row for row in found["tensors"] if row["name"] not in lost]
        metadata = found["metadata"] and {k: v for k, v in found["metadata"].items() if k not in lost}
        return found | {"tensors": rows, "metadata": metadata}


class NamesOfHostMembers(SmallReader):
    """Loses tensors whose names are members of objects in the host language."""

    def content(self, file: bytes) -> dict[str, object]:
        found = super().content(file)
        lost = ("__proto__", "constructor", "toString", "hasOwnProperty", "__class__", "__dict__")
        rows = [row for row in found["tensors"] if not row["name"].startswith(lost)]
        return found | {"tensors": rows}


def _sentence(about: str, what: str) -> str:
    text = about.format(what)
    return f"{text[0].upper()}{text[1:]}."


VARIANTS: tuple[Planted, ...] = (
    *named(globals(), "read", SmallReader),
    reading("names-compared-with-neighbour", "Compares each name only with the previous one.",
            READER.without("name-twice").changed(members=refusing_result(
                lambda found: any(one[0] == next_[0] for one, next_ in pairwise(found))))),
    # It treats them as fields.
    reading("names-of-fields", "Loses tensors that have the name of a field.",
            READER.changed(members=lambda right, header: Pairs(
                member for member in right(header) if member[0] not in FIELDS))),
    *_duplicates(),
    reading("empty-value-twice", "Accepts a repeated key if its earlier values are empty.",
            replace(READER, unique=_last_of_empty).without(*CHECKS)),
    *(reading(f"names-{slug}", _sentence(about, "tensor names"), replace(READER, names=change))
      for slug, about, change in (*CHANGES, *NAME_CHANGES)),
    *(reading(f"metadata-{slug}", _sentence(about, "metadata"), replace(READER, metadata_text=change))
      for slug, about, change in CHANGES),
)  # fmt: skip
