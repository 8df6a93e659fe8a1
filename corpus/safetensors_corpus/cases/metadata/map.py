"""Metadata: the map, its place, its size and its values, and null in its place."""

from __future__ import annotations

from ...author.case import ACCEPT, Accept, Reject, accepts, chooses, reject, rejects
from ...author.file import FileBuilder

ABSENT_OR_REFUSED: dict[str, Accept | Reject] = {"reject": reject("MET_NOT_MAP"), "absent": ACCEPT}


@accepts(
    "MET-08",
    "MET-09",
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
    """Metadata that could be mistaken for instructions on the tensors ($slug).

    The map is text for people and tools; the one tensor stays as its entry describes it.
    """
    f.metadata(value)
    f.tensor("w", "F32", [2])


@accepts(
    "MET-10",
    over={"one-value": {"k": "v" * 40_000}, "many-keys": {f"key {n}": str(n) for n in range(1000)}},
)
def amount(f: FileBuilder, value: dict[str, str]) -> None:
    """Tens of kilobytes of metadata in front of one small tensor ($slug)."""
    f.metadata(value)
    f.tensor("w", "F32", [2])


@accepts(
    "HDR-17",
    "MET-01",
    over={"first": 0},
    issue="https://github.com/carsonpo/safetensors.cpp/issues/3",
    bugs=("FB-50",),
)
@accepts("HDR-17", "MET-01", over={"middle": 1, "last": 2})
def place(f: FileBuilder, value: int) -> None:
    """Metadata as the $slug of three members of the header, beside two tensors.

    A hand-written parser that looks for the end of the object may stop at the end of the map.
    """
    f.tensor("a", "F32", [2])
    f.tensor("b", "F32", [2])
    f.metadata({"key": "value"}, at=value)


@accepts("MET-01", "FRM-09", issue="https://github.com/safetensors/safetensors/issues/466")
def without_tensors(f: FileBuilder) -> None:
    """A file with metadata and nothing else."""
    f.metadata({"key": "value"})


@accepts(
    "MET-03",
    issue="https://github.com/foundation-model-stack/fastsafetensors/issues/88",
    bugs=("FB-10", "FB-123"),
)
def empty_map(f: FileBuilder) -> None:
    """An empty metadata map beside a tensor.

    Code that tests the map for truth instead of presence takes it for a tensor entry.
    """
    f.metadata({})
    f.tensor("w", "F32", [2])


@accepts("MET-03", "FRM-09")
def empty_map_without_tensors(f: FileBuilder) -> None:
    """An empty metadata map and nothing else."""
    f.metadata({})


@chooses(
    "metadata-null",
    options={"reject": reject("MET_NOT_MAP"), "absent": ACCEPT},
    issue="https://github.com/safetensors/safetensors/issues/823",
    bugs=("FB-10",),
)
def null(f: FileBuilder) -> None:
    """The metadata key holds null beside a tensor, as at least one writer leaves it."""
    f.metadata(None, raw="null")
    f.tensor("w", "F32", [2])


@rejects(
    "MET-01",
    codes="MET_NOT_MAP",
    over={
        "empty-array": "[]",
        "array-of-pairs": '[["key","value"]]',
        "empty-string": '""',
        "number": "1",
        "false": "false",
    },
)
def not_map(f: FileBuilder, value: str) -> None:
    """The metadata key holds something that is no object ($slug).

    Empty and false values pass wherever the metadata is only tested for truth.
    """
    f.metadata(None, raw=value)
    f.tensor("w", "F32", [2])


@rejects(
    "MET-01",
    codes="MET_VALUE_NOT_STRING",
    over={"number": "1"},
    issue="https://github.com/safetensors/safetensors/issues/278",
)
@rejects(
    "MET-01",
    codes="MET_VALUE_NOT_STRING",
    over={
        "fraction": "0.5",
        "true": "true",
        "null": "null",
        "empty-object": "{}",
        "object": '{"inner":"value"}',
        "empty-array": "[]",
    },
)
def value_type(f: FileBuilder, value: str) -> None:
    """A metadata value that is no string ($slug)."""
    f.metadata(None, raw=f'{{"key":{value}}}')
    f.tensor("w", "F32", [2])


@rejects("MET-01", codes="MET_VALUE_NOT_STRING", over={"first": 0, "middle": 1, "last": 2})
def value_type_place(f: FileBuilder, value: int) -> None:
    """Three metadata values, of which the $slug one is a number."""
    values = ['"x"', '"y"', '"z"']
    values[value] = "7"
    f.metadata(None, raw='{{"a":{},"b":{},"c":{}}}'.format(*values))
    f.tensor("w", "F32", [2])


@rejects(
    "MET-01", "HDR-16", codes=("HDR_TOO_DEEP", "MET_VALUE_NOT_STRING", "HDR_NOT_JSON"), importance="high"
)
def value_nested(f: FileBuilder) -> None:
    """A metadata value of twenty thousand arrays inside each other.

    Parsing the whole header before looking at types can run out of stack.
    """
    f.metadata(None, raw='{"key":' + "[" * 20_000 + "]" * 20_000 + "}")
    f.tensor("w", "F32", [2])


@chooses(
    "tensor-like-metadata",
    options={"accept": ACCEPT, "reject": reject("MET_NOT_MAP", "MET_VALUE_NOT_STRING")},
)
def strings_like_tensor(f: FileBuilder) -> None:
    """Metadata with the three field names of a tensor entry, all of their values strings."""
    f.metadata({"dtype": "F32", "shape": "[2]", "data_offsets": "[0,8]"})
    f.tensor("w", "F32", [2])


@chooses("metadata-null", "FRM-09", options=ABSENT_OR_REFUSED)
def null_without_tensors(f: FileBuilder) -> None:
    """Null metadata are all that the header holds."""
    f.metadata(None, raw="null")


@chooses("metadata-null", "HDR-17", options=ABSENT_OR_REFUSED)
def null_behind_tensors(f: FileBuilder) -> None:
    """Null metadata stand last, behind two tensors."""
    f.tensor("a", "F32", [2])
    f.tensor("b", "U8", [3])
    f.metadata(None, raw="null")


@chooses("metadata-null", "MET-06", options=ABSENT_OR_REFUSED)
def null_under_escaped_key(f: FileBuilder) -> None:
    """Null stands under the metadata key spelled with an escape.

    A reader that knows only the plain spelling takes it for a tensor without an entry.
    """
    f.metadata(None, raw="null", key='"__meta\\u0064ata__"')
    f.tensor("w", "F32", [2])
