"""``stc report``: what it writes, and what it says when it cannot."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import get_args

import pytest
from click.testing import CliRunner, Result

from safetensors_conformance.cli.report import report as command
from safetensors_corpus.judging.verdicts import DEVIATIONS, STRICT_FAILING
from safetensors_reports.audit.inputs import load_report
from safetensors_reports.fuzz_finding import Verdict
from safetensors_reports.page.html import report_html

from ...published_schemas import schema_error
from ..samples import HOLE, TWICE, as_json, failing, run, write_finding, write_record

EVERYTHING = ["--html", "--markdown", "--sarif", "--intoto", "--badge"]


def invoke(*args: str | Path) -> Result:
    result = CliRunner().invoke(command, [str(a) for a in args])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return write_record(
        tmp_path / "lib.jsonl", run(failing(HOLE), failing(TWICE, "pass"), name="lib", version="1")
    )


def test_everything_is_written_and_fits_its_schema(record: Path, tmp_path: Path) -> None:
    write_finding(tmp_path / "findings" / "one")
    out = tmp_path / "deep" / "out"
    result = invoke(record, tmp_path / "findings", "-o", out, *EVERYTHING, "--artifact", f"lib={record}")
    assert result.exit_code == 0, result.output
    assert result.output == f"2 findings in 1 run: {out / 'report.json'}\n"
    assert sorted(p.name for p in out.iterdir()) == [
        "badge-lib-1.json",
        "report.html",
        "report.json",
        "report.md",
        "report.sarif",
        "test-result-lib-1.intoto.json",
    ]
    documents = {p.name: json.loads(p.read_bytes()) for p in out.iterdir() if p.suffix in (".json", ".sarif")}
    assert schema_error("report", documents["report.json"]) is None
    assert schema_error("badge", documents["badge-lib-1.json"]) is None
    assert schema_error("test-result", documents["test-result-lib-1.intoto.json"]) is None
    assert documents["report.sarif"]["version"] == "2.1.0"
    assert documents["report.json"]["fuzz_findings"] == 1
    (subject,) = documents["test-result-lib-1.intoto.json"]["subject"]
    assert subject["digest"]["sha256"] == hashlib.sha256(record.read_bytes()).hexdigest()


def test_a_folder_and_a_file_in_it_are_one_run(record: Path, tmp_path: Path) -> None:
    assert invoke(record, record.parent, record, "-o", tmp_path / "out").exit_code == 0
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["report.json"]
    assert len(json.loads((tmp_path / "out/report.json").read_bytes())["implementations"]) == 1


def test_the_page_is_that_of_the_report_and_tells_what_changed(record: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert invoke(record, "-o", out, "--html").exit_code == 0
    document = load_report(out / "report.json")
    page = (out / "report.html").read_text("utf-8")
    assert page == report_html(document)
    assert "<title>lib 1: safetensors conformance</title>" in page
    write_record(record, run(failing(HOLE, "pass"), failing(TWICE, "pass"), name="lib", version="2"))
    # The older report may be the one that is replaced.
    assert invoke(record, "-o", out, "--html", "--markdown", "--previous", out).exit_code == 0
    page = (out / "report.html").read_text("utf-8")
    assert "Compared with an older report: <b>0</b> new, <b>1</b> fixed" in page
    assert "0 new · 1 fixed · 0 still" in (out / "report.md").read_text("utf-8")


def test_a_public_page_says_so_and_holds_back(record: Path, tmp_path: Path) -> None:
    assert invoke(record, "-o", tmp_path / "out", "--html", "--public").exit_code == 0
    page = (tmp_path / "out/report.html").read_text("utf-8")
    assert "public edition" in page
    assert HOLE not in page
    assert "OFF-07" in page


def test_baselines_of_others_are_found_by_name(tmp_path: Path) -> None:
    path = write_record(
        tmp_path / "lib.jsonl",
        run(failing(HOLE, expected_failure=True), name="lib", version="1", baseline="b.toml"),
    )
    without = invoke(path, "-o", tmp_path / "out")
    assert "baseline b.toml was not found" in without.output
    entry = f'[[expected]]\ncase = "{HOLE}"\nread = "wrong-accept"\n'
    entry += 'issue = "https://example.org/1"\nreview_by = 2030-01-01\n'
    (tmp_path / "b.toml").write_text(f'implementation = "lib"\n{entry}', "utf-8")
    assert invoke(path, "-o", tmp_path / "out", "--baseline", tmp_path / "b.toml").exit_code == 0
    document = load_report(tmp_path / "out/report.json")
    (row,) = document.implementations[0].expected_failures
    assert (row.issue, row.review_by) == ("https://example.org/1", "2030-01-01")


def test_labels_that_look_alike_get_files_of_their_own(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_record(
            tmp_path / f"{name}.jsonl", run(failing(HOLE), name=f"l{'-:'[name == 'b']}x", version="1")
        )
    assert invoke(tmp_path, "-o", tmp_path / "out", "--badge").exit_code == 0
    assert {p.name for p in (tmp_path / "out").glob("badge*")} == {"badge-l-x-1.json", "badge-l-x-1-2.json"}


def test_a_truncated_run_is_reported_as_such(record: Path, tmp_path: Path) -> None:
    record.write_bytes(record.read_bytes().rpartition(b"\n{")[0] + b"\n")
    assert invoke(record, "-o", tmp_path / "out", "--markdown").exit_code == 0
    assert "truncated run" in (tmp_path / "out/report.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("torn.jsonl", '{"type": "hea', "torn.jsonl, line 1: not valid JSON"),
        ("empty.jsonl", "", "empty.jsonl, line 1: there is no header"),
        ("other.jsonl", '{"a": 1}\n', "other.jsonl, line 1: not a line of a run record"),
        ("new.jsonl", '{"type": "header", "record": 9}\n', "new.jsonl, line 1: record version 9"),
        ("finding.json", "{", "finding.json: not JSON"),
        ("finding.json", "[]", "finding.json: the finding has schema None, but this program"),
        ("finding.json", '{"schema": 2}', "finding.json: the finding has schema 2, but this program"),
        ("finding.json", '{"schema": 1}', "finding.json: has no 'slug'"),
    ],
)
def test_inputs_that_cannot_be_used(tmp_path: Path, name: str, text: str, says: str) -> None:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    output = refused(tmp_path, path)
    assert says in output
    assert str(path) in output


def refused(folder: Path, *args: str | Path) -> str:
    result = invoke(*args, "-o", folder / "out")
    assert result.exit_code == 2, result.output
    assert not (folder / "out").exists()
    return result.output


def test_missing_inputs_are_named(record: Path, tmp_path: Path) -> None:
    empty, old = tmp_path / "empty", tmp_path / "old.json"
    empty.mkdir()
    for args, says in (
        ([tmp_path / "no.jsonl"], "no.jsonl: No such file"),
        ([empty], "empty: contains neither run records"),
        ([write_finding(tmp_path / "f")], "no run record"),
        ([record, "--previous", old], "old.json: No such file"),
        ([record, "--previous", record], "lib.jsonl: not JSON"),
        ([record, "--corpus", empty], "corpus.json"),
        ([record, "--intoto"], "--intoto: every statement needs an artifact, but lib 1 has none; give"),
        ([record, "--intoto", "--artifact", "x=y"], "--artifact x=y: there is no run of x"),
        ([record, "--intoto", "--artifact", "lib=/none"], "--artifact /none: No such file"),
    ):
        assert says in refused(tmp_path, *args)
    for text, says in (('{"schema": 7}', "the report has schema 7"), ('{"schema": 1}', "not a report")):
        old.write_text(text, "utf-8")
        assert says in refused(tmp_path, record, "--previous", old)


def test_findings_with_lost_or_foreign_files_are_refused(tmp_path: Path) -> None:
    lost = write_finding(tmp_path / "lost")
    (lost / "input.safetensors").unlink()
    row = {"path": "input.safetensors", "sha256": "b" * 64, "size": 7}
    (tmp_path / "secret").write_bytes(b"secret")
    outside = write_finding(tmp_path / "outside", files=[{**row, "stored": "../secret"}])
    rule = {"id": "OFF-99", "level": "must", "title": "t", "statement": "s"}
    unknown = write_finding(tmp_path / "unknown", rules=[rule])
    for path, says in (
        (lost, "cannot be used without its input"),
        (outside, "is outside the folder of the finding"),
        (unknown, "there is no rule OFF-99"),
    ):
        assert says in refused(tmp_path, path)


@pytest.mark.parametrize("bad", [b"{", b'{"type": "result", "case": "a/b", "exception": {}}', b"[" * 5000])
def test_a_bad_line_costs_itself_and_the_exit_status(record: Path, tmp_path: Path, bad: bytes) -> None:
    lines = record.read_bytes().splitlines()
    record.write_bytes(b"\n".join([*lines[:1], bad, *lines[1:]]) + b"\n")
    out = tmp_path / "out"
    result = invoke(record, "-o", out, "--html", "--markdown", "--sarif")
    assert result.exit_code == 1
    assert "note: lib 1: lib.jsonl, line 2: " in result.output
    made = load_report(out / "report.json")
    assert schema_error("report", as_json(made)) is None
    assert [finding.rule for finding in made.findings] == ["OFF-07"]
    assert any("1 line of its record cannot be read" in text for text in made.caveats)
    (who,) = made.implementations
    assert who.problems[0].startswith("lib.jsonl, line 2: ")
    assert "lib.jsonl, line 2" in (out / "report.html").read_text()


@pytest.mark.parametrize(
    "line",
    [
        "stc fuzz replay frm-too-short-0011aabb --impl lib; touch MARK",
        "stc fuzz replay frm-too-short-0011aabb --impl $(touch MARK)",
        "stc fuzz replay frm-too-short-0011aabb --impl 'cmd:touch MARK'",
        "stc fuzz replay other-0011aabb --impl lib",
        "stc fuzz replay frm-too-short-0011aabb --impl",
        "touch MARK",
        "stc fuzz replay 'frm",
    ],
)
def test_a_command_line_to_copy_is_the_one_that_asks_again_or_refused(tmp_path: Path, line: str) -> None:
    output = refused(tmp_path, write_finding(tmp_path / "f", reproduce=line))
    assert "reproduce is not an stc fuzz command that replays" in output


def test_findings_have_the_verdicts_that_fail_a_run() -> None:
    deviations = {f"deviation:{what}" for what in DEVIATIONS}
    assert set(get_args(Verdict)) == (STRICT_FAILING - {"deviation"}) | deviations


@pytest.mark.parametrize("verdict", ["terrible", "pass", "choice:accept", "deviation", "deviation:odd"])
def test_a_finding_of_no_failing_verdict_is_refused(tmp_path: Path, verdict: str) -> None:
    assert "finding.json: verdict: " in refused(tmp_path, write_finding(tmp_path / "f", verdict=verdict))


@pytest.mark.parametrize("name", ["finding.json", "input.safetensors"])
def test_a_finding_of_no_regular_files_is_refused_at_once(tmp_path: Path, name: str) -> None:
    folder = write_finding(tmp_path / "f")
    (folder / name).unlink()
    os.mkfifo(folder / name)
    assert "not a regular file" in refused(tmp_path, folder)


def test_an_output_that_cannot_be_written_is_named(record: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("", "utf-8")
    (tmp_path / "taken" / "report.json").mkdir(parents=True)
    for out in (file, file / "below", tmp_path / "taken"):
        result = invoke(record, "-o", out)
        assert result.exit_code == 2
        assert str(out) in result.output


def test_a_report_is_not_written_through_a_link(record: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "victim").write_text("mine", "utf-8")
    for name in ("report.json", "report.md"):
        (out / name).symlink_to("../victim")
    assert invoke(record, "-o", out, "--markdown").exit_code == 0
    assert (tmp_path / "victim").read_text("utf-8") == "mine"
    assert load_report(out).implementations
