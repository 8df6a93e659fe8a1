"""Entries: the value of a tensor name, its three fields, and the names themselves.

Some values only resemble an entry. Faults occur in the first, the middle or the last of three entries. Some
names could make a program do something unintended.
"""

from __future__ import annotations

import json
from itertools import permutations

from safetensors_corpus.author.case import accepts, chooses, rejects
from safetensors_corpus.author.file import FileBuilder
from safetensors_corpus.author.parts import ENTRY, PLACES, RARE, header_text, renamed_field, three_tensors
from safetensors_reference.rules.dtypes import DTYPE_BITS

FIELDS = ("dtype", "shape", "data_offsets")
ONE = ("F32", [1])
"""Dtype and shape of the tensors that the case does not test."""
RENAMED = "ENT_MISSING_FIELD ENT_UNKNOWN_FIELD"
EMPTY = '"dtype":"F32","shape":[0],"data_offsets":[0,0]'
"""Fields of an empty tensor. Skipping this entry does not leave a hole in the data."""


def _beside_two(f: FileBuilder, place: int, value: str) -> None:
    """Write three entries: ``value`` at ``place``, and two others that cover the data."""
    for index, name in enumerate("abc"):
        if index == place:
            f.member(f'"{name}"', value)
        else:
            f.tensor(name, "F32", [1])


@rejects("ENT-01", "ENT_NOT_OBJECT", over=PLACES)
def value_null(f: FileBuilder, value: int) -> None:
    """The $slug of three tensor names has the value null.

    Null is not a tensor, and skipping the name would hide the fault.
    """
    _beside_two(f, value, "null")


@rejects(
    "ENT-01", "ENT_NOT_OBJECT", over={"string": '"F32"', "number": "0", "true": "true", "entry-text": '"{}"'}
)
def value_of_other_type(f: FileBuilder, value: str) -> None:
    """The value of a tensor name is $value instead of an object."""
    _beside_two(f, 2, value)


@chooses("entry-as-array", "ENT-02", codes="ENT_NOT_OBJECT")
def array_alone(f: FileBuilder) -> None:
    """The only tensor is written as an array of dtype, shape and data_offsets.

    Parsers that fill a record from JSON often accept an array in field order as well as an object.
    """
    f.tensor("w", "F32", [2], value='["F32",[2],[0,8]]')


@chooses("entry-as-array", "ENT-02", codes="ENT_NOT_OBJECT")
def array_beside_objects(f: FileBuilder) -> None:
    """One of three tensors is written as an array, and the other two are written as objects."""
    three_tensors(f, 1, usual=ONE, value='["F32",[1],[4,8]]')


ARRAY_FORM = {
    "empty": "[]",
    "two-elements": '["F32",[0]]',
    "four-elements": '["F32",[0],[0,0],null]',
    "around-object": "[{" + EMPTY + "}]",
}


@rejects("ENT-02", "ENT_NOT_OBJECT ENT_MISSING_FIELD", over=ARRAY_FORM)
def array_form(f: FileBuilder, value: str) -> None:
    """A tensor entry is an array of something other than the three fields in order: $slug."""
    _beside_two(f, 2, value)


@rejects("ENT-02", "ENT_NOT_OBJECT DTY_BAD_TYPE SHP_BAD_TYPE")
def array_in_other_order(f: FileBuilder) -> None:
    """A tensor entry is an array in the order shape, dtype, data_offsets."""
    _beside_two(f, 2, '[[0],"F32",[0,0]]')


@rejects("ENT-03", "ENT_MISSING_FIELD")
def object_empty(f: FileBuilder) -> None:
    """A tensor entry is an empty object."""
    _beside_two(f, 1, "{}")


@rejects("ENT-03", "ENT_MISSING_FIELD", over=("dtype", "shape"))
def field_missing(f: FileBuilder, value: str) -> None:
    """The entry of the only tensor has no $value.

    The range does not define the meaning of the bytes, so a reader that uses a default for a missing field is
    guessing.
    """
    f.tensor("w", "F32", [1], fields={value: None})


@rejects("ENT-03", "ENT_MISSING_FIELD", importance="high", over=PLACES)
def data_offsets_missing(f: FileBuilder, value: int) -> None:
    """The $slug of three tensors is empty and has no data_offsets.

    Readers that index the missing pair crash. Readers that use 0 instead make the tensor alias another
    tensor.
    """
    _beside_two(f, value, '{"dtype":"F32","shape":[0]}')


@rejects("ENT-03", RENAMED)
def data_offsets_called_offsets(f: FileBuilder) -> None:
    """The range is called offsets, as in an early draft of the format."""
    renamed_field(f, "data_offsets", "offsets")


FIELD_NAME_VARIANT = {
    "dtype-capitalised": ("dtype", "Dtype"),
    "shape-upper-case": ("shape", "SHAPE"),
    "data-offsets-upper-case": ("data_offsets", "DATA_OFFSETS"),
    "data-offsets-camel-case": ("data_offsets", "dataOffsets"),
    "dtype-trailing-space": ("dtype", "dtype "),
}


@rejects("ENT-05", RENAMED, over=FIELD_NAME_VARIANT)
def field_name_variant(f: FileBuilder, plain: str, spelled: str) -> None:
    """A required field is spelled differently: $slug.

    Some JSON libraries ignore the case of field names by default.
    """
    renamed_field(f, plain, spelled)


@chooses("rare-ignored-values", options=RARE, over={"long-string": {"x": '"' + "y" * 30_000 + '"'}})
@chooses(
    "unknown-entry-fields",
    codes="ENT_UNKNOWN_FIELD",
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
    """An entry has an unknown field after the three known fields: $slug."""
    f.tensor("w", "F32", [2], fields=value)


@chooses("rare-ignored-values", options=RARE)
def unknown_field_in_front(f: FileBuilder) -> None:
    """An entry begins with an unknown field whose string value contains the text of the three known fields.

    A reader that searches the text for field names finds the quoted names first.
    """
    quoted = '"x":"\\"dtype\\":\\"I64\\",\\"shape\\":[9],\\"data_offsets\\":[0,72]"'
    f.tensor("w", "F32", [2], value="{" + quoted + ',"dtype":"F32","shape":[2],"data_offsets":[0,8]}')


@accepts("HDR-15 HDR-10 ENT-03")
def field_names_escaped(f: FileBuilder) -> None:
    """The three field names are written with JSON escapes.

    A reader must compare names after decoding them. A reader that compares the raw text does not find the
    fields.
    """
    value = '{"d\\u0074ype":"F32","\\u0073hape":[2],"data\\u005foffsets":[0,8]}'
    f.tensor("w", "F32", [2], value=value)


@accepts("ENT-06", over={"-".join(o).replace("_", "-"): o for o in permutations(FIELDS)})
def field_order(f: FileBuilder, value: tuple[str, ...]) -> None:
    """The fields appear in the order $slug.

    Hand-written parsers often support only the order that the official writer uses.
    """
    f.tensor("w", "F32", [2], order=value)


@accepts("ENT-07")
def name_empty(f: FileBuilder) -> None:
    """The name of a tensor is the empty string."""
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
    """A tensor name contains unusual characters: $slug.

    The reader must return the name without truncating it or replacing characters.
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
    bugs={"parent-path": "FB-204", "absolute-path": "FB-204", "windows-path": "FB-204"},
)
def name_like(f: FileBuilder, value: str) -> None:
    """A tensor name looks like something that a program could act on: $slug.

    Names are only data, but converters have used them as paths below an output folder.
    """
    f.tensor(value, "F32", [2])


@accepts("ENT-09 HDR-19", importance="high")
def names_of_object_members(f: FileBuilder) -> None:
    """Tensors are named __proto__, constructor, toString and hasOwnProperty.

    If a reader stores tensors as properties of a plain JavaScript object, these names vanish or replace
    methods.
    """
    f.tensors(("__proto__", "constructor", "toString", "hasOwnProperty"), "F32", [1])


@accepts("ENT-09 HDR-19")
def names_of_fields(f: FileBuilder) -> None:
    """Tensors are named dtype, shape and data_offsets."""
    f.tensors(FIELDS, "F32", [1])


@accepts("ENT-09", over={"zeros-in-front": ("007", "7"), "only-zeros": ("0", "00", "000")})
def names_of_more_digits(f: FileBuilder, names: tuple[str, ...]) -> None:
    """Tensor names are different spellings of the same number: $slug."""
    for number, name in enumerate(names):
        f.tensor(name, "F32", [number + 1])


@accepts("ENT-09 HDR-17")
def names_of_digits(f: FileBuilder) -> None:
    """Tensors are named 2, 10, 1 and 01.

    JavaScript objects list integer-like names first, in numeric order. As numbers, 1 and 01 are equal.
    """
    f.tensors(("2", "10", "1", "01"), "U8", [3])


TWO_NAMES = {
    "composed-and-decomposed": ("\u00e9", "e\u0301"),
    "upper-and-lower-case": ("Weight", "weight"),
    "trailing-space": ("w", "w "),
    "behind-nul": ("w\0a", "w\0b"),
    "up-to-nul": ("w", "w\0"),
    "look-alike-letters": ("a", "\u0430"),
    "ligature": ("\ufb01lter", "filter"),
}


@accepts("HDR-19", importance="high", over=TWO_NAMES)
def two_names(f: FileBuilder, first: str, second: str) -> None:
    """Two names differ only in a detail that a loose comparison ignores: $slug.

    Normalising or trimming names, or truncating them at NUL, turns two tensors into one.
    """
    f.tensor(first, "F32", [1], b"\x00\x00\x80\x3f")
    f.tensor(second, "F32", [1], b"\x00\x00\x00\x40")


@accepts("HDR-19 ENT-09")
def name_is_prefix_of_another(f: FileBuilder) -> None:
    """The tensors are named a, a.b and a/b.

    Readers that split names at dots or slashes into a tree get a leaf and a branch with the same name.
    """
    f.tensors(("a", "a.b", "a/b"), "F32", [1])


@accepts("ENT-10", importance="low", over={"1-kib": 1024, "60-kb": 60_000})
def name_length(f: FileBuilder, value: int) -> None:
    """A tensor name has $value characters."""
    f.tensor("n" * value, "F32", [2])


@accepts("ENT-11", importance="low")
def thousand_tensors(f: FileBuilder) -> None:
    """The file has a thousand tensors of one byte each."""
    for index in range(1000):
        f.tensor(f"{index:x}", "U8", [1])


@rejects("ENT-01", "ENT_NOT_OBJECT")
def value_is_entry_as_text(f: FileBuilder) -> None:
    """The value of a tensor name is a string that contains the text of a complete entry.

    A reader that parses strings a second time, as some do for metadata, finds a tensor there.
    """
    f.tensor("w", "F32", [2], value=json.dumps(ENTRY))


@rejects("SHP-01 ENT-01", "SHP_BAD_TYPE", over={"alone": "[null]", "behind-two": "[2,null]"})
def dimension_null_beside_empty_range(f: FileBuilder, shape: str) -> None:
    """The shape is $value, and the range is empty.

    A reader that treats null as zero computes a matching size.
    """
    f.tensor("w", "F32", [0], fields={"shape": shape})


@chooses(
    "unknown-entry-fields",
    "DAT-03",
    codes="ENT_UNKNOWN_FIELD",
    over={"column-major": "[1,2]", "row-major": "[3,1]"},
)
def strides_of_matrix(f: FileBuilder, strides: str) -> None:
    """An entry has an unknown field that defines strides for a matrix: $slug.

    Elements are stored in row-major order, whatever the field contains.
    """
    f.tensor("w", "F32", [2, 3], fields={"strides": strides})


@rejects("ENT-03", "ENT_MISSING_FIELD", over=PLACES)
def dtype_missing(f: FileBuilder, value: int) -> None:
    """The $slug of three entries has no dtype.

    The dtype of a neighbouring tensor, or a value left over from another entry, would match the size of the
    range.
    """
    three_tensors(f, value, usual=ONE, fields={"dtype": None})


@rejects("ENT-03", "ENT_MISSING_FIELD", over=PLACES)
def shape_missing(f: FileBuilder, value: int) -> None:
    """The $slug of three entries has no shape.

    A missing shape does not mean a scalar, although the range would match a scalar.
    """
    three_tensors(f, value, usual=ONE, fields={"shape": None})


@rejects("ENT-03", "ENT_MISSING_FIELD", over={"dtype": "dtype", "shape": "shape", "offsets": FIELDS[2]})
def only_one_field(f: FileBuilder, value: str) -> None:
    """An entry has only one field: $slug."""
    f.tensor("w", "U8", [0], fields={name: None for name in FIELDS if name != value})


@rejects("ENT-01", "ENT_NOT_OBJECT", over={"first": 0, "middle": 1})
def value_number(f: FileBuilder, value: int) -> None:
    """The $slug of three names has a number as its value."""
    _beside_two(f, value, "0")


@rejects("ENT-01", "ENT_NOT_OBJECT", over={"false": "false", "empty-string": '""', "digits": '"[0,0]"'})
def value_of_another_type(f: FileBuilder, value: str) -> None:
    """The second of three names has a value that is not an object: $slug."""
    f.tensor("a", "F32", [1])
    f.member('"note"', value)
    f.tensor("b", "F32", [1])


@chooses("entry-as-array", "ENT-02", codes="ENT_NOT_OBJECT", over={"first": 0, "last": 2})
def array_as(f: FileBuilder, value: int) -> None:
    """The $slug of three tensors is written as an array, and the others are written as objects."""
    three_tensors(f, value, usual=ONE, value=f'["F32",[1],[{4 * value},{4 * value + 4}]]')


@rejects("HDR-12", "HDR_DUP_KEY", over=PLACES)
def dtype_twice(f: FileBuilder, value: int) -> None:
    """The $slug of three entries has two dtypes of the same width.

    Either dtype yields a tensor of the right size, but the numbers differ.
    """
    fields = f'"dtype":"F32","shape":[1],"data_offsets":[{4 * value},{4 * value + 4}]'
    three_tensors(f, value, usual=ONE, value=f'{{"dtype":"I32",{fields}}}')


@rejects("ENT-03 ENT-06", "ENT_MISSING_FIELD", over=FIELDS)
def other_order_without(f: FileBuilder, value: str) -> None:
    """The fields are in reverse order, and one of them is missing: $slug.

    Fields may appear in any order, but all three are required.
    """
    f.tensor("w", "F32", [1], order=FIELDS[::-1], fields={value: None})


@rejects("HDR-12 ENT-06", "HDR_DUP_KEY")
def other_order_with_repetition(f: FileBuilder) -> None:
    """The range is the first field and appears again, with the same offsets, as the last field."""
    fields = '"data_offsets":[0,8],"shape":[2],"dtype":"F32","data_offsets":[0,8]'
    f.tensor("w", "F32", [2], value="{" + fields + "}")


@accepts("ENT-01 MET-05 MET-09")
def names_like_file_properties(f: FileBuilder) -> None:
    """Tensors are named metadata, format, version, header and other words that describe a file.

    Every key except the reserved key is the name of a tensor.
    """
    f.tensors(("metadata", "format", "version", "$schema", "_comment", "header"), "F32", [1])


@accepts("ENT-09 ENT-01")
def names_like_entries(f: FileBuilder) -> None:
    """Tensor names look like invalid entries, such as an array, null, a number or an empty object."""
    f.tensors(('["F32",[1],[0,4]]', "null", "0", "{}", "true", '{"dtype":"U8"}'), "F32", [1])


@accepts("ENT-01 ENT-05")
def names_like_misspelled_fields(f: FileBuilder) -> None:
    """Tensors are named Dtype, SHAPE, dataOffsets and offsets.

    An entry must not use these strings as field names, but they are valid tensor names.
    """
    f.tensors(("Dtype", "SHAPE", "dataOffsets", "offsets"), "U8", [3])


@rejects("ENT-05", RENAMED, over=PLACES)
def capital_letter_in_entry(f: FileBuilder, value: int) -> None:
    """The $slug of three entries spells the field name shape with a capital letter."""
    three_tensors(f, value, usual=ONE, fields={"shape": None, "Shape": "[1]"})


@rejects(
    "HDR-09 ENT-01",
    "ENT_NOT_OBJECT HDR_DUP_KEY",
    importance="medium",
    over={"null": "null", "number": "0", "string": '"F32"'},
)
def no_entry_and_then_again(f: FileBuilder, value: str) -> None:
    """A tensor name appears twice, and its first value is not an entry ($slug).

    A parser that keeps the last value hides the invalid first value.
    """
    header_text(f, f'{{"w":{value},"w":ENTRY}}')


NAME_TO_ACT_ON = {
    "dots": "..",
    "dot-segments-of-windows": "..\\..\\escape",
    "home-path": "~/escape",
    "network-path": "\\\\server\\share",
    "windows-device": "NUL",
    "url": "https://user@example.invalid/w?x=1#y",
    "shell-variable": "${HOME}",
    "template": "{{7*7}}<%= 7 %>#{7}",
    "lookup": "${jndi:ldap://example.invalid/a}",
    "formula": "=1+1",
    "option": "--help",
    "wide-format": "%1000000d%n",
    "pickle-opcode": "cos\nsystem\n(S'id'\ntR.",
}


@accepts("ENT-09", importance="high", over=NAME_TO_ACT_ON)
def name_to_act_on(f: FileBuilder, value: str) -> None:
    """A tensor has a name that a program might act on: $slug.

    A reader must return the name unchanged.
    """
    f.tensor(value, "F32", [2])


@accepts(
    "ENT-08",
    over={
        "all-controls": "".join(map(chr, range(32))),
        "second-control-block": "".join(map(chr, range(0x7F, 0xA0))),
        "combining-marks-only": "\u0301\u0300\u0327",
        "bidirectional-isolates": "\u2066a\u2067b\u2068c\u2069",
        "tag-characters": "a\U000e0041\U000e0042\U000e007f",
        "variation-selectors": "a\ufe0fb\U000e0100",
        "private-use": "\ue000\U000f0000\U0010fffd",
        "noncharacters": "\ufdd0\ufffe\U0001fffe\U0010ffff",
        "joined-emoji": "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        "long-cluster": "e" + "\u0301" * 200,
    },
)
def name_of(f: FileBuilder, value: str) -> None:
    """A tensor name contains rare characters: $slug.

    A name is a sequence of code points, regardless of how it is displayed.
    """
    f.tensor(value, "F32", [2])


NAMES_APART = {
    "zero-width-space": ("w", "w\u200b"),
    "soft-hyphen": ("ab", "a\xadb"),
    "variation-selector": ("\u2764", "\u2764\ufe0f"),
    "wide-forms": ("\uff57", "w"),
    "angstrom-and-ring": ("\u212b", "\xc5"),
    "hangul-forms": ("\uac00", "\u1100\u1161"),
    "order-of-marks": ("a\u0323\u0302", "a\u0302\u0323"),
    "dotless-i": ("I", "\u0131"),
    "sharp-s": ("\xdf", "ss"),
    "line-ends": ("a\nb", "a\r\nb"),
    "slashes": ("a/b", "a//b"),
}


@accepts("HDR-19", importance="high", over=NAMES_APART)
def names_apart(f: FileBuilder, first: str, second: str) -> None:
    """Cleaning, case-folding or normalising two names would make them equal: $slug.

    The names belong to two tensors with different content.
    """
    f.tensor(first, "F32", [1], b"\x00\x00\x80\x3f")
    f.tensor(second, "F32", [1], b"\x00\x00\x00\x40")


@accepts("HDR-19 HDR-17")
def names_sorted_otherwise(f: FileBuilder) -> None:
    """The order of two names in UTF-8 differs from their order in UTF-16.

    A reader that sorts a list in one order and searches it in the other may not find a name.
    """
    f.tensors(("\U00010000", "\uffee", "\ud7ff", "z"), "U8", [2])


@accepts("ENT-09")
def names_of_dtypes(f: FileBuilder) -> None:
    """Every dtype code is also the name of a tensor with a different dtype."""
    for name in DTYPE_BITS:
        f.tensor(name, "I8" if name == "U8" else "U8", [8])


@accepts("ENT-09 HDR-19", importance="high")
def names_of_language_members(f: FileBuilder) -> None:
    """Tensors are named like attributes and properties of objects in scripting languages."""
    for name in ("prototype", "length", "valueOf", "__init__", "__getattr__", "__dict__", "keys", "self"):
        f.tensor(name, "U8", [2])


@accepts("ENT-09", importance="high")
def names_that_become_one_path(f: FileBuilder) -> None:
    """A file system may treat all six tensor names as one path: w, ./w, x/../w, W, w. and w/."""
    f.tensors(("w", "./w", "x/../w", "W", "w.", "w/"), "U8", [2])


@accepts("ENT-10 ENT-08", importance="low")
def name_of_30_kb_of_emoji(f: FileBuilder) -> None:
    """A tensor name has 7,500 characters of four bytes each.

    The name has a different length in characters, in UTF-16 units and in bytes.
    """
    f.tensor("\U0001f917" * 7500, "F32", [2])


@accepts("ENT-10", importance="low", over=(255, 256))
def name_size(f: FileBuilder, value: int) -> None:
    """A tensor name has $value characters, close to the size of common fixed buffers."""
    f.tensor("n" * value, "F32", [2])
