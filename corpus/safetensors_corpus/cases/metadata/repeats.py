"""Metadata: one key a great many times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...author.case import ACCEPT, chooses, reject

if TYPE_CHECKING:
    from ...author.file import FileBuilder


@chooses(
    "duplicate-metadata-keys",
    "LIM-04",
    options={"reject": reject("HDR_DUP_KEY"), "last-wins": ACCEPT, "first-wins": ACCEPT},
)
def key_ten_thousand_times(f: FileBuilder) -> None:
    """The metadata holds the empty key 10,002 times, and a tensor follows.

    Collecting each repetition must not push out what stands behind them.
    """
    f.metadata({"": ""}, raw="{" + ",".join(['"":""'] * 10_002) + "}")
    f.tensor("w", "F32", [2])
