"""Report rows of the implementations: counts, overall verdict, causes, and results by role."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from safetensors_corpus import Case, Manifest
from safetensors_corpus.judging.content import differing_fields
from safetensors_corpus.judging.verdicts import effect_of, fails, kind_of
from safetensors_corpus.manifest import AREA_OF_RULES
from safetensors_reference import rule_book
from safetensors_reference.rules.pages import AREAS

from ..causes.cause import Cause, causes, command
from ..causes.failures import failures
from ..labels import CLEAN, MISSES, NOT_TOLD, OPENING, QUESTIONS, ROLES, UNKNOWN, UNUSUAL, WORDS, Question
from ..record.device_checks import CHECKS, STATUSES
from ..record.run import Row, RunRecord, worst_by_case
from ..text import stable, visible
from .disclosure import OWN
from .inputs import BaselineEntry
from .report import (
    AnswerRow,
    CauseRow,
    CellRow,
    ChoiceRow,
    DeviceRow,
    ExpectedRow,
    Failed,
    Finding,
    Implementation,
    RoleRow,
)

MAX_PROBLEMS = 20
SET_APART = {"write": "wrong-write", "sharded": "wrong-write", "lifecycle": "wrong-race"}


def implementation(
    label: str,
    run: RunRecord,
    record: RunRecord,
    known: Sequence[BaselineEntry],
    manifest: Manifest,
    findings: Sequence[Finding],
    *,
    public: bool,
) -> Implementation:
    """Build the report row of an implementation from the part of its ``run`` that is shown (``record``).

    Cases that were *not run* and cases outside a full run (*not asked*) are counted separately. For other
    people's software, published rows count neither passed cases nor the guarantees that a device loader
    keeps.
    """
    info, header = record.implementation, record.header
    withheld = public and record.name != OWN
    counts = record.counts()
    contradictions = record.inconsistent_choices()
    expected = _expected(record, known)
    if public:
        expected = [row for row in expected if row.issue.startswith("https://")]
    if withheld:
        # A case that no longer fails may have passed, or its new outcome may be withheld.
        expected = [
            row if row.state == "fails" else replace(row, state="no verdict", verdict=None)
            for row in expected
        ]
        counts.pop("pass", None)
    rows = sorted(record.choices, key=lambda r: str(r["choice"]))
    parts = [(row["choice"], *row["verdict"].partition(":")) for row in rows]
    disclosed = {case for f in findings if f.implementation == label and not f.redacted for case in f.cases}
    return Implementation(
        label=label,
        selector=record.selector,
        name=record.name,
        version=record.version,
        language=info.get("language") or "unknown",
        steps=list(info.get("steps", [])),
        lacks=sorted(set(info.get("lacks", []))),
        suite=header["suite"],
        corpus=header["corpus"]["digest"],
        profile=header["profile"],
        limits=header.get("limits") or {},
        ended="truncated" if record.truncated else "partial" if record.partial else "complete",
        word=_word(record, counts, contradictions, withheld=withheld),
        due=header["corpus"]["cases"],
        cases=record.cases,
        counts=dict(sorted(counts.items())),
        contradictions=len(contradictions),
        not_run=record.not_run,
        not_asked=dict(sorted(header["corpus"].get("left_out", {}).items())),
        choices=[
            ChoiceRow(name, option if kind == "choice" else "", kind) for name, kind, _, option in parts
        ],
        baseline=header.get("baseline"),
        expected_failures=expected,
        expected_failing=len(record.expected_cases),
        problems=[] if public else [stable(text, 300) for text in record.problems[:MAX_PROBLEMS]],
        device=UNSET if withheld else _device(record),
        causes=_causes(label, record, manifest, findings) if withheld else _own_causes(record, manifest),
        roles=_roles(run, record, manifest, disclosed if withheld else None),
        **_about(run),
    )


def _device(record: RunRecord) -> DeviceRow | UnsetType:
    name = record.header.get("device")
    rows = [row for row in record.results if row["step"] == "device"]
    if name is None or not rows:
        return UNSET
    counts = Counter((check["name"], check["status"]) for row in rows for check in row.get("checks", ()))
    checks = {check: {status: counts[check, status] for status in STATUSES} for check in CHECKS}
    return DeviceRow(stable(name, 40), len(rows), checks)


def _word(
    record: RunRecord, counts: dict[str, int], contradictions: Mapping[str, str], *, withheld: bool
) -> str:
    # Reported crashes must not affect the overall verdict. Otherwise a program with a more open tracker would
    # look worse than one that crashes more often.
    counts = counts | ({"unsafe": 0} if withheld else {})
    # Cases about written or changing files count separately, because they do not harm a loader.
    for kind in ("unsafe", "wrong-content"):
        steps = {row["step"] for row in record.blamed if kind_of(row["verdict"]) == kind}
        if counts.get(kind) and steps and steps <= SET_APART.keys():
            counts |= {kind: 0} | {SET_APART[step]: 1 for step in steps}
    for kind, word in WORDS.items():
        if counts.get(kind) or (kind == "choice-inconsistent" and contradictions):
            checks = record.implementation.get("kind") in ("validator", "scanner")
            return MISSES if checks and kind == "wrong-accept" else word
    # Never show cases as passed if they did not run or if the adapter failed.
    if record.not_run or counts.get("harness-error") or record.truncated or not record.cases:
        return UNKNOWN
    return NOT_TOLD if withheld else CLEAN


def _expected(record: RunRecord, known: Sequence[BaselineEntry]) -> list[ExpectedRow]:
    verdicts = record.case_verdicts
    listed = record.expected_cases
    entries = {case: entry for entry in reversed(known) for case in entry.cases}
    out = []
    for case in sorted(listed | entries.keys()):
        entry, verdict = entries.get(case), verdicts.get(case)
        state: Literal["fails", "passes", "no verdict"] = "no verdict"
        if verdict is not None:
            state = "fails" if case in listed or fails(verdict) else "passes"
        out.append(
            ExpectedRow(
                case=case,
                verdict=verdict,
                state=state,
                why=entry.why if entry else "",
                issue=entry.issue if entry else "",
                review_by=(entry.review_by or None) if entry else None,
            )
        )
    return out


def _own_causes(record: RunRecord, manifest: Manifest) -> list[CauseRow]:
    return [_cause(cause, record) for cause in causes(record, manifest)] if record.has_failures else []


def _causes(label: str, record: RunRecord, manifest: Manifest, findings: Sequence[Finding]) -> list[CauseRow]:
    """Return the causes, worst first; published causes reveal no more than the findings do."""
    mine = [f for f in findings if f.implementation == label]
    disclosed = [f for f in mine if not f.redacted]
    rows = [
        row
        for row in record.results
        if not failures(row)
        or any(
            f.verdict in (row["verdict"], kind_of(row["verdict"])) and row["case"] in f.cases
            for f in disclosed
        )
    ]
    part = dataclasses.replace(record, results=rows, choices=[])
    shown = [_cause(cause, record) for cause in causes(part, manifest)]
    withheld = [_withheld_cause(f) for f in mine if f.redacted and f.case_count]
    order = [f.verdict for f in mine]

    def rank(row: CauseRow) -> tuple[int, bool, int, str, str]:
        verdict = row.verdict if row.verdict in order else kind_of(row.verdict)
        place = order.index(verdict) if verdict in order else len(order)
        return place, row.redacted, -row.case_count, row.rule, row.what

    return sorted([*shown, *withheld], key=rank)


def _cause(cause: Cause, record: RunRecord) -> CauseRow:
    return CauseRow(
        verdict=cause.verdict,
        verdicts=dict(cause.verdicts),
        basis=cause.basis,
        rule=cause.rule,
        what=stable(cause.what, 200),
        said=stable(cause.said, 200),
        case_count=len(cause.cases),
        cases=list(cause.cases),
        steps=list(cause.steps),
        example=cause.example,
        reproducer=command(record.header, cause),
        mend=cause.advice,
        expected_failure=cause.is_expected,
        redacted=False,
    )


def _withheld_cause(finding: Finding) -> CauseRow:
    rule = rule_book().rules[finding.rule or ""]
    return CauseRow(
        verdict=finding.verdict,
        verdicts={finding.verdict: finding.case_count},
        basis=None,
        rule=rule.id,
        what=f"{rule.id} ({rule.title})",
        said="",
        case_count=finding.case_count,
        cases=[],
        steps=[],
        example=None,
        reproducer=None,
        mend=finding.recommendation,
        expected_failure=finding.expected_failure,
        redacted=True,
    )


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

_About = tuple[str, str, str]
"""Step, first rule and required outcome of a case."""


class _Failure(NamedTuple):
    case: str
    verdict: str
    basis: str
    area: str
    question: Question | None


@dataclass
class _Role:
    """Results collected for one role; ``due`` maps a case to its first step in this role."""

    due: dict[str, str] = field(default_factory=dict)
    failures: list[_Failure] = field(default_factory=list)


def _roles(
    record: RunRecord, shown: RunRecord, manifest: Manifest, disclosed: Collection[str] | None
) -> list[RoleRow]:
    """Return the results by role.

    In each role, only the cases of that role count, and only in the areas that the program claims to support.
    If some results are withheld, ``disclosed`` contains the cases with a public report. Use only ``shown``
    and the header of ``record`` then.
    """
    hidden = disclosed is not None
    by_role: defaultdict[str, _Role] = defaultdict(_Role)
    info = record.implementation
    steps = set(info.get("steps", ()))
    # Without a descriptor, a program that returns data is a reader.
    kind = info.get("kind") or ("reader" if steps & {"read", "slice"} else "header")
    own = ROLE_OF_KIND.get(kind, "reader")
    for case, step in _due(record, manifest) if hidden else _answered(record, manifest):
        by_role[_ROLE_OF_STEP.get(step, own)].due.setdefault(case, step)
    for row, charges in shown.failing:
        if hidden and row["step"] == "device":
            continue  # the number of loaded files would reveal failures
        role = _ROLE_OF_STEP.get(row["step"], own)
        for failed in charges:
            verdict, rule = failed["verdict"], failed["rule"]
            if fails(verdict, strict=True) and not (hidden and kind_of(verdict) == "unsafe"):
                known = rule_book().rules.get(rule)
                basis = failed.get("basis") or (known.basis if known else "text")
                question = _question(role, row["step"], effect_of(verdict), rule)
                by_role[role].failures.append(_Failure(row["case"], verdict, basis, rule[:3], question))
    areas = info.get("areas", ())
    unclaimed = frozenset(area for area, name in AREA_OF_RULES.items() if areas and name not in areas)
    keeps = _keeps(shown, manifest, disclosed)
    # A reader that reports only a verdict does not show which value it keeps.
    shows_values = "read" in steps or own != "reader"
    return [
        _row(
            name,
            by_role[name],
            manifest,
            unclaimed if name in OPENING else frozenset(),
            keeps,
            shows_values=shows_values,
        )
        for name in ROLES
        if by_role[name].due
    ]


def _due(record: RunRecord, manifest: Manifest) -> Iterable[tuple[str, str]]:
    info = record.implementation
    asked = (manifest.by_id.get(row["case"]) for row in record.results)
    heavy = any(case is not None and case.heavy for case in asked)
    steps, areas = set(info.get("steps", ())), info.get("areas", ())
    cases = (case for case in manifest.cases if heavy or not case.heavy)
    return ((case.id, step) for case in cases for step in case.steps_for(steps, areas))


def _answered(record: RunRecord, manifest: Manifest) -> Iterable[tuple[str, str]]:
    rows = (row for row in record.results if row["verdict"] != "harness-error")
    return ((row["case"], row["step"]) for row in rows if row["case"] in manifest.by_id)


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
    carried: defaultdict[str, set[str]] = defaultdict(set)
    due: defaultdict[_About, set[str]] = defaultdict(set)
    for case, step in results.due.items():
        rule, demanded, areas = _traits(manifest.by_id[case])
        due[step, rule, demanded].add(case)
        for area in areas:
            carried[area].add(case)
    cells = []
    for area in AREAS:
        failed = [failure for failure in results.failures if failure.area == area]
        cases = carried[area].union(failure.case for failure in failed)
        if cases and area not in unclaimed:
            cells.append(CellRow(area, len(cases), _counted(failed)))
    answers = []
    for question in QUESTIONS:
        if name in question.roles and not (question.rules and {r[:3] for r in question.rules} <= unclaimed):
            failed = [failure for failure in results.failures if failure.question is question]
            cases = _asked(question, due, unclaimed).union(failure.case for failure in failed)
            unknown = question.name == "values" and name == "reader" and not shows_values
            if cases and not unknown and (failed or "late-reject" not in question.effects):
                note = keeps if question.name == "names" and failed else ""
                answers.append(AnswerRow(question.name, len(cases), _counted(failed), note))
    return RoleRow(
        role=name,
        asked=len(results.due),
        failed=_counted(results.failures),
        unclaimed=[area for area in AREAS if area in unclaimed],
        cells=cells,
        answers=answers,
    )


def _counted(failures: Iterable[_Failure]) -> Failed:
    by_basis: dict[str, list[tuple[str, str]]] = {}
    for failure in failures:
        by_basis.setdefault(failure.basis, []).append((failure.case, failure.verdict))
    return {
        basis: dict(sorted(Counter(map(kind_of, worst_by_case(pairs).values())).items()))  # type: ignore[misc]
        for basis, pairs in sorted(by_basis.items())
    }


def _asked(question: Question, due: Mapping[_About, set[str]], unclaimed: Collection[str]) -> set[str]:
    covered = {rule for q in QUESTIONS if q.name != question.name for rule in q.rules}
    demands = {_ANSWERED[effect] for effect in question.effects}

    def fits(step: str, rule: str, demanded: str) -> bool:
        if question.steps:
            return step in question.steps
        about = rule in question.rules if question.rules else rule not in covered or demands == {"accept"}
        return step not in UNUSUAL and about and demanded in demands and rule[:3] not in unclaimed

    return set().union(*(cases for about, cases in due.items() if fits(*about)))


@lru_cache(maxsize=1 << 14)
def _traits(case: Case) -> tuple[str, str, frozenset[str]]:
    demand = case.expect
    if demand is None and (choice := rule_book().choices.get(case.choice or "")):
        demand = case.options.get(choice.required or "")
    return case.rules[0], demand.outcome if demand else "", frozenset(rule[:3] for rule in case.rules)


def _keeps(record: RunRecord, manifest: Manifest, disclosed: Collection[str] | None) -> str:
    taken = {row["verdict"].partition(":")[2] for row in record.choices if row["choice"] == TWICE}
    for row in record.results:
        case = manifest.by_id.get(row["case"])
        rows = (row.get("content") or {}).get("tensors")
        disclosed_case = disclosed is None or row["case"] in disclosed
        if case and case.choice == TWICE and disclosed_case and row["outcome"] == "accept" and rows:
            fits = [name for name in KEEPS if _same(case, name, rows)]
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


def _about(record: RunRecord) -> dict[str, str]:
    info = record.implementation
    names = ("kind", "title", "homepage", "issues", "parser", "claim", "scope")
    texts = {name: visible(str(info.get(name) or ""), 1000) for name in names}
    for name in ("homepage", "issues"):
        if not texts[name].startswith("https://"):
            texts[name] = ""
    return texts | ({} if texts["kind"] in ROLE_OF_KIND else {"kind": ""})
