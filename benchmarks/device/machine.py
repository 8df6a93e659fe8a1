"""Description of the machine, without names of hosts, users or folders."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_QUERY = {
    "gpu": "name",
    "driver": "driver_version",
    "link_generation": "pcie.link.gen.current",
    "link_generation_most": "pcie.link.gen.max",
    "link_width": "pcie.link.width.current",
    "link_width_most": "pcie.link.width.max",
    "gpu_memory_mib": "memory.total",
}
_SYSFS = {
    "link_speed": "current_link_speed",
    "link_speed_most": "max_link_speed",
    "link_width": "current_link_width",
    "link_width_most": "max_link_width",
}


def describe(device: str) -> dict[str, Any]:
    """Describe the processor, memory, system, versions and, for CUDA, the device and its link.

    Unknown values are None or omitted. The function does not start CUDA.
    """
    release = re.match(r"[0-9.]*[0-9]", platform.release())
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": _memory(),
        "system": f"{platform.system()} {release.group() if release else ''}".strip(),
        "python": platform.python_version(),
        "numpy": _version("numpy"),
        "torch": _version("torch"),
        "msgspec": _version("msgspec"),
        **(_gpu(device) if device.startswith("cuda") else {}),
    }


def suite_version() -> str | None:
    """Return the version of this distribution, or None if it is not installed."""
    return _version("safetensors-conformance")


def _version(name: str) -> str | None:
    # The imported module does not always belong to the first distribution on the path.
    module = sys.modules.get(name)
    told = getattr(module, "__version__", None)
    if told is not None:
        return str(told)
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _processor() -> str | None:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or None


def _memory() -> int | None:
    with suppress(OSError, ValueError, AttributeError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None


def _physical(index: int) -> str:
    """Return the number or UUID of a device for nvidia-smi. CUDA counts only visible devices."""
    seen = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")]
    return seen[index] if index < len(seen) and seen[index] else str(index)


def _gpu(device: str) -> dict[str, Any]:
    index = _physical(int(device.partition(":")[2] or 0))
    fields = ",".join([*_QUERY.values(), "pci.bus_id"])
    command = ["nvidia-smi", f"--id={index}", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return {"gpu": None}
    values = [value.strip() for value in run.stdout.strip().split(",")]
    out: dict[str, Any] = {
        name: value for name, value in zip(_QUERY, values, strict=False) if not value.startswith("[")
    }
    # The driver writes the domain with eight digits, but sysfs uses four.
    folder = Path("/sys/bus/pci/devices") / values[-1].lower().removeprefix("0000")
    for name, file in _SYSFS.items():
        if name not in out:
            with suppress(OSError):
                out[name] = (folder / file).read_text("ascii").strip()
    return out
