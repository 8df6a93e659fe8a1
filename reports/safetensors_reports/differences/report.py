"""A differential run as one value: what was compared, what was found, what of it is known already.

The JSON document (``schemas/diff.schema.json``), the text for a terminal and the Markdown page come from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .signatures import SORTS, Differences, Disagreement, Signature, Sort

DIFF = 1
"""Version of the document that is written here."""

Status = Literal["new", "known", "expired", "choice"]


@dataclass(frozen=True)
class Standing:
    """Triage of a signature: ``known`` with its reason, or overdue for review."""

    status: Status
    reason: str = ""
    issue: str = ""
    review_by: str = ""


@dataclass(frozen=True)
class Who:
    """One implementation of the run."""

    label: str
    name: str
    selector: str
    version: str
    language: str
    step_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class DiffReport:
    """Everything about one differential run.

    Attributes:
        suite: version of the suite.
        who: the implementations that ran, in the order of the labels.
        source: ``corpus 2026.11``, or ``files``.
        given: number of inputs there were to compare.
        differences: what was found.
        standing: signature -> what triage says; signatures that are not there are new.
        unmatched: entries of the triage file that matched nothing, as text.
        problems: what could not be run.
        notes: what to mind when reading the numbers.
        interrupted: True when the run was stopped.
        answers: input -> label -> canonical dump, at least for every input that is disagreed on.
        listed: inputs whose agreement is worth a line, those given by path.
    """

    suite: str
    who: tuple[Who, ...]
    source: str
    given: int
    differences: Differences
    standing: Mapping[str, Standing] = field(default_factory=dict)
    unmatched: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    interrupted: bool = False
    answers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    listed: tuple[str, ...] = ()

    def standing_of(self, signature: Signature) -> Standing:
        """Return what triage says; legitimate choices need no triage."""
        if signature.sort == "choice":
            return Standing("choice")
        return self.standing.get(signature.text, Standing("new"))

    def with_status(self, *wanted: Status) -> list[tuple[Signature, Standing]]:
        """Return the signatures of some statuses with what triage says about them."""
        rows = [(s, self.standing_of(s)) for s in self.differences.signatures()]
        return [(s, standing) for s, standing in rows if standing.status in wanted]

    @property
    def counts(self) -> dict[Sort, int]:
        """Number of inputs by sort of disagreement, every sort."""
        found = Counter(d.sort for d in self.differences.found)
        return {sort: found[sort] for sort in SORTS}

    @property
    def exit_status(self) -> int:
        """0 no new disagreement, 1 a signature that is new or overdue for review, 2 something not run."""
        if self.problems:
            return 2
        return int(bool(self.with_status("new", "expired")))


def document(report: DiffReport) -> dict[str, Any]:
    """Return the run as a JSON-serialisable document of ``diff.schema.json``."""
    found = report.differences
    return {
        "diff": DIFF,
        "suite": report.suite,
        "implementations": [
            {
                "label": w.label,
                "name": w.name,
                "selector": w.selector,
                "version": w.version,
                "language": w.language,
                "steps": list(w.step_names),
            }
            for w in report.who
        ],
        "source": report.source,
        "inputs": {
            "given": report.given,
            "compared": found.compared,
            "unanswered": found.shared - found.compared,
            "left_out": found.left_out,
        },
        "interrupted": report.interrupted,
        "exit_status": report.exit_status,
        "counts": report.counts,
        "signatures": [_signature(s, report.standing_of(s)) for s in found.signatures()],
        "disagreements": [_disagreement(d, report) for d in found.found],
        "clusters": [{"kind": c.kind, "vector": c.vector, "inputs": list(c.cases)} for c in found.clusters()],
        "dissenters": [{"label": x, **_by_sort(n)} for x, n in found.dissenters().items()],
        "pairs": [
            {"between": list(pair), "content": n["content"], "verdict": n["verdict"], "choice": n["choice"]}
            for pair, n in found.pairs().items()
        ],
        "unmatched": list(report.unmatched),
        "problems": list(report.problems),
        "notes": list(report.notes),
        "answers": {x: dict(report.answers[x]) for x in report.listed if x in report.answers},
    }


def _by_sort(counts: Counter[Sort]) -> dict[str, int]:
    return {sort: counts[sort] for sort in SORTS}


def _signature(signature: Signature, standing: Standing) -> dict[str, Any]:
    row = {
        "signature": signature.text,
        "sort": signature.sort,
        "status": standing.status,
        "inputs": list(signature.inputs),
    }
    if standing.reason:
        row |= {"reason": standing.reason, "issue": standing.issue, "review_by": standing.review_by}
    return row


def _disagreement(d: Disagreement, report: DiffReport) -> dict[str, Any]:
    return {
        "input": d.input,
        "title": d.about.title,
        "sort": d.sort,
        "signature": d.signature,
        "subject": d.about.subject,
        "choice": d.about.choice or None,
        "vector": d.vector,
        "dissenter": d.dissenter,
        "difference": d.difference or None,
        "between": None if d.between is None else list(d.between),
        "unsafe": list(d.unsafe),
        "answers": dict(report.answers.get(d.input, {})),
    }
