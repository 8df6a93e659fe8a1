"""``stc corpus stats``: counts, and the strict table of rules that are not covered from both sides."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from safetensors_corpus import manifest as manifest_module
from safetensors_corpus.publish.stats import coverage_errors
from safetensors_reference.rules.book import rule_book

from ..small import run, small_corpus

Raw = dict[str, Any]
Reasons = dict[str, dict[str, str]]


@pytest.fixture
def raw_small(tmp_path: Path) -> Raw:
    """The small corpus with three rules only."""
    raw = copy.deepcopy(small_corpus(tmp_path / "corpus"))
    kept = ("FRM-01", "OFF-07", "DAT-03", "MET-02", "WRT-15")
    raw["rules"] = [r for r in raw["rules"] if r["id"] in kept]
    return raw


FINE: Reasons = {rule: {"accept": "one case only"} for rule in ("OFF-07", "DAT-03")}
FINE["FRM-01"] = {"reject": "one case only"}


def test_a_rule_is_covered_by_any_case_that_carries_it_and_any_option(raw_small: Raw) -> None:
    rows = {row.id: row for row in manifest_module.rule_coverage(raw_small, FINE)}
    first = rows["FRM-01"]
    assert (first.sides, first.missing, first.reasons) == (("accept",), ("reject",), FINE["FRM-01"])
    assert first.cases == 1
    assert rows["OFF-07"].sides == rows["DAT-03"].sides == ("reject",), "the second rule of a case, too"
    assert rows["MET-02"].sides == ("accept", "reject"), "the options of a choice"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"FRM-01": {}}, "coverage.toml: FRM-01 must have accept, reject, or only both"),
        ({"FRM-01": {"both": "x", "accept": "y"}}, "coverage.toml: FRM-01 must have"),
        ({"FRM-01": {"refuse": "x"}}, "coverage.toml: FRM-01 must have"),
        ({"FRM-01": {"reject": " "}}, "coverage.toml: FRM-01 has an empty reason"),
        ({"FRM-01": {"reject": 7}}, "coverage.toml: FRM-01 has an empty reason"),
        ({"FRM-01": {"both": "x"}}, "FRM-01: the side accept is covered, but coverage.toml contains a"),
        ({"MET-02": {"reject": "x"}}, "MET-02: the side reject is covered"),
        ({"OFF-07": {"reject": "x"}}, "OFF-07: no case expects accept, and coverage.toml does not contain"),
        ({"ABC-01": {"both": "x"}}, "coverage.toml: there is no rule ABC-01"),
    ],
)
def test_every_contradiction_is_an_error(raw_small: Raw, change: Reasons, message: str) -> None:
    assert coverage_errors(raw_small, FINE) == []
    assert any(error.startswith(message) for error in coverage_errors(raw_small, {**FINE, **change}))


def test_one_reason_for_both_sides_is_written_once(raw_small: Raw) -> None:
    del raw_small["cases"][0]
    twice = {**FINE, "FRM-01": {"accept": "x", "reject": "x"}}
    assert coverage_errors(raw_small, twice) == ["coverage.toml: FRM-01: give one reason under both"]
    assert coverage_errors(raw_small, {**FINE, "FRM-01": {"both": "x"}}) == []


def test_statistics_and_the_page_that_shows_them(tmp_path: Path) -> None:
    small_corpus(tmp_path)
    found = json.loads(run("stats", "-c", tmp_path, "--json").stdout)
    files = [p for p in (tmp_path / "files").rglob("*") if p.is_file() and "withdrawn" not in p.name]
    data = [p for p in tmp_path.rglob("*") if p.is_file() and p.name != "LICENSE"]
    rules = found.pop("rules")
    assert all(found.pop(name) for name in ("area", "importance", "corpus_version"))
    assert found == {
        "cases": 10,
        "not_active": 1,
        "heavy": 1,
        "kind": dict.fromkeys(("slice", "write", "index", "lifecycle", "concurrent"), 1)
        | {"read": 3, "resource": 2},
        "level": {"must": 6, "may": 2, "should": 2},
        "outcome": {"accept": 6, "reject": 3, "choice": 1},
        "choice": {"metadata-null": 1},
        "files": len(files),
        "file_bytes": sum(p.stat().st_size for p in files),
        "recipes": 2,
        "stored_bytes": sum(p.stat().st_size for p in data),
    }
    assert rules["both"] == ["MET-02"]
    assert "MET-01" in rules["none"], "its only case was withdrawn"
    assert {"DAT-03", "FRM-01", "OFF-07", "WRT-15"} <= set(rules["one"])
    missing = rules["missing"]["OFF-07"]
    assert (missing["level"], missing["cases"], missing["sides"]) == ("must", 1, ["accept"])
    out = run("stats", "-c", tmp_path).stdout
    for text in (
        "10 cases (1 heavy, 1 withdrawn or superseded)",
        "kind       read 3 · resource 2",
        "choice     metadata-null 1",
        "rules: 1 covered from both sides",
        "FRM-01 (must) no reject: ",
        "HDR-01 (must) neither accept nor reject: no reason given",
    ):
        assert text in out
    assert max(map(len, out.splitlines())) <= 110


def test_check_prints_contradictions_and_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_corpus(tmp_path)
    missing = "FRM-01: no case expects reject, and coverage.toml does not contain a reason"
    result = run("stats", "-c", tmp_path, "--check", status=1, out=missing)
    assert "contradictions between rules, cases and coverage.toml" in result.stdout
    with monkeypatch.context() as patch:
        patch.setattr("safetensors_corpus.cli.maintain.coverage_errors", lambda *_: [])
        run("stats", "-c", tmp_path, "--check", status=0)
    (tmp_path / "coverage.toml").write_text("[x")
    monkeypatch.setattr(manifest_module, "__file__", str(tmp_path / "manifest.py"))
    assert run("stats", "-c", tmp_path, status=2).stderr.startswith("Error: coverage.toml: ")


def test_check_notices_rules_that_are_not_built_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    book = rule_book()
    rules = {**book.rules, "HDR-99": replace(book.rules["HDR-01"], id="HDR-99")}
    monkeypatch.setattr("safetensors_corpus.cli.maintain.rule_book", lambda: replace(book, rules=rules))
    words = "corpus.json and the rule book differ (HDR-99); run: stc corpus build"
    run("stats", "--check", status=1, out=words)


# --- the corpus of this repository -----------------------------------------------------------------------


def test_reasons_are_sentences_and_stand_in_the_order_of_the_rules() -> None:
    reasons = manifest_module.load_reasons()
    rules = list(rule_book().rules)
    assert list(reasons) == sorted(reasons, key=rules.index)
    for reason in (reason for entry in reasons.values() for reason in entry.values()):
        assert (len(reason.split()) >= 4, reason.endswith(".")) == (True, True), reason
