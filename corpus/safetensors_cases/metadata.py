"""Metadata: the map and its text, the reserved key and similar keys, and effects that the map must not have.

The map varies in position, size and values, or is null. The text of the map may be invalid JSON, keys may be
repeated, and values may describe features that the format does not have.
"""

from __future__ import annotations

from typing import Any

from safetensors_corpus.author.case import accepts, chooses, rejects
from safetensors_corpus.author.file import FileBuilder, pattern
from safetensors_corpus.author.parts import ENTRY, LONE_CODES, PLACES, metadata_with_escapes

KEY = '"__metadata__"'
ESCAPED_KEY = r'"\u005f\u005fmetadata__"'


def _with_tensor(f: FileBuilder, metadata: dict[str, str] | None, **more: Any) -> None:
    f.metadata(metadata, **more)
    f.tensor("w", "F32", [2])


@accepts(
    "MET-08 MET-09",
    over={
        "format-pt": {"format": "pt"},
        "alias": {"tied.weight": "w"},
        "tensor-name": {"w": "F64", "x": "w"},
        "dtype": {"dtype": "F64", "shape": "[1]"},
        "reserved-key": {"__metadata__": "inner"},
        "json-text": {"x": '{"dtype":"U8","shape":[8],"data_offsets":[0,8]}'},
    },
)
def meaning(f: FileBuilder, value: dict[str, str]) -> None:
    """Metadata could be mistaken for instructions about the tensors ($slug).

    The map is text for people and tools. The tensor must be read as its entry describes it.
    """
    _with_tensor(f, value)


@accepts(
    "MET-10", over={"one-value": {"k": "v" * 40_000}, "many-keys": {f"key {n}": str(n) for n in range(1000)}}
)
def amount(f: FileBuilder, value: dict[str, str]) -> None:
    """Tens of kilobytes of metadata precede one small tensor ($slug)."""
    _with_tensor(f, value)


@accepts("HDR-17 MET-01", over=PLACES, issue={"first": "carsonpo/safetensors.cpp#3"}, bugs={"first": "FB-50"})
def place(f: FileBuilder, value: int) -> None:
    """The header has three members: two tensors, and the metadata, which is the $slug member.

    A hand-written parser that looks for the end of the object may stop at the end of the map.
    """
    f.tensors("ab", "F32", [2])
    f.metadata({"key": "value"}, at=value)


@accepts("FRM-09 MET-01", issue="safetensors/safetensors#466")
def without_tensors(f: FileBuilder) -> None:
    """The file has metadata but no tensors."""
    f.metadata({"key": "value"})


@accepts("MET-03", issue="foundation-model-stack/fastsafetensors#88", bugs="FB-10 FB-123")
def empty_map(f: FileBuilder) -> None:
    """The file has an empty metadata map and a tensor.

    Code that tests whether the map is empty, instead of whether it exists, treats the map as a tensor entry.
    """
    _with_tensor(f, {})


@accepts("FRM-09 MET-03")
def empty_map_without_tensors(f: FileBuilder) -> None:
    """The file has an empty metadata map and no tensors."""
    f.metadata({})


@chooses("metadata-null", codes="MET_NOT_MAP", issue="safetensors/safetensors#823", bugs="FB-10")
def null(f: FileBuilder) -> None:
    """The metadata is null in a file with a tensor, as written by at least one program."""
    _with_tensor(f, None, raw="null")


NOT_MAP = {
    "empty-array": "[]",
    "array-of-pairs": '[["key","value"]]',
    "empty-string": '""',
    "number": "1",
    "false": "false",
}


@rejects("MET-01", "MET_NOT_MAP", over=NOT_MAP)
def not_map(f: FileBuilder, value: str) -> None:
    """The metadata is not an object ($slug).

    A reader that treats empty or false metadata as absent accepts some of these values.
    """
    _with_tensor(f, None, raw=value)


@rejects(
    "MET-01",
    "MET_VALUE_NOT_STRING",
    issue={"number": "safetensors/safetensors#278"},
    over={
        "number": "1",
        "fraction": "0.5",
        "true": "true",
        "null": "null",
        "empty-object": "{}",
        "object": '{"inner":"value"}',
        "empty-array": "[]",
    },
)
def value_type(f: FileBuilder, value: str) -> None:
    """A metadata value is not a string ($slug)."""
    _with_tensor(f, None, raw=f'{{"key":{value}}}')


@rejects("MET-01", "MET_VALUE_NOT_STRING", over=PLACES)
def value_type_place(f: FileBuilder, value: int) -> None:
    """The $slug of three metadata values is a number."""
    values = ['"x"', '"y"', '"z"']
    values[value] = "7"
    _with_tensor(f, None, raw='{{"a":{},"b":{},"c":{}}}'.format(*values))


@rejects("MET-01 HDR-16", "HDR_TOO_DEEP MET_VALUE_NOT_STRING HDR_NOT_JSON", importance="high")
def value_nested(f: FileBuilder) -> None:
    """A metadata value consists of twenty thousand nested arrays.

    A reader that parses the whole header before it checks types can overflow the stack.
    """
    _with_tensor(f, None, raw='{"key":' + "[" * 20_000 + "]" * 20_000 + "}")


@chooses("tensor-like-metadata", codes="MET_NOT_MAP MET_VALUE_NOT_STRING")
def strings_like_tensor(f: FileBuilder) -> None:
    """The metadata has the three field names of a tensor entry as keys, with strings as values."""
    _with_tensor(f, {"dtype": "F32", "shape": "[2]", "data_offsets": "[0,8]"})


@chooses("metadata-null", "FRM-09", codes="MET_NOT_MAP")
def null_without_tensors(f: FileBuilder) -> None:
    """The metadata is null in a file without tensors."""
    f.metadata(None, raw="null")


@chooses("metadata-null", "HDR-17", codes="MET_NOT_MAP")
def null_behind_tensors(f: FileBuilder) -> None:
    """Metadata with the value null appears last, after two tensors."""
    f.tensor("a", "F32", [2])
    f.tensor("b", "U8", [3])
    f.metadata(None, raw="null")


@chooses("metadata-null", "MET-06", codes="MET_NOT_MAP")
def null_under_escaped_key(f: FileBuilder) -> None:
    """The value of the metadata key is null, and the key is written with an escape.

    A reader that recognises only the plain spelling treats the key as a tensor name without an entry.
    """
    _with_tensor(f, None, raw="null", key='"__meta\\u0064ata__"')


@accepts(
    "MET-04 MET-01",
    over={
        "empty-key": {"": "value"},
        "empty-value": {"key": ""},
        "nul": {"a\0b": "c\0d"},
        "line-feed": {"a\nb": "c\r\n\td"},
        "non-ascii": {"größe": "千"},
        "byte-order-mark": {"\ufeffkey": "\ufeffvalue"},
        "normal-forms": {"\xe9": "composed", "e\u0301": "decomposed"},
    },
)
def text(f: FileBuilder, value: dict[str, str]) -> None:
    """Metadata keys and values contain unusual but permitted text ($slug).

    A reader that trims, normalises or truncates the strings at a NUL changes them.
    """
    _with_tensor(f, value)


@accepts("HDR-15 MET-04")
def text_escaped(f: FileBuilder) -> None:
    """The key and value of the metadata are written with escapes."""
    _with_tensor(f, {"a/b": '\U0001f600"\\\xe9'}, raw=r'{"a\/\u0062":"\ud83d\ude00\"\\\u00E9"}')


@rejects(
    "HDR-07",
    "HDR_NOT_JSON MET_VALUE_NOT_STRING",
    over={
        "trailing-comma": b'{"a":"b",}',
        "no-comma": b'{"a":"b" "c":"d"}',
        "bare-key": b'{a:"b"}',
        "bare-value": b'{"a":b}',
        "single-quotes": b"{'a':'b'}",
        "block-comment": b'{/* none */"a":"b"}',
        "no-closing-brace": b'{"a":"b"',
    },
)
@rejects("HDR-14", "HDR_NOT_JSON", over={"raw-line-feed": b'{"a":"b\nc"}', "raw-nul": b'{"a\0b":"c"}'})
@rejects("HDR-15", "HDR_NOT_JSON HDR_NOT_UTF8", over={"hex-escape": rb'{"a":"\x41"}'})
@chooses(
    "lone-surrogates",
    "MET-04",
    codes=LONE_CODES,
    over={"lone-surrogate": rb'{"a":"\ud800"}', "lone-surrogate-key": rb'{"\udc00":"b"}'},
)
@rejects(
    "HDR-01",
    "HDR_NOT_UTF8 HDR_NOT_JSON",
    over={
        "ff-byte": b'{"a":"\xff"}',
        "overlong-key": b'{"\xc1\xa1":"b"}',
        "encoded-surrogate": b'{"a":"\xed\xa0\x80"}',
    },
)
def map_text(f: FileBuilder, value: bytes) -> None:
    """The text of the metadata map is invalid JSON or has no defined meaning ($slug).

    People edit metadata by hand, and a relaxed parser hides their mistakes.
    """
    metadata_with_escapes(f, value)


@rejects(
    "HDR-07",
    "HDR_NOT_JSON MET_VALUE_NOT_STRING MET_NOT_MAP",
    over={
        "two-commas": b'{"a":"b",,"c":"d"}',
        "no-value": b'{"a":}',
        "value-unclosed": b'{"a":"b}',
        "value-of-two-strings": b'{"a":"b""c"}',
        "curly-quotes": "{\u201ca\u201d:\u201cb\u201d}".encode(),
        "space-of-another-kind": "{\xa0}".encode(),
    },
)
@rejects(
    "HDR-14 MET-04", "HDR_NOT_JSON", over={"raw-tab": b'{"a":"b\tc"}', "raw-control-in-key": b'{"a\x1f":"b"}'}
)
@rejects(
    "HDR-15 MET-04",
    "HDR_NOT_JSON HDR_NOT_UTF8",
    over={
        "escape-letter-a": rb'{"a":"\a"}',
        "escape-line-break": b'{"a":"b\\\nc"}',
        "escape-of-two-digits": rb'{"a\u41":"b"}',
        "escape-in-windows-path": rb'{"path":"C:\models\w"}',
    },
)
@chooses(
    "lone-surrogates",
    "MET-04",
    codes=LONE_CODES,
    over={
        "surrogate-then-letter": rb'{"a":"\ud800b"}',
        "surrogates-reversed-in-key": rb'{"\ude00\ud83d":"b"}',
    },
)
@rejects(
    "HDR-01 MET-04",
    "HDR_NOT_UTF8 HDR_NOT_JSON",
    over={"four-bytes-cut": b'{"a":"\xf0\x9f\xa4"}', "overlong-quote": b'{"a":"b\xc0\xa2,"}'},
)
def map_form(f: FileBuilder, value: bytes) -> None:
    """The text of the metadata is invalid in JSON or UTF-8, or has no defined meaning: $slug.

    Programs often build metadata by concatenating text, and loaders often skip it without parsing it.
    """
    metadata_with_escapes(f, value)


@accepts(
    "MET-04 MET-01",
    over={
        "noncharacters": {"\ufffe": "\uffff\ufdd0\U0001ffff"},
        "all-controls": {"".join(map(chr, range(32))): "".join(map(chr, range(31, -1, -1)))},
        "beyond-bmp": {"\U0001f917": "\U0010fffd\U00020000"},
        "line-separators": {"a\u2028b": "c\u2029d"},
        "bidirectional": {"\u202ekey": "\u2066value\u2069"},
        "object-members": {"__proto__": "a", "constructor": "b", "__class__": "c", "hasOwnProperty": "d"},
        "code-points-behind-nul": {"a\0b": "1", "a\0c": "2", "a": "3"},
        "long-key": {"k" * 20_000: "value"},
        "four-byte-characters": {"key": "\U0001f917" * 5000},
    },
)
def text_of(f: FileBuilder, value: dict[str, str]) -> None:
    """Metadata keys and values consist of unusual but permitted characters: $slug.

    A reader must return every key and value, character for character.
    """
    _with_tensor(f, value)


@accepts(
    "MET-04 HDR-15",
    over={
        "all-controls": ("".join(map(chr, range(32))), "".join(f"\\u{n:04X}" for n in range(32))),
        "pairs": ("\U0001f917\U0010ffff", r"\ud83e\udd17\udbff\udfff"),
        "backslash-before-u": ("\\u0041", r"\\u0041"),
        "every-letter": ("value", r"\u0076\u0061\u006c\u0075\u0065"),
    },
)
def text_with_escapes(f: FileBuilder, plain: str, escaped: str) -> None:
    """The key and value of the metadata are written with escapes: $slug."""
    _with_tensor(f, {plain: plain}, raw=f'{{"{escaped}":"{escaped}"}}')


@accepts("MET-06", over={"underscore": r"\u005f_metadata__", "letter": r"__meta\u0064ata__"})
def key_escaped(f: FileBuilder, value: str) -> None:
    """The reserved key is written as `$value`.

    A reader that compares keys before decoding them sees a tensor entry without fields.
    """
    _with_tensor(f, {"key": "value"}, key=f'"{value}"')


@accepts(
    "MET-05",
    over={
        "upper-case": "__METADATA__",
        "one-underscore-more": "__metadata___",
        "space-before": " __metadata__",
        "nul-behind": "__metadata__\0",
    },
)
def similar_key(f: FileBuilder, value: str) -> None:
    """A tensor name only resembles the reserved key ($slug).

    A reader that skips every key that looks like metadata loses the tensor.
    """
    f.metadata({"key": "value"})
    f.tensor(value, "F32", [2])


@rejects(
    "MET-05 ENT-03",
    "ENT_MISSING_FIELD ENT_UNKNOWN_FIELD",
    over={"upper-case": "__METADATA__", "one-underscore-more": "__metadata___"},
)
def map_under_similar_key(f: FileBuilder, value: str) -> None:
    """A map of strings appears under a key that only resembles the reserved key ($slug)."""
    f.tensor("w", "F32", [2])
    f.metadata(None, raw='{"format":"pt"}', key=f'"{value}"')


@rejects("MET-07", "MET_VALUE_NOT_STRING OFF_TRAILING OFF_HOLE", issue="safetensors/safetensors#849")
def tensor_under_key(f: FileBuilder) -> None:
    """A tensor is saved under the reserved key, with its data."""
    f.tensor("__metadata__", "F32", [2])


@rejects("MET-07", "MET_VALUE_NOT_STRING")
def empty_tensor_under_key(f: FileBuilder) -> None:
    """An empty tensor is saved under the reserved key, together with an ordinary tensor."""
    f.tensor("w", "F32", [2])
    f.tensor("__metadata__", "F32", [0])


MAP_KEY_TWICE = {
    "same": ('{"k":"a","k":"a"}', {"k": "a"}, {"k": "a"}),
    "differs": ('{"k":"a","k":"b"}', {"k": "a"}, {"k": "b"}),
    "apart": ('{"k":"a","m":"-","k":"b"}', {"k": "a", "m": "-"}, {"k": "b", "m": "-"}),
    "escaped": (r'{"k":"a","\u006b":"b"}', {"k": "a"}, {"k": "b"}),
}


@chooses("duplicate-metadata-keys", codes="HDR_DUP_KEY", importance="high", over=MAP_KEY_TWICE)
def map_key_twice(f: FileBuilder, raw: str, first: dict[str, str], last: dict[str, str]) -> None:
    """One metadata key appears twice ($slug).

    Two readers can show different text for the same file, for example two different licences.
    """
    _with_tensor(f, last, raw=raw, views={"first-wins": first, "last-wins": last})


RESERVED_KEY_TWICE = {
    "same": (KEY, '{"k":"a"}', '{"k":"a"}'),
    "differs": (KEY, '{"k":"a"}', '{"m":"b"}'),
    "null-first": (KEY, "null", '{"k":"a"}'),
    "null-last": (KEY, '{"k":"a"}', "null"),
    "escaped": (r'"\u005f_metadata__"', '{"k":"a"}', '{"m":"b"}'),
}


@rejects("HDR-11", "HDR_DUP_KEY MET_NOT_MAP", over=RESERVED_KEY_TWICE)
def reserved_key_twice(f: FileBuilder, key: str, first: str, second: str) -> None:
    """The reserved key appears twice, with a tensor in between ($slug)."""
    f.member(KEY, first)
    f.tensor("w", "F32", [2])
    f.member(key, second)


@chooses("duplicate-metadata-keys", "LIM-04", codes="HDR_DUP_KEY")
def key_ten_thousand_times(f: FileBuilder) -> None:
    """The metadata contains the empty key 10,002 times, and a tensor follows.

    If a reader lists repeated keys, the list must not crowd out later content.
    """
    _with_tensor(f, {"": ""}, raw="{" + ",".join(['"":""'] * 10_002) + "}")


@rejects("OFF-07 MET-08", "OFF_HOLE")
def hole_announced(f: FileBuilder) -> None:
    """The metadata declares four bytes of padding between two tensors.

    Metadata cannot make a hole valid.
    """
    f.metadata({"padding": "[4,8]", "alignment": "8"})
    f.tensor("a", "F32", [1])
    f.gap(4)
    f.tensor("b", "F32", [1])


@rejects("OFF-08 MET-08", "OFF_TRAILING")
def trailer_announced(f: FileBuilder) -> None:
    """The metadata declares a four-byte checksum after the last tensor, where the file contains one."""
    _with_tensor(f, {"checksum": "crc32", "trailer": "4"})
    f.trailer = b"\x12\x34\x56\x78"


@rejects("DTY-01 MET-08", "DTY_UNKNOWN", importance="high")
def dtype_announced(f: FileBuilder) -> None:
    """The metadata defines the meaning of a dtype that is not one of the 22 codes."""
    f.metadata({"dtypes": "Q8 means U8"})
    f.tensor("w", "U8", [8], fields={"dtype": '"Q8"'})


@rejects("OFF-05 MET-08", "OFF_SIZE_MISMATCH", importance="high")
def shape_repeated_otherwise(f: FileBuilder) -> None:
    """The shape in the metadata fits the range, but the shape in the entry does not."""
    f.metadata({"w.shape": "[2]", "w": '{"shape":[2]}'})
    f.tensor("w", "F32", [3], pattern("w", 8))


@accepts(
    "MET-08",
    over={
        "compression": {"compression": "zlib", "encrypted": "true"},
        "byte-order": {"byteorder": "big", "endian": "big"},
        "order": {"order": "F", "transposed": "true", "strides": "[1,2]"},
        "quantisation": {"scale": "0.5", "zero_point": "3", "quantization_config": '{"bits":4}'},
        "external-file": {"filename": "other.safetensors", "url": "file:///etc/passwd"},
    },
)
def instruction(f: FileBuilder, value: dict[str, str]) -> None:
    """The metadata names a property of the data that the format does not have: $slug.

    The tensor must be read as its entry describes it.
    """
    f.metadata(value)
    f.tensor("w", "I16", [2, 3])


@rejects("MET-07 MET-06", "MET_VALUE_NOT_STRING OFF_TRAILING OFF_HOLE", importance="high")
def tensor_under_escaped_key(f: FileBuilder) -> None:
    """A complete tensor entry appears under the reserved key, which is written with escapes.

    A reader that compares keys before decoding them finds a valid tensor.
    """
    f.tensor("w", "F32", [1])
    f.tensor("__metadata__", "F32", [1], key=ESCAPED_KEY)


@rejects("MET-01 MET-06", "MET_VALUE_NOT_STRING", over={"number": "1", "object": '{"a":"b"}'})
def value_type_under_escaped_key(f: FileBuilder, value: str) -> None:
    """A metadata value is not a string ($slug), and the reserved key is written with escapes."""
    _with_tensor(f, None, raw=f'{{"k":{value}}}', key=ESCAPED_KEY)


@accepts("MET-06 MET-03")
def empty_map_under_escaped_key(f: FileBuilder) -> None:
    """An empty map appears under the reserved key, and every character of the key is escaped."""
    _with_tensor(f, {}, key='"' + "".join(f"\\u{ord(c):04x}" for c in "__metadata__") + '"')


@accepts("MET-01 MET-07")
def two_field_names_in_map(f: FileBuilder) -> None:
    """The metadata has the keys dtype and data_offsets, with strings as values.

    Although two field names of an entry appear, the map is metadata and not a broken tensor entry.
    """
    _with_tensor(f, {"dtype": "F32", "data_offsets": "0,8"})


@rejects("MET-07 MET-01", "MET_VALUE_NOT_STRING", over={"shape": 1, "data-offsets": 2})
def one_array_in_map(f: FileBuilder, value: int) -> None:
    """The metadata resembles a tensor entry, but one value is an array instead of a string: $slug."""
    texts = ['"F32"', '"[0]"', '"[0,0]"']
    texts[value] = texts[value].strip('"')
    _with_tensor(f, None, raw='{{"dtype":{},"shape":{},"data_offsets":{}}}'.format(*texts))


@rejects("OFF-08 FRM-09", "OFF_TRAILING OFF_HOLE")
def empty_map_and_one_byte(f: FileBuilder) -> None:
    """The file has an empty metadata map and one data byte, but no tensor."""
    f.metadata({})
    f.gap(1)


@rejects("MET-01", "MET_NOT_MAP", over={"text": '"{}"'})
def not_empty_map(f: FileBuilder, value: str) -> None:
    """The metadata of a file without tensors only resembles an empty map: $slug."""
    f.metadata(None, raw=value)


PROGRAMS = {
    "html": "<!DOCTYPE html><script>document.title='run'</script>",
    "shell-script": "\n#!/bin/sh\necho run\nexit 0\n",
    "pickle-in-letters": "cbuiltins\nprint\n(Vrun\ntR.",
    "header-of-a-file": '{"__metadata__":{},"inner":' + ENTRY + "}",
    "yaml": "!!python/object/apply:builtins.print ['run']",
}


@accepts("MET-08 MET-04", importance="high", over=PROGRAMS)
def value_holds(f: FileBuilder, value: str) -> None:
    """A metadata value contains text that other programs run or parse: $slug.

    A reader must treat the value as text, whatever other programs do with it.
    """
    _with_tensor(f, {"description": value})


@rejects("HDR-13 MET-01", "HDR_DUP_KEY MET_VALUE_NOT_STRING")
def key_twice_first_a_number(f: FileBuilder) -> None:
    """A metadata key appears twice, first with a number and then with a string.

    A parser that keeps the last value drops the invalid value before any check.
    """
    _with_tensor(f, None, raw='{"k":1,"k":"a"}')


@accepts("MET-08 DAT-02", over=("np", "pt", "tf", "flax", "mlx"))
def format_beside_matrix(f: FileBuilder, value: str) -> None:
    """The metadata states that the file was written for another library ($value).

    Dimensions and elements keep their order, whatever layout that library uses in memory.
    """
    f.metadata({"format": value})
    f.tensor("a", "F32", [2, 3])
    f.tensor("b", "I16", [4, 1, 2])
