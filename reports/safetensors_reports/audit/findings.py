"""Findings as reviewers write them: one per implementation, rule and verdict, with all its cases."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from safetensors_corpus.judging.verdicts import fails, kind_of
from safetensors_reference import rule_book
from safetensors_reference.rules.cwe import CWE_NAMES

from ..case_evidence import expected_text, reproducer
from ..record.run import row_failures
from .disclosure import OWN
from .recommendations import NOT_KNOWN, recommendation
from .references import references_of
from .representative import Shown, of_fuzz, worst
from .severity import NO_WEAKNESS, OUTCOMES, SEVERITIES, difficulty
from .stable_text import digest, slug, stable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from safetensors_corpus import Manifest

    from ..record.run import Row, RunRecord
    from .inputs import FuzzFinding, Known

Finding = dict[str, Any]
Key = tuple[str, str, str]
"""Label, rule and verdict; the rule is empty where it is not known."""
LONGEST_NAME = 80
"""Characters of a selector that go into the name of a finding."""


@dataclass
class _Group:
    """Everything that one finding is made of."""

    selector: str
    name: str
    version: str
    profile: str | None = None
    device: str = ""
    rows: list[Row] = field(default_factory=list)
    fuzz: list[FuzzFinding] = field(default_factory=list)


def find(
    runs: Sequence[tuple[str, RunRecord]],
    manifest: Manifest,
    fuzz: Sequence[FuzzFinding] = (),
    known: Mapping[str, Sequence[Known]] | None = None,
) -> tuple[list[Finding], dict[str, bytes]]:
    """Return all findings, worst first, then by id, and by SHA-256 the inputs that their evidence names.

    Args:
        runs: label and record of every run.
        manifest: the corpus that the runs used.
        fuzz: findings of fuzzing runs.
        known: label -> entries of the baseline, whose issues are public references.
    """
    groups: dict[Key, _Group] = {}
    for label, record in runs:
        _add_run(groups, label, record)
    _add_fuzz(groups, runs, fuzz)
    names = _ids(groups)
    found: list[Finding] = []
    inputs: dict[str, bytes] = {}
    for key, group in groups.items():
        shown = _shown(key, group, manifest)
        found.append(_finding(key, group, shown, names[key], manifest, (known or {}).get(key[0], ())))
        if shown.input is not None and shown.seen.data is not None:
            inputs[shown.input] = shown.seen.data
    severities, outcomes = list(SEVERITIES), list(OUTCOMES)
    found.sort(key=lambda f: (severities.index(f["severity"]), outcomes.index(f["outcome"]), f["id"]))
    return found, inputs


def _add_run(groups: dict[Key, _Group], label: str, record: RunRecord) -> None:
    who, book = record.implementation, rule_book()

    def add(rule: str, verdict: str, rows: Sequence[Row]) -> None:
        # A record of another corpus may name rules that this rule book does not have.
        if rule in book.rules and rows:
            fresh = _Group(
                str(who.get("selector") or who["name"]), who["name"], who["version"], record.header["profile"]
            )
            fresh.device = record.header.get("device") or ""
            groups.setdefault((label, rule, verdict), fresh).rows.extend(rows)

    for row in record.results:
        for failed in row_failures(row):
            if fails(failed["verdict"], strict=True):
                charged = {**row, "verdict": failed["verdict"], "detail": failed["detail"]}
                add(failed["rule"], kind_of(failed["verdict"]), [charged])
    for said in record.choices:
        choice = book.choices.get(said["choice"])
        if kind_of(said["verdict"]) == "choice-inconsistent" and choice is not None:
            answer = {"verdict": said["verdict"], "detail": said.get("detail", "")}
            members = [{**r, **answer} for r in record.results if r.get("choice") == choice.id]
            add(choice.rule, "choice-inconsistent", members)


def _add_fuzz(
    groups: dict[Key, _Group], runs: Sequence[tuple[str, RunRecord]], fuzz: Sequence[FuzzFinding]
) -> None:
    ran = {(r.implementation.get("selector", ""), r.implementation["version"]): label for label, r in runs}
    for item in sorted(fuzz, key=lambda f: (f.slug, f.digest)):
        document = item.document
        for selector in sorted(document.got):
            version = document.versions.get(selector, "unknown")
            alone = selector if version == "unknown" else f"{selector} {version}"
            name = selector.partition("==")[0]
            name = name if name.startswith(("py:", "cmd:", "exit:")) else name.partition(":")[0]
            key = (
                ran.get((selector, version), alone),
                next((rule.id for rule in document.rules), ""),
                kind_of(document.verdict),
            )
            groups.setdefault(key, _Group(selector, name, version)).fuzz.append(item)


def _ids(groups: Mapping[Key, _Group]) -> dict[Key, str]:
    """Return a name per finding that stays when the version changes, unless versions are compared."""
    labels: dict[str, set[str]] = {}
    for key, group in groups.items():
        labels.setdefault(group.selector, set()).add(key[0])
    out: dict[Key, str] = {}
    taken: set[str] = set()
    for key, group in groups.items():
        who = group.selector if len(labels[group.selector]) == 1 else key[0]
        if len(who) > LONGEST_NAME:  # a command line; names of findings are addresses within pages
            who = f"{who[:LONGEST_NAME]} {digest(who)[:8]}"
        name = base = slug(f"{who} {key[1] or NOT_KNOWN} {key[2]}")
        number = 2
        while name in taken:
            name, number = f"{base}-{number}", number + 1
        taken.add(name)
        out[key] = name
    return out


def _shown(key: Key, group: _Group, manifest: Manifest) -> Shown:
    options = [Shown(row, key[1], manifest.by_id.get(row["case"])) for row in group.rows]
    return worst(options + [of_fuzz(item, group.selector, key[1]) for item in group.fuzz])


def _finding(
    key: Key, group: _Group, shown: Shown, name: str, manifest: Manifest, known: Sequence[Known]
) -> Finding:
    label, rule_id, verdict = key
    cases = sorted({row["case"] for row in group.rows})
    return {
        "id": name,
        "title": f"{stable(label, 80)} {_predicate(shown, rule_id)}",
        "implementation": label,
        "rule": rule_id or None,
        "verdict": verdict,
        "outcome": shown.outcome,
        "severity": shown.severity,
        "difficulty": difficulty(shown.row["step"]),
        "weaknesses": [{"id": n, "name": CWE_NAMES[n]} for n in shown.weaknesses],
        "steps": sorted({r["step"] for r in group.rows} | {f.document.step for f in group.fuzz}),
        "expected": _expected(shown, group.profile),
        "got": shown.got,
        "case_count": len(cases),
        "cases": cases,
        "fuzz": [_fuzz_row(f) for f in group.fuzz],
        "evidence": shown.document(manifest),
        "fingerprint": shown.digest,
        "reproducer": _reproducer(group, shown),
        "recommendation": recommendation(shown.outcome, shown.seen.code, rule_id),
        "references": references_of(group.name, group.version, cases, manifest, known),
        "expected_failure": bool(group.rows) and all(r.get("expected_failure", False) for r in group.rows),
        "own": group.name == OWN,
        "redacted": False,
    }


def _predicate(shown: Shown, rule_id: str) -> str:
    """Return verb and object of a title, the rule included."""
    what = {"slice": "requests", "write": "calls of its writer", "index": "indexes"}.get(
        shown.row["step"], "files"
    )
    if not rule_id:
        return f"{OUTCOMES[shown.outcome]} {what} ({NOT_KNOWN})"
    rule = rule_book().rules[rule_id]
    about = "about" if shown.outcome in NO_WEAKNESS or not shown.codes else "that break"
    verb = f"{OUTCOMES[shown.outcome]} {what} {about}"
    if shown.outcome == "content" and shown.row["step"] == "write":
        verb = "writes files that do not hold what was given, against"
    return f"{verb} {rule.id} ({rule.title})"


def _expected(shown: Shown, profile: str | None) -> str:
    if shown.item is not None:
        return stable(shown.item.document.expected)
    return expected_text(shown.case, profile) if shown.case else ""


def _reproducer(group: _Group, shown: Shown) -> str:
    if shown.item is not None:
        return shown.item.document.reproduce
    device = group.device if shown.row["step"] == "device" else None
    return reproducer(group.selector, shown.row["case"], group.profile, device)


def _fuzz_row(item: FuzzFinding) -> dict[str, Any]:
    document = item.document
    return {
        "slug": item.slug,
        "digest": item.digest,
        "size": document.size.now,
        "seed": document.seed,
        "engine": document.engine,
        "reproducer": document.reproduce,
    }
