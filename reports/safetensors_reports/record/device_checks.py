"""Checks of the step ``device`` besides the content, and their verdicts.

The step loads every plain file onto a device and copies it back. The content is judged as for reading; these
promises come on top. A broken promise that corrupts content counts as ``wrong-content``, any other as
``not-strict``: no rule of the format requires it.
"""

from __future__ import annotations

from typing import NamedTuple

STATUSES = ("pass", "fail", "unknown")


class Promise(NamedTuple):
    """A promise of a loader: verdict if it is broken, its rule (may be empty), and its text."""

    verdict: str
    rule: str
    about: str


CHECKS: dict[str, Promise] = {
    "alignment": Promise(
        "not-strict", "OFF-11", "non-empty tensors begin at multiples of their element size"
    ),
    "lifetime": Promise(
        "deviation:content", "DAT-06", "a tensor keeps its bytes after everything else of its file is dropped"
    ),
    "stream": Promise(
        "deviation:content", "DAT-06", "another stream that waits for the current one sees the right bytes"
    ),
    "threads": Promise("deviation:content", "API-16", "two concurrent loads give the same result as one"),
    "returned": Promise("not-strict", "", "device memory is free again after everything is dropped"),
    "untouched": Promise("not-strict", "", "a refused file leaves no device memory allocated"),
}
