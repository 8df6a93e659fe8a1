"""A file for each held-out reader on which its bug shows, made by hand.

Part of the held-out set; see ``proof.held_out``.
"""

from __future__ import annotations

from collections.abc import Callable

from safetensors_corpus.author.file import FileBuilder, pattern

WITNESSES: dict[str, Callable[[FileBuilder], None]] = {}
Body = Callable[[FileBuilder], None]


def witness(name: str) -> Callable[[Body], Body]:
    def add(body: Body) -> Body:
        assert name not in WITNESSES
        WITNESSES[name] = body
        return body

    return add


def made(name: str) -> FileBuilder:
    """Return the witness of a reader: its bytes by ``render``, what it says by ``content``."""
    builder = FileBuilder()
    WITNESSES[name](builder)
    return builder


# Framing and keys


@witness("length-sign-dropped")
def _(b: FileBuilder) -> None:
    b.tensor("w")
    b.length = len(b.render()) - 8 - 8 + 2**63


@witness("prefix-not-counted")
def _(b: FileBuilder) -> None:
    b.tensor("w", "U8", [0])
    b.length = len(b.render()) - 8 + 3


@witness("data-without-tensors")
def _(b: FileBuilder) -> None:
    b.metadata({"a": "b"})
    b.trailer = b"xyz"


@witness("wide-data-aligned")
def _(b: FileBuilder) -> None:
    b.tensor("w", "I64", [1])
    b.padding = b""


@witness("padding-in-first-read")
def _(b: FileBuilder) -> None:
    b.tensor("w")
    b.padding = b" " * 300 + b"{}"


@witness("mark-with-padding")
def _(b: FileBuilder) -> None:
    b.tensor("w")
    b.before, b.padding = b"\xef\xbb\xbf", b"  "


@witness("nul-to-multiple-of-eight")
def _(b: FileBuilder) -> None:
    b.tensor("weight", "U8", [3])
    b.padding = b""
    length = len(b.render()) - 8 - 3
    b.padding = bytes(-length % 8)


@witness("name-twice-apart")
def _(b: FileBuilder) -> None:
    b.tensor("e", "U8", [0])
    b.tensor("w", "U8", [0])
    b.tensor("e", "U8", [0])


@witness("name-twice-spelled-anew")
def _(b: FileBuilder) -> None:
    b.tensor("e", "U8", [0])
    b.tensor("e", "U8", [0], key=r'"\u0065"')


@witness("metadata-key-twice-same-value")
def _(b: FileBuilder) -> None:
    b.metadata({"a": "b"}, raw='{"a":"b","c":"d","a":"b"}')


@witness("metadata-after-empty")
def _(b: FileBuilder) -> None:
    b.metadata({})
    b.tensor("w")
    b.metadata({"a": "b"})


@witness("shape-after-empty")
def _(b: FileBuilder) -> None:
    b.tensor("w", value='{"dtype":"U8","shape":[],"shape":[2],"data_offsets":[0,2]}', data=b"ab")


# Text


@witness("sequence-cut-by-quote")
def _(b: FileBuilder) -> None:
    b.header = b'{"__metadata__":{"a":"caf\xc3"}}'


@witness("surrogate-halves-in-utf8")
def _(b: FileBuilder) -> None:
    b.header = b'{"__metadata__":{"a":"\xed\xa0\xbd\xed\xb8\x80"}}'


@witness("surrogates-swapped")
def _(b: FileBuilder) -> None:
    b.metadata({}, raw=r'{"a":"\ude00\ud83d"}')


@witness("newline-for-comma")
def _(b: FileBuilder) -> None:
    b.separator = "\n"
    b.tensor("a")
    b.tensor("b")


@witness("control-after-escape")
def _(b: FileBuilder) -> None:
    b.metadata({}, raw='{"a":"x\\ty\tz"}')


@witness("leading-zero-behind-first")
def _(b: FileBuilder) -> None:
    b.tensor("w", "U8", [2, 3], fields={"shape": "[2,03]"})


@witness("space-in-empty-array")
def _(b: FileBuilder) -> None:
    b.tensor("w", "U8", [], fields={"shape": "[ ]"})


@witness("deep-arrays-crash")
def _(b: FileBuilder) -> None:
    b.tensor("w", fields={"x": "[" * 60 + "]" * 60})


@witness("escaped-slash-in-key")
def _(b: FileBuilder) -> None:
    b.tensor("a/b", key=r'"a\/b"')


@witness("metadata-value-cut-at-nul")
def _(b: FileBuilder) -> None:
    b.metadata({"a": "b\0c"}, raw=r'{"a":"b\u0000c"}')


@witness("raw-astral-name-crash")
def _(b: FileBuilder) -> None:
    b.tensor("\U0001f600")


# Entries, dtypes, shapes


@witness("shape-left-out-scalar")
def _(b: FileBuilder) -> None:
    b.tensor("w", "F32", [], fields={"shape": None})


@witness("field-by-length")
def _(b: FileBuilder) -> None:
    b.tensor("w", "U8", [2], fields={"data_offsets": None, "data-offsets": "[0,2]"})


@witness("private-name-skipped")
def _(b: FileBuilder) -> None:
    b.tensor("w")
    b.member('"__version__"', "2")


@witness("dtype-last-crash")
def _(b: FileBuilder) -> None:
    b.tensor("w", order=["shape", "data_offsets", "dtype"])


@witness("unknown-dtype-empty")
def _(b: FileBuilder) -> None:
    b.tensor("w", "I4", [0], data=b"")


@witness("dtype-by-family")
def _(b: FileBuilder) -> None:
    b.tensor("w", "F8_E4M3FN", [2], data=b"ab")


@witness("packed-rows-rounded")
def _(b: FileBuilder) -> None:
    b.tensor("w", "F4", [3, 1], data=b"ab")


@witness("packed-rank-three-unchecked")
def _(b: FileBuilder) -> None:
    b.tensor("w", "F4", [2, 1, 2], data=b"abcd")


@witness("size-of-all-bits")
def _(b: FileBuilder) -> None:
    b.tensor("w", "F32", [2**59], data=b"")


@witness("last-product-wraps")
def _(b: FileBuilder) -> None:
    b.tensor("w", "U8", [2**31, 2**31, 12], data=b"")


@witness("later-dimension-32-bits")
def _(b: FileBuilder) -> None:
    b.tensor("w", "U8", [2, 2**32 + 3], data=b"abcdef")


@witness("capital-exponent-dimension")
def _(b: FileBuilder) -> None:
    b.tensor("w", "U8", [2], fields={"shape": "[2E0]"})


@witness("truth-as-dimension")
def _(b: FileBuilder) -> None:
    b.tensor("w", "U8", [2, 1], fields={"shape": "[2,true]"})


@witness("empty-object-as-shape")
def _(b: FileBuilder) -> None:
    b.tensor("w", "U8", [], fields={"shape": "{}"})


@witness("rank-nine-crash")
def _(b: FileBuilder) -> None:
    b.tensor("w", "U8", [1] * 8 + [2])


# Layout


@witness("hole-behind-empty")
def _(b: FileBuilder) -> None:
    b.tensor("a", "U8", [2])
    b.tensor("e", "U8", [0])
    b.gap(3)
    b.tensor("z", "U8", [2])


@witness("end-32-bits")
def _(b: FileBuilder) -> None:
    b.tensor("w", "U8", [2], end=2**32 + 2)


@witness("hole-pays-for-overlap")
def _(b: FileBuilder) -> None:
    b.tensor("a", "U8", [4])
    b.tensor("b", "U8", [4], begin=2, end=6)
    b.tensor("c", "U8", [4])


@witness("tied-range")
def _(b: FileBuilder) -> None:
    b.tensor("a", "U8", [4])
    b.tensor("b", "U8", [4], data=b"", begin=0, end=4)


@witness("last-element-cut")
def _(b: FileBuilder) -> None:
    b.tensor("a", "F32", [2])
    b.cut = 1


@witness("empty-behind-end")
def _(b: FileBuilder) -> None:
    b.tensor("a", "U8", [2])
    b.tensor("e", "U8", [0], begin=7, end=7)


@witness("empty-inside-earlier")
def _(b: FileBuilder) -> None:
    b.tensor("a", "U8", [4])
    b.tensor("e", "U8", [0], begin=2, end=2)


@witness("empty-at-end-refused")
def _(b: FileBuilder) -> None:
    b.tensor("a", "U8", [4])
    b.tensor("e", "U8", [0])


@witness("packed-first-refused")
def _(b: FileBuilder) -> None:
    b.tensor("a", "F6_E3M2", [4])
    b.tensor("b", "U8", [1])


@witness("aligned-gap")
def _(b: FileBuilder) -> None:
    b.tensor("a", "U8", [5])
    b.gap(3)
    b.tensor("b", "F64", [1])


@witness("line-feed-at-end")
def _(b: FileBuilder) -> None:
    b.tensor("a")
    b.trailer = b"\n"


@witness("trailing-beside-metadata")
def _(b: FileBuilder) -> None:
    b.metadata({"a": "b"})
    b.tensor("w")
    b.trailer = b"PK"


@witness("range-backwards")
def _(b: FileBuilder) -> None:
    b.tensor("w", "U8", [2], begin=2, end=0)


@witness("minus-zero-offset")
def _(b: FileBuilder) -> None:
    b.tensor("w", "U8", [2], fields={"data_offsets": "[-0,2]"})


@witness("end-as-text")
def _(b: FileBuilder) -> None:
    b.tensor("w", "U8", [2], fields={"data_offsets": '[0,"2"]'})


@witness("single-offset-crash")
def _(b: FileBuilder) -> None:
    b.tensor("w", "U8", [0], fields={"data_offsets": "[0]"})


# Metadata and values


@witness("metadata-middle-unchecked")
def _(b: FileBuilder) -> None:
    b.metadata({}, raw='{"a":"b","c":1,"d":"e"}')


@witness("metadata-value-falsy")
def _(b: FileBuilder) -> None:
    b.metadata({}, raw='{"a":null}')


@witness("metadata-empty-array")
def _(b: FileBuilder) -> None:
    b.metadata({}, raw="[]")


@witness("reserved-up-to-nul")
def _(b: FileBuilder) -> None:
    b.metadata({}, raw='{"a":"b"}', key=r'"__metadata__\u0000"')


@witness("reserved-escaped-refused")
def _(b: FileBuilder) -> None:
    b.metadata({"a": "b"}, key=r'"\u005f_metadata__"')


@witness("empty-metadata-lost")
def _(b: FileBuilder) -> None:
    b.metadata({})
    b.tensor("w")


@witness("name-normalised")
def _(b: FileBuilder) -> None:
    b.tensor("cafe\u0301")


@witness("name-for-dtype")
def _(b: FileBuilder) -> None:
    b.tensor("I8", "U8", [2])


@witness("inner-ones-dropped")
def _(b: FileBuilder) -> None:
    b.tensor("w", "U8", [2, 1, 3])


@witness("empty-shape-flattened")
def _(b: FileBuilder) -> None:
    b.tensor("w", "U8", [5, 0])


@witness("bytes-in-header-order")
def _(b: FileBuilder) -> None:
    b.tensor("a", "U8", [4])
    b.tensor("b", "U8", [4], at=0)


@witness("wide-begin-aligned-down")
def _(b: FileBuilder) -> None:
    b.tensor("a", "U8", [3])
    b.tensor("b", "F32", [1])


@witness("signalling-nan-quieted")
def _(b: FileBuilder) -> None:
    b.tensor("w", "F32", [2], data=bytes.fromhex("0000803f 010080ff"))


@witness("last-chunk-zeroed")
def _(b: FileBuilder) -> None:
    b.tensor("w", "U8", [300], data=pattern("w", 300))
