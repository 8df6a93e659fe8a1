"""Building blocks that several case modules use."""

from __future__ import annotations

import re
from typing import Any

from safetensors_reference.rules.dtypes import DTYPE_BITS

from .case import ACCEPT, Family, Options, by_slug, reject
from .file import FileBuilder, pattern

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
"""Maps JSON escapes to the strings that they represent. Lone surrogates are kept."""
LONE_MAPS = {
    rb'{"a":"\ud800"}': {"a": "\ud800"},
    rb'{"a":"\ud800b"}': {"a": "\ud800b"},
    rb'{"\udc00":"b"}': {"\udc00": "b"},
    rb'{"\ude00\ud83d":"b"}': {"\ude00\ud83d": "b"},
}
"""Maps the JSON text of metadata to the map that the text represents. Lone surrogates are kept."""
LONE_CODES = "HDR_NOT_JSON HDR_NOT_UTF8"
"""Codes of the choice ``lone-surrogates``."""
RARE: Options = {"reject": reject("ENT_UNKNOWN_FIELD"), "ignore": ACCEPT}
"""Options of the choice ``rare-ignored-values``."""
COMMON_DTYPES = ("BOOL", "U8", "I8", "I16", "I32", "I64", "F16", "BF16", "F32", "F64")
"""Dtypes that practically every reader supports. The written format does not name any others."""


def rare(over: Family) -> dict[str, str]:
    """Return an ``ahead`` argument that lists the dtype rules first for family members with a rare dtype."""
    out = {}
    for slug, value in by_slug(over).items():
        (code,) = (v for v in (value if isinstance(value, tuple) else (value,)) if v in DTYPE_BITS)
        if code not in COMMON_DTYPES:
            out[slug] = "DTY-01 DTY-08" if code == "C64" else "DTY-01"
    return out


PLACES = {"first": 0, "middle": 1, "last": 2}
"""Maps slugs to indexes, for cases that place a fault in each of three tensors in turn."""
ENTRY = '{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'
"""Entry of the only tensor in a file, or of the first tensor."""
BYTES = '{"dtype":"U8","shape":[8],"data_offsets":[0,8]}'
"""Entry of the only tensor. Its elements are single bytes, which are aligned at any position."""


def replaced(text: str) -> str:
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def named_with_escapes(f: FileBuilder, before: str, escapes: str) -> None:
    """Add a tensor whose name is ``before`` followed by the JSON ``escapes``, which may be invalid."""
    kept = before + LONE_SURROGATES.get(escapes, "")
    names = {"keep": kept, "replace": replaced(kept)}
    f.tensor("w", "F32", [2], key=f'"{before}{escapes}"', names=names)


def metadata_with_escapes(f: FileBuilder, raw: bytes) -> None:
    """Add metadata with the JSON text ``raw``, which may be invalid, and then a tensor."""
    kept = LONE_MAPS.get(raw, {})
    views = {"replace": {replaced(key): replaced(value) for key, value in kept.items()}}
    f.metadata(kept, raw=raw, views=views)
    f.tensor("w", "F32", [2])


def header_text(f: FileBuilder, header: str | bytes) -> None:
    """Write ``header`` literally, but replace ``ENTRY`` with the entry of the only tensor."""
    f.tensor("w", "F32", [2])
    raw = (header.encode() if isinstance(header, str) else header).replace(b"ENTRY", ENTRY.encode())
    f.header = raw + b" " * (-len(raw) % 8)


def sized(f: FileBuilder, dtype: str, shape: list[int], size: int) -> None:
    """Add a tensor with ``size`` bytes, regardless of its shape."""
    f.tensor("w", dtype, shape, pattern("w", size))


def three_tensors(
    f: FileBuilder, place: int, *, usual: tuple[str, list[int]] = ("F32", [2]), **other: Any
) -> None:
    """Add tensors a, b and c.

    The tensor at index ``place`` (-1 for none) is created with the arguments ``other``.
    """
    for index, name in enumerate("abc"):
        options = {"dtype": usual[0], "shape": usual[1]} | (other if index == place else {})
        if "size" in options:
            options["data"] = pattern(name, options.pop("size"))
        f.tensor(name, **options)


def renamed_field(f: FileBuilder, plain: str, spelled: str) -> None:
    """Add a tensor whose entry ends with the field ``plain``, the name of which is spelled as ``spelled``."""
    texts = {"dtype": '"F32"', "shape": "[2]", "data_offsets": "[0,8]"}
    f.tensor("w", "F32", [2], fields={plain: None, spelled: texts[plain]})


def pad_header(f: FileBuilder, size: int) -> None:
    """Pad the finished header with spaces to ``size`` bytes."""
    f.padding = b""
    f.padding = b" " * (size - int.from_bytes(f.render()[:8], "little"))


def stretched_header(f: FileBuilder, size: int) -> None:
    """Add a tensor of bytes, and a header of ``size`` bytes that is invalid JSON without its last byte."""
    f.tensor("w", "U8", [8])
    member = f'"w":{BYTES}}}'.encode()
    f.header = b"{" + b" " * (size - 1 - len(member)) + member


def card_header(f: FileBuilder, size: int) -> None:
    """Add a tensor of bytes, and metadata with a model card that makes the header ``size`` bytes long."""
    f.padding = b""
    f.metadata({"card": "-" * (size - len('{"__metadata__":{"card":""},"w":}') - len(BYTES))})
    f.tensor("w", "U8", [8])


def powers(*slugs: str) -> dict[str, int]:
    """Map slugs such as 2p32, 2p32-plus-8 or 2p64-less-1 to the numbers that they represent."""
    out = {}
    for slug in slugs:
        power, _, rest = slug.removeprefix("2p").partition("-")
        word, _, count = rest.partition("-")
        out[slug] = 2 ** int(power) + int(count or 0) * (1 if word == "plus" else -1)
    return out
