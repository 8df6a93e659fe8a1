"""Metadata: null in the place of the map, wherever and however it stands."""

from __future__ import annotations

from ...author.case import ACCEPT, Accept, Reject, chooses, reject
from ...author.file import FileBuilder

ABSENT_OR_REFUSED: dict[str, Accept | Reject] = {"reject": reject("MET_NOT_MAP"), "absent": ACCEPT}


@chooses("metadata-null", "FRM-09", options=ABSENT_OR_REFUSED)
def null_without_tensors(f: FileBuilder) -> None:
    """Null metadata are all that the header holds."""
    f.metadata(None, raw="null")


@chooses("metadata-null", "HDR-17", options=ABSENT_OR_REFUSED)
def null_behind_tensors(f: FileBuilder) -> None:
    """Null metadata stand last, behind two tensors."""
    f.tensor("a", "F32", [2])
    f.tensor("b", "U8", [3])
    f.metadata(None, raw="null")


@chooses("metadata-null", "MET-06", options=ABSENT_OR_REFUSED)
def null_under_escaped_key(f: FileBuilder) -> None:
    """Null stands under the metadata key spelled with an escape.

    A reader that knows only the plain spelling takes it for a tensor without an entry.
    """
    f.metadata(None, raw="null", key='"__meta\\u0064ata__"')
    f.tensor("w", "F32", [2])
