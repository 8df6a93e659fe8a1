"""Entry: values that look like an entry or a shape to a reader that does not look closely."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ...author.case import ACCEPT, chooses, reject, rejects
from ...author.parts import ENTRY

if TYPE_CHECKING:
    from ...author.file import FileBuilder


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
