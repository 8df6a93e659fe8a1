"""What the step ``device`` looks into besides the content, and what it counts.

Every plain file is loaded onto a device and copied back. That is judged as reading is; the promises here come
on top. Breaking one that keeps the content right when it is used is ``wrong-content``. Breaking another is
``not-strict``: no rule of the format demands it.
"""

from __future__ import annotations

from typing import NamedTuple

STATUSES = ("pass", "fail", "unknown")
"""What a check says: unknown is what the device or the reader does not show."""


class Promise(NamedTuple):
    """What a reader owes who loads onto a device.

    Attributes:
        verdict: what breaking it counts.
        rule: the rule that says so, empty where none does.
        about: the promise in words.
    """

    verdict: str
    rule: str
    about: str


CHECKS: dict[str, Promise] = {
    "alignment": Promise(
        "not-strict", "OFF-11", "tensors that are not empty begin at multiples of their element size"
    ),
    "lifetime": Promise(
        "deviation:content", "DAT-06", "a tensor keeps its bytes when everything else of its file is dropped"
    ),
    "stream": Promise(
        "deviation:content", "DAT-06", "another stream that waits for the current one sees the right bytes"
    ),
    "threads": Promise("deviation:content", "API-16", "two loads at once give what one gives"),
    "returned": Promise("not-strict", "", "memory of the device is free again when all is dropped"),
    "untouched": Promise("not-strict", "", "a file that is refused takes no memory of the device"),
}
"""Check -> promise. Words on the wire and in records."""
