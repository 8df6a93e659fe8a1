"""Layout: tensors without bytes in an order that is not that of the offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...author.case import accepts

if TYPE_CHECKING:
    from ...author.file import FileBuilder


@accepts("OFF-09", "HDR-17", over={"at-end": False, "between": True})
def empty_listed_before_its_predecessor(f: FileBuilder, value: bool) -> None:
    """An empty tensor is listed in front of the tensor at whose end it lies ($slug).

    Sorted by their ends alone the two keep the order of the header, and the empty one seems to leave a hole.
    """
    f.tensor("a", "F32", [2])
    f.tensor("empty", "F32", [0], at=0)
    if value:
        f.tensor("b", "F32", [2])
