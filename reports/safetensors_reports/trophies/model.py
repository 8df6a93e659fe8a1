"""Known bugs that runs have shown, with the affected versions, for ``docs/trophies.md``.

A trend (``reports/published/trends/``) shows a bug if a case that names the bug failed before and passes now,
or if the case fails in the last version. A baseline of the conformance package lists failures of the newest
version.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from safetensors_corpus.judging.verdicts import STRICT_FAILING, kind_of
from safetensors_corpus.steps import CASE_STEPS
from safetensors_corpus.templates import reference_link
from safetensors_reference.rules.pages import escape

from .. import templates
from ..history.trend import TrendDocument
from ..known import ExpectedFailure
from ..text import code, report_key, same_project
from ..versions import version_key

Row = Mapping[str, Any]
PAGE = "trophies.md"
COMMIT = re.compile("[0-9a-f]{40}")
MAX_CASES = 3
Kind = Literal["gone", "came", "there"]


@dataclass(frozen=True)
class Expectations:
    """A baseline: expected failures of the newest version of an implementation."""

    implementation: str
    version: str
    entries: tuple[ExpectedFailure, ...]


@dataclass(frozen=True)
class Sighting:
    """Runs that show a bug; it disappeared or appeared between two versions or is in the newest one."""

    kind: Kind
    implementation: str
    before: str
    after: str
    cases: tuple[str, ...]

    @property
    def failing(self) -> str:
        return self.before if self.kind == "gone" else self.after


_SEEN: dict[Kind, str] = {
    "gone": "fails in {before}, does not fail in {after}",
    "came": "does not fail in {before}, fails in {after}",
    "there": "still fails in {after}",
}


def sighting_text(sight: Sighting, show: Callable[[str], str] = str) -> str:
    return _SEEN[sight.kind].format(before=show(sight.before), after=show(sight.after))


@dataclass(frozen=True)
class Trophies:
    """Known bugs that cases can show, and the runs that show them."""

    bugs: tuple[Row, ...]
    cases: Mapping[str, Sequence[str]]
    sightings: Mapping[str, Sequence[Sighting]]
    versions: Mapping[str, Sequence[str]]
    sources: Mapping[str, str]
    missing: int

    def of_project(self, project: str) -> list[str]:
        return [name for name in self.versions if same_project(name, project)]

    def status(self, bug: Row) -> str:
        ran = {v for name in self.of_project(bug["project"]) for v in self.versions[name]}
        if all(affects(bug, v) is False for v in ran):
            return "not run"
        recorded = bug["versions"] or bug.get("commits_with")
        return "no change seen" if recorded else "versions not recorded"


def trophies(manifest: Row, trends: Iterable[TrendDocument], baselines: Iterable[Expectations]) -> Trophies:
    table = {bug["id"]: bug for bug in manifest["field_bugs"]}
    named = {
        case["id"]: tuple(table[row["bug"]] for row in case["affects"])
        for case in manifest["cases"]
        if case["status"] == "active"
    }
    cases: dict[str, list[str]] = {name: [] for name in table}
    for case, bugs in named.items():
        for bug in bugs:
            cases[bug["id"]].append(case)
    found: dict[tuple[str, str, Kind, str, str], list[str]] = {}
    trends, baselines = list(trends), list(baselines)
    versions = _versions(trends, baselines)
    for document in trends:
        name = document.implementation
        for bug_id, case, kind, before, after in _turned(document, named):
            found.setdefault((bug_id, name, kind, before, after), []).append(case)
        for bug_id, case in _shown(document, named, versions[name][-1]):
            found.setdefault((bug_id, name, "there", "", versions[name][-1]), []).append(case)
    for baseline in baselines:
        for bug_id, case in _expected(baseline, named):
            name, newest = baseline.implementation, baseline.version
            found.setdefault((bug_id, name, "there", "", newest), []).append(case)
    sightings: dict[str, list[Sighting]] = {name: [] for name in table}
    for (bug_id, name, kind, before, after), seen in found.items():
        sightings[bug_id].append(Sighting(kind, name, before, after, tuple(sorted(set(seen)))))

    def order(s: Sighting) -> tuple[str, int, bool, str]:
        return s.implementation, versions[s.implementation].index(s.after), s.kind == "there", s.kind

    for seen_of in sightings.values():
        seen_of.sort(key=order)
    return Trophies(
        tuple(bug for bug in table.values() if cases[bug["id"]]),
        cases,
        sightings,
        versions,
        {document.implementation: document.source for document in trends if document.source},
        sum(not shown for shown in cases.values()),
    )


def _versions(trends: Iterable[TrendDocument], baselines: Iterable[Expectations]) -> dict[str, list[str]]:
    out: dict[str, list[str]] = {}
    for document in trends:
        out.setdefault(document.implementation, []).extend(v.version for v in document.versions if v.ran)
    for baseline in baselines:
        out.setdefault(baseline.implementation, []).append(baseline.version)
    return {name: sorted(dict.fromkeys(versions), key=version_key) for name, versions in sorted(out.items())}


def _turned(
    document: TrendDocument, named: Mapping[str, Sequence[Row]]
) -> Iterator[tuple[str, str, Kind, str, str]]:
    for passage in document.passages:
        before, after = passage.before, passage.after
        for change in passage.changes:
            bugs = named.get(change.case, ())
            own = [bug for bug in bugs if same_project(document.implementation, bug["project"])]
            if change.turn == "gained":  # a missing feature is not a failure unless it was reported as a bug
                own = [bug for bug in own if bug["family"] == "dtype"]
            if change.turn in ("fixed", "gained"):
                for bug in credited(own, before, after):
                    yield bug["id"], change.case, "gone", before, after
            elif change.turn == "broken":
                for bug in credited(own, after, before):
                    yield bug["id"], change.case, "came", before, after


def credited(bugs: Sequence[Row], failing: str, other: str) -> list[Row]:
    """Return the bugs whose recorded versions explain why a case fails in only one of the versions."""
    return [b for b in bugs if affects(b, failing) and affects(b, other) is False]


def affects(bug: Row, version: str) -> bool | None:
    if COMMIT.fullmatch(version):
        if version in bug.get("commits_without", ()):
            return False
        return True if version in bug.get("commits_with", ()) else None
    if not bug["versions"]:
        return None
    return SpecifierSet(bug["versions"]).contains(Version(version), prereleases=True)


def _shown(
    document: TrendDocument, named: Mapping[str, Sequence[Row]], newest: str
) -> Iterator[tuple[str, str]]:
    for row in document.versions:
        if row.ran and row.version == newest:
            for shown in row.shows:
                for bug in named.get(shown.case, ()):
                    if bug["id"] in shown.bugs and affects(bug, newest):
                        yield bug["id"], shown.case


def _expected(baseline: Expectations, named: Mapping[str, Sequence[Row]]) -> Iterator[tuple[str, str]]:
    for entry in baseline.entries:
        kinds = {kind_of(entry.steps[step]) for step in CASE_STEPS if step in entry.steps}
        if not entry.applies(baseline.version, None) or not kinds & (STRICT_FAILING - {"harness-error"}):
            continue
        for case in filter(entry.covers, named):
            for bug in named[case]:
                own = same_project(baseline.implementation, bug["project"])
                other = affects(bug, baseline.version) is False
                if own and not other and reported_as(entry.issue, bug["references"]):
                    yield bug["id"], case


def reported_as(issue: str, references: Iterable[str]) -> bool:
    return report_key(issue) in {report_key(reference) for reference in references}


def render(data: Trophies) -> str:
    projects = list(dict.fromkeys(bug["project"] for bug in data.bugs))
    seen = {
        project: [bug for bug in data.bugs if bug["project"] == project and data.sightings[bug["id"]]]
        for project in projects
    }
    kinds = [{sight.kind for sight in sightings} for sightings in data.sightings.values()]
    return templates.render(
        "trophies.md",
        found=data,
        seen={project: bugs for project, bugs in seen.items() if bugs},
        gone=sum("gone" in kinds_of for kinds_of in kinds),
        there=sum("there" in kinds_of for kinds_of in kinds),
        unseen=list(_unseen(data, projects)),
        ran={name: list(map(short, versions)) for name, versions in data.versions.items()},
        seen_in=lambda bug: [
            f"{code(name, 60)} {_seen(own, data.versions[name])}" for name, own in _by_name(data, bug)
        ],
        gone_in=lambda bug: [
            f"{code(name, 60)} {_gone(own, data.versions[name], len(data.cases[bug['id']]))}"
            for name, own in _by_name(data, bug)
        ],
        escape=escape,
        reference_link=reference_link,
        CASES=MAX_CASES,
    )


def _by_name(data: Trophies, bug: Row) -> list[tuple[str, list[Sighting]]]:
    groups: dict[str, list[Sighting]] = {}
    for sight in data.sightings[bug["id"]]:
        groups.setdefault(sight.implementation, []).append(sight)
    return list(groups.items())


def short(version: str) -> str:
    return version[:10] if COMMIT.fullmatch(version) else version


def _seen(sightings: Sequence[Sighting], order: Sequence[str]) -> str:
    came = {s.after: s.before for s in sightings if s.kind == "came"}
    versions = sorted({s.failing for s in sightings}, key=order.index)
    return ", ".join(f"{short(v)} (not in {short(came[v])})" if v in came else short(v) for v in versions)


def _gone(sightings: Sequence[Sighting], order: Sequence[str], total: int) -> str:
    parts = [
        ("still there in " if s.kind == "there" else "")
        + f"{short(s.after)}, {f'{len(s.cases)} of {total} cases' if total != 1 else 'its case'}"
        for s in sightings
        if s.kind != "came"
    ]
    last = max((s.after for s in sightings if s.kind == "came"), key=order.index, default="")
    if last and not any(order.index(s.after) >= order.index(last) for s in sightings if s.kind != "came"):
        cases = {case for s in sightings if s.after == last for case in s.cases}
        status = "no later version was run" if last == order[-1] else "not gone in any later version"
        parts.append(f"{status}; {len(cases)} of {total} cases")
    return "; ".join(parts)


def _unseen(data: Trophies, projects: Sequence[str]) -> Iterator[tuple[str, str, list[str]]]:
    for project in projects:
        groups: dict[str, list[str]] = {}
        for bug in data.bugs:
            if bug["project"] == project and not data.sightings[bug["id"]]:
                groups.setdefault(data.status(bug), []).append(bug["id"])
        for status, bugs in groups.items():
            yield project, status, bugs
