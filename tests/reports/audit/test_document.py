"""The one document of an audit: what it says, that it stays the same, and what it leaves out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from safetensors_conformance.cli.run import run as run_command
from safetensors_corpus.typed import typed
from safetensors_reports.audit.build import report_text
from safetensors_reports.audit.inputs import BaselineEntry, load_fuzz_finding
from safetensors_reports.audit.report import Finding, PairRow, ReferenceRow, Report
from safetensors_reports.comment import summary_markdown
from safetensors_reports.exports import sarif_log
from safetensors_reports.page.html import report_html
from safetensors_reports.page.results import report_delta
from safetensors_reports.record.file import read_record
from safetensors_reports.text import code

from ...published_schemas import schema_error
from ..samples import HOLE, TWICE, Make, as_json, corpus, failing, report, run, without_run, write_finding

TOLD_OF_OLDER = next(
    c.id for c in corpus().cases if any(a["project"] == "safetensors" and a["versions"] for a in c.affects)
)
"""A case that a public report shows for older versions only."""


def finding(document: Report, rule: str) -> Finding:
    (found,) = [f for f in document.findings if f.rule == rule]
    return found


def test_two_runs_over_the_same_inputs_differ_only_under_run(tmp_path: Path) -> None:
    made = []
    for name in ("a", "b"):
        args = ["--impl", "safetensors", "--no-baseline", "--case", "header/name-twice-*"]
        result = CliRunner().invoke(run_command, [*args, "--report", str(tmp_path / name)])
        assert result.exit_code in (0, 1), result.output
        made.append(report(*(read_record(path) for path in (tmp_path / name).glob("*.jsonl"))))
    texts = [report_text(without_run(document)) for document in made]
    assert texts[0] == texts[1]
    assert '"wrong-accept"' in texts[0]
    assert made[0].run != made[1].run


@given(st.permutations("cab"))
@settings(max_examples=4)
def test_the_order_of_inputs_does_not_matter(names: list[str]) -> None:
    made = [run(failing(HOLE), failing(TWICE), name=name, version="1") for name in ("a", "b", "c")]
    mixed = [run(failing(HOLE), failing(TWICE), name=name, version="1") for name in names]
    assert report_text(report(*made)) == report_text(report(*mixed))


def test_one_finding_per_rule_and_verdict_with_the_smallest_file() -> None:
    twice = [c.id for c in corpus().cases if c.rules[0] == "HDR-09" and c.kind == "read"]
    rows = [failing(case) for case in twice if corpus().by_id[case].expect or corpus().by_id[case].options]
    document = report(run(*rows, failing(HOLE), name="lib", version="2"))
    found = finding(document, "HDR-09")
    assert found.cases == sorted(twice)
    assert found.id == "lib-hdr-09-wrong-accept"
    # A name that is first given no entry is refused for that as well, which is less severe.
    sizes = {corpus().by_id[c].size for c in twice if corpus().by_id[c].codes[:1] != ("ENT_NOT_OBJECT",)}
    assert found.evidence is not None
    assert found.evidence.size == min(sizes - {0})
    hole = finding(document, "OFF-07")
    assert hole.evidence is not None
    assert hole.evidence.where is not None
    assert hole.evidence.code == "OFF_HOLE"
    assert hole.evidence.where.end > hole.evidence.where.start > 8
    assert "hole" in hole.evidence.layout
    assert "^^" in hole.evidence.hex
    assert hole.reproducer == f"stc run --impl lib --case {HOLE}"
    assert [w.id for w in hole.weaknesses] == [1288, 436]
    assert document.rules["OFF-07"].statement


def test_not_run_and_not_asked_are_apart_and_never_passed() -> None:
    record = run(failing(HOLE, "pass"), cases=10)
    record.header["corpus"]["left_out"] = {"heavy": 3, "index": 2}
    (who,) = report(record).implementations
    assert (who.not_run, who.not_asked, who.counts) == (9, {"heavy": 3, "index": 2}, {"pass": 1})
    assert who.word == "not fully known"
    rows = {r.case: r.verdicts for r in report(record).cases.rows}
    index = next(c.id for c in corpus().cases if c.kind == "index")
    assert (rows[HOLE], rows[TWICE], rows[index]) == ("P", "-", ".")
    document = report(run(failing(HOLE, "pass"), footer=None, name="lib", version="1"))
    (cut,) = document.implementations
    assert (cut.word, cut.ended) == ("not fully known", "truncated")
    assert (document.agreement.notes, document.agreement.pairs) == (["truncated run: lib 1"], [])


def test_the_matrix_shows_the_worst_verdict_of_each_implementation() -> None:
    a, b = run(failing(HOLE), name="a", version="1"), run(failing(HOLE, "pass"), name="b", version="1")
    document = report(a, b)
    area = next(row for row in document.matrix if row.area == "OFF")
    rule = next(row for row in area.rules if row.rule == "OFF-07")
    assert rule.worst == ["wrong-accept", "pass"]
    assert rule.known == [1, 1]
    empty = next(row for row in document.matrix if row.area == "IDX")
    assert empty.worst == [None, None]
    assert document.agreement.pairs == [PairRow([0, 1], 0, 0)]


def test_agreement_sets_aside_who_has_few_of_the_files() -> None:
    plain = [c.id for c in corpus().reading[:4]]
    accepts = [failing(c, "pass", content=Make.content("w")) for c in plain]
    few = failing(plain[3], "pass", outcome="reject")
    answers = {"a": accepts, "b": [few], "c": [*accepts[:3], dict(few)]}
    runs = [run(*rows, name=name, version="1") for name, rows in answers.items()]
    found = report(*runs).agreement
    assert (found.compared, found.set_aside, found.verdict_splits) == (4, ["b 1"], 1)
    (cluster,) = found.clusters
    assert (cluster.answers, cluster.cases) == ({"accept:A": [0], "reject": [2]}, [plain[3]])
    assert found.pairs == [PairRow([0, 2], 0, 1)]
    # Published are the answers that are demanded, and what is told of others.
    assert report(*runs, public=True).agreement.verdict_splits == 0
    demanded = {c.id: c.expect.outcome for c in corpus().reading[:4] if c.expect}
    wrong = {"reject": "wrong-accept", "accept": "wrong-reject"}[demanded[plain[3]]]
    runs[2] = replace(runs[2])  # what is reckoned of a record is reckoned once
    runs[2].results[3] |= {"verdict": wrong, "outcome": {"wrong-accept": "accept"}.get(wrong, "reject")}
    public = report(*runs, public=True).agreement
    assert (public.compared, public.set_aside) == (4, ["b 1"])
    assert (public.clusters, public.verdict_splits) == ([], 1)


def test_names_stay_short_and_apart_and_another_corpus_is_said_once() -> None:
    runs = [run(failing(HOLE), name=f"cmd:./reader --{'x' * 300} {last}", version="1") for last in "ab"]
    names = [f.id for f in report(*runs).findings]
    assert len(set(names)) == 2
    assert max(map(len, names)) < 140
    assert names == [f.id for f in report(*runs).findings]
    records = [run(failing(HOLE), name=n, version="1") for n in "abcdefgh"]
    for record in records:
        record.header["corpus"]["digest"] = "0" * 64
    document = report(*records)
    (text,) = document.caveats
    assert text.endswith("a 1, b 1, c 1, d 1, e 1, f 1 and 2 more")
    assert schema_error("report", as_json(document)) is None
    document.findings[0].severity = "severity 11"
    assert "severity" in (schema_error("report", as_json(document)) or "")


def test_expected_failures_by_name_with_issue_and_date() -> None:
    record = run(failing(HOLE, expected_failure=True), failing(TWICE, "pass"), baseline="lib.toml")
    issues = {HOLE: "https://example.org/1", TWICE: "unreported"}
    entries = [
        BaselineEntry(case, (case,), {"read": "wrong-accept"}, "known", issue, "2027-01-01")
        for case, issue in issues.items()
    ]
    document = report(record, known={0: entries})
    rows = document.implementations[0].expected_failures
    assert [(r.case, r.state, r.issue) for r in rows] == [
        (TWICE, "passes", "unreported"),
        (HOLE, "fails", issues[HOLE]),
    ]
    assert {r.review_by for r in rows} == {"2027-01-01"}
    found = finding(document, "OFF-07")
    assert found.expected_failure
    assert found.references == [ReferenceRow(issues[HOLE], True, [HOLE])]


def test_contradictory_choices_are_a_finding() -> None:
    case = next(c for c in corpus().cases if c.choice == "leading-whitespace")
    row = failing(case.id, "choice:accept", choice=case.choice)
    said = {"choice": case.choice, "verdict": "choice-inconsistent", "detail": "accept here, reject there"}
    document = report(run(row, choices=[said]))
    found = finding(document, "HDR-02")
    assert (found.verdict, found.severity) == ("choice-inconsistent", "low")
    assert found.got == "accept here, reject there"
    assert document.implementations[0].word == "inconsistent"


def test_fuzz_findings_join_those_of_runs(tmp_path: Path) -> None:
    item = load_fuzz_finding(write_finding(tmp_path / "f"))
    case = next(c.id for c in corpus().cases if c.rules[0] == "FRM-03")
    alone = finding(report(run(failing(HOLE)), fuzz=[item]), "FRM-03")
    assert (alone.implementation, alone.case_count) == ("lib 1.0", 0)
    assert alone.reproducer == "stc fuzz replay frm-too-short-0011aabb --impl lib"
    assert alone.evidence is not None
    assert alone.evidence.code == "FRM_TOO_SHORT"
    joined = finding(report(run(failing(case), name="lib", version="1.0"), fuzz=[item]), "FRM-03")
    assert joined.cases == [case]
    assert [f.slug for f in joined.fuzz] == ["frm-too-short-0011aabb"]


@pytest.mark.parametrize("public", [False, True])
def test_a_fuzz_finding_without_a_rule_is_told_as_such_everywhere(tmp_path: Path, public: bool) -> None:
    refused = {"rules": [], "codes": [], "verdict": "wrong-reject", "got": {"lib": "reject: bad utf-8"}}
    item = load_fuzz_finding(write_finding(tmp_path / "f", **refused))
    document = report(run(failing(HOLE)), fuzz=[item], public=public)
    (found,) = [f for f in document.findings if f.rule is None]
    assert found.id == "lib-rule-not-known-wrong-reject"
    assert found.title == (
        "lib 1.0: wrong-reject, rule not known" if public else "lib 1.0 rejects files (rule not known)"
    )
    assert schema_error("report", as_json(document)) is None
    page = report_html(document)
    assert "Rule not known" in page
    assert page.count('id="rule-not-known-wrong-reject"') == 1
    assert code(found.title, 160) in summary_markdown(document)
    log = sarif_log(document)["runs"][0]
    (result,) = [r for r in log["results"] if r["ruleId"] == "rule-not-known"]
    assert log["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "rule-not-known"
    other = typed(as_json(document), Report)
    assert report_delta(other, document).still == tuple(f.id for f in document.findings)


@pytest.mark.parametrize(
    ("case", "name", "version", "redacted"),
    [
        (HOLE, "lib", "1", True),
        (TWICE, "safetensors", "0.8.0", False),
        (TOLD_OF_OLDER, "safetensors", "99.0", True),
    ],
)
def test_reports_show_only_what_is_public(case: str, name: str, version: str, redacted: bool) -> None:
    record = run(failing(case, wall_ms=9e9), name=name, version=version, problems=[case])
    document = report(record, public=True)
    (found,) = document.findings
    assert (found.redacted, found.case_count) == (redacted, 1)
    assert any(ref.current and ref.cases == [case] for ref in found.references) is not redacted
    assert found.cases == ([] if redacted else [case])
    if redacted:
        assert (found.evidence, found.reproducer, found.got) == (None, None, "")
        assert (found.outcome, found.weaknesses) == (None, [])
        assert found.title == f"{name} {version}: wrong-accept, {found.rule}"
        assert corpus().by_id[case].sha256 not in report_text(document)
        # An older report is public, so its case may be named as one of older versions.
        assert case not in report_text(document) or found.references
