"""Layout: the form, the spelling and the order of the two offsets of a tensor."""

from __future__ import annotations

from safetensors_corpus.author.case import accepts, rejects
from safetensors_corpus.author.file import FileBuilder
from safetensors_corpus.author.parts import PLACES, three_tensors

OLLAMA = "https://github.com/ollama/ollama/issues/17148"


@rejects(
    "OFF-01",
    codes="OFF_BAD_PAIR",
    importance="critical",
    issue=OLLAMA,
    over={"none": "[]", "one": "[0]"},
    bugs={"none": "FB-87", "one": "FB-43 FB-87"},
)
def offsets_too_few(f: FileBuilder, value: str) -> None:
    """The range of a tensor is $value, so it has $slug of the two offsets.

    A reader that does not check the count may crash when it reads the missing offset, or read whatever
    follows.
    """
    f.tensor("w", "F32", [2], fields={"data_offsets": value})


OFFSETS_FORM = {
    "three-numbers": "[0,8,8]",
    "null": "null",
    "number": "8",
    "string": '"0,8"',
    "empty-object": "{}",
    "object": '{"0":0,"1":8}',
    "begin-and-end": '{"begin":0,"end":8}',
    "nested": "[[0,8]]",
}


@rejects("OFF-01", codes="OFF_BAD_PAIR ENT_BAD_INTEGER", over=OFFSETS_FORM)
def offsets_form(f: FileBuilder, value: str) -> None:
    """The range of a tensor is not a pair of integers: $slug."""
    f.tensor("w", "F32", [2], fields={"data_offsets": value})


@rejects(
    "OFF-02",
    codes="ENT_BAD_INTEGER",
    over={
        "point-zero": "[0,8.0]",
        "point-zero-first": "[0.0,8]",
        "exponent": "[0,8e0]",
        "half": "[0,8.5]",
        "minus-zero": "[-0,8]",
    },
    ahead={"half": "OFF-01"},
)
@rejects(
    "OFF-04 SHP-07",
    codes="ENT_BAD_INTEGER OFF_OUT_OF_BOUNDS",
    over={
        "2p64": f"[0,{2**64}]",
        "2p64-plus-8": f"[0,{2**64 + 8}]",
        "both-2p64-more": f"[{2**64},{2**64 + 8}]",
        "60000-digits": "[0," + "1" * 60_000 + "]",
    },
)
@rejects(
    "OFF-04 SHP-07 API-14",
    codes="ENT_BAD_INTEGER OFF_OUT_OF_BOUNDS",
    over={
        "400-digits": "[0," + "1" * 400 + "]",
        "400-digits-twice": "[" + "1" * 400 + "," + "1" * 399 + "9]",
    },
    bugs="FB-116",
)
def offset_spelled(f: FileBuilder, value: str) -> None:
    """An offset is a number but not a plain integer below 2^64: $slug."""
    f.tensor("w", "F32", [2], fields={"data_offsets": value})


OFFSET_TYPE = {
    "strings": ('["0","1"]', 1),
    "booleans": ("[false,true]", 1),
    "null-first": ("[null,1]", 1),
    "null-last": ("[0,null]", 0),
    "array-last": ("[0,[1]]", 1),
}


@rejects("OFF-01", codes="ENT_BAD_INTEGER OFF_BAD_PAIR", over=OFFSET_TYPE)
def offset_type(f: FileBuilder, value: tuple[str, int]) -> None:
    """An offset is not a number: $slug."""
    f.tensor("w", "U8", [value[1]], fields={"data_offsets": value[0]})


@rejects("OFF-01", codes="ENT_BAD_INTEGER", importance="critical", bugs="FB-43 FB-62 FB-85")
def offset_negative(f: FileBuilder) -> None:
    """The range of a tensor is [-8, 0], which is just before the data.

    The range has the right length. A reader that does not check the sign returns the end of the header as
    tensor content.
    """
    f.tensor("w", "F32", [2], b"", fields={"data_offsets": "[-8,0]"})


@rejects(
    "HDR-07 OFF-02",
    codes="HDR_NOT_JSON ENT_BAD_INTEGER",
    over={"leading-zero": "[0,08]", "plus-sign": "[0,+8]"},
)
def offset_outside_json(f: FileBuilder, value: str) -> None:
    """An offset has a spelling that JSON does not allow: $slug."""
    f.tensor("w", "F32", [2], fields={"data_offsets": value})


@rejects(
    "OFF-03",
    codes="OFF_REVERSED OFF_SIZE_MISMATCH OFF_HOLE",
    importance="critical",
    bugs="FB-43 FB-53 FB-62 FB-87",
    issue=OLLAMA,
    over=PLACES,
)
def offsets_swapped(f: FileBuilder, value: int) -> None:
    """The begin and end offsets of the $slug of three tensors are swapped."""
    three_tensors(f, value, begin=8 * value + 8, end=8 * value)


@rejects(
    "OFF-03 OFF-13",
    codes="OFF_REVERSED OFF_OUT_OF_BOUNDS OFF_SIZE_MISMATCH",
    importance="critical",
    bugs="FB-43 FB-53 FB-62",
    over={
        "2p64-less-8-to-0": (2**64 - 8, 0),
        "2p64-less-4-to-4": (2**64 - 4, 4),
        "2p32-less-8-to-0": (2**32 - 8, 0),
    },
)
def reversed_wraps_to_size(f: FileBuilder, value: tuple[int, int]) -> None:
    """Subtracting the begin offset from the end offset wraps around to the size of the tensor: $slug.

    The end offset is inside the file. As a signed number, the begin offset is just before the data.
    """
    f.tensor("w", "F32", [2], begin=value[0], end=value[1])


OFFSET_NUMBER = {
    "begin-zero-exponent": "[0e5,8]",
    "begin-minus-zero-point": "[-0.0,8]",
    "end-exponent-plus": "[0,8E+0]",
    "end-exponent-minus": "[0,80e-1]",
    "end-many-zeros": "[0,8." + "0" * 100 + "]",
    "end-nearly-eight": "[0,7.9999999999999999999]",
}


@rejects("OFF-02", ahead={"end-nearly-eight": "OFF-01"}, codes="ENT_BAD_INTEGER", over=OFFSET_NUMBER)
def offset_number(f: FileBuilder, value: str) -> None:
    """An offset is a number that is valid in JSON but not in a range: $slug.

    Converted to a double, the number is exactly the right offset.
    """
    f.tensor("w", "F32", [2], fields={"data_offsets": value})


OFFSET_NUMBER_IN_ONE_OF_THREE = {
    "begin-first": (0, "[0.0,8]"),
    "begin-middle": (1, "[8.0,16]"),
    "begin-last": (2, "[16.0,24]"),
    "end-first": (0, "[0,8.0]"),
    "end-middle": (1, "[8,1.6e1]"),
    "end-last": (2, "[16,2.4e1]"),
}


@rejects("OFF-02", codes="ENT_BAD_INTEGER", over=OFFSET_NUMBER_IN_ONE_OF_THREE)
def offset_number_in_one_of_three(f: FileBuilder, value: tuple[int, str]) -> None:
    """One offset in a file with three tensors has a decimal point or an exponent: $slug."""
    three_tensors(f, value[0], fields={"data_offsets": value[1]})


OFFSET_TEXT = {
    "begin-two-zeros": "[00,8]",
    "begin-minus-alone": "[-,8]",
    "end-point-last": "[0,8.]",
    "end-exponent-empty": "[0,8e]",
    "end-hexadecimal": "[0,0x8]",
    "end-infinity": "[0,Infinity]",
    "end-missing": "[0,]",
}


@rejects("HDR-07 OFF-02", codes="HDR_NOT_JSON ENT_BAD_INTEGER OFF_BAD_PAIR", over=OFFSET_TEXT)
def offset_text(f: FileBuilder, value: str) -> None:
    """An offset is not a valid JSON number: $slug."""
    f.tensor("w", "F32", [2], fields={"data_offsets": value})


OFFSET_WRAPS = {
    "begin-minus-2p64": f"[{-(2**64)},8]",
    "begin-minus-2p32": f"[{-(2**32)},8]",
    "end-minus-2p64-plus-8": f"[0,{8 - 2**64}]",
    "end-minus-8": "[0,-8]",
    "both-minus": "[-16,-8]",
}


@rejects("OFF-01", codes="ENT_BAD_INTEGER", importance="critical", over=OFFSET_WRAPS)
def offset_wraps(f: FileBuilder, value: str) -> None:
    """An offset is outside 0 to 2^64 - 1, but truncating or wrapping makes it plausible: $slug."""
    f.tensor("w", "F32", [2], fields={"data_offsets": value})


@rejects("OFF-01", codes="OFF_BAD_PAIR", importance="critical", over=PLACES)
def one_offset_in_one_of_three(f: FileBuilder, value: int) -> None:
    """The $slug of three tensors is empty and has one offset instead of two."""
    three_tensors(f, value, usual=("U8", [4]), shape=[0], fields={"data_offsets": f"[{4 * value}]"})


@accepts("HDR-08 OFF-01 OFF-02")
def offsets_of_five_digits(f: FileBuilder) -> None:
    """Offsets have one to five digits, and one pair contains spaces and a line break.

    Zeros inside and at the end of a number are not leading zeros.
    """
    f.tensor("a", "U8", [10])
    f.tensor("b", "U8", [90])
    f.tensor("c", "U8", [900], fields={"data_offsets": "[ 100 ,\n 1000 ]"})
    f.tensor("d", "U8", [19_000])
