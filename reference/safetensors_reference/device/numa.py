"""Finds the CPUs near a device. On machines with several NUMA nodes, copies from other nodes are slower."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from operator import index
from pathlib import Path
from typing import Any

import torch

from ..rules.errors import AccessError
from ..rules.faults import shown

SYSFS = Path("/sys")


def checked_cpus(cpus: Iterable[int]) -> frozenset[int]:
    """Return the CPUs that a caller chose. Raises AccessError if this process is not allowed to use them."""
    try:
        given = list(cpus)
        chosen = frozenset(map(index, given))
        usable = hasattr(os, "sched_getaffinity") and chosen <= os.sched_getaffinity(0)
        known = usable and not any(isinstance(cpu, bool) for cpu in given)
    except TypeError:
        known = False
    if not known or not chosen:
        raise AccessError(f"cpus must be numbers of CPUs that this process may use, not {shown(cpus)}")
    return chosen


def cpus_near(device: torch.device) -> frozenset[int] | None:
    """Return the usable CPUs of the NUMA node of an accelerator, or None if the system does not report it.

    Torch reports the PCI address of CUDA devices. This initializes CUDA.
    """
    properties: Any = getattr(torch.get_device_module(device), "get_device_properties", lambda _index: None)
    found = properties(device.index)
    try:
        address = f"{found.pci_domain_id:04x}:{found.pci_bus_id:02x}:{found.pci_device_id:02x}.0"
    except AttributeError:
        return None
    return _cpus_of_node(address)


def _cpus_of_node(address: str) -> frozenset[int] | None:
    with suppress(OSError, ValueError, AttributeError):
        node = int((SYSFS / "bus/pci/devices" / address / "numa_node").read_text("ascii"))
        if node >= 0:
            cpus = parse_list((SYSFS / f"devices/system/node/node{node}/cpulist").read_text("ascii"))
            return frozenset(cpus & os.sched_getaffinity(0)) or None
    return None


def parse_list(text: str) -> set[int]:
    """Parse a list of the form ``0-3,8``. Raises ValueError."""
    out: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        out.update(range(int(first), int(last or first) + 1))
    return out
