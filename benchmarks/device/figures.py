"""Pure functions that compute medians, spreads, ratios and shares of the machine's limit from samples."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .limits import COPY, READ
from .loaders import REFERENCE

Document = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """A quantity that was measured several times.

    Attributes:
        least: smallest measurement.
        spread: difference between the largest and the smallest measurement, divided by the median.
        count: number of measurements.
    """

    median: float
    least: float
    spread: float
    count: int


@dataclass(frozen=True)
class Row:
    """Results of one loader on one file. Values that were not measured are None.

    Attributes:
        loader: the loader's entry in the document.
        first: seconds of the first load in the process.
        again: seconds of the later loads.
        speed: file size divided by the median of ``again``, in GB/s.
        share: speed divided by the machine's limit.
        ratio: median time of the reference divided by the median time of this loader, in the groups that
            measured both; a value below 1 means that the reference is faster.
        device: peak device memory divided by the file size.
    """

    loader: Document
    first: float | None
    again: Figure | None
    speed: float | None
    share: float | None
    ratio: float | None
    device: float | None


def figure(values: Sequence[float]) -> Figure | None:
    if not values:
        return None
    median = statistics.median(values)
    spread = (max(values) - min(values)) / median if median else 0.0
    return Figure(median, min(values), spread, len(values))


def seconds(file: Document, loader: str, groups: Iterable[int] | None = None) -> list[float]:
    """Return the seconds of all counted loads of a loader, i.e. without the first load in its process."""
    wanted = None if groups is None else set(groups)
    return [
        sample["seconds"]
        for sample in file["samples"]
        if sample["loader"] == loader
        and sample["kind"] != "first"
        and (wanted is None or sample["group"] in wanted)
    ]


def ratio(file: Document, loader: str) -> float | None:
    """Return the median time of the reference divided by that of ``loader``, over the groups with both."""
    groups = {
        name: {s["group"] for s in file["samples"] if s["loader"] == name and s["kind"] != "first"}
        for name in (REFERENCE, loader)
    }
    common = groups[REFERENCE] & groups[loader]
    ours, theirs = (figure(seconds(file, name, common)) for name in (REFERENCE, loader))
    return ours.median / theirs.median if ours and theirs else None


def limit(document: Document) -> float | None:
    """Return the highest possible speed in GB/s, or None if one of its parts was not measured.

    It is the lower of the speeds of reading into staging memory and of copying to the device.
    """
    best: list[float] = []
    for what in (READ, COPY):
        medians: list[float] = [
            statistics.median(r["gb_per_s"]) for r in document["limits"] if r["what"] == what
        ]
        if not medians:
            return None
        best.append(max(medians))
    return min(best)


def device_peak(loader: Document) -> int | None:
    """Return the peak device memory in bytes: the larger of the values that torch and the driver report."""
    memory = loader.get("memory") or {}
    counted = [memory[key] for key in ("device_torch", "device_driver") if memory.get(key) is not None]
    return max(counted, default=None)


def rows(document: Document, file: Document) -> list[Row]:
    """Return a row for each loader: the reference, then the others by speed, then those without results."""
    most = limit(document) if file["state"] == "warm" else None
    out = []
    for loader in file["loaders"]:
        name = loader["name"]
        first = [s["seconds"] for s in file["samples"] if s["loader"] == name and s["kind"] == "first"]
        again = figure(seconds(file, name))
        speed = file["bytes"] / again.median / 1e9 if again else None
        peak = device_peak(loader)
        out.append(
            Row(
                loader,
                first[0] if first else None,
                again,
                speed,
                speed / most if speed and most else None,
                ratio(file, name) if name != REFERENCE else None,
                peak / file["bytes"] if peak is not None and file["bytes"] else None,
            )
        )
    out.sort(key=lambda r: (r.loader["name"] != REFERENCE, r.again.median if r.again else float("inf")))
    return out


def best_peer(found: Sequence[Row], peers: Iterable[str]) -> Row | None:
    """Return the fastest of the named loaders whose tensors are right, or None if there is none."""
    names = set(peers)
    usable = [
        row
        for row in found
        if row.ratio is not None and row.loader["name"] in names and row.loader["status"] == "ok"
    ]
    return max(usable, key=lambda row: row.ratio or 0.0, default=None)
