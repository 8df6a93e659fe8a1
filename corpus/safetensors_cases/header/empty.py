"""Header: an object with few or no members, and something unusual before, inside or after the object.

Readers often process a file without tensors in a separate code path.
"""

from __future__ import annotations

from safetensors_corpus.author.case import accepts, rejects
from safetensors_corpus.author.file import FileBuilder

from .encoding import PADDING, START


def _padded(f: FileBuilder, text: str) -> None:
    header = text.encode()
    f.header = header + b" " * (-len(header) % 8)


@rejects("HDR-02", codes=START, over={"nul": "\0", "form-feed": "\f", "no-break-space": "\xa0"})
@rejects("HDR-05 HDR-02", codes=START, over={"byte-order-mark": "\ufeff"})
def empty_object_behind_character(f: FileBuilder, value: str) -> None:
    """A character that is not whitespace precedes an object without members ($slug)."""
    _padded(f, f"{value}{{}}")


@rejects("HDR-05 HDR-03", codes=PADDING, over={"byte-order-mark": "\ufeff"})
@rejects("HDR-06 HDR-03", codes=PADDING, over={"object": "{}"})
@rejects(
    "HDR-03",
    codes=PADDING,
    over={"nul": "\0", "form-feed": "\f", "no-break-space": "\xa0", "comma": ","},
)
def empty_object_before_character(f: FileBuilder, value: str) -> None:
    """Something other than spaces follows an object without members ($slug)."""
    _padded(f, f"{{}}{value}")


@rejects(
    "HDR-07 HDR-08",
    codes="HDR_NOT_JSON",
    over={"nul": "\0", "byte-order-mark": "\ufeff", "line-comment": "//\n", "form-feed": "\f"},
)
def empty_object_around_character(f: FileBuilder, value: str) -> None:
    """An object without members contains something other than whitespace ($slug)."""
    _padded(f, f"{{{value}}}")


@rejects("HDR-06", codes=("HDR_NOT_OBJECT", "HDR_BAD_START", "HDR_NOT_JSON"))
def empty_object_in_array(f: FileBuilder) -> None:
    """The header is an array that contains an object without members."""
    _padded(f, "[{}]")


@rejects("FRM-05 FRM-06", codes=("FRM_HEADER_OVER_LIMIT", "FRM_HEADER_PAST_EOF"))
def empty_object_and_length_bit_63(f: FileBuilder) -> None:
    """The highest bit of the length of a header without members is set."""
    f.length = 8 + (1 << 63)


@rejects("FRM-02", codes=("FRM_HEADER_OVER_LIMIT", "FRM_HEADER_PAST_EOF"))
def empty_object_and_length_big_endian(f: FileBuilder) -> None:
    """The length of a header without members is big-endian."""
    f.length = 8 << 56


@accepts("MET-04 FRM-09", over={"byte-order-mark": "\ufeffa", "noncharacters": "a\uffff\ufdd0"})
def empty_object_but_metadata(f: FileBuilder, value: str) -> None:
    """A file without tensors has unusual characters in its metadata ($slug)."""
    f.metadata({"a": value})


@rejects("HDR-15", codes=("HDR_NOT_JSON", "HDR_NOT_UTF8"))
def empty_object_but_upper_case_u(f: FileBuilder) -> None:
    r"""A file without tensors has the escape \U0041 in its metadata."""
    f.metadata({}, raw=r'{"a":"\U0041"}')


@rejects(
    "OFF-01 OFF-02",
    codes=("ENT_BAD_INTEGER", "OFF_BAD_PAIR"),
    over={"booleans": "[false,false]", "minus-zero": "[-0,0]", "nested": "[[0],0]"},
    ahead={"minus-zero": ["OFF-02"]},
)
def offsets_of_empty_tensor(f: FileBuilder, value: str) -> None:
    """The only tensor has no bytes, and its offsets are not two integers ($slug)."""
    f.tensor("w", "F32", [0], fields={"data_offsets": value})


@rejects("OFF-07 OFF-04", codes=("OFF_HOLE", "OFF_OUT_OF_BOUNDS"))
def offsets_from_file_in_reverse_order(f: FileBuilder) -> None:
    """Two entries in reverse order count their offsets from the start of the file."""
    f.tensor("a", "F32", [2], begin=256, end=264)
    f.tensor("b", "F32", [2], begin=264, end=272, at=0)
    f.padding = b" " * (248 - f.header_size)


@accepts("ENT-07 ENT-08 ENT-09", over={"first": 0, "middle": 1, "last": 2})
def names_of_three(f: FileBuilder, value: int) -> None:
    """One of three tensors has an empty name, and the others look like a word and a command ($slug)."""
    names = ["\u0430\u0435", "$(id);x"]
    names.insert(value, "")
    f.tensors(names, "F32", [2])


@rejects("OFF-01", codes=("OFF_BAD_PAIR", "ENT_BAD_INTEGER"))
def one_offset_of_empty_tensor(f: FileBuilder) -> None:
    """The only tensor has no bytes, and its range consists of one offset."""
    f.tensor("w", "F32", [0], fields={"data_offsets": "[0]"})
