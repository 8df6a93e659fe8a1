"""Goals for the reference on a GPU, compared with the results in a document."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .figures import Document, Row, best_peer, rows
from .loaders import REFERENCE, is_reference

LARGE = 4_000_000_000
"""Minimum size in bytes of files to which the goals for large files apply."""
MANY = 20_000
_OLD = ("safetensors", "safetensors-pread")
_FAST = ("fastsafetensors", "fastsafetensors-64m")


@dataclass(frozen=True)
class Goal:
    """One goal with its result.

    Attributes:
        text: quantity and file.
        sign: ``<=`` or ``>=``.
        must: the required bound.
        aim: the desired bound.
        value: measured value, or None if it is missing.
        note: loader that the reference is compared with, or why there is no value.
    """

    text: str
    sign: str
    must: float
    aim: float
    value: float | None
    note: str

    def word(self) -> str:
        if self.value is None:
            return "not measured"
        for word, bound in (("aim", self.aim), ("must", self.must)):
            if self.value <= bound if self.sign == "<=" else self.value >= bound:
                return word
        return "missed"


Measure = Callable[[Sequence[Row]], tuple[float | None, str]]


def goals(document: Document) -> list[Goal]:
    out = []
    for kind in ("large", "llm"):
        size = f"{kind}, 4 GB or more"
        out += [
            _goal(document, kind, f"{size}: time / best peer", "<=", 1.0, 0.9, _against(None)),
            _goal(document, kind, f"{size}: time / safetensors 0.8", "<=", 0.3, 0.15, _against(_OLD, "0.8")),
            _goal(document, kind, f"{size}: time / fastsafetensors", "<=", 0.3, 0.15, _against(_FAST)),
            _goal(document, kind, f"{size}: share of the limit", ">=", 0.85, 0.95, _share),
            # Allocators round up, so a value up to half a per cent above 1.00 meets the goal.
            _goal(document, kind, f"{size}: peak device memory / file", "<=", 1.02, 1.005, _memory),
            _goal(document, kind, f"{size}: first load / later loads", "<=", 1.5, 1.2, _first),
        ]
    text = f"small, {MANY:,} tensors or more: time / best peer"
    return [*out, _goal(document, "small", text, "<=", 1.0, 0.5, _against(None))]


def _goal(
    document: Document, kind: str, text: str, sign: str, must: float, aim: float, measure: Measure
) -> Goal:
    value, note = _measured(document, kind, measure)
    return Goal(text, sign, must, aim, value, note)


def _measured(document: Document, kind: str, measure: Measure) -> tuple[float | None, str]:
    if not document["device"].startswith("cuda"):
        return None, f"the goals apply to CUDA devices, but this run used {document['device']}"
    files = [file for file in document["files"] if file["kind"] == kind and file["state"] == "warm"]
    if not files:
        return None, "no file of this kind was loaded from the page cache"
    file = files[-1]
    if kind == "small" and file["tensors"] < MANY:
        return None, f"the file has only {file['tensors']:,} tensors"
    if kind != "small" and file["bytes"] < LARGE:
        return None, f"the file has only {file['bytes'] / 1e9:.3g} GB"
    found = rows(document, file)
    ours = [row for row in found if row.loader["name"] == REFERENCE]
    if not ours or ours[0].again is None:
        return None, "the reference was not measured"
    if ours[0].loader["status"] != "ok":
        return None, f"the reference: {ours[0].loader['reason']}"
    return measure(found)


def _against(names: Sequence[str] | None, release: str | None = None) -> Measure:
    def measure(found: Sequence[Row]) -> tuple[float | None, str]:
        peers = [
            row.loader["name"]
            for row in found
            if (not is_reference(row.loader["name"]) if names is None else row.loader["name"] in names)
            and (release is None or str(row.loader.get("version")).startswith(f"{release}."))
        ]
        best = best_peer(found, peers)
        if best is None:
            return None, "no loader to compare with returned the right tensors"
        return best.ratio, f"against {best.loader['name']}"

    return measure


def _reference(found: Sequence[Row]) -> Row:
    return next(row for row in found if row.loader["name"] == REFERENCE)


def _share(found: Sequence[Row]) -> tuple[float | None, str]:
    share = _reference(found).share
    return share, "" if share is not None else "the limits were not measured"


def _memory(found: Sequence[Row]) -> tuple[float | None, str]:
    device = _reference(found).device
    return device, "" if device is not None else "device memory was not measured"


def _first(found: Sequence[Row]) -> tuple[float | None, str]:
    row = _reference(found)
    if row.first is None or row.again is None:
        return None, "there is no first load"
    return row.first / row.again.median, ""
