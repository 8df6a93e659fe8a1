"""Guarantees that the ``device`` step checks in addition to the content, and their verdicts.

A broken guarantee that corrupts content counts as ``deviation:content``, because the format description does
not say what a library must do with a tensor after loading it. Any other broken guarantee counts as
``not-strict``.
"""

from __future__ import annotations

from typing import NamedTuple

STATUSES = ("pass", "fail", "unknown")


class Promise(NamedTuple):
    """A guarantee of a loader, and the verdict and the rule (or an empty string) if it is broken."""

    verdict: str
    rule: str
    about: str


CHECKS: dict[str, Promise] = {
    "alignment": Promise(
        "not-strict", "OFF-11", "non-empty tensors begin at multiples of their element size"
    ),
    "kept": Promise(
        "deviation:content", "DAT-06", "a tensor keeps its bytes while the loader loads the tensors after it"
    ),
    "lifetime": Promise(
        "deviation:content",
        "DAT-06",
        "a tensor keeps its bytes after everything else from its file is dropped",
    ),
    "stream": Promise(
        "deviation:content", "DAT-06", "another stream that waits for the current one sees the correct bytes"
    ),
    "threads": Promise("deviation:content", "API-16", "two concurrent loads give the same result as one"),
    "stopped": Promise("not-strict", "", "a load that is stopped after one tensor leaves nothing behind"),
    "peak": Promise("not-strict", "", "a load needs at most twice the memory of its tensors, plus 1 MiB"),
    "returned": Promise("not-strict", "", "device memory is free again after everything is dropped"),
    "untouched": Promise("not-strict", "", "a rejected file leaves no device memory allocated"),
}
