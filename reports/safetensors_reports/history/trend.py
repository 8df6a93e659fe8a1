"""Changes of an implementation from version to version: fixed and broken cases, by rule.

A case that fails in one version but not in the next is *fixed*; the opposite is *broken*. Missing features,
and cases in which the adapter does not fit the version, are counted separately.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from safetensors_corpus.judging.verdicts import VERDICTS, fails, kind_of
from safetensors_corpus.typed import Count
from safetensors_reference.rules.book import rule_book

from ..record.run import RunRecord
from ..templates import render, render_lines
from ..text import bug_affects, code, is_affected, listed, same_project, visible

Turn = Literal["fixed", "broken", "otherwise", "choice", "gained", "lost", "unknown"]
TURNS: dict[Turn, str] = {
    "fixed": "failed before, no longer fails",
    "broken": "did not fail before, fails now",
    "otherwise": "fails in a different way than before",
    "choice": "takes a different option of an open choice",
    "gained": "not supported before, supported now",
    "lost": "no longer supported",
    "unknown": "unknown, because the adapter failed in one of the two versions or does not fit it",
}
WORDS: dict[Turn, str] = {
    "fixed": "FIXED",
    "broken": "BROKEN",
    "otherwise": "fails differently",
    "choice": "chooses differently",
    "gained": "supported now",
    "lost": "no longer supported",
    "unknown": "unknown",
}
MAX_ROWS = 40
MAX_CASES = 8
Verdicts = Annotated[dict[str, Count], Meta(extra_json_schema={"propertyNames": {"enum": list(VERDICTS)}})]
Turns = Annotated[dict[Turn, Count], Meta(extra_json_schema={"propertyNames": {"enum": list(TURNS)}})]


@dataclass(frozen=True)
class KnownBug:
    """A known bug that a case shows; the bug may be that the reader takes ``option`` of a choice."""

    id: str
    reference: str
    versions: str = ""
    option: str = ""
    commits_with: Collection[str] = ()
    commits_without: Collection[str] = ()

    def affects(self, version: str) -> bool | None:
        return bug_affects(vars(self), version)

    def shown_by(self, verdict: str) -> bool:
        return fails(verdict, strict=True) or verdict == f"choice:{self.option}"

    def turns_between(self, before: str, after: str) -> bool | None:
        sides = [is_affected(self.versions, version) for version in (before, after)]
        return None if None in sides else sides[0] != sides[1]


@dataclass(frozen=True)
class CaseInfo:
    """Facts about a case; ``bugs`` are the known bugs of the implementation under test."""

    title: str
    rules: tuple[str, ...] = ()
    bugs: tuple[KnownBug, ...] = ()


def notes_of(
    manifest: Mapping[str, Any], *names: str, only: Collection[str] | None = None
) -> dict[str, CaseInfo]:
    """Return facts about all cases, or ``only`` some, with the known bugs of projects with these names."""
    more = ("option", "commits_with", "commits_without")
    known = {bug["id"]: {name: bug[name] for name in more if name in bug} for bug in manifest["field_bugs"]}
    return {
        case["id"]: CaseInfo(
            case["title"],
            tuple(case["rules"]),
            tuple(
                KnownBug(row["bug"], row["reference"], row["versions"], **known[row["bug"]])
                for row in case["affects"]
                if any(same_project(name, row["project"]) for name in names)
            ),
        )
        for case in manifest["cases"]
        if only is None or case["id"] in only
    }


@dataclass(frozen=True)
class VersionRun:
    """The verdicts of one version by case, with the details of failures, or the reason why it has none."""

    version: str
    verdicts: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    reason: str = ""

    @classmethod
    def of(
        cls, version: str, record: RunRecord, misfits: Mapping[str, str], remarks: Sequence[str] = ()
    ) -> VersionRun:
        """Return the verdicts of a record; the cases of ``misfits`` count as ``harness-error``."""
        verdicts = {c: "harness-error" if c in misfits else v for c, v in record.case_verdicts.items()}
        # The first of several results with the verdict counts.
        shown = [row for row in reversed(record.results) if row["verdict"] == verdicts.get(row["case"])]
        details = {row["case"]: str(row.get("detail") or "") for row in shown}
        return cls(version, verdicts, details | dict(misfits), tuple(remarks))


class BugRow(Struct, frozen=True):
    """A known bug of this implementation that a case shows.

    Attributes:
        versions: Affected versions as a specifier; empty if they are not recorded.
        turns_here: Whether exactly one of the two versions is affected; null if this is not recorded.
    """

    bug: str
    reference: str
    versions: str
    turns_here: bool | None


class ChangeRow(Struct, frozen=True):
    """A case whose verdict is different in the next version.

    Attributes:
        before: Verdict in the earlier version.
        after: Verdict in the later version.
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
    """Two consecutive versions that were run.

    Attributes:
        only_before: Number of cases that only the earlier version ran.
        only_after: Number of cases that only the later version ran.
    """

    before: str
    after: str
    counts: Turns
    only_before: Count
    only_after: Count
    changes: tuple[ChangeRow, ...]

    def by_rule(self, turn: Turn) -> dict[str, list[ChangeRow]]:
        groups: dict[str, list[ChangeRow]] = {}
        for change in self.changes:
            if change.turn == turn:
                groups.setdefault(change.rule, []).append(change)
        return dict(sorted(groups.items(), key=lambda x: (-len(x[1]), x[0])))


class ShownRow(Struct, frozen=True):
    """A case that shows known bugs of this implementation in one version, with the ids of the bugs."""

    case: str
    verdict: str
    bugs: tuple[str, ...]


class VersionRow(Struct, frozen=True):
    """One version with its results, or with the reason why there are none.

    Attributes:
        version: A release, or a full commit hash.
        counts: Cases per kind of verdict; a case is counted under the verdict of its worst step.
        reason: Why the version could not be run.
        shows: Cases that the version fails, or in which it takes an option that is a known bug.
    """

    version: str
    ran: bool
    counts: Verdicts
    reason: str | UnsetType = UNSET
    cases: Count | UnsetType = UNSET
    remarks: tuple[str, ...] | UnsetType = UNSET
    shows: tuple[ShownRow, ...] = ()

    def __post_init__(self) -> None:
        if UNSET in ((self.cases, self.remarks) if self.ran else (self.reason,)):
            raise ValueError(f"has no {'cases or no remarks' if self.ran else 'reason'}")
        if not self.counts.keys() <= VERDICTS.keys():
            raise ValueError(f"each key of counts must be one of {', '.join(VERDICTS)}")


_HAS_RUN = {
    "if": {"properties": {"ran": {"const": False}}},
    "then": {"required": ["reason"]},
    "else": {"required": ["cases", "remarks"]},
}


class TrendDocument(Struct, frozen=True):
    """Several versions of one implementation on one corpus, and the changes between consecutive versions.

    Readers ignore properties that they do not know.

    Attributes:
        trend: Version of this format; every incompatible change increments it.
        implementation: Name, followed by a colon and the entry point if there is one.
        passages: Every version that ran, compared with the previous version that ran.
        source: Address of the repository, for versions that were built from source.
    """

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
    def changes(self) -> list[ChangeRow]:
        return [change for passage in self.passages for change in passage.changes]

    @property
    def kinds(self) -> list[str]:
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
    is_shown: Callable[[KnownBug, str], object] = lambda *_: True,
) -> TrendDocument:
    """Compare each version with the one before; versions show only the bugs that ``is_shown`` confirms."""
    ran = [run for run in runs if not run.reason]
    return TrendDocument(
        trend=1,
        suite=suite,
        corpus=corpus,
        implementation=name,
        interrupted=interrupted,
        exit_status=0 if len(ran) == len(runs) else 2,
        versions=tuple(_version(run, notes, is_shown) for run in runs),
        passages=tuple(_passage(a, b, notes) for a, b in pairwise(ran)),
        source=source,
    )


def _version(
    run: VersionRun, notes: Mapping[str, CaseInfo], is_shown: Callable[[KnownBug, str], object]
) -> VersionRow:
    counts = dict(Counter(map(kind_of, run.verdicts.values())))
    if run.reason:
        return VersionRow(run.version, False, counts, reason=run.reason)
    shows = []
    for case, verdict in sorted(run.verdicts.items()):
        shown = [bug for bug in notes.get(case, CaseInfo(case)).bugs if bug.shown_by(verdict)]
        bugs = tuple(bug.id for bug in shown if is_shown(bug, run.version))
        if bugs and kind_of(verdict) != "harness-error":
            shows.append(ShownRow(case, verdict, bugs))
    return VersionRow(
        run.version, True, counts, cases=len(run.verdicts), remarks=run.remarks, shows=tuple(shows)
    )


def _passage(x: VersionRun, y: VersionRun, notes: Mapping[str, CaseInfo]) -> PassageRow:
    old, new = x.verdicts, y.verdicts
    changes = []
    for case in old.keys() & new.keys():
        turn = turn_of(old[case], new[case])
        if turn is not None:
            note = notes.get(case, CaseInfo(case))
            bugs = tuple(
                BugRow(bug.id, bug.reference, bug.versions, bug.turns_between(x.version, y.version))
                for bug in note.bugs
            )
            detail = (y if fails(new[case], strict=True) else x).details.get(case, "")
            changes.append(ChangeRow(case, note.title, note.rules, turn, old[case], new[case], detail, bugs))
    order = list(TURNS)
    changes.sort(key=lambda c: (order.index(c.turn), c.rule, c.case))
    lost, added = len(old.keys() - new.keys()), len(new.keys() - old.keys())
    totals = Counter(change.turn for change in changes)
    counts = {turn: totals[turn] for turn in TURNS}
    return PassageRow(x.version, y.version, counts, lost, added, tuple(changes))


def turn_of(before: str, after: str) -> Turn | None:
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


def trend_text(document: TrendDocument, limit: int = 5) -> list[str]:
    known = partial(_bugs, show=visible, versions=" ({})", elsewhere=" [recorded for other versions]")
    return render_lines("trend.txt", **_values(document), known=known, limit=limit)


def trend_markdown(document: TrendDocument) -> str:
    known = partial(_bugs, show=code, versions=" {}", elsewhere=" (recorded for other versions)")
    page = render("trend.md", **_values(document), known=known, ROWS=MAX_ROWS, CASES=MAX_CASES)
    return page.rstrip("\n") + "\n"


def rule_title(rule: str) -> str:
    entry = rule_book().rules.get(rule)
    return entry.title if entry is not None else ""


def _values(document: TrendDocument) -> dict[str, Any]:
    return {"trend": document, "TURNS": TURNS, "WORDS": WORDS, "rule_title": rule_title, "moves": _moves}


def _moves(changes: Sequence[ChangeRow]) -> str:
    counts = Counter((_short(c.before), _short(c.after)) for c in changes).most_common()
    return listed([f"{a} -> {b} {n:,}" for (a, b), n in counts], 4)


def _short(verdict: str) -> str:
    return visible(verdict, 60) if kind_of(verdict) == "choice" else kind_of(verdict)


def _bugs(
    changes: Sequence[ChangeRow], show: Callable[[str, int], str], versions: str, elsewhere: str
) -> list[str]:
    counts = Counter(bug for change in changes for bug in change.bugs)
    return [
        f"{bug.bug} {show(bug.reference, 80)}"
        + (versions.format(show(bug.versions, 30)) if bug.versions else "")
        + (elsewhere if bug.turns_here is False else "")
        for bug in sorted(counts, key=lambda bug: (-counts[bug], bug.bug))
    ]
