"""The step ``device``: names of devices, and what came of the promises of loading onto one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from safetensors_reports.record.device_checks import CHECKS, STATUSES
from safetensors_reports.text import plural

DEVICE_NAMES = "a device is cpu or cuda:N, for instance cuda:0"
LOADS = 5
"""Times that a file is loaded to look into all promises; the time limit of a step is that of one load."""


def is_device(name: str) -> bool:
    """Tell whether this names a device: ``cpu`` or ``cuda:N``."""
    return re.fullmatch(r"cpu|cuda:(0|[1-9][0-9]{0,3})", name, re.ASCII) is not None


def kind_of_device(name: str | None) -> str:
    """Return ``cpu`` or ``cuda``, empty for no device."""
    return (name or "").partition(":")[0]


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
