"""How an implementation changed from version to version: what was fixed, what broke, and by which rule.

A case that fails in one version and not in the next was fixed, the other way round it broke. What a version
merely lacks is set apart: gaining a dtype is no fix, and dropping one breaks no rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from safetensors_reference.rules import rule_book

from .record import RunRecord
from .verdicts import STRICT_FAILING, VERDICTS, kind_of

TREND = 1
"""Version of the document that is written here."""

Turn = Literal["fixed", "broken", "otherwise", "choice", "gained", "lost", "unknown"]
TURNS: dict[Turn, str] = {
    "fixed": "failed before, does not any more",
    "broken": "did not fail before, does now",
    "otherwise": "fails in another way than before",
    "choice": "takes another option of an open choice",
    "gained": "was not supported before, is now",
    "lost": "is not supported any more",
    "unknown": "the adapter failed in one of the two versions, so nothing is known",
}
"""What became of a case between two versions -> meaning. Only the first two say whether a rule is kept."""


@dataclass(frozen=True)
class Bug:
    """A known bug that a case shows: ``versions`` is a specifier such as ``<0.3.1``, empty for unknown."""

    id: str
    reference: str
    versions: str = ""

    def turns_between(self, before: str, after: str) -> bool | None:
        """Say whether just one of two versions is affected; None when the versions are not recorded."""
        try:
            affected = SpecifierSet(self.versions)
            sides = [affected.contains(Version(v), prereleases=True) for v in (before, after)]
        except (InvalidSpecifier, InvalidVersion):
            return None
        return None if not self.versions else sides[0] != sides[1]


@dataclass(frozen=True)
class Note:
    """What is known of a case without running it; ``bugs`` are those of the implementation in question."""

    title: str
    rules: tuple[str, ...] = ()
    bugs: tuple[Bug, ...] = ()


@dataclass(frozen=True)
class Change:
    """A case whose verdict is another in the next version; ``detail`` says what is wrong where it fails."""

    case: str
    turn: Turn
    before: str
    after: str
    note: Note
    detail: str = ""

    @property
    def rule(self) -> str:
        """The rule that the case is about."""
        return self.note.rules[0] if self.note.rules else ""


@dataclass(frozen=True)
class VersionRun:
    """One version: its record, or the reason why there is none. ``remarks`` are to be minded."""

    version: str
    record: RunRecord | None = None
    reason: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """Cases per kind of verdict, those that do not occur left out."""
        return self.record.counts() if self.record is not None else {}


@dataclass(frozen=True)
class Passage:
    """From one version to the next that could be run.

    Attributes:
        before: version.
        after: version.
        changes: every case with another verdict, by turn and then by rule.
        only_before: cases that only the earlier version was asked about.
        only_after: cases that only the later version was asked about.
    """

    before: str
    after: str
    changes: tuple[Change, ...]
    only_before: int = 0
    only_after: int = 0

    @property
    def counts(self) -> dict[Turn, int]:
        """Number of changes per turn, every turn."""
        found = Counter(c.turn for c in self.changes)
        return {turn: found[turn] for turn in TURNS}

    def by_rule(self, turn: Turn) -> dict[str, list[Change]]:
        """Return rule -> changes of one turn, the rules with most cases first."""
        groups: dict[str, list[Change]] = {}
        for change in self.changes:
            if change.turn == turn:
                groups.setdefault(change.rule, []).append(change)
        return dict(sorted(groups.items(), key=lambda x: (-len(x[1]), x[0])))


@dataclass(frozen=True)
class Trend:
    """An implementation over its versions, in the order given."""

    name: str
    suite: str
    corpus: str
    runs: tuple[VersionRun, ...]
    passages: tuple[Passage, ...]
    interrupted: bool = False

    @property
    def kinds(self) -> list[str]:
        """Kinds of verdict that occur, worst first."""
        present = set().union(*(run.counts for run in self.runs))
        return [kind for kind in VERDICTS if kind in present]

    @property
    def exit_status(self) -> int:
        """0 every version was run, 2 one could not be."""
        return 2 if any(run.record is None for run in self.runs) else 0


def trend(
    name: str,
    suite: str,
    corpus: str,
    runs: Sequence[VersionRun],
    notes: Mapping[str, Note],
    *,
    interrupted: bool = False,
) -> Trend:
    """Hold every version against the one before it; versions that could not be run are passed over.

    Args:
        name: the implementation.
        suite: version of the suite.
        corpus: version of the corpus.
        runs: one per version, in the order in which they are to be compared.
        notes: case id -> what is known of it.
        interrupted: True when further versions were asked for.
    """
    ran = [(run.version, run.record) for run in runs if run.record is not None]
    passages = [_passage(a, b, x, y, notes) for (a, x), (b, y) in pairwise(ran)]
    return Trend(name, suite, corpus, tuple(runs), tuple(passages), interrupted)


def _passage(before: str, after: str, x: RunRecord, y: RunRecord, notes: Mapping[str, Note]) -> Passage:
    old, new = x.case_verdicts(), y.case_verdicts()
    old_rows, new_rows = x.by_case(), y.by_case()
    changes = []
    for case in old.keys() & new.keys():
        turn = turn_of(old[case], new[case])
        if turn is not None:
            failing = new_rows[case] if kind_of(new[case]) in STRICT_FAILING else old_rows[case]
            worst = new[case] if failing is new_rows[case] else old[case]
            note = notes.get(case, Note(case))
            changes.append(Change(case, turn, old[case], new[case], note, _detail(failing, worst)))
    order = list(TURNS)
    changes.sort(key=lambda c: (order.index(c.turn), c.rule, c.case))
    return Passage(before, after, tuple(changes), len(old.keys() - new.keys()), len(new.keys() - old.keys()))


def _detail(rows: Sequence[Mapping[str, Any]], verdict: str) -> str:
    return next((str(r.get("detail") or "") for r in rows if r["verdict"] == verdict), "")


def turn_of(before: str, after: str) -> Turn | None:
    """Say what became of a case by its two verdicts; None when nothing did."""
    old, new = kind_of(before), kind_of(after)
    if before == after:
        return None
    if "harness-error" in (old, new):
        return "unknown"
    if "unsupported" in (old, new):
        return "gained" if old == "unsupported" else "lost"
    if old in STRICT_FAILING and new in STRICT_FAILING:
        return "otherwise"
    if old in STRICT_FAILING:
        return "fixed"
    return "broken" if new in STRICT_FAILING else "choice"


def bugs_of(changes: Sequence[Change]) -> dict[Bug, int]:
    """Return the known bugs that changes show, with the number of cases; those with most cases first."""
    counts = Counter(bug for change in changes for bug in change.note.bugs)
    return dict(sorted(counts.items(), key=lambda x: (-x[1], x[0].id)))


def rule_title(rule: str) -> str:
    """Return the title of a rule; empty for one that is not known."""
    known = rule_book().rules.get(rule)
    return known.title if known is not None else ""


def trend_document(result: Trend) -> dict[str, Any]:
    """Return the trend as a JSON-serialisable document of ``trend.schema.json``."""
    return {
        "trend": TREND,
        "suite": result.suite,
        "corpus": result.corpus,
        "implementation": result.name,
        "interrupted": result.interrupted,
        "exit_status": result.exit_status,
        "versions": [_version(run) for run in result.runs],
        "passages": [_passage_row(p) for p in result.passages],
    }


def _version(run: VersionRun) -> dict[str, Any]:
    row: dict[str, Any] = {"version": run.version, "ran": run.record is not None, "counts": run.counts}
    if run.record is None:
        return row | {"reason": run.reason}
    return row | {"cases": run.record.cases, "remarks": list(run.remarks)}


def _passage_row(passage: Passage) -> dict[str, Any]:
    return {
        "before": passage.before,
        "after": passage.after,
        "counts": passage.counts,
        "only_before": passage.only_before,
        "only_after": passage.only_after,
        "changes": [
            {
                "case": c.case,
                "title": c.note.title,
                "rules": list(c.note.rules),
                "turn": c.turn,
                "before": c.before,
                "after": c.after,
                "detail": c.detail,
                "bugs": [
                    {
                        "bug": bug.id,
                        "reference": bug.reference,
                        "versions": bug.versions,
                        "turns_here": bug.turns_between(passage.before, passage.after),
                    }
                    for bug in c.note.bugs
                ],
            }
            for c in passage.changes
        ],
    }
