"""Writer: names and metadata.

Every Unicode string except the reserved key is a valid name, and no other value is. The cases save metadata
with and without tensors.
"""

from __future__ import annotations

from typing import Any

from safetensors_corpus.author.case import accepts, rejects
from safetensors_corpus.author.write import Text, WriteBuilder

NAMES = {
    "empty": "",
    "space": " ",
    "latin-1": "é",
    "han": "重み",
    "astral": "\U0001f9ca",
    "nul": "a\0b",
    "nul-last": "a\0",
    "control": "\x01\t\n\r\x1f",
    "delete": "a\x7fb",
    "line-separator": "a\u2028b",
    "noncharacter": "a\uffff",
    "right-to-left": "a\u202eb",
    "quote": 'a"b',
    "backslash": "a\\",
    "escape-text": "\\u0041",
    "slash": "a/b",
    "path": "../../a",
    "json": '"},"b":{"',
    "number": "0",
    "field": "dtype",
    "prototype": "__proto__",
}
NO_TEXTS: dict[str, Any] = {"integer": 7, "null": None, "boolean": True, "fraction": 1.5}
ISSUE_466 = "https://github.com/safetensors/safetensors/issues/466"
RESERVED = "__metadata__"


@accepts("WRT-01 WRT-10 ENT-08", importance="high", over=NAMES)
def name(f: WriteBuilder, text: str) -> None:
    """A writer might truncate a tensor name, escape it wrongly or misinterpret it: $slug."""
    f.tensor(text, "U8", [3], b"abc")


@accepts("MET-05 WRT-06 WRT-01")
def name_like_the_reserved(f: WriteBuilder) -> None:
    """The reserved key with an extra underscore is a name like any other."""
    f.tensor("__metadata___", "U8", [3], b"abc")


@accepts("MET-05 WRT-06 WRT-01", over={"in-capitals": "__METADATA__", "with-blank": "__metadata__ "})
def name_reserved(f: WriteBuilder, text: str) -> None:
    """A name that only resembles the reserved key is a name like any other: $slug."""
    f.tensor(text, "U8", [3], b"abc")


@accepts("WRT-01 HDR-19")
def names_that_look_alike(f: WriteBuilder) -> None:
    """Three names are the same letter in composed form, in decomposed form and in upper case."""
    for number, text in enumerate(("\u00e9", "e\u0301", "\u00c9")):
        f.tensor(text, "U8", [1], bytes([number + 1]))


@accepts("WRT-01 ENT-10")
def name_of_a_thousand_letters(f: WriteBuilder) -> None:
    """A tensor name has a thousand letters, so it does not fit into common fixed buffers."""
    f.tensor("n" * 1000, "U8", [3])


@rejects(
    "WRT-06",
    codes="WRT_BAD_NAME MET_NOT_MAP",
    importance="high",
    issue="https://github.com/safetensors/safetensors/issues/849",
    bugs="FB-26",
    over={"alone": None, "with-empty-metadata": {}, "with-metadata": {"key": "value"}},
)
def reserved_name(f: WriteBuilder, metadata: dict[str, str] | None) -> None:
    """A tensor has the name that the format reserves for metadata ($slug).

    Readers reject such a file. If the file also has metadata, the reserved key appears twice.
    """
    f.tensor(RESERVED)
    f.metadata(metadata)


@rejects("WRT-06", codes="WRT_BAD_NAME", importance="high")
def reserved_name_last_of_three(f: WriteBuilder) -> None:
    """The third of three tensors has the reserved name."""
    f.tensor("a")
    f.tensor("b")
    f.tensor(RESERVED)


@rejects("WRT-06", codes="WRT_BAD_NAME")
def reserved_name_without_elements(f: WriteBuilder) -> None:
    """An empty tensor has the reserved name."""
    f.tensor(RESERVED, "F32", [0])


@rejects("WRT-10", codes="WRT_BAD_NAME", over=NO_TEXTS)
def name_of_another_type(f: WriteBuilder, value: Any) -> None:
    """A tensor name is not a string ($slug), and must not be converted to one.

    After such a conversion, two keys that differ only in type would become the same name.
    """
    f.tensor(value)


SURROGATES = {"high": "a\ud800", "low": "\udc00a", "swapped": "\udc00\ud800"}


@rejects("WRT-10", codes="WRT_BAD_NAME", importance="high", over=SURROGATES)
def name_with_lone_surrogate(f: WriteBuilder, text: str) -> None:
    """A tensor name contains half a surrogate pair ($slug), so it is not valid Unicode.

    If the writer stores it as an escape or as three bytes, readers reject the header. If the writer replaces
    it with a question mark, two names may become equal.
    """
    f.tensor(text)


@rejects("WRT-10 WRT-19", codes="WRT_BAD_NAME")
def name_with_lone_surrogate_last_of_three(f: WriteBuilder) -> None:
    """The last of three names is invalid, and the writer must detect this before it writes anything."""
    f.tensor("a")
    f.tensor("b")
    f.tensor("c\ud800")
    f.properties = ["target-unchanged"]


@rejects("HDR-09 WRT-01", codes="HDR_DUP_KEY WRT_BAD_NAME")
def one_name_twice(f: WriteBuilder) -> None:
    """Two tensors have the same name, which is possible if a writer accepts a list of tensors."""
    f.tensor("a", "U8", [1], b"\1")
    f.tensor("a", "U8", [1], b"\2")


@rejects(
    "WRT-11 LIM-01",
    codes="WRT_HEADER_OVER_LIMIT",
    heavy=True,
    bugs="FB-25",
    issue="https://github.com/safetensors/safetensors/issues/668",
)
def header_over_the_cap(f: WriteBuilder) -> None:
    """A tensor name of 100,000,000 bytes makes the header too long for every reader.

    A writer that saves such a file loses the data.
    """
    f.tensor(Text(({"repeat": {"text": "n"}, "count": 100_000_000},)), "U8", [3], b"abc")
    f.properties = ["target-unchanged"]


@accepts("WRT-11 LIM-01", heavy=True)
def header_of_24_million_bytes(f: WriteBuilder) -> None:
    """A tensor name of 24,000,000 bytes makes a header that is short enough for every reader."""
    f.tensor(Text(({"repeat": {"text": "n"}, "count": 24_000_000},)), "U8", [3], b"abc")
    f.count_only = True


@accepts("WRT-01 FRM-09", importance="high", issue=ISSUE_466, over={"no-metadata": None})
@accepts("WRT-05 MET-03 FRM-09", importance="high", issue=ISSUE_466, over={"empty-metadata": {}})
@accepts(
    "WRT-01 MET-01", importance="high", issue=ISSUE_466, bugs="FB-209", over={"metadata": {"key": "value"}}
)
def no_tensors(f: WriteBuilder, metadata: dict[str, str] | None) -> None:
    """A file without tensors is saved ($slug).

    A writer that concatenates braces, commas and the map by hand may write invalid JSON here.
    """
    f.metadata(metadata)


@accepts("WRT-01 MET-01", over={"no-metadata": None}, bugs="FB-10")
@accepts("WRT-01 MET-03", over={"empty-metadata": {}})
def one_tensor(f: WriteBuilder, metadata: dict[str, str] | None) -> None:
    """A file with one tensor is saved ($slug)."""
    f.tensor("t")
    f.metadata(metadata)


TEXTS = {
    "empty": {"": ""},
    "unicode": {"schlüssel": "重み \U0001f9ca"},
    "control": {"a\0b": "\x01\n\x1f\x7f"},
    "quotes": {'a"b\\': '{"c": "\\u0041"}'},
    "line-separators": {"a": "b\u2028c\u2029d"},
    "noncharacters": {"a": "\uffff\ufdd0"},
    "tensor-name": {"t": "F32"},
    "reserved-key": {"__metadata__": "text"},
    "entry-fields": {"dtype": "F32", "shape": "[2]", "data_offsets": "[0,8]"},
    "words-of-json": {"null": "null", "true": "1", "0": "0"},
    "format": {"format": "pt"},
}


@accepts("WRT-01 WRT-10 MET-04", over=TEXTS)
def metadata_text(f: WriteBuilder, value: dict[str, str]) -> None:
    """The metadata must be stored without changing any character: $slug."""
    f.tensor("t")
    f.metadata(value)


@accepts("WRT-01 MET-10")
def metadata_of_a_thousand_keys(f: WriteBuilder) -> None:
    """The metadata has a thousand keys."""
    f.tensor("t")
    f.metadata({f"key {number}": f"value {number}" for number in range(1000)})


@rejects("WRT-10 MET-01", codes="WRT_BAD_METADATA", over=NO_TEXTS | {"list": ["a"], "map": {"a": "b"}})
def metadata_value_of_another_type(f: WriteBuilder, value: Any) -> None:
    """A metadata value is not a string ($slug), so readers would reject the file.

    If the writer converts the value to a string, reading does not return the same value.
    """
    f.tensor("t")
    f.metadata({"good": "text", "key": value})


@rejects("WRT-10 MET-01", codes="WRT_BAD_METADATA", over=NO_TEXTS)
def metadata_key_of_another_type(f: WriteBuilder, value: Any) -> None:
    """A metadata key is not a string ($slug)."""
    f.tensor("t")
    f.metadata({"good": "text", value: "text"})


@rejects(
    "WRT-10 MET-01",
    codes="WRT_BAD_METADATA",
    over={"list": ["key", "value"], "text": "key", "integer": 7, "true": True},
)
def metadata_is_no_map(f: WriteBuilder, value: Any) -> None:
    """The metadata is not a map but $slug."""
    f.tensor("t")
    f.metadata(value)


METADATA_WITH_LONE_SURROGATE = {
    "value": {"key": "a\ud800"},
    "value-swapped": {"key": "\udc00\ud800"},
    "key": {"a\ud800": "text"},
    "low-in-key": {"\udfff": "text"},
}


@rejects("WRT-10", codes="WRT_BAD_METADATA", importance="high", over=METADATA_WITH_LONE_SURROGATE)
def metadata_with_lone_surrogate(f: WriteBuilder, value: dict[str, str]) -> None:
    """The metadata contains half a surrogate pair ($slug), which UTF-8 cannot encode."""
    f.tensor("t")
    f.metadata(value)


TWICE: dict[str, tuple[tuple[str, list[int]], ...]] = {
    "apart": (("F32", [2]), ("I64", []), ("F32", [2])),
    "with-other-dtypes": (("BF16", [2, 3]), ("U8", [5])),
}


@rejects("HDR-09 WRT-01", codes="HDR_DUP_KEY WRT_BAD_NAME", over=TWICE)
def one_name_twice_in_a_list(f: WriteBuilder, value: tuple[tuple[str, list[int]], ...]) -> None:
    """Two tensors in a list have the same name, and the file has metadata: $slug."""
    for place, (code, shape) in enumerate(value):
        f.tensor("b" if place == 1 and len(value) > 2 else "layers.0.weight", code, shape)
    f.metadata({"format": "pt"})
