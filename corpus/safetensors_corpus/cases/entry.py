"""Entries: what stands under a tensor's name, its three fields, and values that only look like an entry."""

from __future__ import annotations

import json
from itertools import permutations
from typing import TYPE_CHECKING

from ...author.case import ACCEPT, accepts, chooses, reject, rejects
from ...author.parts import ENTRY, PLACES, RARE

if TYPE_CHECKING:
    from ...author.file import FileBuilder

FIELDS = ("dtype", "shape", "data_offsets")
EMPTY = '"dtype":"F32","shape":[0],"data_offsets":[0,0]'
"""Fields of a tensor without bytes: an entry that is not understood then leaves no hole."""


def _beside_two(f: FileBuilder, place: int, value: str) -> None:
    """Write three names, the one at ``place`` with the raw ``value``; the other two cover the data."""
    for index, name in enumerate("abc"):
        if index == place:
            f.member(f'"{name}"', value)
        else:
            f.tensor(name, "F32", [1])


@rejects("ENT-01", codes="ENT_NOT_OBJECT", over=PLACES)
def value_null(f: FileBuilder, value: int) -> None:
    """The $slug of three tensor names has null for an entry.

    Null is no tensor. Skipping the name hides that the file is broken.
    """
    _beside_two(f, value, "null")


@rejects(
    "ENT-01",
    codes="ENT_NOT_OBJECT",
    over={"string": '"F32"', "number": "0", "true": "true", "entry-text": '"{}"'},
)
def value_of_other_type(f: FileBuilder, value: str) -> None:
    """A tensor name stands over $value instead of an object."""
    _beside_two(f, 2, value)


@chooses("entry-as-array", "ENT-02", options={"reject": reject("ENT_NOT_OBJECT"), "accept": ACCEPT})
def array_alone(f: FileBuilder) -> None:
    """The only tensor is written as an array: dtype, shape, data_offsets.

    Parsers that fill a record from JSON often take an array in field order as well as an object.
    """
    f.tensor("w", "F32", [2], value='["F32",[2],[0,8]]')


@chooses("entry-as-array", "ENT-02", options={"reject": reject("ENT_NOT_OBJECT"), "accept": ACCEPT})
def array_beside_objects(f: FileBuilder) -> None:
    """One of three tensors is written as an array, the others as objects."""
    f.tensor("a", "F32", [1])
    f.tensor("b", "F32", [1], value='["F32",[1],[4,8]]')
    f.tensor("c", "F32", [1])


@rejects(
    "ENT-02",
    codes=("ENT_NOT_OBJECT", "ENT_MISSING_FIELD"),
    over={
        "empty": "[]",
        "two-elements": '["F32",[0]]',
        "four-elements": '["F32",[0],[0,0],null]',
        "around-object": "[{" + EMPTY + "}]",
    },
)
def array_form(f: FileBuilder, value: str) -> None:
    """A tensor entry is an array without the three fields in a row: $slug."""
    _beside_two(f, 2, value)


@rejects("ENT-02", codes=("ENT_NOT_OBJECT", "DTY_BAD_TYPE", "SHP_BAD_TYPE"))
def array_in_other_order(f: FileBuilder) -> None:
    """A tensor entry is an array in the order shape, dtype, data_offsets."""
    _beside_two(f, 2, '[[0],"F32",[0,0]]')


@rejects("ENT-03", codes="ENT_MISSING_FIELD")
def object_empty(f: FileBuilder) -> None:
    """A tensor entry is an object without any field."""
    _beside_two(f, 1, "{}")


@rejects("ENT-03", codes="ENT_MISSING_FIELD", over={"dtype": "dtype", "shape": "shape"})
def field_missing(f: FileBuilder, value: str) -> None:
    """The entry of the only tensor has no $value.

    The range alone does not tell what the bytes are; a reader that fills in a default guesses.
    """
    f.tensor("w", "F32", [1], fields={value: None})


@rejects("ENT-03", codes="ENT_MISSING_FIELD", importance="high", over=PLACES)
def data_offsets_missing(f: FileBuilder, value: int) -> None:
    """The $slug of three tensors, an empty one, has no data_offsets.

    Readers that index the missing pair crash; readers that take 0 for it alias another tensor.
    """
    _beside_two(f, value, '{"dtype":"F32","shape":[0]}')


@rejects("ENT-03", codes=("ENT_MISSING_FIELD", "ENT_UNKNOWN_FIELD"))
def data_offsets_called_offsets(f: FileBuilder) -> None:
    """The range stands under the name offsets, as in an early draft of the format."""
    f.tensor("w", "F32", [2], fields={"data_offsets": None, "offsets": "[0,8]"})


@rejects(
    "ENT-05",
    codes=("ENT_MISSING_FIELD", "ENT_UNKNOWN_FIELD"),
    over={
        "dtype-capitalised": ("dtype", "Dtype"),
        "shape-upper-case": ("shape", "SHAPE"),
        "data-offsets-upper-case": ("data_offsets", "DATA_OFFSETS"),
        "data-offsets-camel-case": ("data_offsets", "dataOffsets"),
        "dtype-trailing-space": ("dtype", "dtype "),
    },
)
def field_name_variant(f: FileBuilder, value: tuple[str, str]) -> None:
    """A required field is spelled differently: $slug.

    Some JSON libraries match names without regard to case unless told otherwise.
    """
    plain, spelled = value
    texts = {"dtype": '"F32"', "shape": "[2]", "data_offsets": "[0,8]"}
    f.tensor("w", "F32", [2], fields={plain: None, spelled: texts[plain]})


@chooses("rare-ignored-values", options=RARE, over={"long-string": {"x": '"' + "y" * 30_000 + '"'}})
@chooses(
    "unknown-entry-fields",
    options={"reject": reject("ENT_UNKNOWN_FIELD"), "ignore": ACCEPT},
    over={
        "number": {"x": "1"},
        "string": {"x": '"y"'},
        "object": {"x": '{"y":{"z":[]}}'},
        "empty-name": {"": "0"},
        "strides": {"strides": "[4]"},
        "old-offsets-same-range": {"offsets": "[0,8]"},
        "old-offsets-other-range": {"offsets": "[4,8]"},
        "shape-in-upper-case": {"SHAPE": "[1]"},
        "dtype-capitalised": {"Dtype": '"I32"'},
    },
)
def unknown_field(f: FileBuilder, value: dict[str, str]) -> None:
    """An entry holds a fourth field behind the three known ones: $slug."""
    f.tensor("w", "F32", [2], fields=value)


@chooses("rare-ignored-values", options=RARE)
def unknown_field_in_front(f: FileBuilder) -> None:
    """An entry begins with an unknown field that quotes the three known ones inside a string.

    A reader that searches the text for field names finds the quoted ones first.
    """
    quoted = '"x":"\\"dtype\\":\\"I64\\",\\"shape\\":[9],\\"data_offsets\\":[0,72]"'
    f.tensor("w", "F32", [2], value="{" + quoted + ',"dtype":"F32","shape":[2],"data_offsets":[0,8]}')


@accepts("HDR-15", "HDR-10", "ENT-03")
def field_names_escaped(f: FileBuilder) -> None:
    """The three field names are written with JSON escapes.

    Names are compared after decoding; a reader that compares the raw text misses the fields.
    """
    value = '{"d\\u0074ype":"F32","\\u0073hape":[2],"data\\u005foffsets":[0,8]}'
    f.tensor("w", "F32", [2], value=value)


@accepts("ENT-06", over={"-".join(o).replace("_", "-"): o for o in permutations(FIELDS)})
def field_order(f: FileBuilder, value: tuple[str, ...]) -> None:
    """The fields stand in the order $slug.

    Hand-written parsers tend to know only the order that the official writer uses.
    """
    f.tensor("w", "F32", [2], order=value)


@accepts("ENT-07")
def name_empty(f: FileBuilder) -> None:
    """A tensor has the empty string for a name."""
    f.tensor("", "F32", [2])


@accepts(
    "ENT-08",
    over={
        "nul": "a\0b",
        "line-feed": "a\nb",
        "escape-sequence": "\x1b[31mred\x1b[0m",
        "delete": "a\x7fb",
        "quote-and-backslash": 'a"b\\c',
        "line-separator": "a\u2028b",
        "right-to-left-override": "a\u202etxt.b",
        "zero-width-joiner": "a\u200db",
        "byte-order-mark": "\ufeffa",
        "noncharacter": "a\uffffb",
        "three-byte-characters": "重み",
        "beyond-bmp": "a\U0001f917\U0010ffff",
    },
)
def name_with(f: FileBuilder, value: str) -> None:
    """A tensor name of unusual characters: $slug.

    The name must come back with exactly these characters; none ends it early or is replaced.
    """
    f.tensor(value, "F32", [2])


@accepts(
    "ENT-09",
    importance="high",
    over={
        "parent-path": "../../escape",
        "absolute-path": "/etc/escape",
        "windows-path": "C:\\escape",
        "printf-format": "%s%s%n%x",
        "brace-format": "{0}{w.__class__}",
        "shell-command": "$(touch escape);`id`",
        "markup": "<script>alert(1)</script>",
        "python-attribute": "__class__",
    },
    bugs={"parent-path": ("FB-204",), "absolute-path": ("FB-204",), "windows-path": ("FB-204",)},
)
def name_like(f: FileBuilder, value: str) -> None:
    """A tensor name that looks like something to act on: $slug.

    Names are data. Converters have used them as paths below an output folder.
    """
    f.tensor(value, "F32", [2])


@accepts("ENT-09", "HDR-19", importance="high")
def names_of_object_members(f: FileBuilder) -> None:
    """Tensors carry the names __proto__, constructor, toString and hasOwnProperty.

    In a reader that keeps tensors as properties of a plain script object they vanish or replace methods.
    """
    for name in ("__proto__", "constructor", "toString", "hasOwnProperty"):
        f.tensor(name, "F32", [1])


@accepts("ENT-09", "HDR-19")
def names_of_fields(f: FileBuilder) -> None:
    """Tensors carry the names dtype, shape and data_offsets."""
    for name in FIELDS:
        f.tensor(name, "F32", [1])


@accepts("ENT-09", "HDR-17")
def names_of_digits(f: FileBuilder) -> None:
    """Tensors are named 2, 10, 1 and 01.

    Script objects put integer-like names first and in numeric order; as numbers, 1 and 01 are equal.
    """
    for name in ("2", "10", "1", "01"):
        f.tensor(name, "U8", [3])


@accepts(
    "HDR-19",
    importance="high",
    over={
        "composed-and-decomposed": ("\u00e9", "e\u0301"),
        "upper-and-lower-case": ("Weight", "weight"),
        "trailing-space": ("w", "w "),
        "behind-nul": ("w\0a", "w\0b"),
        "up-to-nul": ("w", "w\0"),
        "look-alike-letters": ("a", "\u0430"),
        "ligature": ("\ufb01lter", "filter"),
    },
)
def two_names(f: FileBuilder, value: tuple[str, str]) -> None:
    """Two names differ only in a way that sloppy comparison loses: $slug.

    Normalising, trimming or cutting at NUL turns two tensors into one.
    """
    f.tensor(value[0], "F32", [1], b"\x00\x00\x80\x3f")
    f.tensor(value[1], "F32", [1], b"\x00\x00\x00\x40")


@accepts("HDR-19", "ENT-09")
def name_is_prefix_of_another(f: FileBuilder) -> None:
    """The names a, a.b and a/b stand side by side.

    Readers that unfold dots or slashes into a tree have a leaf and a branch of the same name.
    """
    for name in ("a", "a.b", "a/b"):
        f.tensor(name, "F32", [1])


@accepts("ENT-10", importance="low", over={"1-kib": 1024, "60-kb": 60_000})
def name_length(f: FileBuilder, value: int) -> None:
    """A tensor name of $value characters."""
    f.tensor("n" * value, "F32", [2])


@accepts("ENT-11", importance="low")
def thousand_tensors(f: FileBuilder) -> None:
    """A thousand tensors of one byte each."""
    for index in range(1000):
        f.tensor(f"{index:x}", "U8", [1])


@rejects("ENT-01", codes="ENT_NOT_OBJECT")
def value_is_entry_as_text(f: FileBuilder) -> None:
    """The value is a string that holds the text of a complete entry.

    A reader that parses strings once more, as some do with metadata, finds a tensor there.
    """
    f.tensor("w", "F32", [2], value=json.dumps(ENTRY))


@rejects("SHP-01", "ENT-01", codes="SHP_BAD_TYPE", over={"alone": "[null]", "behind-two": "[2,null]"})
def dimension_null_beside_empty_range(f: FileBuilder, shape: str) -> None:
    """The shape is $value, and the range is empty.

    A reader that takes null for zero finds nothing wrong with the size.
    """
    f.tensor("w", "F32", [0], fields={"shape": shape})


@chooses(
    "unknown-entry-fields",
    "DAT-03",
    options={"reject": reject("ENT_UNKNOWN_FIELD"), "ignore": ACCEPT},
    over={"column-major": "[1,2]", "row-major": "[3,1]"},
)
def strides_of_matrix(f: FileBuilder, strides: str) -> None:
    """A field that the format does not have gives strides to a matrix: $slug.

    Elements are stored row by row whatever it says.
    """
    f.tensor("w", "F32", [2, 3], fields={"strides": strides})
