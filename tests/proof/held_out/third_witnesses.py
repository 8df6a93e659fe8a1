"""A witness for each reader of ``proof.held_out.third``, made by hand."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence


def file(header: str | bytes, data: bytes = b"", length: int | None = None) -> bytes:
    text = header.encode() if isinstance(header, str) else header
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype: str, shape: Sequence[object], begin: int, end: int) -> dict[str, object]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def made(tensors: dict[str, dict[str, object]], data: bytes = b"", metadata: object = None) -> bytes:
    """Return a file with the given entries, after metadata unless that is None."""
    first = {} if metadata is None else {"__metadata__": metadata}
    return file(json.dumps({**first, **tensors}, separators=(",", ":"), ensure_ascii=False), data)


def one(dtype: str, shape: Sequence[object], data: bytes, name: str = "weight") -> bytes:
    return made({name: entry(dtype, shape, 0, len(data))}, data)


def padded(header: str, length: int) -> str:
    return header + " " * (length - len(header))


def entry_text(dtype: str = '"U8"', shape: str = "[4]", offsets: str = "[0,4]") -> str:
    return f'{{"dtype":{dtype},"shape":{shape},"data_offsets":{offsets}}}'


U8X4 = entry_text()
ONE = f'{{"weight":{U8X4}}}'
DATA4 = b"\x01\x02\x03\x04"


def numbered(number: int) -> bytes:
    """Return bytes that differ from place to place."""
    return bytes((place * 7 + place // 251 + 1) % 256 for place in range(number))


def odd_header() -> str:
    return ONE if len(ONE) % 2 else ONE + " "


def chunk_header() -> str:
    """Return a header whose begin 1000 has its first two digits before character 4096 and two after it."""
    start = '{"a":' + entry_text(shape="[1000]", offsets="[0,1000]") + ","
    rest = '"b":{"dtype":"U8","shape":[4],"data_offsets":['
    return start + " " * (4094 - len(start) - len(rest)) + rest + "1000,1004]}}"


def many_names(number: int) -> dict[str, dict[str, object]]:
    return {f"layers.{at}.attention.weight": entry("U8", [1], at, at + 1) for at in range(number)}


def scalars(number: int) -> dict[str, dict[str, object]]:
    return {f"scale.{at}": entry("U8", [], at, at + 1) for at in range(number)}


THREE_WRAPS = (2**64 + 5) // 3

WITNESSES: dict[str, bytes] = {
    # Header and framing.
    "third-shift-by-32": file(odd_header(), DATA4, len(odd_header()) + 2**32),
    "third-second-byte-signed": file(padded(ONE, 33000), DATA4),
    "third-next-block-needed": file(padded("{}", 4096 - 8)),
    "third-past-end-forgets-prefix": file("{}", length=8),
    "third-header-as-c-string": file(ONE + "\0\0\0", DATA4),
    "third-padding-last-byte": file(ONE + " old text ", DATA4),
    "third-decoder-drops-bom": file(b"\xef\xbb\xbf" + ONE.encode(), DATA4),
    "third-second-request-short": made(many_names(251), numbered(251)),
    # JSON text.
    "third-hex-by-int": file(rf'{{"\u0_61":{U8X4}}}', DATA4),
    "third-low-half-unchecked": file(rf'{{"\ud83d\u0041":{U8X4}}}', DATA4),
    "third-control-in-tail": file(f'{{"encoder.layer.weight\t":{U8X4}}}', DATA4),
    "third-c-space-after-comma": file(ONE.replace(',"shape"', ',\v"shape"'), DATA4),
    "third-leading-zeros": file(f'{{"weight":{entry_text(shape="[04]")}}}', DATA4),
    "third-spaced-trailing-comma": file(f'{{\n  "weight": {U8X4},\n}}', DATA4),
    "third-depth-leaks": made(scalars(80), numbered(80)),
    "third-scratch-buffer": file(f'{{"\\u0061{"b" * 299}":{U8X4}}}', DATA4),
    "third-rare-escapes": file(rf'{{"page\fbreak":{U8X4}}}', DATA4),
    "third-number-across-chunks": file(chunk_header(), numbered(1004)),
    # Names and metadata.
    "third-duplicates-by-spelling": file(rf'{{"a":{U8X4},"\u0061":{U8X4}}}', DATA4),
    "third-canonical-equality": made(
        {"caf\u00e9": entry("U8", [2], 0, 2), "cafe\u0301": entry("U8", [2], 2, 4)}, DATA4
    ),
    "third-name-cut-at-nul": file(rf'{{"left\u0000right":{U8X4}}}', DATA4),
    "third-name-63": one(
        "U8", [4], DATA4, "model.decoder.layers.11.encoder_attention.output_projection.weight"
    ),
    "third-metadata-first-value": made({}, metadata={"format": "pt", "step": 12}),
    "third-metadata-neighbours": file('{"__metadata__":{"a":"1","b":"2","a":"3"}}'),
    "third-reserved-by-prefix": one("U8", [4], DATA4, "__metadata__.scale"),
    "third-metadata-truthy": made({}, metadata={"format": "pt", "comment": ""}),
    "third-second-metadata": file('{"__metadata__":{},"__metadata__":{"format":"pt"}}'),
    "third-duplicate-of-empty": file(f'{{"a":{entry_text(shape="[0]", offsets="[0,0]")},"a":{U8X4}}}', DATA4),
    # Dtypes.
    "third-dtype-by-prefix": one("F8_E4M3FN", [4], DATA4),
    "third-six-bit-rounds-up": one("F6_E2M3", [5], DATA4),
    "third-packed-rows": one("F4", [2, 3], b"\x12\x34\x56"),
    "third-unknown-dtype-keeps-width": made(
        {"a": entry("F32", [1], 0, 4), "b": entry("Q32", [2], 4, 12)}, numbered(12)
    ),
    "third-bool-normalised": one("BOOL", [3], b"\x00\x01\x02"),
    "third-fnuz-dropped": one("F8_E5M2FNUZ", [4], DATA4),
    # Shapes.
    "third-bytes-unchecked": one("F32", [2**62], b""),
    "third-wrap-by-comparison": one("U8", [3, THREE_WRAPS], numbered(5)),
    "third-dims-after-zero": one("F32", [0, -1], b""),
    "third-rank-above-eight": one("U8", [2, 1, 1, 2, 1, 1, 1, 1, 1], DATA4),
    "third-leading-ones-dropped": one("U8", [1, 2, 1, 2, 1], DATA4),
    "third-dimension-as-double": one("F32", [0, 2**53 + 1], b""),
    "third-dimension-int32": one("F32", [2**31, 0], b""),
    "third-missing-shape-kept": file(
        f'{{"a":{U8X4},"b":{{"dtype":"I8","data_offsets":[4,8]}}}}', numbered(8)
    ),
    # Offsets and layout.
    "third-sum-of-sizes": made(
        {"a": entry("U8", [4], 0, 4), "b": entry("U8", [4], 2, 6), "c": entry("U8", [2], 8, 10)}, numbered(10)
    ),
    "third-empty-skipped": made({"a": entry("U8", [4], 0, 4), "b": entry("F32", [0], 2, 2)}, DATA4),
    "third-sort-by-begin": made(
        {"a": entry("U8", [4], 0, 4), "b": entry("F32", [0], 0, 0), "c": entry("U8", [4], 4, 8)}, numbered(8)
    ),
    "third-text-sort": made(
        {"b": entry("U8", [8], 4, 12), "a": entry("U8", [4], 0, 4), "c": entry("U8", [4], 12, 16)},
        numbered(16),
    ),
    "third-trailing-zeros": file(ONE, DATA4 + bytes(3)),
    "third-chain-from-first": made({"a": entry("U8", [4], 8, 12)}, numbered(12)),
    "third-offset-by-float": file(f'{{"weight":{entry_text(offsets="[0,4.0]")}}}', DATA4),
    "third-offsets-32": file(f'{{"weight":{entry_text(offsets="[4294967296,4294967300]")}}}', DATA4),
    "third-sorted-test-short": made(
        {"a": entry("U8", [2], 0, 2), "b": entry("U8", [2], 4, 6), "c": entry("U8", [2], 2, 4)}, numbered(6)
    ),
    "third-unaligned-doubles": made(
        {"flag": entry("BOOL", [1], 0, 1), "weight": entry("F64", [1], 1, 9)},
        b"\x01" + struct.pack("<d", 1.5),
    ),
    "third-empty-at-end": made({"a": entry("U8", [4], 0, 4), "b": entry("F32", [0, 3], 4, 4)}, DATA4),
    "third-last-entry-bound": made(
        {"a": entry("U8", [2], 0, 2), "c": entry("U8", [4], 4, 8), "b": entry("U8", [2], 2, 4)}, numbered(5)
    ),
    # Data copied.
    "third-last-block-lost": one("U8", [8192], numbered(8192)),
    "third-cache-by-head": made(
        {"a": entry("U8", [20], 0, 20), "b": entry("U8", [20], 20, 40)},
        bytes(16) + b"abcd" + bytes(16) + b"wxyz",
    ),
    "third-cache-by-begin": made({"a": entry("F32", [0], 0, 0), "b": entry("U8", [4], 0, 4)}, DATA4),
    "third-nan-quieted": one("F32", [2], struct.pack("<2I", 0x7F800001, 0x3F800000)),
    "third-window-edge": made(
        {"a": entry("U8", [1000], 0, 1000), "b": entry("F32", [16], 1000, 1064)}, numbered(1064)
    ),
    "third-longs-as-doubles": one("I64", [1], struct.pack("<q", 2**53 + 1)),
}
