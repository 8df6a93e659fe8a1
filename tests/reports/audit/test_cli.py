"""``stc report``: what it writes, and what it says when it cannot."""

from __future__ import annotations

import hashlib
import json
import os
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest

from safetensors_conformance.cli.report import report as command
from safetensors_corpus.judging.verdicts import DEVIATIONS, STRICT_FAILING
from safetensors_reports.audit.inputs import load_report
from safetensors_reports.fuzz_finding import Verdict
from safetensors_reports.page.html import report_html

from ...published_schemas import schema_error
from ..samples import HOLE, TWICE, as_json, called, failing, run, write_finding, write_record

EVERYTHING = ["--html", "--markdown", "--sarif", "--intoto", "--badge"]


invoke = partial(called, command)


@pytest.fixture
def record(tmp_path: Path) -> Path:
    made = run(failing(HOLE), failing(TWICE, "pass"), name="lib", version="1")
    return write_record(tmp_path / "lib.jsonl", made)


def written(folder: Path, *args: str | Path) -> dict[str, str]:
    result = invoke(*args, "-o", folder)
    assert result.exit_code == 0, result.output
    return {path.name: path.read_text("utf-8") for path in folder.iterdir()}


def test_everything_is_written_and_fits_its_schema(record: Path, tmp_path: Path) -> None:
    write_finding(tmp_path / "findings" / "one")
    out = tmp_path / "deep" / "out"
    result = invoke(record, tmp_path / "findings", "-o", out, *EVERYTHING, "--artifact", f"lib={record}")
    assert result.exit_code == 0, result.output
    assert result.output == f"2 findings in 1 run: {out / 'report.json'}\n"
    names = {"badge-lib-1.json", "report.html", "report.json", "report.md", "report.sarif"}
    assert {p.name for p in out.iterdir()} == names | {"test-result-lib-1.intoto.json"}
    documents = {p.name: json.loads(p.read_bytes()) for p in out.iterdir() if p.suffix in (".json", ".sarif")}
    kinds = {"report": "report", "badge": "badge-lib-1", "test-result": "test-result-lib-1.intoto"}
    for kind, name in kinds.items():
        assert schema_error(kind, documents[f"{name}.json"]) is None
    assert documents["report.sarif"]["version"] == "2.1.0"
    assert documents["report.json"]["fuzz_findings"] == 1
    (subject,) = documents["test-result-lib-1.intoto.json"]["subject"]
    assert subject["digest"]["sha256"] == hashlib.sha256(record.read_bytes()).hexdigest()


def test_one_run_given_twice_runs_that_look_alike_and_runs_cut_short(record: Path, tmp_path: Path) -> None:
    (text,) = written(tmp_path / "once", record, record.parent, record).values()
    assert len(json.loads(text)["implementations"]) == 1
    alike = tmp_path / "alike"
    alike.mkdir()
    for name in ("l-x", "l:x"):
        write_record(alike / f"{name[1] == ':'}.jsonl", run(failing(HOLE), name=name, version="1"))
    names = written(tmp_path / "two", alike, "--badge").keys()
    assert names == {"report.json", "badge-l-x-1.json", "badge-l-x-1-2.json"}
    record.write_bytes(record.read_bytes().rpartition(b"\n{")[0] + b"\n")
    assert "truncated run" in written(tmp_path / "cut", record, "--markdown")["report.md"]


def test_the_page_is_that_of_the_report_and_tells_what_changed(record: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    page = written(out, record, "--html")["report.html"]
    assert page == report_html(load_report(out / "report.json"))
    assert "<title>lib 1: safetensors conformance</title>" in page
    write_record(record, run(failing(HOLE, "pass"), failing(TWICE, "pass"), name="lib", version="2"))
    # The older report may be the one that is replaced.
    texts = written(out, record, "--html", "--markdown", "--previous", out)
    assert "Compared with an older report: <b>0</b> new, <b>1</b> fixed" in texts["report.html"]
    assert "0 new · 1 fixed · 0 still" in texts["report.md"]
    page = written(out, record, "--html", "--public")["report.html"]
    assert ("public edition" in page, HOLE in page) == (True, False)


def test_baselines_of_others_are_found_by_name(tmp_path: Path) -> None:
    made = run(failing(HOLE, expected_failure=True), name="lib", version="1", baseline="b.toml")
    path = write_record(tmp_path / "lib.jsonl", made)
    assert "baseline b.toml was not found" in invoke(path, "-o", tmp_path / "out").output
    entry = f'[[expected]]\ncase = "{HOLE}"\nread = "wrong-accept"\n'
    entry += 'issue = "https://example.org/1"\nreview_by = 2030-01-01\n'
    (tmp_path / "b.toml").write_text(f'implementation = "lib"\n{entry}', "utf-8")
    text = written(tmp_path / "out", path, "--baseline", tmp_path / "b.toml")["report.json"]
    (row,) = json.loads(text)["implementations"][0]["expected_failures"]
    assert (row["issue"], row["review_by"]) == ("https://example.org/1", "2030-01-01")


def test_inputs_that_cannot_be_used(tmp_path: Path) -> None:
    for name, text, says in (
        ("torn.jsonl", '{"type": "hea', "torn.jsonl, line 1: not valid JSON"),
        ("empty.jsonl", "", "empty.jsonl, line 1: there is no header"),
        ("other.jsonl", '{"a": 1}\n', "other.jsonl, line 1: not a line of a run record"),
        ("new.jsonl", '{"type": "header", "record": 9}\n', "new.jsonl, line 1: record version 9"),
        ("finding.json", "{", "finding.json: not JSON"),
        ("finding.json", "[]", "finding.json: the finding has schema None, but this program"),
        ("finding.json", '{"schema": 2}', "finding.json: the finding has schema 2, but this program"),
        ("finding.json", '{"schema": 1}', "finding.json: has no 'slug'"),
    ):
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


RULE = {"id": "OFF-99", "level": "must", "title": "t", "statement": "s"}
OUTSIDE = {"path": "input.safetensors", "sha256": "b" * 64, "size": 7, "stored": "../secret"}
REPLAY = "stc fuzz replay frm-too-short-0011aabb --impl"
REPLAYS = (
    f"{REPLAY} lib; touch MARK",
    f"{REPLAY} $(touch MARK)",
    f"{REPLAY} 'cmd:touch MARK'",
    "stc fuzz replay other-0011aabb --impl lib",
    "stc fuzz replay frm-too-short-0011aabb --output lib",
    REPLAY,
    "touch MARK",
    "stc fuzz replay 'frm",
)


def test_findings_that_are_not_what_they_should_be_are_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    wrong: dict[str, list[dict[str, Any]]] = {
        "is outside the folder of the finding": [{"files": [OUTSIDE]}],
        "there is no rule OFF-99": [{"rules": [RULE]}],
        "finding.json: verdict: ": [{"verdict": "terrible"}],
        "reproduce is not an stc fuzz command that replays": [{"reproduce": line} for line in REPLAYS],
    }
    for says, changes in wrong.items():
        for change in changes:
            assert says in refused(tmp_path, write_finding(tmp_path / "f", **change)), change


@pytest.mark.parametrize("name", ["finding.json", "input.safetensors"])
def test_a_finding_of_lost_or_no_regular_files_is_refused_at_once(tmp_path: Path, name: str) -> None:
    folder = write_finding(tmp_path / "f")
    (folder / name).unlink()
    if name != "finding.json":
        assert "cannot be used without its input" in refused(tmp_path, folder)
    os.mkfifo(folder / name)
    assert "not a regular file" in refused(tmp_path, folder)


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


def test_findings_have_the_verdicts_that_fail_a_run() -> None:
    deviations = {f"deviation:{what}" for what in DEVIATIONS}
    assert set(get_args(Verdict)) == (STRICT_FAILING - {"deviation"}) | deviations


def test_unwritable_outputs_are_named_and_no_link_is_followed(record: Path, tmp_path: Path) -> None:
    file, out = tmp_path / "file", tmp_path / "out"
    file.write_text("mine", "utf-8")
    (tmp_path / "taken" / "report.json").mkdir(parents=True)
    for bad in (file, file / "below", tmp_path / "taken"):
        result = invoke(record, "-o", bad)
        assert (result.exit_code, str(bad) in result.output) == (2, True)
    out.mkdir()
    for name in ("report.json", "report.md"):
        (out / name).symlink_to("../file")
    assert invoke(record, "-o", out, "--markdown").exit_code == 0
    assert file.read_text("utf-8") == "mine"
    assert load_report(out).implementations
