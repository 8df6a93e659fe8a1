"""Every rule has a case or a reason for having none, and nothing names a rule that does not exist."""

from __future__ import annotations

import re
from pathlib import Path

from safetensors_corpus.document import read_document
from safetensors_corpus.manifest import load_reasons
from safetensors_reference import rule_book

ROOT = Path(__file__).parents[3]
CORPUS = ("corpus/safetensors_corpus", "corpus/safetensors_cases")
FOLDERS = ("reference", *CORPUS, "conformance", "reports/safetensors_reports", "fuzz", "docs")
RULES = set(rule_book().rules)


def test_a_rule_has_a_case_or_a_reason() -> None:
    """``stc corpus stats --check`` demands it of rules with the level must alone."""
    cases = {rule for case in read_document(ROOT / "corpus").raw["cases"] for rule in case["rules"]}
    assert RULES - cases - set(load_reasons()) == set()


def test_nothing_refers_to_a_rule_that_does_not_exist() -> None:
    rule_id = re.compile(rf"\b(?:{'|'.join({rule[:3] for rule in RULES})})-\d\d\b")
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    named = {
        name: path
        for path in paths
        if path.suffix in (".py", ".toml", ".md", ".json") and path.is_file()
        for name in rule_id.findall(path.read_text(encoding="utf-8"))
    }
    assert len(named) > 100
    assert {name: path for name, path in named.items() if name not in RULES} == {}
