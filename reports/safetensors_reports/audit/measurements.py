"""The volatile part of a report: when and where the runs took place, and what cases cost."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from safetensors_corpus.judging.verdicts import fails

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..record.run import Row, RunRecord

SHOWN = 10
"""Most cases named as slowest, and as hungriest, of each run."""


def run_part(runs: Sequence[tuple[str, RunRecord]], *, public: bool) -> dict[str, Any]:
    """Return what differs between two runs over the same inputs.

    Published pages do not name the costly cases that an implementation fails.
    """
    return {"runs": [_run(label, record, public) for label, record in runs]}


def _run(label: str, record: RunRecord, public: bool) -> dict[str, Any]:
    header, footer = record.header, record.footer
    rows = [r for r in record.results if not (public and fails(r["verdict"], strict=True))]
    return {
        "implementation": label,
        "started": header.get("started"),
        "duration_s": footer["duration_s"] if footer else None,
        "platform": _platform(header.get("platform"), public=public),
        "python": header.get("python"),
        "slowest": _most(rows, "wall_ms"),
        "hungriest": _most(rows, "peak_bytes"),
    }


def _platform(text: str | None, *, public: bool) -> str | None:
    """Return the platform; published pages leave out the build of the kernel, which is nobody's business."""
    if not public or not text:
        return text
    parts = text.split("-")
    return " ".join([parts[0], *(p for p in parts[1:] if p in ("x86_64", "aarch64", "arm64"))])


def _most(rows: Sequence[Row], name: str) -> list[dict[str, Any]]:
    told = [row for row in rows if row.get(name)]
    most = heapq.nlargest(SHOWN, told, key=lambda row: (row[name], row["case"], row["step"]))
    return [{"case": row["case"], "step": row["step"], name: row[name]} for row in most]
