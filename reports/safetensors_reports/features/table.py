"""The features, with the cases that decide whether a program supports them."""

from __future__ import annotations

from typing import NamedTuple


class Feature(NamedTuple):
    """A feature of valid files or calls.

    A program supports a feature if it passes all cases of the feature that it runs.
    """

    id: str
    title: str
    group: str
    cases: tuple[str, ...]


_DTYPES = {
    "Integers": "BOOL U8 I8 U16 I16 U32 I32 U64 I64",
    "Floats": "F16 BF16 F32 F64 C64",
    "Floats of 8 bits and less": "F8_E4M3 F8_E5M2 F8_E8M0 F8_E4M3FNUZ F8_E5M2FNUZ F6_E2M3 F6_E3M2 F4",
}


def _dtype(code: str, group: str) -> Feature:
    name = code.lower().replace("_", "-")
    values = "every-byte" if "_" in code or code == "F4" else "known-values"
    return Feature(f"dtype-{name}", code, group, (f"dtype/eight-elements-{name}", f"data/{values}-{name}"))


def _of(id: str, title: str, group: str, area: str, names: str) -> Feature:  # noqa: A002 - as the field
    return Feature(id, title, group, tuple(f"{area}/{name}" for name in names.split()))


_SHAPES, _HEADER, _ACCESS = "Shapes and layout", "Names and metadata", "Access"

FEATURES = (
    *(_dtype(code, group) for group, codes in _DTYPES.items() for code in codes.split()),
    _of("empty", "empty tensors", _SHAPES, "shape",
        "zero-dimension-0 zero-dimension-0x0 zero-dimension-0x5 zero-dimension-5x0x3"),
    _of("rank-0", "rank 0", _SHAPES, "shape", "scalar-f16 scalar-f32 scalar-u8"),
    _of("high-rank", "8 and 32 dimensions", _SHAPES, "shape", "eight-dimensions thirty-two-dimensions"),
    _of("no-tensors", "no tensors", _SHAPES, "framing", "empty-container-bare empty-container-padded"),
    _of("unaligned", "unaligned data", _SHAPES, "layout",
        "unaligned-f16-at-1 unaligned-f32-at-1 unaligned-f64-at-4 unaligned-i64-at-3"),
    _of("unsorted", "header in another order", _SHAPES, "layout",
        "header-order-reversed header-order-rotated header-order-swapped"),
    _of("many-tensors", "1,000 tensors, long names", _HEADER, "entry",
        "thousand-tensors name-length-1-kib name-length-60-kb"),
    _of("unicode-names", "Unicode in names", _HEADER, "entry",
        "name-with-beyond-bmp name-with-three-byte-characters name-with-zero-width-joiner"),
    _of("escaped-names", "escapes in names", _HEADER, "header",
        "escape-in-name-code-point escape-in-name-pair escape-in-name-short"),
    _of("metadata", "metadata", _HEADER, "metadata",
        "text-non-ascii text-escaped text-empty-key text-empty-value meaning-format-pt"),
    _of("metadata-empty", "empty metadata", _HEADER, "metadata", "empty-map empty-map-without-tensors"),
    _of("metadata-place", "metadata not first", _HEADER, "metadata", "place-middle place-last"),
    _of("metadata-large", "large metadata", _HEADER, "metadata", "amount-many-keys amount-one-value"),
    _of("slice-ranges", "slices: ranges", _ACCESS, "slice",
        "span-all span-from span-to span-first-row span-last-row span-of-both span-of-inner-dimension"),
    _of("slice-integers", "slices: integers", _ACCESS, "slice",
        "integer-first integer-last integer-minus-1 integer-both integer-before-range integer-behind-range"),
    _of("large-file", "files over 4 GiB", _ACCESS, "resource",
        "opened-only-2p32 tensor-behind-2p32 tensor-behind-2p32-and-8 tensor-behind-2p32-less-4"),
    _of("threads", "threads share a file", _ACCESS, "concurrent",
        "threads-same-tensor-two threads-same-tensor-eight threads-another-tensor-each-two"
        " threads-another-tensor-each-eight threads-all-tensors-rotated-two"),
    _of("threads-apart", "threads open the file", _ACCESS, "concurrent",
        "threads-opening-each-two threads-opening-each-five threads-opening-each-eight"),
    _of("processes", "processes open the file", _ACCESS, "concurrent",
        "processes-opening-each-two processes-opening-each-eight processes-opening-each-large"),
    _of("sharded", "shards with an index", _ACCESS, "index",
        "two-shards one-tensor-per-shard-1 one-tensor-per-shard-3 one-tensor-per-shard-5"),
    _of("remote", "files on a web server", _ACCESS, "remote",
        "one-tensor three-tensors-short three-tensors-long metadata"),
    _of("write", "saving", _ACCESS, "writer",
        "two-tensors-and-metadata one-tensor-no-metadata dtype-f32 dtype-u8"),
    _of("write-sharded", "saving shards", _ACCESS, "sharded", "two-shards everything-fits metadata"),
)  # fmt: skip
