"""Other forms of a report: SARIF within its schema and its limits, the comment, statements and badges."""

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

from safetensors_conformance.cli.report import report as command
from safetensors_corpus import Case
from safetensors_corpus.judging.verdicts import VERDICTS
from safetensors_reference.check.cli import check
from safetensors_reference.check.result import CheckResult, check_input
from safetensors_reference.check.sarif import MAX_RESULTS, SarifLog
from safetensors_reference.files.names import FileInput
from safetensors_reference.rules.cwe import CWE_NAMES
from safetensors_reports.audit.build import report_text
from safetensors_reports.audit.implementations import SET_APART
from safetensors_reports.audit.inputs import BaselineEntry
from safetensors_reports.audit.report import Report
from safetensors_reports.comment import MAX_LINES, summary_markdown
from safetensors_reports.exports import badges, sarif_log, statements
from safetensors_reports.labels import ORDER, OVERALL, WORDS
from safetensors_reports.page.html import report_html
from safetensors_reports.page.publish import publication
from safetensors_reports.page.results import HELD, report_delta, tally
from safetensors_reports.record.run import Row
from safetensors_reports.severity import CONFORMANCE_ONLY

from ...published_schemas import schema, schema_error
from ...sarif_official import RESULTS, TAGS, over_limits, sarif_errors
from ..samples import HOLE, TWICE, Make, called, corpus, failing, report, run, write_record

ENDS = {"unsafe": "crash"} | dict.fromkeys(
    ("wrong-content", "wrong-accept", "wrong-reject", "late-reject", "not-strict"), "accept"
)
"""Kind of verdict -> outcome of a step that has it."""


def audit(cases: Sequence[Case], public: bool = False) -> Report:
    """Return a report of two implementations that fail all cases, each in one of the ways there are."""
    detail = "{0} [a](b) \u202e \x00 \ud800"
    rows = [
        failing(case.id, kind, step=case.steps[0], outcome=outcome, detail=detail)
        for case, (kind, outcome) in zip(cases, cycle(ENDS.items()), strict=False)
    ]
    end = Make.FOOTER if public else None  # only complete runs can be published
    both = run(*rows, name="a", version="1"), run(*rows, name="b", version="1", footer=end)
    return report(*both, public=public)


@pytest.mark.parametrize("public", [False, True])
def test_sarif_of_an_audit_fits_its_schema_and_refers_to_what_is_there(public: bool) -> None:
    log = sarif_log(audit(corpus().cases[::20], public=public))
    (result_run,) = log["runs"]
    assert len(result_run["results"]) > 50
    rules = result_run["tool"]["driver"]["rules"]
    taxa = result_run["taxonomies"][0]["taxa"]
    for result in result_run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        place = result["locations"][0]["physicalLocation"]["artifactLocation"]
        assert result_run["artifacts"][place["index"]]["location"]["uri"] == place["uri"]
        assert all(taxa[t["index"]]["id"] == t["id"] for t in result.get("taxa", []))
    # What has a weakness is shown as a security alert, and nothing else is.
    for rule in rules:
        numbers = {int(row["target"]["id"]) for row in rule.get("relationships", ())}
        assert ("security-severity" in rule["properties"]) == bool(numbers - {CONFORMANCE_ONLY})
    assert any("crash" in result["message"]["text"] for result in result_run["results"]) is not public
    assert sarif_errors(json.loads(json.dumps(log))) == []
    assert over_limits(log) == []


def test_results_point_at_the_bytes_and_fingerprints_are_of_rule_verdict_and_case_alone() -> None:
    (result,) = sarif_log(report(run(failing(HOLE))))["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == f"corpus/files/{HOLE}.safetensors"
    start, length = (place["region"][name] for name in ("byteOffset", "byteLength"))
    assert corpus().by_id[HOLE].read_input()[start : start + length].startswith(b"[")

    def prints(version: str, **more: Any) -> dict[str, str]:
        record = run(failing(HOLE, **more), name="lib", version=version)
        (result,) = sarif_log(report(record))["runs"][0]["results"]
        return dict(result["partialFingerprints"])

    assert prints("1") == prints("2", detail="other words", wall_ms=99.0)
    assert prints("1") != prints("1", verdict="unsafe")
    both = sarif_log(report(*(run(failing(HOLE), name=n, version="1") for n in "ab")))["runs"][0]["results"]
    found = [r["partialFingerprints"] for r in both]
    assert found[0]["ruleVerdictCase/v1"] == found[1]["ruleVerdictCase/v1"]
    assert found[0]["finding/v1"] != found[1]["finding/v1"]


def test_an_audit_report_of_nothing_and_one_that_withholds_its_place() -> None:
    log = sarif_log(report(run(failing(HOLE, "pass"))))
    assert log["runs"][0]["results"] == []
    assert sarif_errors(log) == []
    assert sarif_errors({**log, "runs": [{**log["runs"][0], "extra": 1}]}), "the schema refuses what is wrong"
    log = sarif_log(report(run(failing(HOLE), name="lib", version="1"), public=True))
    assert sarif_errors(log) == []
    (result,) = log["runs"][0]["results"]
    assert HOLE not in str(log)
    assert "got" not in result["message"]["text"]
    assert "region" not in result["locations"][0]["physicalLocation"]


def test_stc_check_over_indexes_of_the_corpus(tmp_path: Path) -> None:
    indexes = sorted(corpus().by_id[HOLE].path.parents[1].rglob("*.index.json"))[::7]
    out = tmp_path / "out.sarif"
    result = called(check, "--sarif", out, *indexes, tmp_path / "none")
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


def stated(document: Report) -> dict[str, Any]:
    (statement,) = statements(document, {who.label: "a" * 64 for who in document.implementations}).values()
    return statement


def test_statements_list_what_passed_and_never_what_was_not_run() -> None:
    statement = stated(report(run(failing(HOLE), failing(TWICE, "pass"), name="lib", version="1", cases=5)))
    assert schema_error("test-result", statement) is None
    predicate = statement["predicate"]
    shown = [predicate[key] for key in ("result", "failedTests", "passedTests")]
    assert shown == ["FAILED", [HOLE], [TWICE]]
    assert predicate["configuration"][0]["annotations"]["notRun"] == 3
    assert statement["subject"] == [{"name": "lib@1", "digest": {"sha256": "a" * 64}}]


KINDS = {"unsafe": 1, "wrong-accept": 2, "wrong-content": 1, "late-reject": 3, "not-strict": 2,
    "unsupported": 4, "harness-error": 1, "choice:accept": 5, "pass": 9}  # fmt: skip


@pytest.mark.parametrize(("public", "name"), [(False, "lib"), (True, "lib"), (True, "reference")])
def test_all_forms_of_a_report_tell_the_same_numbers(public: bool, name: str) -> None:
    """The badge once told 1,746 of 1,777 and the comment 1,592 of one and the same run."""
    kinds = [kind for kind, number in KINDS.items() for _ in range(number)]
    chosen = [c for c in corpus().reading if c.expect is not None][: len(kinds)]
    rows = [
        failing(case.id, kind, outcome="crash" if kind == "unsafe" else "accept")
        for case, kind in zip(chosen, kinds, strict=True)
    ]
    document = report(run(*rows, name=name, version="1"), public=public)
    (who,) = document.implementations
    told = tally(who)
    hidden = public and name == "lib"
    failed = 3 if hidden else 4
    assert told == (28, 28 - failed - 5 - 4 - 1, 4, 5, failed, 1, 0)
    assert sum(told[1:]) == told.due

    fine = f"{told.fine:,}"
    words = "no fault shown" if public else "as expected"
    assert f" · {fine}/28" in badges(document)[who.label]["message"]
    comment = summary_markdown(document)
    assert f"| {words} | not run | skipped |" in comment
    assert f"| {fine} of 28 | 0 | 0 |" in comment
    page = " ".join(report_html(document).split())
    assert f"Of 28 cases: {fine} {words}, 4 unsupported, 5 with a recommendation not followed" in page
    assert f"<b>{fine}</b> <span>{words}</span>" in page
    statement = stated(document)["predicate"]
    numbers = statement["configuration"][0]["annotations"]
    assert {words: told.fine, "unsupported": 4, "failed": failed, "due": 28}.items() <= numbers.items()
    if not public:  # published statements name no cases
        lists = [len(statement[key]) for key in ("passedTests", "warnedTests", "failedTests")]
        assert lists == [told.fine, told.warned + told.unsupported, told.failed]
    assert (HELD in page) is public


def test_a_version_of_megabytes_stays_short_everywhere(tmp_path: Path) -> None:
    record = run(failing(HOLE), name="lib", version="9" * 5_000_000)
    document = report(record)
    (who,) = document.implementations
    assert len(who.version) < 120
    short = report(run(failing(HOLE), name="lib", version="9"))
    assert len(report_text(document)) < len(report_text(short)) + 5_000
    assert len(report_html(document)) < len(report_html(short)) + 5_000
    path, out = write_record(tmp_path / "a.jsonl", record), tmp_path / "out"
    forms = ["--badge", "--intoto", "--html", "--markdown", "--sarif"]
    done = called(command, path, "-o", out, *forms, "--artifact", f"lib={__file__}")
    assert done.exit_code == 0, done.output
    assert max(len(made.name) for made in out.iterdir()) < 130
    assert max(made.stat().st_size for made in out.iterdir()) < len(report_text(short)) + 5_000
    assert max(map(len, publication([record], corpus()))) < 130


@pytest.mark.parametrize(
    ("row", "more", "result"),
    [
        (failing(HOLE, "pass"), {}, "PASSED"),
        (failing(HOLE, "pass"), {"cases": 2}, "WARNED"),
        (failing(HOLE, "pass"), {"footer": None}, "WARNED"),
        *((failing(HOLE, v), {}, "WARNED") for v in ("not-strict", "late-reject", "harness-error")),
        *((failing(HOLE, verdict), {}, "FAILED") for verdict in ("wrong-reject", "unsafe")),
        # The word for these two is one of their own.
        (failing(HOLE, "wrong-content", step="write"), {}, "FAILED"),
        (failing(HOLE, "unsafe", step="lifecycle"), {}, "FAILED"),
    ],
)
def test_results_of_statements(row: Row, more: dict[str, Any], result: str) -> None:
    assert stated(report(run(row, **more)))["predicate"]["result"] == result


def test_badges_say_in_words_what_their_colour_says() -> None:
    document = report(
        run(failing(HOLE, "pass"), name="good", version="1"),
        run(failing(HOLE), name="bad", version="1", cases=3),
    )
    made = badges(document)
    assert all(schema_error("badge", badge) is None for badge in made.values())
    assert made["good 1"]["message"] == "conformant · 1/1"
    assert made["bad 1"]["message"] == "lenient · 0/3 · 2 not run"
    assert (made["good 1"]["color"], made["bad 1"]["color"]) == ("brightgreen", "orange")
    assert set(ORDER) == OVERALL.keys()
    assert set(ORDER) == {*schema("report")["$defs"]["implementation"]["properties"]["word"]["enum"]}
    assert WORDS.keys() - {*SET_APART.values()} <= VERDICTS.keys()


def test_the_comment_stays_within_its_lines_whatever_was_found() -> None:
    rows = [failing(c.id) for c in corpus().reading[::16]]
    many = [run(*rows, name=f"n{i}", version="1" * 60, footer=None, problems=["x" * 999]) for i in range(20)]
    text = summary_markdown(report(*many))
    assert len(text.splitlines()) <= MAX_LINES
    assert max(len(line) for line in text.splitlines()) < 600
    assert "8 more" in text


def test_the_comment_begins_with_what_changed_and_says_other_conditions() -> None:
    before = report(run(failing(HOLE), failing(TWICE, "pass")))
    after = report(run(failing(HOLE, "pass"), failing(TWICE)))
    lines = summary_markdown(after, before).splitlines()
    assert lines[2] == "**Against the previous report:** 1 new · 1 fixed · 0 still"
    assert lines[3] == "- new: `safetensors-hdr-09-wrong-accept`"
    assert lines[4] == "- fixed: `safetensors-off-07-wrong-accept`"
    row = "| `safetensors 0.8.0` | **lenient** | wrong-accept 1 | 1 of 2 | 0 | 0 |"
    assert any(line.startswith(row) for line in lines)
    assert f"reproduce: `stc run --impl safetensors --case {TWICE}`" in "\n".join(lines)
    other = report(run(failing(HOLE), profile="text"))
    before.corpus.sha256 = before.rule_book.sha256 = "f" * 64
    text = summary_markdown(other, before)
    assert all(f"a different {word}" in text for word in ("corpus", "rule book", "profile"))


def test_what_was_not_asked_again_is_not_fixed() -> None:
    before = report(run(failing(HOLE), failing(TWICE)))
    delta = report_delta(report(run(failing(TWICE, "pass"), cases=2)), before)
    off, hdr = "safetensors-off-07-wrong-accept", "safetensors-hdr-09-wrong-accept"
    assert (delta.fixed, delta.unknown) == ((hdr,), (off,))
    assert report_delta(before, before).still == tuple(f.id for f in before.findings)
    lost = report(run(failing(HOLE, "harness-error"), failing(TWICE, "pass")))
    assert report_delta(lost, before).unknown == (off,)


def test_without_an_older_report_the_baseline_tells_what_is_new() -> None:
    record = run(failing(HOLE, expected_failure=True), failing(TWICE), baseline="lib.toml", cases=4)
    record.results.append(failing("dtype/scalar-of-f64", "not-strict"))
    case = next(c.id for c in corpus().cases if c.kind == "index")
    gone = next(c.id for c in corpus().cases if c.id not in (HOLE, TWICE, case))
    record.results.append(failing(gone, "pass"))
    entries = [BaselineEntry(c, (c,), {"read": "wrong-accept"}) for c in (HOLE, gone, case)]
    lines = summary_markdown(report(record, known={0: entries})).splitlines()
    assert lines[2] == "**Against the baseline:** 1 new · 1 fixed · 1 still · 1 without a verdict this time"
    assert lines[3] == "- new: `safetensors-hdr-09-wrong-accept`"
    assert lines[4] == f"- fixed: `safetensors 0.8.0: {gone}`"
    assert lines[6].startswith("- 1 other finding: not compared")
    assert "There is no earlier report" in summary_markdown(report(run(failing(HOLE))))


def test_texts_of_readers_stay_in_code_spans() -> None:
    hostile = "@everyone `x` | <b> [a](http://x) \u202e"
    record = run(failing(HOLE, "unsafe", outcome="crash", detail=hostile), name="lib", version="`@me` | 1")
    text = summary_markdown(report(record))
    outside = "\n".join("".join(line.split("`")[::2]) for line in text.splitlines())
    assert not any(bad in outside for bad in ("@", "]("))
    assert "\u202e" not in text
