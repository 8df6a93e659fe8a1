"""What the cases of several modules are made of."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from safetensors_reference.rules.dtypes import DTYPE_BITS

from .case import ACCEPT, Accept, Reject, reject

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .file import FileBuilder

LONE_SURROGATES = {
    r"\ud800": "\ud800",
    r"\udc00": "\udc00",
    r"\ude00\ud83d": "\ude00\ud83d",
    r"\ud800\/": "\ud800/",
    r"\ud800\ud800": "\ud800\ud800",
    r"\ud800\u0041": "\ud800A",
    r"\ud800\\udc00": "\ud800\\udc00",
    r"\ud83dx": "\ud83dx",
    r"\ud83d\ude00\ude00": "\U0001f600\ude00",
    r"a\udfff": "a\udfff",
    r"\udc00\udc00": "\udc00\udc00",
    r"\ud7ff\udc00": "\ud7ff\udc00",
    r"\u0041\udc00": "A\udc00",
}
"""Spelling in JSON -> the text, with the surrogates that have no other half left in it."""
LONE_MAPS = {
    rb'{"a":"\ud800"}': {"a": "\ud800"},
    rb'{"a":"\ud800b"}': {"a": "\ud800b"},
    rb'{"\udc00":"b"}': {"\udc00": "b"},
    rb'{"\ude00\ud83d":"b"}': {"\ude00\ud83d": "b"},
}
"""The same for metadata."""
LONE_OPTIONS: dict[str, Accept | Reject] = {
    "reject": reject("HDR_NOT_JSON", "HDR_NOT_UTF8"), "keep": ACCEPT, "replace": ACCEPT
}  # fmt: skip
"""Options of the choice ``lone-surrogates``."""
RARE: dict[str, Accept | Reject] = {"reject": reject("ENT_UNKNOWN_FIELD"), "ignore": ACCEPT}
"""Options of the choice ``rare-ignored-values``."""
COMMON_DTYPES = ("BOOL", "U8", "I8", "I16", "I32", "I64", "F16", "BF16", "F32", "F64")
"""Dtypes that practically every reader has; the text names none of the others either."""


def rare(over: Mapping[str, str | tuple[object, ...]]) -> dict[str, tuple[str, ...]]:
    """Return ``ahead`` for a family: members of a rare dtype are about that dtype first (DTY-01, DTY-08).

    Args:
        over: slug -> dtype, or a tuple that holds the dtype.
    """
    out: dict[str, tuple[str, ...]] = {}
    for slug, value in over.items():
        (code,) = (v for v in (value if isinstance(value, tuple) else (value,)) if v in DTYPE_BITS)
        if code not in COMMON_DTYPES:
            out[slug] = ("DTY-01", "DTY-08") if code == "C64" else ("DTY-01",)
    return out


PLACES = {"first": 0, "middle": 1, "last": 2}
"""Slugs and indices for cases that try each of three tensors."""
ENTRY = '{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'
"""Text of an entry for a file's only tensor, or its first."""


def replaced(text: str) -> str:
    """Return a text with U+FFFD in the place of each surrogate in it."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def named_with_escapes(f: FileBuilder, before: str, escapes: str) -> None:
    """Add one tensor whose name is written ``before`` and ``escapes``, which may be no valid escapes."""
    kept = before + LONE_SURROGATES.get(escapes, "")
    names = {"keep": kept, "replace": replaced(kept)}
    f.tensor("w", "F32", [2], key=f'"{before}{escapes}"', names=names)


def metadata_with_escapes(f: FileBuilder, raw: bytes) -> None:
    """Add metadata written ``raw``, which may be no valid map, and one tensor behind it."""
    kept = LONE_MAPS.get(raw, {})
    views = {"replace": {replaced(key): replaced(value) for key, value in kept.items()}}
    f.metadata(kept, raw=raw, views=views)
    f.tensor("w", "F32", [2])


def header_text(f: FileBuilder, header: str | bytes) -> None:
    """Write ``header`` literally, ``ENTRY`` standing for the entry of the one tensor, and its data."""
    f.tensor("w", "F32", [2])
    raw = (header.encode() if isinstance(header, str) else header).replace(b"ENTRY", ENTRY.encode())
    f.header = raw + b" " * (-len(raw) % 8)


def three_tensors(f: FileBuilder, place: int, *, begin: int | None = None, end: int | None = None) -> None:
    """Add a, b and c of eight bytes each; the one at ``place`` declares other ends of its range."""
    for index, name in enumerate("abc"):
        if index == place:
            f.tensor(name, "F32", [2], begin=begin, end=end)
        else:
            f.tensor(name, "F32", [2])
