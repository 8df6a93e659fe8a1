"""Every rule is taken up somewhere: by code, by a case, by a test or by a page written by hand."""

from __future__ import annotations

import re
from pathlib import Path

from safetensors_corpus.document import read_document
from safetensors_reference import rule_book

ROOT = Path(__file__).parents[3]
FOLDERS = (
    "reference",
    "corpus/safetensors_corpus",
    "corpus/safetensors_cases",
    "conformance",
    "reports",
    "fuzz",
    "tests",
    "docs",
)
SUFFIXES = {".py", ".toml", ".md", ".json"}
LISTINGS = {
    # These name rules because they list them, not because they do anything about them.
    "reference/safetensors_reference/rules/rules.toml",
    "reference/safetensors_reference/rules/choices.toml",
    "corpus/safetensors_corpus/publish/coverage.toml",
    "reports/safetensors_reports/advice.toml",
    "docs/rules.md",
    "docs/disputed.md",
    "docs/header.schema.json",
    "tests/fuzz/grammar/test_grammar.py",
    "tests/reference/rules/test_referred.py",
}
RULE_ID = re.compile(r"\b[A-Z]{3}-\d\d\b")

NOT_YET: dict[str, tuple[str, ...]] = {
    "needs the read step with more than one way in (file and memory, backends, inspection)": (
        "HDR-20", "API-15", "API-17", "API-18",
    ),
    "needs a look at fresh memory": ("DAT-09",),
    "says only what the format does not define, which no file can show": ("DTY-13", "DAT-08"),
}  # fmt: skip
"""Why -> rules that nothing refers to yet. A rule that something refers to must leave this list."""


def references() -> dict[str, list[str]]:
    """Rule id -> where it is named: files of the project, and cases of the corpus."""
    found: dict[str, list[str]] = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            listing = name in LISTINGS or name.startswith("reports/published/")
            if path.suffix not in SUFFIXES or listing or not path.is_file():
                continue
            for rule_id in set(RULE_ID.findall(path.read_text(encoding="utf-8"))):
                found.setdefault(rule_id, []).append(name)
    corpus = read_document(ROOT / "corpus").raw
    for case in corpus["cases"]:
        for rule_id in case["rules"]:
            found.setdefault(rule_id, []).append(case["id"])
    return found


FOUND = references()
WAITING = {rule_id: why for why, rule_ids in NOT_YET.items() for rule_id in rule_ids}


def test_a_rule_is_referred_to_or_waits_for_a_reason() -> None:
    for rule_id in rule_book().rules:
        where = FOUND.get(rule_id, [])
        if rule_id in WAITING:
            assert not where, f"{rule_id} is taken up now: remove it from NOT_YET"
        else:
            assert where, f"nothing refers to {rule_id}: {rule_book().rules[rule_id].statement}"
    assert set(WAITING) <= set(rule_book().rules)
    assert [name for name in LISTINGS if not (ROOT / name).is_file()] == []


def test_nothing_refers_to_a_rule_that_does_not_exist() -> None:
    families = {rule_id[:3] for rule_id in rule_book().rules}
    unknown = {
        # A test may name one on purpose, to see what is said about it.
        rule_id: where
        for rule_id, where in FOUND.items()
        if rule_id[:3] in families
        and rule_id not in rule_book().rules
        and not all(name.startswith("tests/") for name in where)
    }
    assert unknown == {}
