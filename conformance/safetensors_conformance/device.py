"""The step ``device``: what is looked into besides the content, and what it counts.

The worker loads every plain file onto a device and copies it back. That is judged as reading is; the promises
here come on top. Breaking one that keeps the content right when it is used is ``wrong-content``. Breaking
another is ``not-strict``: no rule of the format demands it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from safetensors_reports.text import plural

if TYPE_CHECKING:
    from .outcomes import Check, StepResult

DEVICE_NAMES = "a device is cpu or cuda:N, for instance cuda:0"
LOADS = 5
"""Times that a file is loaded to look into all promises; the time limit of a step is that of one load."""
STATUSES = ("pass", "fail", "unknown")


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
        "wrong-content", "DAT-06", "a tensor keeps its bytes when everything else of its file is dropped"
    ),
    "stream": Promise(
        "wrong-content", "DAT-06", "another stream that waits for the current one sees the right bytes"
    ),
    "threads": Promise("wrong-content", "API-16", "two loads at once give what one gives"),
    "returned": Promise("not-strict", "", "memory of the device is free again when all is dropped"),
    "untouched": Promise("not-strict", "", "a file that is refused takes no memory of the device"),
}
"""Check -> promise. Words on the wire and in records."""


def is_device(name: str) -> bool:
    """Tell whether this names a device: ``cpu`` or ``cuda:N``."""
    return re.fullmatch(r"cpu|cuda:(0|[1-9][0-9]{0,3})", name, re.ASCII) is not None


def kind_of_device(name: str | None) -> str:
    """Return ``cpu`` or ``cuda``, empty for no device."""
    return (name or "").partition(":")[0]


def failed_checks(result: StepResult) -> list[Check]:
    """Return the promises that do not hold."""
    return [check for check in result.checks if check.status == "fail"]


def rules_of_checks(result: StepResult) -> list[str]:
    """Return the rules behind the promises that do not hold."""
    return [rule for check in failed_checks(result) if (rule := CHECKS[check.name].rule)]


def device_lines(header: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what the summary of a run says about its device, nothing for a run without one."""
    name = header.get("device")
    if name is None:
        return []
    if "device" not in header["implementation"]["steps"]:
        return [f"  device {name}: not asked, the implementation does not load onto devices"]
    mine = [row for row in rows if row["step"] == "device"]
    lines = [f"  device {name}: {plural(len(mine), 'file')}"]
    for check in CHECKS:
        seen = [told for row in mine for told in row.get("checks", ()) if told["name"] == check]
        counts = Counter(told["status"] for told in seen)
        words = [f"{counts[status]:,} {status}" for status in STATUSES if counts[status]]
        why = Counter(told["message"] for told in seen if told["status"] == "unknown").most_common(1)
        if why and why[0][0]:
            words[-1] += f" ({why[0][0]})"
        lines.append(f"    {check:<10} {' · '.join(words) or 'not told'}")
    return lines
