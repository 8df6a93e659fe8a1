"""Entries: faults of the first, the middle and the last of three, near misses, and names that come again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...author.case import ACCEPT, accepts, chooses, reject, rejects
from ...author.parts import PLACES, header_text

if TYPE_CHECKING:
    from ...author.file import FileBuilder

FIELDS = ("dtype", "shape", "data_offsets")


def _three(f: FileBuilder, place: int, fields: dict[str, str | None]) -> None:
    """Add three tensors of four bytes, the one at ``place`` with other fields."""
    for index, name in enumerate("abc"):
        f.tensor(name, "F32", [1], fields=fields if index == place else {})


@rejects("ENT-03", codes="ENT_MISSING_FIELD", over=PLACES)
def dtype_missing(f: FileBuilder, value: int) -> None:
    """The $slug of three entries has no dtype.

    Taking the dtype of the neighbour, or that of a variable left over from it, fits the size.
    """
    _three(f, value, {"dtype": None})


@rejects("ENT-03", codes="ENT_MISSING_FIELD", over=PLACES)
def shape_missing(f: FileBuilder, value: int) -> None:
    """The $slug of three entries has no shape.

    A missing shape is not the empty one of a scalar, although the range would fit it.
    """
    _three(f, value, {"shape": None})


@rejects("ENT-03", codes="ENT_MISSING_FIELD", over={"dtype": "dtype", "shape": "shape", "offsets": FIELDS[2]})
def only_one_field(f: FileBuilder, value: str) -> None:
    """An entry has one field and no other: $slug."""
    f.tensor("w", "U8", [0], fields={name: None for name in FIELDS if name != value})


@rejects("ENT-01", codes="ENT_NOT_OBJECT", over={"first": 0, "middle": 1})
def value_number(f: FileBuilder, value: int) -> None:
    """The $slug of three names has a number for an entry."""
    for index, name in enumerate("abc"):
        if index == value:
            f.member(f'"{name}"', "0")
        else:
            f.tensor(name, "F32", [1])


@rejects("ENT-01", codes="ENT_NOT_OBJECT", over={"false": "false", "empty-string": '""', "digits": '"[0,0]"'})
def value_of_another_type(f: FileBuilder, value: str) -> None:
    """A name stands over a value that is no object, between two tensors: $slug."""
    f.tensor("a", "F32", [1])
    f.member('"note"', value)
    f.tensor("b", "F32", [1])


@chooses(
    "entry-as-array",
    "ENT-02",
    options={"reject": reject("ENT_NOT_OBJECT"), "accept": ACCEPT},
    over={"first": 0, "last": 2},
)
def array_as(f: FileBuilder, value: int) -> None:
    """The $slug of three tensors is written as an array, the others as objects."""
    for index, name in enumerate("abc"):
        text = f'["F32",[1],[{4 * index},{4 * index + 4}]]'
        f.tensor(name, "F32", [1], value=text if index == value else None)


@rejects("HDR-12", codes="HDR_DUP_KEY", importance="high", over=PLACES)
def dtype_twice(f: FileBuilder, value: int) -> None:
    """The $slug of three entries has its dtype twice, first one of the same width.

    Keeping either gives a tensor that fits, with other numbers in it.
    """
    for index, name in enumerate("abc"):
        text = f'"dtype":"F32","shape":[1],"data_offsets":[{4 * index},{4 * index + 4}]'
        text = f'{{"dtype":"I32",{text}}}' if index == value else f"{{{text}}}"
        f.tensor(name, "F32", [1], value=text)


@rejects(
    "ENT-03", "ENT-06", codes="ENT_MISSING_FIELD", over={name.replace("_", "-"): name for name in FIELDS}
)
def other_order_without(f: FileBuilder, value: str) -> None:
    """The fields stand in reversed order, and one of them is missing: $slug.

    The order is free, the number of fields is not.
    """
    f.tensor("w", "F32", [1], order=FIELDS[::-1], fields={value: None})


@rejects("HDR-12", "ENT-06", codes="HDR_DUP_KEY", importance="high")
def other_order_with_repetition(f: FileBuilder) -> None:
    """The range stands first and, with the same offsets, last again."""
    value = '{"data_offsets":[0,8],"shape":[2],"dtype":"F32","data_offsets":[0,8]}'
    f.tensor("w", "F32", [2], value=value)


@accepts("ENT-01", "MET-05", "MET-09")
def names_like_file_properties(f: FileBuilder) -> None:
    """Tensors are named metadata, format, version, header and in other ways like the file itself.

    Every key but the reserved one names a tensor, however much it sounds like something else.
    """
    for name in ("metadata", "format", "version", "$schema", "_comment", "header"):
        f.tensor(name, "F32", [1])


@accepts("ENT-09", "ENT-01")
def names_like_entries(f: FileBuilder) -> None:
    """Tensor names spell what an entry must not be: an array, null, a number, an empty object."""
    for name in ('["F32",[1],[0,4]]', "null", "0", "{}", "true", '{"dtype":"U8"}'):
        f.tensor(name, "F32", [1])


@accepts("ENT-01", "ENT-05")
def names_like_misspelled_fields(f: FileBuilder) -> None:
    """Tensors carry the names Dtype, SHAPE, dataOffsets and offsets.

    As fields of an entry these are wrong; as names they are as good as any.
    """
    for name in ("Dtype", "SHAPE", "dataOffsets", "offsets"):
        f.tensor(name, "U8", [3])


@rejects("ENT-05", codes=("ENT_MISSING_FIELD", "ENT_UNKNOWN_FIELD"), over=PLACES)
def capital_letter_in_entry(f: FileBuilder, value: int) -> None:
    """The $slug of three entries spells its shape with a capital letter."""
    _three(f, value, {"shape": None, "Shape": "[1]"})


@rejects(
    "ENT-01",
    "HDR-09",
    codes=("ENT_NOT_OBJECT", "HDR_DUP_KEY"),
    over={"null": "null", "number": "0", "string": '"F32"'},
)
def no_entry_and_then_again(f: FileBuilder, value: str) -> None:
    """The name of a tensor stands twice, first with a value that is no entry ($slug).

    Keeping the last of two values must not forgive what was wrong with the first.
    """
    header_text(f, f'{{"w":{value},"w":ENTRY}}')
