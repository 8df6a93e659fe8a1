"""Layout: the spelling of the two offsets, at the begin and at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...author.case import accepts, rejects
from ...author.parts import PLACES

if TYPE_CHECKING:
    from ...author.file import FileBuilder


@rejects(
    "OFF-02",
    ahead={"end-nearly-eight": ("OFF-01",)},
    codes="ENT_BAD_INTEGER",
    over={
        "begin-zero-exponent": "[0e5,8]",
        "begin-minus-zero-point": "[-0.0,8]",
        "end-exponent-plus": "[0,8E+0]",
        "end-exponent-minus": "[0,80e-1]",
        "end-many-zeros": "[0,8." + "0" * 100 + "]",
        "end-nearly-eight": "[0,7.9999999999999999999]",
    },
)
def offset_number(f: FileBuilder, value: str) -> None:
    """An offset is a number that JSON allows and a range does not: $slug.

    As a double it is just the right offset.
    """
    f.tensor("w", "F32", [2], fields={"data_offsets": value})


@rejects(
    "OFF-02",
    codes="ENT_BAD_INTEGER",
    over={
        "begin-first": (0, "[0.0,8]"),
        "begin-middle": (1, "[8.0,16]"),
        "begin-last": (2, "[16.0,24]"),
        "end-first": (0, "[0,8.0]"),
        "end-middle": (1, "[8,1.6e1]"),
        "end-last": (2, "[16,2.4e1]"),
    },
)
def offset_number_in_one_of_three(f: FileBuilder, value: tuple[int, str]) -> None:
    """One offset of three tensors is spelled with a point or an exponent: $slug."""
    for index, name in enumerate("abc"):
        f.tensor(name, "F32", [2], fields={"data_offsets": value[1]} if index == value[0] else {})


@rejects(
    "HDR-07",
    "OFF-02",
    codes=("HDR_NOT_JSON", "ENT_BAD_INTEGER", "OFF_BAD_PAIR"),
    over={
        "begin-two-zeros": "[00,8]",
        "begin-minus-alone": "[-,8]",
        "end-point-last": "[0,8.]",
        "end-exponent-empty": "[0,8e]",
        "end-hexadecimal": "[0,0x8]",
        "end-infinity": "[0,Infinity]",
        "end-missing": "[0,]",
    },
)
def offset_text(f: FileBuilder, value: str) -> None:
    """An offset is spelled in a way that JSON does not know: $slug."""
    f.tensor("w", "F32", [2], fields={"data_offsets": value})


@rejects(
    "OFF-01",
    codes="ENT_BAD_INTEGER",
    importance="critical",
    over={
        "begin-minus-2p64": f"[{-(2**64)},8]",
        "begin-minus-2p32": f"[{-(2**32)},8]",
        "end-minus-2p64-plus-8": f"[0,{8 - 2**64}]",
        "end-minus-8": "[0,-8]",
        "both-minus": "[-16,-8]",
    },
)
def offset_wraps(f: FileBuilder, value: str) -> None:
    """An offset is no integer from 0 to 2^64 - 1, but is the right one once it is cut or turned: $slug."""
    f.tensor("w", "F32", [2], fields={"data_offsets": value})


@rejects("OFF-01", codes="OFF_BAD_PAIR", importance="critical", over=PLACES)
def one_offset_in_one_of_three(f: FileBuilder, value: int) -> None:
    """The $slug of three tensors, an empty one, has one offset and not two."""
    for index, name in enumerate("abc"):
        if index == value:
            f.tensor(name, "U8", [0], fields={"data_offsets": f"[{f.position}]"})
        else:
            f.tensor(name, "U8", [4])


@accepts("HDR-08", "OFF-01", "OFF-02")
def offsets_of_five_digits(f: FileBuilder) -> None:
    """Offsets of one to five digits, written with spaces and line ends in the pair.

    Zeros inside and at the end of a number are no leading zeros.
    """
    f.tensor("a", "U8", [10])
    f.tensor("b", "U8", [90])
    f.tensor("c", "U8", [900], fields={"data_offsets": "[ 100 ,\n 1000 ]"})
    f.tensor("d", "U8", [19_000])
