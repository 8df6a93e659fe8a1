"""Results of an implementation by role: reader, lister, checker, writer, index loader, device loader.

In each role, only the cases of that role count, and only in the areas that the program claims to support.
Requirements of the written format are reported separately from those of the official library and from our own
hardening rules.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from safetensors_corpus import Case, Manifest
from safetensors_corpus.judging.content import differing_fields
from safetensors_corpus.judging.verdicts import effect_of, fails, kind_of, worse
from safetensors_corpus.manifest import AREA_OF_RULES
from safetensors_reference import rule_book
from safetensors_reference.rules.pages import AREAS

from ..labels import OPENING, QUESTIONS, ROLES, UNUSUAL, Question
from ..record.run import Row, RunRecord
from ..text import visible
from .disclosure import OWN
from .report import AnswerRow, CellRow, Failed, RoleRow

ROLE_OF_KIND = {
    "reader": "reader",
    "header": "lister",
    "validator": "checker",
    "scanner": "checker",
    "device": "device",
    "exporter": "exporter",
}
_ROLE_OF_STEP = {
    "write": "writer",
    "sharded": "writer",
    "index": "index",
    "device": "device",
    "export": "exporter",
}
_ANSWERED = {"accept": "reject", "late-reject": "reject", "content": "accept", "reject": "accept"}
"""Effect of a failure -> required outcome."""
TWICE = "duplicate-tensor-names"
KEEPS = {"last-wins": "keeps the last", "first-wins": "keeps the first"}

_Cases = dict[str, dict[str, str]]
_About = tuple[str, str, str]
"""Step, first rule and required outcome of a case."""


@dataclass
class _Role:
    """Results collected for one role; ``due`` maps a case to its first step in this role."""

    due: dict[str, str] = field(default_factory=dict)
    every: _Cases = field(default_factory=dict)
    areas: dict[str, _Cases] = field(default_factory=dict)
    answers: dict[Question, _Cases] = field(default_factory=dict)


def roles(
    record: RunRecord, shown: RunRecord, manifest: Manifest, *, public: bool, disclosed: Collection[str] = ()
) -> list[RoleRow]:
    """Return the results by role.

    If some results are withheld, use only ``shown`` and the header of ``record``.
    """
    hidden = public and record.implementation["name"] != OWN
    by_role: defaultdict[str, _Role] = defaultdict(_Role)
    info = record.implementation
    steps = set(info.get("steps", ()))
    # Without a descriptor, a program that returns data is a reader.
    kind = info.get("kind") or ("reader" if steps & {"read", "slice"} else "header")
    own = ROLE_OF_KIND.get(kind, "reader")
    for case, step in _due(record, manifest) if hidden else _answered(record, manifest):
        by_role[_ROLE_OF_STEP.get(step, own)].due.setdefault(case, step)
    areas = record.implementation.get("areas", ())
    unclaimed = frozenset(area for area, name in AREA_OF_RULES.items() if areas and name not in areas)
    for row, failures in shown.failing:
        if hidden and row["step"] == "device":
            continue  # the number of loaded files would reveal failures
        for failed in failures:
            if not (hidden and kind_of(failed["verdict"]) == "unsafe"):
                role = _ROLE_OF_STEP.get(row["step"], own)
                _add(by_role[role], role, row, failed)
    keeps = _keeps(shown, manifest, disclosed if hidden else None)
    # A reader that reports only a verdict does not show which value it keeps.
    shows_values = "read" in record.implementation.get("steps", ()) or own != "reader"
    rows = []
    for name in ROLES:
        if name in by_role and by_role[name].due:
            left = unclaimed if name in OPENING else frozenset()
            rows.append(_row(name, by_role[name], manifest, left, keeps, shows_values=shows_values))
    return rows


def _due(record: RunRecord, manifest: Manifest) -> Iterable[tuple[str, str]]:
    info = record.implementation
    asked = (manifest.by_id.get(row["case"]) for row in record.results)
    heavy = any(case is not None and case.heavy for case in asked)
    steps, areas = set(info.get("steps", ())), info.get("areas", ())
    cases = (case for case in manifest.cases if heavy or not case.heavy)
    return ((case.id, step) for case in cases for step in case.steps_for(steps, areas))


def _answered(record: RunRecord, manifest: Manifest) -> Iterable[tuple[str, str]]:
    cases = manifest.by_id
    for row in record.results:
        if row["verdict"] != "harness-error" and row["case"] in cases:
            yield row["case"], row["step"]


def _add(into: _Role, role: str, row: Row, failed: Row) -> None:
    verdict, rule, step = failed["verdict"], failed["rule"], row["step"]
    if not fails(verdict, strict=True):
        return
    entry = rule_book().rules.get(rule)
    basis = failed.get("basis") or (entry.basis if entry else "text")
    question = _question(role, step, effect_of(verdict), rule)
    places = [into.every, into.areas.setdefault(rule[:3], {})]
    if question is not None:
        places.append(into.answers.setdefault(question, {}))
    for place in places:
        cases = place.setdefault(basis, {})
        cases[row["case"]] = worse(verdict, cases.get(row["case"], "pass"))


@lru_cache(maxsize=1 << 14)
def _question(*failure: str) -> Question | None:
    return next((question for question in QUESTIONS if question.covers(*failure)), None)


def _row(
    name: str,
    results: _Role,
    manifest: Manifest,
    unclaimed: frozenset[str],
    keeps: str,
    *,
    shows_values: bool,
) -> RoleRow:
    carried: dict[str, set[str]] = {}
    due: dict[_About, set[str]] = {}
    for case, step in results.due.items():
        rule, demanded, areas = _traits(manifest.by_id[case])
        due.setdefault((step, rule, demanded), set()).add(case)
        for area in areas:
            carried.setdefault(area, set()).add(case)
    cells = []
    for area in AREAS:
        failed = results.areas.get(area, {})
        cases = carried.get(area, set()).union(*failed.values())
        if cases and area not in unclaimed:
            cells.append(CellRow(area, len(cases), _counted(failed)))
    answers = []
    for question in QUESTIONS:
        if name in question.roles and not (question.rules and {r[:3] for r in question.rules} <= unclaimed):
            failed = results.answers.get(question, {})
            cases = _asked(question, due, unclaimed).union(*failed.values())
            unknown = question.name == "values" and name == "reader" and not shows_values
            if cases and not unknown and (failed or "late-reject" not in question.effects):
                note = keeps if question.name == "names" and failed else ""
                answers.append(AnswerRow(question.name, len(cases), _counted(failed), note))
    return RoleRow(
        role=name,
        asked=len(results.due),
        failed=_counted(results.every),
        unclaimed=[area for area in AREAS if area in unclaimed],
        cells=cells,
        answers=answers,
    )


def _counted(failed: Mapping[str, Mapping[str, str]]) -> Failed:
    return {
        basis: dict(sorted(Counter(map(kind_of, cases.values())).items()))  # type: ignore[misc]
        for basis, cases in sorted(failed.items())
    }


def _asked(question: Question, due: Mapping[_About, set[str]], unclaimed: Collection[str]) -> set[str]:
    covered = {rule for q in QUESTIONS if q.name != question.name for rule in q.rules}
    demands = {_ANSWERED[effect] for effect in question.effects}
    out: set[str] = set()
    for (step, rule, demanded), cases in due.items():
        if question.steps:
            fits = step in question.steps
        else:
            about = rule in question.rules if question.rules else rule not in covered or demands == {"accept"}
            fits = step not in UNUSUAL and about and demanded in demands and rule[:3] not in unclaimed
        if fits:
            out |= cases
    return out


@lru_cache(maxsize=1 << 14)
def _traits(case: Case) -> tuple[str, str, frozenset[str]]:
    demand = case.expect
    if demand is None and (choice := rule_book().choices.get(case.choice or "")):
        demand = case.options.get(choice.required or "")
    return case.rules[0], demand.outcome if demand else "", frozenset(rule[:3] for rule in case.rules)


def _keeps(record: RunRecord, manifest: Manifest, disclosed: Collection[str] | None) -> str:
    taken = {row["verdict"].partition(":")[2] for row in record.choices if row["choice"] == TWICE}
    cases = {
        c.id: c for c in manifest.cases if c.choice == TWICE and (disclosed is None or c.id in disclosed)
    }
    for row in record.results:
        if row["case"] not in cases or row["outcome"] != "accept":
            continue
        rows = (row.get("content") or {}).get("tensors")
        if rows:
            fits = [name for name in KEEPS if _same(cases[row["case"]], name, rows)]
            taken.add(fits[0] if len(fits) == 1 else "")
    return KEEPS.get(next(iter(taken)), "") if len(taken) == 1 else ""


def _same(case: Case, option: str, rows: Sequence[Row]) -> bool:
    content = case.options[option].content if option in case.options else None
    want = {row["name"]: row for row in (content or {}).get("tensors", ())}
    return (
        bool(want)
        and len(rows) == len(want)
        and all(row["name"] in want and not differing_fields(want[row["name"]], row) for row in rows)
    )


def about(record: RunRecord) -> dict[str, str]:
    info = record.implementation
    names = ("kind", "title", "homepage", "issues", "parser", "claim", "scope")
    texts = {name: visible(str(info.get(name) or ""), 1000) for name in names}
    for name in ("homepage", "issues"):
        if not texts[name].startswith("https://"):
            texts[name] = ""
    return texts | ({} if texts["kind"] in ROLE_OF_KIND else {"kind": ""})
