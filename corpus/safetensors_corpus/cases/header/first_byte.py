"""Header: what its first byte promises when the header is no object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...author.case import rejects
from ...author.parts import header_text

if TYPE_CHECKING:
    from ...author.file import FileBuilder


@rejects(
    "HDR-06",
    "HDR-02",
    codes=("HDR_NOT_OBJECT", "HDR_BAD_START", "HDR_NOT_JSON"),
    over={"minus": "-1", "true": "true", "false": "false", **{f"digit-{d}": f"{d}0" for d in range(1, 10)}},
)
def value_for_object(f: FileBuilder, value: str) -> None:
    """The header is the JSON value `$value`, not an object.

    Software that keys on the brace to tell a header from other JSON has to know every way a value can begin.
    """
    f.header = value.encode()


@rejects("HDR-01", "HDR-02", codes=("HDR_NOT_UTF8", "HDR_BAD_START", "HDR_NOT_JSON"))
def first_byte_outside_utf8(f: FileBuilder) -> None:
    """The byte 0xFF in front of the opening brace, which no UTF-8 text contains."""
    header_text(f, b'\xff{"w":ENTRY}')
