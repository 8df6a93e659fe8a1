"""How an implementation changed from version to version: what was fixed, what broke, and by which rule.

A case that fails in one version and not in the next was fixed, the other way round it broke. What a version
merely lacks is set apart: gaining a dtype is no fix, and dropping one breaks no rule. So are answers that the
adapter owes to a version that it does not fit (``misfits``): nothing is known of the cases that got them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from safetensors_corpus.judging.verdicts import VERDICTS, fails, kind_of
from safetensors_reference.rules.book import rule_book

from ..record.run import RunRecord

Turn = Literal["fixed", "broken", "otherwise", "choice", "gained", "lost", "unknown"]
TURNS: dict[Turn, str] = {
    "fixed": "failed before, does not any more",
    "broken": "did not fail before, does now",
    "otherwise": "fails in another way than before",
    "choice": "takes another option of an open choice",
    "gained": "was not supported before, is now",
    "lost": "is not supported any more",
    "unknown": "the adapter failed in one of the two versions or does not fit it, so nothing is known",
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
    """One version: its record, or the reason why there is none. ``remarks`` are to be minded.

    ``misfits`` are the cases of which the record says nothing, because the adapter does not fit the version:
    case id -> the answer that shows it. They count as ``harness-error``.
    """

    version: str
    record: RunRecord | None = None
    reason: str = ""
    remarks: tuple[str, ...] = ()
    misfits: Mapping[str, str] = field(default_factory=dict)

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict of every case, as far as one is known."""
        if self.record is None:
            return {}
        told = self.record.case_verdicts().items()
        return {case: "harness-error" if case in self.misfits else verdict for case, verdict in told}

    @property
    def counts(self) -> dict[str, int]:
        """Cases per kind of verdict, those that do not occur left out."""
        return dict(Counter(kind_of(verdict) for verdict in self.verdicts.values()))


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
    passages = [_passage(a, b, notes) for a, b in pairwise(run for run in runs if run.record is not None)]
    return Trend(name, suite, corpus, tuple(runs), tuple(passages), interrupted)


def _passage(x: VersionRun, y: VersionRun, notes: Mapping[str, Note]) -> Passage:
    old, new = x.verdicts, y.verdicts
    details = {run.version: _details(run) for run in (x, y)}
    changes = []
    for case in old.keys() & new.keys():
        turn = turn_of(old[case], new[case])
        if turn is not None:
            failing = y.version if fails(new[case], strict=True) else x.version
            note = notes.get(case, Note(case))
            changes.append(Change(case, turn, old[case], new[case], note, details[failing].get(case, "")))
    order = list(TURNS)
    changes.sort(key=lambda c: (order.index(c.turn), c.rule, c.case))
    lost, added = len(old.keys() - new.keys()), len(new.keys() - old.keys())
    return Passage(x.version, y.version, tuple(changes), lost, added)


def _details(run: VersionRun) -> dict[str, str]:
    """Return case -> what was wrong in the step that decided, or what shows that nothing is known."""
    found: dict[str, str] = {}
    verdicts = run.verdicts
    for row in run.record.results if run.record is not None else ():
        if row["verdict"] == verdicts.get(row["case"]):
            found.setdefault(row["case"], str(row.get("detail") or ""))
    return found | dict(run.misfits)


def turn_of(before: str, after: str) -> Turn | None:
    """Say what became of a case by its two verdicts; None when nothing did."""
    old, new = kind_of(before), kind_of(after)
    if before == after:
        return None
    if "harness-error" in (old, new):
        return "unknown"
    if "unsupported" in (old, new):
        return "gained" if old == "unsupported" else "lost"
    failed, failing = fails(before, strict=True), fails(after, strict=True)
    if failed:
        return "otherwise" if failing else "fixed"
    return "broken" if failing else "choice"


def bugs_of(changes: Sequence[Change]) -> dict[Bug, int]:
    """Return the known bugs that changes show, with the number of cases; those with most cases first."""
    counts = Counter(bug for change in changes for bug in change.note.bugs)
    return dict(sorted(counts.items(), key=lambda x: (-x[1], x[0].id)))


def rule_title(rule: str) -> str:
    """Return the title of a rule; empty for one that is not known."""
    known = rule_book().rules.get(rule)
    return known.title if known is not None else ""
