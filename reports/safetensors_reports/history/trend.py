"""How an implementation changed from version to version: what was fixed, what broke, and by which rule.

``TrendDocument`` is what ``stc trend`` writes and ``stc trophies`` reads back, and what the text and the page
are made of.

A case that fails in one version and not in the next was fixed, the other way round it broke. What a version
merely lacks is set apart: gaining a dtype is no fix, and dropping one breaks no rule. So are answers that the
adapter owes to a version that it does not fit (``misfits``): nothing is known of the cases that got them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from safetensors_corpus.judging.verdicts import VERDICTS, fails, kind_of
from safetensors_corpus.typed import Count
from safetensors_reference.rules.book import rule_book

from ..record.run import RunRecord
from ..templates import render, render_lines
from ..text import code, listed, visible

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
WORDS: dict[Turn, str] = {
    "fixed": "FIXED",
    "broken": "BROKEN",
    "otherwise": "fails otherwise",
    "choice": "chooses otherwise",
    "gained": "supported now",
    "lost": "not supported any more",
    "unknown": "not known",
}
MAX_ROWS = 40
"""Rules of each list of a page."""
MAX_CASES = 8
"""Cases, and known bugs, of each rule on a page."""
Verdicts = Annotated[dict[str, Count], Meta(extra_json_schema={"propertyNames": {"enum": list(VERDICTS)}})]
Turns = Annotated[dict[Turn, Count], Meta(extra_json_schema={"propertyNames": {"enum": list(TURNS)}})]


@dataclass(frozen=True)
class KnownBug:
    """A known bug that a case shows: ``versions`` is a specifier such as ``<0.3.1``, empty for unknown.

    ``option`` is the option of a choice that is the bug.
    """

    id: str
    reference: str
    versions: str = ""
    option: str = ""

    def shown_by(self, verdict: str) -> bool:
        return fails(verdict, strict=True) or verdict == f"choice:{self.option}"

    def turns_between(self, before: str, after: str) -> bool | None:
        """Say whether just one of two versions is affected; None when the versions are not recorded."""
        try:
            affected = SpecifierSet(self.versions)
            sides = [affected.contains(Version(v), prereleases=True) for v in (before, after)]
        except ValueError:  # of numbers with too many digits, too
            return None
        return None if not self.versions else sides[0] != sides[1]


@dataclass(frozen=True)
class CaseInfo:
    """What is known of a case without running it; ``bugs`` are those of the implementation in question."""

    title: str
    rules: tuple[str, ...] = ()
    bugs: tuple[KnownBug, ...] = ()


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
        told = self.record.case_verdicts.items()
        return {case: "harness-error" if case in self.misfits else verdict for case, verdict in told}

    @property
    def counts(self) -> dict[str, int]:
        """Cases per kind of verdict, those that do not occur left out."""
        return dict(Counter(kind_of(verdict) for verdict in self.verdicts.values()))


class BugRow(Struct, frozen=True):
    """A known bug of this implementation that a case shows.

    Attributes:
        versions: Affected versions as a specifier, empty when not recorded.
        turns_here: Whether just one of the two versions is affected by that; null when not recorded.
    """

    bug: str
    reference: str
    versions: str
    turns_here: bool | None


class ChangeRow(Struct, frozen=True):
    """A case with another verdict in the next version.

    Attributes:
        before: Verdict.
        after: Verdict.
        detail: What is wrong in the version that fails.
        bugs: Known bugs of this implementation that the case shows.
    """

    case: str
    title: str
    rules: tuple[str, ...]
    turn: Turn
    before: str
    after: str
    detail: str
    bugs: tuple[BugRow, ...]

    @property
    def rule(self) -> str:
        return self.rules[0] if self.rules else ""


class PassageRow(Struct, frozen=True):
    """A version that ran and the next one that did.

    Attributes:
        only_before: Cases that only the earlier version was asked about.
        only_after: Cases that only the later version was asked about.
    """

    before: str
    after: str
    counts: Turns
    only_before: Count
    only_after: Count
    changes: tuple[ChangeRow, ...]

    def by_rule(self, turn: Turn) -> dict[str, list[ChangeRow]]:
        """Return rule -> changes of one turn, the rules with most cases first."""
        groups: dict[str, list[ChangeRow]] = {}
        for change in self.changes:
            if change.turn == turn:
                groups.setdefault(change.rule, []).append(change)
        return dict(sorted(groups.items(), key=lambda x: (-len(x[1]), x[0])))


class ShownRow(Struct, frozen=True):
    """A case that shows known bugs of this implementation in one version, by their ids."""

    case: str
    verdict: str
    bugs: tuple[str, ...]


class VersionRow(Struct, frozen=True):
    """One version, with what its run gave or the reason why there was none.

    Attributes:
        version: A release, or a commit in full.
        counts: Cases per kind of verdict, by the worst of their steps.
        reason: Why it could not be run.
        shows: Cases that fail, or take the option of a choice that is a known bug.
    """

    version: str
    ran: bool
    counts: Verdicts
    reason: str | UnsetType = UNSET
    cases: Count | UnsetType = UNSET
    remarks: tuple[str, ...] | UnsetType = UNSET
    shows: tuple[ShownRow, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for what a type cannot say."""
        if UNSET in ((self.cases, self.remarks) if self.ran else (self.reason,)):
            raise ValueError(f"has no {'cases or no remarks' if self.ran else 'reason'}")
        if not self.counts.keys() <= VERDICTS.keys():
            raise ValueError(f"counts must be of {', '.join(VERDICTS)}")


_HAS_RUN = {
    "if": {"properties": {"ran": {"const": False}}},
    "then": {"required": ["reason"]},
    "else": {"required": ["cases", "remarks"]},
}


class TrendDocument(Struct, frozen=True):
    """One implementation, several of its versions over one corpus, and what changed between neighbours.
    Readers ignore properties they do not know.

    Attributes:
        trend: Version of this format; raised when a reader of documents must follow.
        implementation: Name, with the entry behind a colon.
        passages: Every version that ran against the one before it that ran.
        source: Address of the repository, for versions that were built from its source.
    """  # noqa: D205 - it is the description of the schema

    trend: Literal[1]
    suite: str
    corpus: str
    implementation: str
    interrupted: bool
    exit_status: Literal[0, 2]
    versions: tuple[Annotated[VersionRow, Meta(extra_json_schema=_HAS_RUN)], ...]
    passages: tuple[PassageRow, ...]
    source: str = ""

    @property
    def kinds(self) -> list[str]:
        """Kinds of verdict that occur, worst first."""
        present = set().union(*(row.counts for row in self.versions))
        return [kind for kind in VERDICTS if kind in present]


def trend(
    name: str,
    suite: str,
    corpus: str,
    runs: Sequence[VersionRun],
    notes: Mapping[str, CaseInfo],
    *,
    interrupted: bool = False,
    source: str = "",
) -> TrendDocument:
    """Hold every version against the one before it; versions that could not be run are passed over.

    Args:
        name: the implementation.
        suite: version of the suite.
        corpus: version of the corpus.
        runs: one per version, in the order in which they are to be compared.
        notes: case id -> what is known of it.
        interrupted: True when further versions were asked for.
        source: address of the repository, for versions that were built from its source.
    """
    ran = [run for run in runs if run.record is not None]
    return TrendDocument(
        trend=1,
        suite=suite,
        corpus=corpus,
        implementation=name,
        interrupted=interrupted,
        exit_status=0 if len(ran) == len(runs) else 2,
        versions=tuple(_version(run, notes) for run in runs),
        passages=tuple(_passage(a, b, notes) for a, b in pairwise(ran)),
        source=source,
    )


def _version(run: VersionRun, notes: Mapping[str, CaseInfo]) -> VersionRow:
    if run.record is None:
        return VersionRow(run.version, False, run.counts, reason=run.reason)
    shows = []
    for case, verdict in sorted(run.verdicts.items()):
        bugs = tuple(bug.id for bug in notes.get(case, CaseInfo(case)).bugs if bug.shown_by(verdict))
        if bugs and kind_of(verdict) != "harness-error":
            shows.append(ShownRow(case, verdict, bugs))
    return VersionRow(
        run.version, True, run.counts, cases=run.record.cases, remarks=run.remarks, shows=tuple(shows)
    )


def _passage(x: VersionRun, y: VersionRun, notes: Mapping[str, CaseInfo]) -> PassageRow:
    old, new = x.verdicts, y.verdicts
    details = {run.version: _details(run) for run in (x, y)}
    changes = []
    for case in old.keys() & new.keys():
        turn = turn_of(old[case], new[case])
        if turn is not None:
            failing = y.version if fails(new[case], strict=True) else x.version
            note = notes.get(case, CaseInfo(case))
            bugs = tuple(
                BugRow(bug.id, bug.reference, bug.versions, bug.turns_between(x.version, y.version))
                for bug in note.bugs
            )
            detail = details[failing].get(case, "")
            changes.append(ChangeRow(case, note.title, note.rules, turn, old[case], new[case], detail, bugs))
    order = list(TURNS)
    changes.sort(key=lambda c: (order.index(c.turn), c.rule, c.case))
    lost, added = len(old.keys() - new.keys()), len(new.keys() - old.keys())
    found = Counter(change.turn for change in changes)
    counts = {turn: found[turn] for turn in TURNS}
    return PassageRow(x.version, y.version, counts, lost, added, tuple(changes))


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


def trend_text(found: TrendDocument, limit: int = 5) -> list[str]:
    """Return a trend as lines for a terminal: versions, then what was fixed and what broke, rule by rule.

    Args:
        found: the trend.
        limit: most cases shown per rule, and twice as many rules per list.
    """

    def known(changes: Sequence[ChangeRow]) -> list[str]:
        return _bugs(changes, visible, " ({})", " [recorded for other versions]")

    return render_lines("trend.txt", **_values(found), known=known, limit=limit)


def trend_markdown(found: TrendDocument) -> str:
    """Return a trend as a page: GitHub-flavoured Markdown, each list bounded, encodable as UTF-8."""

    def known(changes: Sequence[ChangeRow]) -> list[str]:
        return _bugs(changes, code, " {}", " (recorded for other versions)")

    page = render("trend.md", **_values(found), known=known, ROWS=MAX_ROWS, CASES=MAX_CASES)
    return page.rstrip("\n") + "\n"


def _values(found: TrendDocument) -> dict[str, Any]:
    return {"trend": found, "TURNS": TURNS, "WORDS": WORDS, "rule_title": _rule_title, "moves": _moves}


def _moves(changes: Sequence[ChangeRow]) -> str:
    """Return how verdicts moved, most frequent first: ``wrong-accept -> pass 12, unsafe -> pass 1``."""
    counts = Counter((_short(c.before), _short(c.after)) for c in changes).most_common()
    return listed([f"{a} -> {b} {n:,}" for (a, b), n in counts], 4)


def _short(verdict: str) -> str:
    return visible(verdict, 60) if kind_of(verdict) == "choice" else kind_of(verdict)


def _bugs(
    changes: Sequence[ChangeRow], show: Callable[[str, int], str], versions: str, elsewhere: str
) -> list[str]:
    """Return the known bugs that explain changes, those with most cases first.

    It is said when the recorded versions do not fit.
    """
    counts = Counter(bug for change in changes for bug in change.bugs)
    return [
        f"{bug.bug} {show(bug.reference, 80)}"
        + (versions.format(show(bug.versions, 30)) if bug.versions else "")
        + (elsewhere if bug.turns_here is False else "")
        for bug in sorted(counts, key=lambda bug: (-counts[bug], bug.bug))
    ]


def _rule_title(rule: str) -> str:
    known = rule_book().rules.get(rule)
    return known.title if known is not None else ""
