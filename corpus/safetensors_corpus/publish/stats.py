"""Statistics of the corpus, and checks of its rule coverage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..document import MANIFEST, stored_files
from ..manifest import SIDES, active, rule_coverage
from .release import demand


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
