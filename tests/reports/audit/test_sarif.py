"""All SARIF that is written here fits the official schema and the limits of code scanning."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from safetensors_corpus import Case
from safetensors_reference.check.cli import check
from safetensors_reference.check.result import CheckResult, check_input
from safetensors_reference.check.sarif import SarifLog
from safetensors_reference.files.names import FileInput
from safetensors_reference.rules.cwe import CWE_NAMES
from safetensors_reference.rules.sarif import MAX_RESULTS
from safetensors_reports.audit.report import Report
from safetensors_reports.exports import sarif_log

from ...sarif_official import RESULTS, TAGS, over_limits, sarif_errors
from ..samples import HOLE, corpus, failing, report, run

KINDS = {"unsafe": "crash"} | dict.fromkeys(
    ("wrong-content", "wrong-accept", "wrong-reject", "late-reject", "not-strict"), "accept"
)
"""Kind of verdict -> outcome of a step that has it."""


def audit(cases: Sequence[Case], **more: Any) -> Report:
    """Return a report of two implementations that fail all cases, each in one of the ways there are."""
    detail = "{0} [a](b) \u202e \x00 \ud800"
    rows = [
        failing(case.id, kind, step=case.steps[0], outcome=outcome, detail=detail)
        for case, (kind, outcome) in zip(cases, cycle(KINDS.items()), strict=False)
    ]
    return report(run(*rows, name="a", version="1"), run(*rows, name="b", version="1", footer=None), **more)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("public", [False, True])
def test_audit_reports(public: bool) -> None:
    log = sarif_log(audit(corpus().cases[::20], public=public))
    assert len(log["runs"][0]["results"]) > 50
    assert sarif_errors(json.loads(json.dumps(log))) == []
    assert over_limits(log) == []


def test_an_audit_report_of_nothing_and_one_that_withholds_its_place() -> None:
    log = sarif_log(report(run(failing(HOLE, "pass"))))
    assert log["runs"][0]["results"] == []
    assert sarif_errors(log) == []
    log = sarif_log(report(run(failing(HOLE), name="lib", version="1"), public=True))
    assert sarif_errors(log) == []
    (result,) = log["runs"][0]["results"]
    assert HOLE not in str(log)
    assert "got" not in result["message"]["text"]
    assert "region" not in result["locations"][0]["physicalLocation"]


def test_stc_check_over_indexes_of_the_corpus(tmp_path: Path) -> None:
    indexes = sorted(corpus().by_id[HOLE].path.parents[1].rglob("*.index.json"))[::7]
    out = tmp_path / "out.sarif"
    result = CliRunner().invoke(check, ["--sarif", str(out), *map(str, indexes), str(tmp_path / "none")])
    assert result.exit_code == 2  # one cannot be read
    log = json.loads(out.read_text(encoding="ascii"))
    (made,) = log["runs"]
    assert len(made["results"]) > len(indexes) / 2 > 10
    assert made["invocations"][0]["toolExecutionNotifications"]
    assert sarif_errors(log) == over_limits(log) == []


@pytest.mark.parametrize("most", [3, pytest.param(RESULTS, marks=pytest.mark.nightly)])
def test_more_findings_than_are_taken_keep_the_worst(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr("safetensors_reports.exports.MAX_RESULTS", most)
    document = audit(corpus().cases[::20] if most == 3 else corpus().cases)
    one = document.findings
    many = [copy.copy(one[i % len(one)]) for i in range(most + 7)]
    for i, finding in enumerate(many):
        finding.id = f"{finding.id}-{i}"
    document.findings = many
    log = sarif_log(document)
    (made,) = log["runs"]
    assert [r["properties"]["id"] for r in made["results"]] == [f.id for f in many[:most]]
    assert "this log leaves out 7 more findings" in str(made["invocations"])
    assert over_limits(log) == []


@pytest.mark.parametrize("most", [500, pytest.param(RESULTS, marks=pytest.mark.nightly)])
def test_more_faults_than_are_taken_keep_the_worst(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    assert MAX_RESULTS == RESULTS
    monkeypatch.setattr("safetensors_reference.check.sarif.MAX_RESULTS", most)

    def checked(case: str) -> CheckResult:
        return check_input(FileInput(str(corpus().by_id[case].path)), "hardened")

    broken, minor = checked(HOLE), checked("metadata/null-behind-tensors")
    assert [[f.rule for f in r.faults] for r in (broken, minor)] == [["OFF-07"], ["MET-02"]]
    log = SarifLog("hardened")
    # What matters less comes first and is left out all the same.
    for i, result in enumerate([minor] * 9 + [broken] * (most - 4)):
        log.add(replace(result, name=f"{i}.safetensors"))
    document: Any = log.log(1)
    (made,) = document["runs"]
    levels = [result["level"] for result in made["results"]]
    assert len(levels) == most
    assert [levels.count(level) for level in ("error", "warning")] == [most - 4, 4]
    assert "this log omits 5 more results" in str(made["invocations"])
    assert over_limits(document) == []
    # The whole would take the validator minutes.
    few = {key: made[key][-50:] for key in ("results", "artifacts")}
    assert sarif_errors({**document, "runs": [{**made, **few}]}) == []


def test_a_rule_with_many_weaknesses_has_no_more_tags_than_are_taken() -> None:
    document = report(run(failing(HOLE)))
    weakness = document.findings[0].weaknesses[0]
    document.findings[0].weaknesses = [msgspec.structs.replace(weakness, id=n) for n in [*CWE_NAMES, 9999]]
    assert len(CWE_NAMES) > TAGS
    log = sarif_log(document)
    assert sarif_errors(log) == []
    (made,) = log["runs"]
    (rule,) = [r for r in made["tool"]["driver"]["rules"] if r["id"] == "OFF-07"]
    assert len(rule["properties"]["tags"]) == TAGS


@pytest.mark.parametrize(
    "spoil",
    [
        lambda run: run.update(extra=1),
        lambda run: run["results"][0].update(level="high"),
        lambda run: run["results"][0]["message"].pop("text"),
        lambda run: run["tool"]["driver"].pop("name"),
        lambda run: run["results"][0]["locations"][0]["physicalLocation"]["region"].update(byteOffset="8"),
    ],
)
def test_the_schema_refuses_what_is_wrong(spoil: Any) -> None:
    log = sarif_log(report(run(failing(HOLE))))
    spoil(log["runs"][0])
    assert sarif_errors(log)
