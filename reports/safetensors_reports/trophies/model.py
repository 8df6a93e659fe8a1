"""Known bugs that runs have shown, with the affected versions, for ``docs/trophies.md``.

A trend of a history shows a bug if a case that names the bug failed before and passes now, or if the case
fails in the last version. A baseline of the conformance package lists failures of the newest version.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import Any, Literal

from packaging.version import Version

from safetensors_corpus.judging.verdicts import STRICT_FAILING, kind_of
from safetensors_corpus.steps import CASE_STEPS
from safetensors_corpus.templates import reference_link
from safetensors_corpus.typed import read_toml
from safetensors_reference.rules.pages import escape

from .. import templates
from ..audit.inputs import AuditError
from ..history.trend import TrendDocument
from ..known_failures import MAX_BYTES, ExpectedFailure, KnownError, read_baseline
from ..text import bug_affects, code, report_key, same_project, short, version_key

Row = Mapping[str, Any]
PAGE = "trophies.md"
MAX_CASES = 3
IMPLEMENTATIONS = Path("conformance") / "safetensors_conformance" / "implementations"
Kind = Literal["gone", "came", "there"]
_Seen = tuple[str, Row, Kind, str, str, str]
"""An implementation, its bug, how it was seen, the versions before and after, and the case that shows it."""


@dataclass(frozen=True)
class Expectations:
    """A baseline: expected failures of the newest version of an implementation."""

    implementation: str
    version: str
    entries: tuple[ExpectedFailure, ...]


def load_baselines(root: Path) -> list[Expectations]:
    out = []
    for path in sorted((root / IMPLEMENTATIONS).glob("*/expected_failures*.toml")):
        try:
            name, entries, _ = read_baseline(path)
            version = _newest(path.with_name("implementation.toml"))
        except (OSError, KnownError) as err:
            raise AuditError(str(err)) from err
        if version and not name:
            raise AuditError(f"{path}: not a baseline, because it has no 'implementation' or [[expected]]")
        if version:
            out.append(Expectations(name, version, entries))
    return out


def _newest(path: Path) -> str:
    """Return the version that a descriptor installs; empty for a reader of this project."""
    try:
        document = read_toml(path, MAX_BYTES)
        if document and "install" not in document:
            return ""
        version = document.get("install", {}).get("version")
    except (ValueError, AttributeError) as err:
        raise AuditError(f"{path}: cannot be read as a descriptor ({err})") from err
    try:
        return str(Version(version))
    except (ValueError, TypeError) as err:
        raise AuditError(f"{path}: install.version = {version!r} is not a version") from err


@dataclass(frozen=True)
class Sighting:
    """Runs that show a bug: it appeared or disappeared between two versions, or is in the newest version."""

    kind: Kind
    implementation: str
    before: str
    after: str
    cases: tuple[str, ...]


_SEEN: dict[Kind, str] = {
    "gone": "fails in {before}, does not fail in {after}",
    "came": "does not fail in {before}, fails in {after}",
    "there": "still fails in {after}",
}


def sighting_text(sight: Sighting, show: Callable[[str], str] = str) -> str:
    return _SEEN[sight.kind].format(before=show(sight.before), after=show(sight.after))


@dataclass(frozen=True)
class Trophies:
    """Known bugs that cases can expose, and the runs that expose them."""

    bugs: tuple[Row, ...]
    cases: Mapping[str, Sequence[str]]
    sightings: Mapping[str, Sequence[Sighting]]
    versions: Mapping[str, Sequence[str]]
    sources: Mapping[str, str]
    missing: int

    def status(self, bug: Row) -> str:
        names = [name for name in self.versions if same_project(name, bug["project"])]
        if all(bug_affects(bug, v) is False for name in names for v in self.versions[name]):
            return "not run"
        recorded = bug["versions"] or bug.get("commits_with")
        return "no change seen" if recorded else "versions not recorded"


def trophies(manifest: Row, trends: Sequence[TrendDocument], baselines: Sequence[Expectations]) -> Trophies:
    table = {bug["id"]: bug for bug in manifest["field_bugs"]}
    named = {
        case["id"]: [table[row["bug"]] for row in case["affects"]]
        for case in manifest["cases"]
        if case["status"] == "active"
    }
    cases: dict[str, list[str]] = {name: [] for name in table}
    for case, bugs in named.items():
        for bug in bugs:
            cases[bug["id"]].append(case)
    ran: dict[str, list[str]] = defaultdict(list)
    for document in trends:
        ran[document.implementation] += [row.version for row in document.versions]
    for baseline in baselines:
        ran[baseline.implementation].append(baseline.version)
    versions = {name: sorted(dict.fromkeys(all_), key=version_key) for name, all_ in sorted(ran.items())}
    in_trends = (_in_trend(document, named, versions[document.implementation][-1]) for document in trends)
    in_baselines = (_in_baseline(baseline, named) for baseline in baselines)
    found: dict[tuple[str, Kind, str, str, str], set[str]] = defaultdict(set)
    for name, bug, kind, before, after, case in chain(*in_trends, *in_baselines):
        if same_project(name, bug["project"]):
            found[bug["id"], kind, name, before, after].add(case)
    sightings: dict[str, list[Sighting]] = {name: [] for name in table}
    for (bug_id, kind, name, before, after), shown in found.items():
        sightings[bug_id].append(Sighting(kind, name, before, after, tuple(sorted(shown))))

    def order(s: Sighting) -> tuple[str, int, bool, str]:
        return s.implementation, versions[s.implementation].index(s.after), s.kind == "there", s.kind

    for sights_of in sightings.values():
        sights_of.sort(key=order)
    return Trophies(
        tuple(bug for bug in table.values() if cases[bug["id"]]),
        cases,
        sightings,
        versions,
        {document.implementation: document.source for document in trends if document.source},
        sum(not shown for shown in cases.values()),
    )


def _in_trend(document: TrendDocument, named: Mapping[str, Sequence[Row]], newest: str) -> Iterator[_Seen]:
    name = document.implementation
    for passage in document.passages:
        before, after = passage.before, passage.after
        for change in passage.changes:
            for bug in named.get(change.case, ()):
                # A missing feature is not a failure unless it was reported as a bug.
                gained = change.turn == "gained" and bug["family"] == "dtype"
                if (change.turn == "fixed" or gained) and _is_credited(bug, before, after):
                    yield name, bug, "gone", before, after, change.case
                elif change.turn == "broken" and _is_credited(bug, after, before):
                    yield name, bug, "came", before, after, change.case
    for shown in chain(*(row.shows for row in document.versions if row.version == newest)):
        for bug in named.get(shown.case, ()):
            if bug["id"] in shown.bugs and bug_affects(bug, newest):
                yield name, bug, "there", "", newest, shown.case


def _is_credited(bug: Row, failing: str, other: str) -> bool:
    """Return whether the recorded versions explain why a case fails in only one of the versions."""
    return bool(bug_affects(bug, failing)) and bug_affects(bug, other) is False


def _in_baseline(baseline: Expectations, named: Mapping[str, Sequence[Row]]) -> Iterator[_Seen]:
    for entry in baseline.entries:
        kinds = {kind_of(entry.steps[step]) for step in CASE_STEPS if step in entry.steps}
        if not entry.applies(baseline.version, None) or not kinds & (STRICT_FAILING - {"harness-error"}):
            continue
        for case in filter(entry.covers, named):
            for bug in named[case]:
                reported = report_key(entry.issue) in map(report_key, bug["references"])
                if reported and bug_affects(bug, baseline.version) is not False:
                    yield baseline.implementation, bug, "there", "", baseline.version, case


def render(data: Trophies) -> str:
    seen: dict[str, list[Row]] = {bug["project"]: [] for bug in data.bugs}
    projects = list(seen)
    unseen: dict[tuple[str, str], list[str]] = defaultdict(list)
    for bug in data.bugs:
        if data.sightings[bug["id"]]:
            seen[bug["project"]].append(bug)
        else:
            unseen[bug["project"], data.status(bug)].append(bug["id"])
    kinds = [{sight.kind for sight in sightings} for sightings in data.sightings.values()]
    return templates.render(
        "trophies.md",
        found=data,
        seen={project: bugs for project, bugs in seen.items() if bugs},
        gone=sum("gone" in kinds_of for kinds_of in kinds),
        there=sum("there" in kinds_of for kinds_of in kinds),
        unseen=sorted(unseen.items(), key=lambda item: projects.index(item[0][0])),
        ran={name: list(map(short, versions)) for name, versions in data.versions.items()},
        seen_in=lambda bug: [f"{name} {_seen(own, order)}" for name, own, order in _by_name(data, bug)],
        gone_in=lambda bug: [
            f"{name} {_gone(own, order, len(data.cases[bug['id']]))}"
            for name, own, order in _by_name(data, bug)
        ],
        escape=escape,
        reference_link=reference_link,
        CASES=MAX_CASES,
    )


def _by_name(data: Trophies, bug: Row) -> Iterator[tuple[str, list[Sighting], Sequence[str]]]:
    for name, sightings in groupby(data.sightings[bug["id"]], key=lambda sight: sight.implementation):
        yield code(name, 60), list(sightings), data.versions[name]


def _seen(sightings: Sequence[Sighting], order: Sequence[str]) -> str:
    came = {s.after: s.before for s in sightings if s.kind == "came"}
    failing = sorted({s.before if s.kind == "gone" else s.after for s in sightings}, key=order.index)
    return ", ".join(f"{short(v)} (not in {short(came[v])})" if v in came else short(v) for v in failing)


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
