"""The known bugs that runs of the suite have seen, as a page for people, ``docs/trophies.md``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from packaging.version import Version

from safetensors_corpus.cli.bugs import reference_link
from safetensors_reference.rules.pages import escape

from .. import templates
from ..text import code
from .model import Row, Sight, Trophies

PAGE = "trophies.md"
MAX_CASES = 3
"""Cases of a bug that the page names; the others are counted."""


def render(found: Trophies) -> str:
    """Return the page. The same data always gives the same bytes."""
    projects = list(dict.fromkeys(bug["project"] for bug in found.bugs))
    seen = {
        project: [bug for bug in found.bugs if bug["project"] == project and found.sights[bug["id"]]]
        for project in projects
    }
    kinds = [{sight.kind for sight in sights} for sights in found.sights.values()]
    return templates.render(
        "trophies.md",
        found=found,
        seen={project: bugs for project, bugs in seen.items() if bugs},
        gone=sum("gone" in kinds_of for kinds_of in kinds),
        there=sum("there" in kinds_of for kinds_of in kinds),
        unseen=list(_unseen(found, projects)),
        seen_in=lambda bug: [f"{code(name, 60)} {_seen(own)}" for name, own in _by_name(found, bug)],
        gone_in=lambda bug: [
            f"{code(name, 60)} {_gone(own, found.versions[name][-1], len(found.cases[bug['id']]))}"
            for name, own in _by_name(found, bug)
        ],
        escape=escape,
        reference_link=reference_link,
        CASES=MAX_CASES,
    )


def _by_name(found: Trophies, bug: Row) -> list[tuple[str, list[Sight]]]:
    """Return what was seen of a bug by implementation."""
    groups: dict[str, list[Sight]] = {}
    for sight in found.sights[bug["id"]]:
        groups.setdefault(sight.implementation, []).append(sight)
    return list(groups.items())


def _seen(sights: Sequence[Sight]) -> str:
    came = {s.after: s.before for s in sights if s.kind == "came"}
    versions = sorted({s.failing for s in sights}, key=Version)
    return ", ".join(f"{v} (not in {came[v]})" if v in came else v for v in versions)


def _gone(sights: Sequence[Sight], newest: str, total: int) -> str:
    parts = [
        f"{s.after}, {_of(s, total)}" if s.kind == "gone" else f"still there in {s.after}, {_of(s, total)}"
        for s in sights
        if s.kind != "came"
    ]
    last = max((s.after for s in sights if s.kind == "came"), key=Version, default="")
    if last and not any(Version(s.after) >= Version(last) for s in sights if s.kind != "came"):
        cases = {case for s in sights if s.after == last for case in s.cases}
        known = "no later version run" if last == newest else "not seen to go"
        parts.append(f"{known}; {len(cases)} of {total} cases")
    return "; ".join(parts)


def _of(sight: Sight, total: int) -> str:
    return f"{len(sight.cases)} of {total} cases" if total != 1 else "its case"


def _unseen(found: Trophies, projects: Sequence[str]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield project, what is known, and ids of the bugs of which nothing was seen."""
    for project in projects:
        groups: dict[str, list[str]] = {}
        for bug in found.bugs:
            if bug["project"] == project and not found.sights[bug["id"]]:
                groups.setdefault(found.status(bug), []).append(bug["id"])
        for status, bugs in groups.items():
            yield project, status, bugs
