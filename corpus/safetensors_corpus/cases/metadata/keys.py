"""Metadata: the reserved key, those like it, and repeated keys, one of them a great many times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...author.case import ACCEPT, accepts, chooses, reject, rejects

if TYPE_CHECKING:
    from ...author.file import FileBuilder

KEY = '"__metadata__"'


@accepts("MET-06", over={"underscore": r"\u005f_metadata__", "letter": r"__meta\u0064ata__"})
def key_escaped(f: FileBuilder, value: str) -> None:
    """The reserved key written as `$value`.

    A reader that compares keys before decoding them sees a tensor entry without fields.
    """
    f.metadata({"key": "value"}, key=f'"{value}"')
    f.tensor("w", "F32", [2])


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
    """A tensor whose name only resembles the reserved key ($slug).

    Skipping every key that looks like metadata loses the tensor.
    """
    f.metadata({"key": "value"})
    f.tensor(value, "F32", [2])


@rejects(
    "MET-05",
    "ENT-03",
    codes=("ENT_MISSING_FIELD", "ENT_UNKNOWN_FIELD"),
    over={"upper-case": "__METADATA__", "one-underscore-more": "__metadata___"},
)
def map_under_similar_key(f: FileBuilder, value: str) -> None:
    """A map of strings under a key that only resembles the reserved one ($slug)."""
    f.tensor("w", "F32", [2])
    f.metadata(None, raw='{"format":"pt"}', key=f'"{value}"')


@rejects(
    "MET-07",
    codes=("MET_VALUE_NOT_STRING", "OFF_TRAILING", "OFF_HOLE"),
    issue="https://github.com/safetensors/safetensors/issues/849",
)
def tensor_under_key(f: FileBuilder) -> None:
    """A tensor saved under the reserved name, with its data."""
    f.tensor("__metadata__", "F32", [2])


@rejects("MET-07", codes="MET_VALUE_NOT_STRING")
def empty_tensor_under_key(f: FileBuilder) -> None:
    """A tensor entry of size zero under the reserved key, beside an ordinary tensor."""
    f.tensor("w", "F32", [2])
    f.tensor("__metadata__", "F32", [0])


@chooses(
    "duplicate-metadata-keys",
    options={"reject": reject("HDR_DUP_KEY"), "last-wins": ACCEPT, "first-wins": ACCEPT},
    importance="high",
    over={
        "same": ('{"k":"a","k":"a"}', {"k": "a"}, {"k": "a"}),
        "differs": ('{"k":"a","k":"b"}', {"k": "a"}, {"k": "b"}),
        "apart": ('{"k":"a","m":"-","k":"b"}', {"k": "a", "m": "-"}, {"k": "b", "m": "-"}),
        "escaped": (r'{"k":"a","\u006b":"b"}', {"k": "a"}, {"k": "b"}),
    },
)
def map_key_twice(f: FileBuilder, value: tuple[str, dict[str, str], dict[str, str]]) -> None:
    """One metadata key twice ($slug).

    Two readers can show two different texts for the same file, for example two licences.
    """
    raw, first, last = value
    f.metadata(last, raw=raw, views={"first-wins": first, "last-wins": last})
    f.tensor("w", "F32", [2])


@rejects(
    "HDR-11",
    codes=("HDR_DUP_KEY", "MET_NOT_MAP"),
    importance="high",
    over={
        "same": (KEY, '{"k":"a"}', '{"k":"a"}'),
        "differs": (KEY, '{"k":"a"}', '{"m":"b"}'),
        "null-first": (KEY, "null", '{"k":"a"}'),
        "null-last": (KEY, '{"k":"a"}', "null"),
        "escaped": (r'"\u005f_metadata__"', '{"k":"a"}', '{"m":"b"}'),
    },
)
def reserved_key_twice(f: FileBuilder, value: tuple[str, str, str]) -> None:
    """The reserved key twice, with a tensor in between ($slug)."""
    key, first, second = value
    f.member(KEY, first)
    f.tensor("w", "F32", [2])
    f.member(key, second)


@chooses(
    "duplicate-metadata-keys",
    "LIM-04",
    options={"reject": reject("HDR_DUP_KEY"), "last-wins": ACCEPT, "first-wins": ACCEPT},
)
def key_ten_thousand_times(f: FileBuilder) -> None:
    """The metadata holds the empty key 10,002 times, and a tensor follows.

    Collecting each repetition must not push out what stands behind them.
    """
    f.metadata({"": ""}, raw="{" + ",".join(['"":""'] * 10_002) + "}")
    f.tensor("w", "F32", [2])
