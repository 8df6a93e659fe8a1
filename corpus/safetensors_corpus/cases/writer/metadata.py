"""Writer: metadata, with and without tensors."""

from __future__ import annotations

from typing import Any

from ...author.case import accepts, rejects
from ...author.write import WriteBuilder

ISSUE_466 = "https://github.com/safetensors/safetensors/issues/466"


@accepts("WRT-01", "FRM-09", importance="high", issue=ISSUE_466, over={"no-metadata": None})
@accepts("WRT-05", "MET-03", "FRM-09", importance="high", issue=ISSUE_466, over={"empty-metadata": {}})
@accepts(
    "WRT-01",
    "MET-01",
    importance="high",
    issue=ISSUE_466,
    bugs=("FB-209",),
    over={"metadata": {"key": "value"}},
)
def no_tensors(f: WriteBuilder, metadata: dict[str, str] | None) -> None:
    """No tensors and $slug.

    A writer that puts the braces, the commas and the map together by hand makes something here that is
    not JSON.
    """
    f.metadata(metadata)


@accepts("WRT-01", "MET-01", over={"no-metadata": None}, bugs=("FB-10",))
@accepts("WRT-01", "MET-03", over={"empty-metadata": {}})
def one_tensor(f: WriteBuilder, metadata: dict[str, str] | None) -> None:
    """One tensor and $slug: null is no metadata."""
    f.give("t")
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


@accepts("WRT-01", "WRT-10", "MET-04", over=TEXTS)
def metadata_text(f: WriteBuilder, value: dict[str, str]) -> None:
    """Metadata that must come back letter by letter: $slug."""
    f.give("t")
    f.metadata(value)


@accepts("WRT-01", "MET-10")
def metadata_of_a_thousand_keys(f: WriteBuilder) -> None:
    """A thousand metadata keys."""
    f.give("t")
    f.metadata({f"key {number}": f"value {number}" for number in range(1000)})


NO_STRINGS: dict[str, Any] = {
    "integer": 7,
    "null": None,
    "boolean": True,
    "fraction": 1.5,
    "list": ["a"],
    "map": {"a": "b"},
}


@rejects("WRT-10", "MET-01", codes="WRT_BAD_METADATA", over=NO_STRINGS)
def metadata_value_of_another_type(f: WriteBuilder, value: Any) -> None:
    """A metadata value that is no string ($slug); readers refuse the file.

    Turned into text it would not come back as what it was.
    """
    f.give("t")
    f.metadata({"good": "text", "key": value})


@rejects(
    "WRT-10",
    "MET-01",
    codes="WRT_BAD_METADATA",
    over={"integer": 7, "null": None, "boolean": True, "fraction": 1.5},
)
def metadata_key_of_another_type(f: WriteBuilder, value: Any) -> None:
    """A metadata key that is no string ($slug)."""
    f.give("t")
    f.metadata({"good": "text", value: "text"})


@rejects(
    "WRT-10",
    "MET-01",
    codes="WRT_BAD_METADATA",
    over={"list": ["key", "value"], "text": "key", "integer": 7, "true": True},
)
def metadata_is_no_map(f: WriteBuilder, value: Any) -> None:
    """Metadata that is no map but $slug."""
    f.give("t")
    f.metadata(value)


@rejects(
    "WRT-10",
    codes="WRT_BAD_METADATA",
    importance="high",
    over={
        "value": {"key": "a\ud800"},
        "value-swapped": {"key": "\udc00\ud800"},
        "key": {"a\ud800": "text"},
        "low-in-key": {"\udfff": "text"},
    },
)
def metadata_with_lone_surrogate(f: WriteBuilder, value: dict[str, str]) -> None:
    """Half a surrogate pair in the metadata ($slug) has no UTF-8."""
    f.give("t")
    f.metadata(value)
