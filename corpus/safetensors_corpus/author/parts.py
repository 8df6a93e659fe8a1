"""What the cases of several modules are made of."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from safetensors_reference.rules.dtypes import DTYPE_BITS

from .case import ACCEPT, Options, reject
from .file import FileBuilder, pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

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
LONE_OPTIONS: Options = {
    "reject": reject("HDR_NOT_JSON", "HDR_NOT_UTF8"), "keep": ACCEPT, "replace": ACCEPT
}  # fmt: skip
"""Options of the choice ``lone-surrogates``."""
RARE: Options = {"reject": reject("ENT_UNKNOWN_FIELD"), "ignore": ACCEPT}
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


def sized(f: FileBuilder, dtype: str, shape: list[int], size: int) -> None:
    """Add one tensor whose range has ``size`` bytes, whatever its shape says."""
    f.tensor("w", dtype, shape, pattern("w", size))


def three_tensors(
    f: FileBuilder, place: int, *, usual: tuple[str, list[int]] = ("F32", [2]), **other: Any
) -> None:
    """Add a, b and c, each of the ``usual`` dtype and shape but for the one at ``place``.

    Args:
        f: the file.
        place: 0, 1 or 2; -1 for none.
        usual: dtype and shape.
        other: arguments of ``tensor`` for the one at ``place``; ``size`` stands for data of as many bytes.
    """
    for index, name in enumerate("abc"):
        told = {"dtype": usual[0], "shape": usual[1]} | (other if index == place else {})
        if "size" in told:
            told["data"] = pattern(name, told.pop("size"))
        f.tensor(name, **told)


def renamed_field(f: FileBuilder, plain: str, spelled: str) -> None:
    """Add one tensor in whose entry the field ``plain`` stands last and is called ``spelled``."""
    texts = {"dtype": '"F32"', "shape": "[2]", "data_offsets": "[0,8]"}
    f.tensor("w", "F32", [2], fields={plain: None, spelled: texts[plain]})


def pad_header(f: FileBuilder, size: int) -> None:
    """Pad the header with spaces to ``size`` bytes, once all members are told."""
    f.padding = b""
    f.padding = b" " * (size - int.from_bytes(f.render()[:8], "little"))


def powers(*slugs: str) -> dict[str, int]:
    """Return each slug, such as 2p32 or 2p32-plus-8 or 2p64-less-1, with the number it spells."""
    out = {}
    for slug in slugs:
        power, _, rest = slug.removeprefix("2p").partition("-")
        word, _, count = rest.partition("-")
        out[slug] = 2 ** int(power) + int(count or 0) * (1 if word == "plus" else -1)
    return out
