"""Entry: a name that comes again when its first value is no entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...author.case import rejects
from ...author.parts import header_text

if TYPE_CHECKING:
    from ...author.file import FileBuilder


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
