"""Statistics of the corpus and its rule coverage."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..document import MANIFEST, stored_files
from .release import demand

SIDES = ("accept", "reject")


@dataclass(frozen=True)
class RuleCoverage:
    """The sides of a rule that active cases cover under any option. ``reasons`` explains missing sides."""

    id: str
    level: str
    cases: int
    sides: tuple[str, ...]
    reasons: dict[str, str]

    @property
    def missing(self) -> tuple[str, ...]:
        return tuple(side for side in SIDES if side not in self.sides)


def active(raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [case for case in raw["cases"] if case["status"] == "active"]


def demanded_sides(case: dict[str, Any]) -> set[str]:
    """Return the outcomes that a case expects under any option."""
    expect = case["expect"]
    return {e["outcome"] for e in expect["options"].values()} if "choice" in expect else {expect["outcome"]}


def load_reasons() -> dict[str, dict[str, str]]:
    """Load ``coverage.toml``, which maps rules and sides (or ``both``) to the reason for the missing side."""
    path = Path(__file__).with_name("coverage.toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))


def rule_coverage(raw: Mapping[str, Any], reasons: dict[str, dict[str, str]]) -> list[RuleCoverage]:
    sides: dict[str, set[str]] = {}
    carried: Counter[str] = Counter()
    for case in active(raw):
        carried.update(case["rules"])
        for rule in case["rules"]:
            sides.setdefault(rule, set()).update(demanded_sides(case))
    out = []
    for rule in raw["rules"]:
        covered, given = sides.get(rule["id"], set()), reasons.get(rule["id"], {})
        out.append(
            RuleCoverage(
                rule["id"],
                rule["level"],
                carried[rule["id"]],
                tuple(side for side in SIDES if side in covered),
                dict.fromkeys(SIDES, given["both"]) if set(given) == {"both"} else dict(given),
            )
        )
    return out


def coverage_errors(raw: Mapping[str, Any], reasons: dict[str, dict[str, str]]) -> list[str]:
    """Return the contradictions between the cases and ``coverage.toml``, one line for each."""
    out = []
    rule_ids = {rule["id"] for rule in raw["rules"]}
    for rule, entry in reasons.items():
        if rule not in rule_ids:
            out.append(f"coverage.toml: there is no rule {rule}")
        if not entry or not (set(entry) <= set(SIDES) or set(entry) == {"both"}):
            out.append(
                f"coverage.toml: {rule} must have accept, reject, or only both; it has {sorted(entry)}"
            )
        if any(not isinstance(text, str) or not text.strip() for text in entry.values()):
            out.append(f"coverage.toml: {rule} has an empty reason")
    for row in rule_coverage(raw, reasons):
        if set(row.reasons) == set(SIDES) and "both" not in reasons.get(row.id, {}) and not row.sides:
            out.append(f"coverage.toml: {row.id}: give one reason under both")
        out += [
            f"{row.id}: the side {side} is covered, but coverage.toml contains a reason why it is not"
            for side in row.sides
            if side in row.reasons
        ]
        if row.level == "must":
            out += [
                f"{row.id}: no case expects {side}, and coverage.toml does not contain a reason"
                for side in row.missing
                if side not in row.reasons
            ]
    return out


def statistics(raw: Mapping[str, Any], reasons: dict[str, dict[str, str]]) -> dict[str, Any]:
    """Return the output of ``stc corpus stats --json``, which counts only active cases."""
    cases = active(raw)
    rows = rule_coverage(raw, reasons)
    return {
        "corpus_version": raw["corpus_version"],
        "cases": len(cases),
        "not_active": len(raw["cases"]) - len(cases),
        "heavy": sum(case["heavy"] for case in cases),
        "area": dict(Counter(case["id"].split("/")[0] for case in cases)),
        "kind": dict(Counter(case["kind"] for case in cases)),
        "level": dict(Counter(case["level"] for case in cases)),
        "importance": dict(Counter(case["importance"] for case in cases)),
        "outcome": dict(Counter("choice" if "choice" in c["expect"] else demand(c) for c in cases)),
        "choice": dict(Counter(c["expect"]["choice"] for c in cases if "choice" in c["expect"])),
        "files": sum(1 for case in cases for _ in stored_files(case)),
        "file_bytes": sum(size for case in cases for _, _, size in stored_files(case)),
        "recipes": sum("recipe" in (case["input"] or {}) for case in cases),
        "rules": {
            "both": [r.id for r in rows if not r.missing],
            "one": [r.id for r in rows if len(r.missing) == 1],
            "none": [r.id for r in rows if len(r.missing) == 2],
            "missing": {
                r.id: {"level": r.level, "cases": r.cases, "sides": list(r.missing), "reasons": r.reasons}
                for r in rows
                if r.missing
            },
        },
    }


def stored_bytes(root: Path) -> int:
    """Return the size of the manifest, the schemas and the files. Raises OSError."""
    paths = [root / MANIFEST, *(root / "schema").rglob("*"), *(root / "files").rglob("*")]
    return sum(path.stat().st_size for path in paths if path.is_file())
