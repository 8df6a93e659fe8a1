"""Tested programs that tamper with the report folder: losses are reported, nothing is written elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from safetensors_conformance.cli.run import run
from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.run.driver import ImplementationResults
from safetensors_reports.record.line import RecordWriter

from ..suite_runs import suite_here
from ..support import TRIGGER, fake

FOLDER = "REPORT_FOLDER"
"""Variable that tells the fakes the folder."""

pytestmark = pytest.mark.usefixtures("loaded_once")


def arguments(name: str, folder: Path) -> list[str]:
    return ["--impl", fake(name), "--no-smoke", "--report", str(folder), "--env", FOLDER]


def ran(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Result:
    (tmp_path / "victim").write_text("mine", "utf-8")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setenv(FOLDER, str(tmp_path / "report"))
    result = CliRunner().invoke(run, [*arguments(name, tmp_path / "report"), "--case", TRIGGER])
    assert (tmp_path / "victim").read_text("utf-8") == "mine"
    assert not list((tmp_path / "elsewhere").iterdir())
    return result


@pytest.mark.parametrize(
    "name",
    ["MovesTheReport", "RemovesTheRecord", "ReplacesTheRecord", "ChangesTheRecord"],
)
def test_a_record_that_is_lost_is_no_success(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = ran(name, tmp_path, monkeypatch)
    assert result.exit_code == 2
    assert ".jsonl: another program removed, replaced or changed this file" in result.stderr
    assert "records and summary.md were written to" not in result.stdout


def test_a_link_in_place_of_the_summary_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = ran("LinksTheSummary", tmp_path, monkeypatch)
    assert result.exit_code == 0, result.output
    summary = tmp_path / "report" / "summary.md"
    assert not summary.is_symlink()
    assert re.search(r"1 of [\d,]+ cases were run", summary.read_text("utf-8"))


def test_under_pytest_a_lost_record_is_no_success_either(
    few_cases: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path / "report"))
    args = [*arguments("RemovesTheRecord", tmp_path / "report"), f"--corpus={few_cases}"]
    done = suite_here(*args, "-k", "framing and header-size")
    assert done.returncode == pytest.ExitCode.INTERRUPTED
    assert "removed, replaced or changed" in done.stdout


def test_a_record_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("mine", "utf-8")
    (tmp_path / "r.jsonl").symlink_to("victim")
    with RecordWriter(tmp_path / "r.jsonl") as writer:
        writer.write("problem", {"message": "x"})
        assert writer.intact
    assert (tmp_path / "victim").read_text("utf-8") == "mine"


def test_a_report_attributes_failures_by_the_whole_run_but_a_record_does_not() -> None:
    def refused(*rules: str) -> dict[str, object]:
        failure = {"verdict": "wrong-reject", "rule": rules[0], "basis": "text", "property": "outcome"}
        row = {"step": "read", "outcome": "reject", "verdict": "wrong-reject"}
        return {**row, "rules": list(rules), "rule": rules[0], "failures": [failure]}

    accepted = {"step": "read", "outcome": "accept", "verdict": "pass", "rules": ["OFF-09"], "failures": []}
    results = ImplementationResults(resolve("reference"), None)
    for row in [*[refused("HDR-17"), accepted] * 3, refused("OFF-09", "HDR-17")]:
        results.add({"result": row})
    assert results.record().results[-1]["rule"] == "HDR-17"
    assert results.results[-1]["rule"] == "OFF-09"
