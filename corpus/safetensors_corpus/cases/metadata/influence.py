"""Metadata: what it must not change, and values just beyond what it may hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...author.case import accepts, rejects
from ...author.file import pattern
from ...author.parts import ENTRY

if TYPE_CHECKING:
    from ...author.file import FileBuilder

ESCAPED_KEY = r'"\u005f\u005fmetadata__"'


@rejects("OFF-07", "MET-08", codes="OFF_HOLE", importance="high")
def hole_announced(f: FileBuilder) -> None:
    """The metadata declares four bytes of padding between two tensors.

    What the map says cannot make a hole valid.
    """
    f.metadata({"padding": "[4,8]", "alignment": "8"})
    f.tensor("a", "F32", [1])
    f.gap(4)
    f.tensor("b", "F32", [1])


@rejects("OFF-08", "MET-08", codes="OFF_TRAILING", importance="high")
def trailer_announced(f: FileBuilder) -> None:
    """The metadata declares a checksum of four bytes behind the last tensor, and there it is."""
    f.metadata({"checksum": "crc32", "trailer": "4"})
    f.tensor("w", "F32", [2])
    f.trailer = b"\x12\x34\x56\x78"


@rejects("DTY-01", "MET-08", codes="DTY_UNKNOWN", importance="high")
def dtype_announced(f: FileBuilder) -> None:
    """The metadata explains an unknown dtype of the tensor."""
    f.metadata({"dtypes": "Q8 means U8"})
    f.tensor("w", "U8", [8], fields={"dtype": '"Q8"'})


@rejects("OFF-05", "MET-08", codes="OFF_SIZE_MISMATCH", importance="high")
def shape_repeated_otherwise(f: FileBuilder) -> None:
    """The metadata holds the shape that would fit the range, the entry another one."""
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
    """Metadata that names a property of the data which the format does not have: $slug.

    The tensor is read as its entry says.
    """
    f.metadata(value)
    f.tensor("w", "I16", [2, 3])


@rejects("MET-07", "MET-06", codes=("MET_VALUE_NOT_STRING", "OFF_TRAILING", "OFF_HOLE"), importance="high")
def tensor_under_escaped_key(f: FileBuilder) -> None:
    """A complete tensor entry stands under the reserved key, which is written with escapes.

    A reader that compares keys as they are written finds a valid tensor.
    """
    f.tensor("w", "F32", [1])
    f.tensor("__metadata__", "F32", [1], key=ESCAPED_KEY)


@rejects("MET-01", "MET-06", codes="MET_VALUE_NOT_STRING", over={"number": "1", "object": '{"a":"b"}'})
def value_type_under_escaped_key(f: FileBuilder, value: str) -> None:
    """A metadata value is no string, and the reserved key is written with escapes: $slug."""
    f.metadata(None, raw=f'{{"k":{value}}}', key=ESCAPED_KEY)
    f.tensor("w", "F32", [2])


@accepts("MET-06", "MET-03")
def empty_map_under_escaped_key(f: FileBuilder) -> None:
    """An empty map stands under the reserved key, every letter of which is escaped."""
    f.metadata({}, key='"' + "".join(f"\\u{ord(c):04x}" for c in "__metadata__") + '"')
    f.tensor("w", "F32", [2])


@accepts("MET-01", "MET-07")
def two_field_names_in_map(f: FileBuilder) -> None:
    """The map has the keys dtype and data_offsets, with texts for values.

    Two of the three field names over strings are metadata, not a broken tensor.
    """
    f.metadata({"dtype": "F32", "data_offsets": "0,8"})
    f.tensor("w", "F32", [2])


@rejects("MET-07", "MET-01", codes="MET_VALUE_NOT_STRING", over={"shape": 1, "data-offsets": 2})
def one_array_in_map(f: FileBuilder, value: int) -> None:
    """The map resembles a tensor entry, and only $slug is an array and not a text."""
    texts = ['"F32"', '"[0]"', '"[0,0]"']
    texts[value] = texts[value].strip('"')
    f.metadata(None, raw='{{"dtype":{},"shape":{},"data_offsets":{}}}'.format(*texts))
    f.tensor("w", "F32", [2])


@rejects("FRM-09", "OFF-08", codes=("OFF_TRAILING", "OFF_HOLE"), importance="high")
def empty_map_and_one_byte(f: FileBuilder) -> None:
    """An empty map, no tensor, and one data byte."""
    f.metadata({})
    f.gap(1)


@rejects(
    "MET-01",
    codes="MET_NOT_MAP",
    over={
        "text": '"{}"',
    },
)
def not_empty_map(f: FileBuilder, value: str) -> None:
    """The metadata key holds something that resembles an empty map, in a file without tensors: $slug."""
    f.metadata(None, raw=value)


PROGRAMS = {
    "html": "<!DOCTYPE html><script>document.title='run'</script>",
    "shell-script": "\n#!/bin/sh\necho run\nexit 0\n",
    "pickle-in-letters": "cbuiltins\nprint\n(Vrun\ntR.",
    "header-of-a-file": '{"__metadata__":{},"inner":' + ENTRY + "}",
    "yaml": "!!python/object/apply:builtins.print ['run']",
}


@accepts("MET-08", "MET-04", importance="high", over=PROGRAMS)
def value_holds(f: FileBuilder, value: str) -> None:
    """A metadata value holds text that other programs run or parse: $slug.

    It is text in a map, whatever a program that searches the file for it may think.
    """
    f.metadata({"description": value})
    f.tensor("w", "F32", [2])


@rejects("HDR-13", "MET-01", codes=("HDR_DUP_KEY", "MET_VALUE_NOT_STRING"), importance="high")
def key_twice_first_a_number(f: FileBuilder) -> None:
    """A metadata key stands twice, first over a number and then over a text.

    A parser that keeps the last value hides the wrong one before anybody checks it.
    """
    f.metadata(None, raw='{"k":1,"k":"a"}')
    f.tensor("w", "F32", [2])


@accepts("MET-08", "DAT-02", over={"np": "np", "pt": "pt", "tf": "tf", "flax": "flax", "mlx": "mlx"})
def format_beside_matrix(f: FileBuilder, value: str) -> None:
    """The metadata says that the file was written for another library ($value).

    Dimensions keep their order and elements theirs, whatever that library does in memory.
    """
    f.metadata({"format": value})
    f.tensor("a", "F32", [2, 3])
    f.tensor("b", "I16", [4, 1, 2])
