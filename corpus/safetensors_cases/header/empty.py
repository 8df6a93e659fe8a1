"""Header: an object without members, with something before, inside or after it.

A file without tensors often takes another path through a reader than other files.
"""

from __future__ import annotations

from safetensors_corpus.author.case import rejects
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
