"""``stc trend`` with fakes instead of versions, and histories of ``stc publish``; nothing is fetched."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import Result

from safetensors_conformance.cli.publish import publish
from safetensors_conformance.cli.trend import trend
from safetensors_conformance.implementations.commands import InstallError
from safetensors_conformance.implementations.environment import Environment
from safetensors_conformance.implementations.selectors import Target, resolve
from safetensors_conformance.run.driver import header_row
from safetensors_reports.history.trend import KnownBug, notes_of
from safetensors_reports.record.file import read_record
from safetensors_reports.record.run import RunRecord

from ...published_schemas import schema_error
from ...reports.samples import HOLE, TWICE, failing, run, write_record
from ..support import TRIGGER, committed, fake, invoke

pytestmark = pytest.mark.usefixtures("loaded_once")

SMALL, WRITES_NOTHING = (fake(name, "small_adapter") for name in ("Small", "WritesNothing"))
RIGHT = fake("Small")


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
    return invoke(trend, "safetensors", *fakes, *arguments)


def doc(monkeypatch: pytest.MonkeyPatch, fakes: Mapping[str, str | None], *arguments: str) -> dict[str, Any]:
    result = call(monkeypatch, fakes, "--json", *arguments)
    document: dict[str, Any] = json.loads(result.stdout)
    assert schema_error("trend", document) is None
    assert document["exit_status"] == result.exit_code
    return document


def test_fixed_and_broken_with_reports_and_records(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fakes = {"1.0": fake("AlwaysAccepts"), "1.1": RIGHT, "1.2": fake("LosesMetadata")}
    result = call(monkeypatch, fakes, *chosen(HOLE, "metadata/amount-one-value"), "--report", tmp_path)
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
    document = doc(monkeypatch, {"1.0": fake("OldApi"), "1.1": RIGHT}, *chosen(*turns))
    (passage,) = document["passages"]
    assert {c["case"]: c["turn"] for c in passage["changes"]} == turns
    assert document["versions"][0]["counts"] == {"harness-error": 2, "deviation": 1}
    before, after = (" ".join(version["remarks"]) for version in document["versions"])
    assert ("the verdict is unknown for 2 cases" in before, "nothing is known" in after) == (True, False)
    # Nor does one that takes no file.
    document = doc(monkeypatch, {"1.0": fake("AlwaysRejects"), "1.1": RIGHT}, *chosen(*list(turns)[:2]))
    assert {c["turn"] for c in document["passages"][0]["changes"]} == {"unknown"}


def test_the_known_bugs_of_a_project_explain_its_changes_under_its_title() -> None:
    notes = notes_of(committed().raw, "safetensors")
    (bug,) = [b for b in notes["framing/data-start-rounded-up"].bugs if b.id == "FB-03"]
    assert bug.turns_between("0.3.0", "0.3.1") is True
    assert bug.turns_between("0.3.1", "0.4.0") is False
    notes = notes_of(committed().raw, "a name", "MLX")
    assert any(bug.id == "FB-43" for note in notes.values() for bug in note.bugs)
    assert not any(note.bugs for note in notes_of(committed().raw, "nobody").values())
    # The option of a choice that is a bug shows it.
    bug = KnownBug("FB-1", "o/lib#1", "", "accept")
    shown = [v for v in ("choice:accept", "choice:reject", "unsafe", "pass") if bug.shown_by(v)]
    assert shown == ["choice:accept", "unsafe"]
    assert not KnownBug("FB-1", "o/lib#1").shown_by("choice:accept")


def test_programs_stand_for_versions_that_no_index_has() -> None:
    old, new = "a" * 40, "b" * 40
    programs = [f"{old}={fake('AlwaysAccepts')}", f"{new}={RIGHT}"]
    source = "https://example.org/h3.c"
    result = invoke(trend, "h3.c", *programs, "--source", source, "--json", *chosen(HOLE))
    document = json.loads(result.stdout)
    assert (document["implementation"], document["source"]) == ("h3.c", source)
    assert [(v["version"], v["shows"]) for v in document["versions"]] == [
        (old, [{"case": HOLE, "verdict": "wrong-accept", "bugs": ["FB-59"]}]),  # FB-59 is one of h3.c
        (new, []),
    ]


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
    for words in ("2.0 +not run: fake 2.0 cannot be had", "2.1 +not run: .*cannot start", "-> 1.1   fixed 1"):
        assert re.search(words, result.stdout)


def test_a_version_that_dies_on_and_on_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = ("--case", "framing/*", "--max-hangs", "1", "--time-limit", "0.2")
    document = doc(monkeypatch, {"1.0": fake("AlwaysHangs"), "1.1": SMALL}, *cases)
    assert "--max-hangs 1" in document["versions"][0]["reason"]
    assert "reason" not in document["versions"][1]


def test_a_public_trend_tells_of_a_death_only_where_a_report_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bug is recorded for versions below 0.3.1; an adapter that dies over all files does not fit."""
    versions = {"0.3.0": fake("AlwaysDies"), "1.0": fake("AlwaysDies"), "1.1": RIGHT}
    public = doc(monkeypatch, versions, "--case", "layout/trailing-4-bytes", "--public")
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
    result = invoke(trend, *arguments)
    assert (result.exit_code, complaint in " ".join(result.stderr.split())) == (2, True)


# ``stc publish`` and histories: runs are added, never replaced, and can be checked


def tree(folder: Path) -> dict[str, str]:
    return {p.relative_to(folder).as_posix(): p.read_text("utf-8") for p in folder.rglob("*") if p.is_file()}


def old(version: str, *cases: str) -> RunRecord:
    rows = [failing(case, "wrong-accept" if case in cases else "pass") for case in (HOLE, TWICE)]
    return run(*rows, name="lib", version=version)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Published reports of version 3."""
    record = write_record(tmp_path / "new.jsonl", old("3"))
    assert invoke(publish, record, "-o", tmp_path / "pages").exit_code == 0
    return tmp_path / "pages"


def test_old_releases_go_into_the_history_alone(out: Path, tmp_path: Path) -> None:
    folder = tmp_path / "old"
    folder.mkdir()
    write_record(folder / "1.jsonl", old("1", HOLE, TWICE))
    write_record(folder / "2.jsonl", old("2", HOLE))
    before = tree(out)
    done = invoke(publish, folder, "--history-only", "-o", out)
    assert (done.exit_code, done.output) == (0, f"2 runs added to {out / 'history'}\n")
    after = tree(out)
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed == {"history/lib.jsonl", "history/lib.md", "implementations.json"}
    assert after["history/lib.jsonl"].startswith(before["history/lib.jsonl"])
    page = after["history/lib.md"]
    assert page.index("`2` → `3`") < page.index("`1` → `2`")
    versions = json.loads(after["implementations.json"])["programs"][0]["versions"]
    assert [row["version"] for row in versions] == ["1", "2", "3"]
    # The same runs again add nothing, and what is there can be checked and made again.
    assert invoke(publish, folder, "--history-only", "-o", out).output.startswith("0 runs added")
    assert tree(out) == after
    assert invoke(publish, "--check", "-o", out).exit_code == 0
    (out / "history/lib.md").unlink()
    assert invoke(publish, "--history-only", "-o", out).exit_code == 0
    assert tree(out) == after


def test_a_run_that_is_published_again_stays_once_in_the_history(out: Path, tmp_path: Path) -> None:
    before = tree(out)
    assert invoke(publish, tmp_path / "new.jsonl", "-o", out).exit_code == 0
    assert tree(out) == before
    write_record(tmp_path / "new.jsonl", old("4", HOLE))
    assert invoke(publish, tmp_path / "new.jsonl", "-o", out).exit_code == 0
    assert [json.loads(text)["version"] for text in tree(out)["history/lib.jsonl"].splitlines()] == ["3", "4"]
    # A history needs no reports.
    assert invoke(publish, tmp_path / "new.jsonl", "--history-only", "-o", tmp_path / "out").exit_code == 0
    assert set(tree(tmp_path / "out")) == {"history/lib.jsonl", "history/lib.md"}


def test_runs_that_cannot_be_compared_are_refused_and_nothing_is_written(out: Path, tmp_path: Path) -> None:
    before = tree(out)
    elsewhere, unfinished = old("1", HOLE), old("1", HOLE)
    elsewhere.header["corpus"]["digest"] = "0" * 64
    unfinished.footer = None
    missing = {"exception": "AttributeError", "message": "module 'l' has no attribute 'f'"}
    row = failing(HOLE, "wrong-reject", outcome="reject", **missing)
    alone = run(row, name="lib", version="0.1")
    good = write_record(tmp_path / "good.jsonl", old("2"))
    for record, says in (
        (elsewhere, "lib 1: this run used a different corpus"),
        (unfinished, "lib 1: "),
        (alone, "lib 0.1: 1 of 1 case have no result because the adapter does not fit this version"),
    ):
        bad = write_record(tmp_path / "bad.jsonl", record)
        done = invoke(publish, good, bad, "--history-only", "-o", out)
        assert (done.exit_code, says in done.output) == (2, True), done.output
        assert tree(out) == before


def test_a_page_beside_its_history_and_a_damaged_history_are_named(out: Path, tmp_path: Path) -> None:
    for name in ("history/lib.md", "implementations.json"):
        text = (out / name).read_text("utf-8")
        (out / name).write_text(text.replace("lib", "bil", 1), "utf-8")
        done = invoke(publish, "--check", "-o", out)
        says = f"{out / name}: does not match its history; run stc publish --history-only\n"
        assert (done.exit_code, done.output) == (1, says)
        (out / name).write_text(text, "utf-8")
    with (out / "history/lib.jsonl").open("a") as file:
        file.write("{}\n")
    before = tree(out)
    for args in (["--check"], [tmp_path / "new.jsonl"], ["--history-only"]):
        done = invoke(publish, *args, "-o", out)
        assert (done.exit_code, "lib.jsonl, line 2: " in done.output) == (2, True), done.output
        assert tree(out) == before


def test_all_are_run_to_the_end_however_they_hang(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    main = Mock()
    monkeypatch.setattr("safetensors_conformance.cli.publish.run.main", main)
    assert invoke(publish, "-o", tmp_path / "pages").exit_code == 2
    options = main.call_args.args[0]
    assert options[options.index("--max-hangs") + 1] == "0"
