"""Documents of the device benchmark with made-up figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def loader(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "title": f"what {name} calls",
        "owns": "own memory",
        "version": "1.0",
        "status": "ok",
        "reason": None,
        "check": {"how": "all bytes", "wrong": 0, "first": None, "misaligned": 0},
        **changes,
    }


def samples(name: str, seconds: Sequence[float], group: int = 0) -> list[dict[str, Any]]:
    """The first load is one second longer than the next."""
    loads = [("first", seconds[0] + 1.0), *(("warm", value) for value in seconds)]
    same = {"loader": name, "group": group, "cpu_seconds": 0.0}
    return [{**same, "kind": kind, "round": i, "seconds": value} for i, (kind, value) in enumerate(loads)]


def file(
    loaders: list[dict[str, Any]], taken: list[dict[str, Any]], kind: str = "large", **changes: Any
) -> dict[str, Any]:
    return {
        "kind": kind,
        "title": "a title",
        "bytes": 8_000_000_000,
        "tensors": 64,
        "header_bytes": 4096,
        "filesystem": "tmpfs",
        "state": "warm",
        "loaders": loaders,
        "samples": taken,
        **changes,
    }


def document(files: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    limits = [
        {"what": "page-cache-to-staging", "setting": "1 threads", "gb_per_s": [5.0, 6.0, 7.0]},
        {"what": "page-cache-to-staging", "setting": "8 threads", "gb_per_s": [50.0, 60.0, 70.0]},
        {"what": "staging-to-device", "setting": "1 streams", "gb_per_s": [50.0, 50.0, 90.0]},
        {"what": "pageable-to-device", "setting": "1 GiB", "gb_per_s": [9.0]},
        {"what": "pin", "setting": "128 MiB", "seconds": [0.05]},
    ]
    return {
        "device_bench": 1,
        "date": "2026-11-21T12:00:00+00:00",
        "suite": None,
        "device": "cuda:0",
        "machine": {"processor": "P", "cores": 16, "python": "3.12", "torch": "2.11", "gpu": "G"},
        "options": {},
        "complete": True,
        "stopped": None,
        "limits": limits,
        "files": files,
        **changes,
    }
