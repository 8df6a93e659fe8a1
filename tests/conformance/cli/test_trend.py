"""``stc trend`` with fakes instead of versions: nothing is installed or fetched."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from safetensors_conformance.cli.trend import notes_of, trend
from safetensors_conformance.implementations.commands import InstallError
from safetensors_conformance.implementations.environment import Environment
from safetensors_conformance.implementations.selectors import Target, resolve
from safetensors_conformance.run.driver import header_row
from safetensors_reports.history.trend import KnownBug
from safetensors_reports.record.run import read_record

from ...published_schemas import schema_error
from ..support import HERE, TRIGGER, committed, fake

pytestmark = pytest.mark.usefixtures("loaded_once")

SMALL = f"py:{HERE / 'small_adapter.py'}:Small"
RIGHT = fake("Small")
WRITES_NOTHING = f"py:{HERE / 'small_adapter.py'}:WritesNothing"
LOSES = fake("LosesMetadata")
MISFIT = fake("OldApi")
HOLE = "layout/hole-between-two"
TRAILING = "layout/trailing-4-bytes"
KEPT = "metadata/amount-one-value"


def call(monkeypatch: pytest.MonkeyPatch, fakes: Mapping[str, str | None], *arguments: str | Path) -> Result:
    """Run the command over fakes as versions; None is a version that cannot be installed."""

    def known(selector: str) -> Target:
        version = selector.rpartition("==")[2]
        if version not in fakes:
            return resolve(selector)
        return resolve(fakes[version] or selector)

    def missing(*_: Environment, **__: object) -> None:
        raise InstallError("fake 2.0 cannot be had: no such version")

    monkeypatch.setattr("safetensors_conformance.cli.trend.resolve", known)
    monkeypatch.setattr("safetensors_conformance.implementations.selectors.prepare", missing)
    result = CliRunner().invoke(trend, ["safetensors", *fakes, *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def doc(monkeypatch: pytest.MonkeyPatch, fakes: Mapping[str, str | None], *arguments: str) -> dict[str, Any]:
    result = call(monkeypatch, fakes, "--json", *arguments)
    document: dict[str, Any] = json.loads(result.stdout)
    assert schema_error("trend", document) is None
    assert document["exit_status"] == result.exit_code
    return document


def test_fixed_and_broken_by_rule_with_reports_and_records(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fakes = {"1.0": fake("AlwaysAccepts"), "1.1": RIGHT, "1.2": LOSES}
    result = call(monkeypatch, fakes, *chosen(HOLE, KEPT), "--report", tmp_path)
    assert result.exit_code == 0
    first, second = result.stdout.split("1.1 -> 1.2")
    for words in ("1.0 -> 1.1   fixed 1   broken 0", "OFF-07", f"{HOLE}: Four bytes between two tensors"):
        assert words in first
    assert "wrong-accept -> pass 1" in first
    assert "broken 1" in second
    assert "pass -> wrong-content 1" in second
    assert schema_error("trend", json.loads((tmp_path / "trend.json").read_text())) is None
    assert "**FIXED: 1**" in (tmp_path / "trend.md").read_text()
    assert [read_record(path).cases for path in tmp_path.glob("*.jsonl")] == [2, 2, 2]


def chosen(*ids: str) -> list[str]:
    return [word for case in ids for word in ("--case", case)]


def test_an_adapter_that_does_not_fit_fixes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The old version lacks a function of the adapter, so it would fail on every file with data."""
    turns = {"data/each-tensor-its-own-bytes": "unknown", HOLE: "unknown"}
    turns |= {"layout/empty-tensor-inside-another-7": "fixed"}
    document = doc(monkeypatch, {"1.0": MISFIT, "1.1": RIGHT}, *chosen(*turns))
    (passage,) = document["passages"]
    assert {c["case"]: c["turn"] for c in passage["changes"]} == turns
    assert document["versions"][0]["counts"] == {"harness-error": 2, "deviation": 1}
    before, after = (" ".join(version["remarks"]) for version in document["versions"])
    assert ("the verdict is unknown for 2 cases" in before, "nothing is known" in after) == (True, False)
    # Nor does one that takes no file.
    document = doc(monkeypatch, {"1.0": fake("AlwaysRejects"), "1.1": RIGHT}, *chosen(*list(turns)[:2]))
    assert {c["turn"] for c in document["passages"][0]["changes"]} == {"unknown"}


def test_the_known_bugs_of_a_project_explain_its_changes_under_its_title() -> None:
    notes = notes_of(committed(), "safetensors", resolve("safetensors"))
    (bug,) = [b for b in notes["framing/data-start-rounded-up"].bugs if b.id == "FB-03"]
    assert bug.turns_between("0.3.0", "0.3.1") is True
    assert bug.turns_between("0.3.1", "0.4.0") is False
    notes = notes_of(committed(), "mlx", resolve("mlx==0.31.1"))
    assert any(bug.id == "FB-43" for note in notes.values() for bug in note.bugs)
    assert not any(note.bugs for note in notes_of(committed(), "nobody").values())


def test_programs_stand_for_versions_that_no_index_has() -> None:
    old, new = "a" * 40, "b" * 40
    programs = [f"{old}={fake('AlwaysAccepts')}", f"{new}={RIGHT}"]
    source = "https://example.org/h3.c"
    result = CliRunner().invoke(trend, ["h3.c", *programs, "--source", source, "--json", *chosen(HOLE)])
    document = json.loads(result.stdout)
    assert (document["implementation"], document["source"]) == ("h3.c", source)
    assert [(v["version"], v["shows"]) for v in document["versions"]] == [
        (old, [{"case": HOLE, "verdict": "wrong-accept", "bugs": ["FB-59"]}]),  # FB-59 is one of h3.c
        (new, []),
    ]


def test_the_option_of_a_choice_that_is_a_bug_shows_it() -> None:
    bug = KnownBug("FB-1", "o/lib#1", "", "accept")
    shown = [v for v in ("choice:accept", "choice:reject", "unsafe", "pass") if bug.shown_by(v)]
    assert shown == ["choice:accept", "unsafe"]
    assert not KnownBug("FB-1", "o/lib#1").shown_by("choice:accept")


def test_every_kind_of_case_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = ("writer/two-tensors-and-metadata", "slice/integer-last", TRIGGER)
    document = doc(monkeypatch, {"1.0": WRITES_NOTHING, "1.1": SMALL}, *chosen(*ids))
    assert [v["cases"] for v in document["versions"]] == [3, 3]
    (change,) = document["passages"][0]["changes"]
    assert (change["case"], change["turn"]) == ("writer/two-tensors-and-metadata", "fixed")
    assert "no file was written" in change["detail"]


def test_a_version_that_cannot_be_run_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes = {"1.0": fake("AlwaysAccepts"), "2.0": None, "2.1": fake("NoSteps"), "1.1": RIGHT}
    result = call(monkeypatch, fakes, "--case", HOLE)
    assert result.exit_code == 2
    for words in (
        "2.0      not run: fake 2.0 cannot be had",
        "2.1      not run: .*cannot start",
        "-> 1.1   fixed 1",
    ):
        assert re.search(words, result.stdout)


def test_a_version_that_dies_on_and_on_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = ("--case", "framing/*", "--max-hangs", "1", "--time-limit", "0.2")
    document = doc(monkeypatch, {"1.0": fake("AlwaysHangs"), "1.1": SMALL}, *cases)
    assert "--max-hangs 1" in document["versions"][0]["reason"]
    assert "reason" not in document["versions"][1]


def test_a_public_trend_tells_of_a_death_only_where_a_report_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bug is recorded for versions below 0.3.1; an adapter that dies over all files does not fit."""
    versions = {"0.3.0": fake("AlwaysDies"), "1.0": fake("AlwaysDies"), "1.1": RIGHT}
    public = doc(monkeypatch, versions, "--case", TRAILING, "--public")
    assert [row["counts"] for row in public["versions"]] == [{"harness-error": 1}, {"pass": 1}, {"pass": 1}]
    assert [len(passage["changes"]) for passage in public["passages"]] == [1, 0]


def test_remarks_about_an_adapter_that_may_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    result = call(monkeypatch, {"1.0": fake("AlwaysAccepts")}, "--case", "framing/*")
    assert "most basic files" in result.stdout
    assert "the program reports version" in call(monkeypatch, {"9.0": fake("Noisy")}, "--case", HOLE).stdout


def test_ctrl_c_keeps_the_versions_that_were_run(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def pressed(*args: Any) -> dict[str, Any]:
        seen.append("x")
        if len(seen) > 2:
            raise KeyboardInterrupt
        return header_row(*args)

    monkeypatch.setattr("safetensors_conformance.cli.trend.header_row", pressed)
    fakes = {"1.0": fake("AlwaysAccepts"), "1.1": RIGHT, "1.2": fake("Noisy")}
    result = call(monkeypatch, fakes, "--case", HOLE)
    assert (result.exit_code, "interrupted" in result.stdout) == (130, True)
    assert "1.0 -> 1.1   fixed 1" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("mxl", "1"), "did you mean mlx"),
        (("reference", "1"), "no versions to choose from"),
        (("tinygrad", "0.7.0", "0.9.0"), "supports 0.8.0 and newer"),
        (("safetensors:numpy", "0.8.0", "--entry", "torch"), "already names an entry"),
        (("safetensors==0.8.0", "0.8.0"), "list the versions after the name"),
        (("safetensors", "0.8.0", "--entry", "nothing"), "has no entry"),
        (("their.cpp", "1.0=mlx"), "the equals sign must be followed by a program"),
        (("safetensors",), "Missing argument"),
        (("safetensors", "0.8.0", "--case", "no/such"), "matches no case"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], complaint: str) -> None:
    result = CliRunner().invoke(trend, list(arguments))
    assert (result.exit_code, complaint in " ".join(result.stderr.split())) == (2, True)
