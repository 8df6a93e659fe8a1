"""The smaller parts of a page: choices, expected failures, costs, changes and command lines."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from safetensors_corpus.judging.verdicts import kind_of

from ..audit.delta import Delta, baseline_delta, report_delta
from ..text import listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..audit.build import Report

Row = dict[str, Any]
_UNDECIDED = {"pass": "no answer that tells", "choice-inconsistent": "contradicts itself"}
"""Verdict on a choice without an option -> words."""
COSTLY = 10
"""Most cases listed as slowest, and as hungriest."""
CAUSES, CAUSES_OF_MANY = 60, 20
"""Most causes shown of one implementation, alone on its page and among others."""


def choices(report: Report) -> list[Row]:
    """Return every choice with the options that were taken, and by whom, the most taken first."""
    out = []
    for name, about in report["choices"].items():
        taken: dict[str, list[str]] = {}
        for who in report["implementations"]:
            for row in who["choices"]:
                if row["choice"] != name:
                    continue
                # Where several options fit what was seen, all of them stand between bars.
                taken.setdefault(
                    row["option"].replace("|", " or ") or _UNDECIDED.get(row["verdict"], row["verdict"]), []
                ).append(who["label"])
        many = len(report["implementations"]) > 1
        rows = [
            {
                "option": option,
                "meaning": about["options"].get(option, ""),
                "count": len(labels),
                "who": listed(labels, 6) if many else "",
            }
            for option, labels in sorted(taken.items(), key=lambda item: (-len(item[1]), item[0]))
        ]
        if rows:
            out.append({"name": name, **about, "taken": rows})
    return out


def causes(report: Report) -> list[Row]:
    """Return the implementations that have causes, with those shown and how many there are of each."""
    whos = report["implementations"]
    limit = CAUSES if len(whos) == 1 else CAUSES_OF_MANY
    out = []
    for who in whos:
        rows = [{**row, "kind": kind_of(row["verdict"])} for row in who.get("causes", ())]
        if rows:
            out.append({"who": who, "rows": rows[:limit], "count": len(rows)})
    return out


def expected_failures(report: Report) -> list[Row]:
    """Return the expected failures, those together that were entered for one reason, overdue ones first."""
    found: dict[tuple[str, ...], Row] = {}
    for who in report["implementations"]:
        for row in who["expected_failures"]:
            review = row["review_by"] or ""
            key = (who["label"], row["state"], row["why"], row["issue"], review)
            entry = found.setdefault(key, {**row, "label": who["label"], "review": review, "cases": []})
            entry["cases"].append((row["case"], row["verdict"]))
    states = ("passes", "no verdict", "fails")
    return sorted(
        found.values(),
        key=lambda r: (states.index(r["state"]), r["review"] or "9999", r["label"], r["cases"][0][0]),
    )


def costly(report: Report, name: str, measure: str) -> list[Row]:
    """Return the costliest cases of all runs.

    Args:
        report: the report.
        name: ``slowest`` or ``hungriest``.
        measure: field of its rows to order by.
    """
    rows = [{**row, "label": run["implementation"]} for run in report["run"]["runs"] for row in run[name]]
    return sorted(rows, key=lambda r: (-r[measure], r["case"], r["label"]))[:COSTLY]


def changes(report: Report, previous: Report | None) -> tuple[str, Delta] | None:
    """Return what a report is held against and what changed; None without anything to compare with."""
    if previous is not None:
        return "an older report", report_delta(report, previous)
    delta = baseline_delta(report)
    return None if delta is None else ("the baselines", delta)


def commands(report: Report) -> Iterator[str]:
    """Yield the command lines that make the runs and the report again."""
    for who in report["implementations"]:
        words = ["stc", "run", "--impl", who["selector"]]
        words += ["--profile", who["profile"]] if who["profile"] else []
        words += [] if "heavy" in who["not_asked"] or report["public"] else ["--heavy"]
        words += [] if who["baseline"] else ["--no-baseline"]
        yield shlex.join([*words, "--report", "runs"])
    yield "stc report runs -o audit --html" + (" --public" if report["public"] else "")
