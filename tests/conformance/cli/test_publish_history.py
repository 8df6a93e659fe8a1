"""``stc publish`` and histories: runs are added, never replaced, and can be checked."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import Mock

import pytest
from click.testing import CliRunner, Result

from safetensors_conformance.cli.publish import publish as command
from safetensors_reports.record.run import RunRecord

from ...reports.samples import HOLE, TWICE, failing, run, write_record


def invoke(*args: str | Path) -> Result:
    result = CliRunner().invoke(command, [str(a) for a in args])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def tree(folder: Path) -> dict[str, str]:
    return {p.relative_to(folder).as_posix(): p.read_text("utf-8") for p in folder.rglob("*") if p.is_file()}


def old(version: str, *cases: str) -> RunRecord:
    rows = [failing(case, "wrong-accept" if case in cases else "pass") for case in (HOLE, TWICE)]
    return run(*rows, name="lib", version=version)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Published reports of version 3."""
    record = write_record(tmp_path / "new.jsonl", old("3"))
    assert invoke(record, "-o", tmp_path / "pages").exit_code == 0
    return tmp_path / "pages"


def test_old_releases_go_into_the_history_alone(out: Path, tmp_path: Path) -> None:
    folder = tmp_path / "old"
    folder.mkdir()
    write_record(folder / "1.jsonl", old("1", HOLE, TWICE))
    write_record(folder / "2.jsonl", old("2", HOLE))
    before = tree(out)
    done = invoke(folder, "--history-only", "-o", out)
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
    assert invoke(folder, "--history-only", "-o", out).output.startswith("0 runs added")
    assert tree(out) == after
    assert invoke("--check", "-o", out).exit_code == 0
    (out / "history/lib.md").unlink()
    assert invoke("--history-only", "-o", out).exit_code == 0
    assert tree(out) == after


def test_a_run_that_is_published_again_stays_once_in_the_history(out: Path, tmp_path: Path) -> None:
    before = tree(out)
    assert invoke(tmp_path / "new.jsonl", "-o", out).exit_code == 0
    assert tree(out) == before
    write_record(tmp_path / "new.jsonl", old("4", HOLE))
    assert invoke(tmp_path / "new.jsonl", "-o", out).exit_code == 0
    assert [json.loads(text)["version"] for text in tree(out)["history/lib.jsonl"].splitlines()] == ["3", "4"]
    # A history needs no reports.
    assert invoke(tmp_path / "new.jsonl", "--history-only", "-o", tmp_path / "out").exit_code == 0
    assert set(tree(tmp_path / "out")) == {"history/lib.jsonl", "history/lib.md"}


def test_runs_that_cannot_be_compared_are_refused_and_nothing_is_written(out: Path, tmp_path: Path) -> None:
    before = tree(out)
    elsewhere, unfinished = old("1", HOLE), old("1", HOLE)
    elsewhere.header["corpus"]["digest"] = "0" * 64
    unfinished.footer = None
    missing = {
        "outcome": "reject",
        "exception": "AttributeError",
        "message": "module 'l' has no attribute 'f'",
    }
    alone = run(failing(HOLE, "wrong-reject", **missing), name="lib", version="0.1")
    good = write_record(tmp_path / "good.jsonl", old("2"))
    for record, says in (
        (elsewhere, "lib 1: this run used a different corpus"),
        (unfinished, "lib 1: "),
        (alone, "lib 0.1: 1 of 1 case have no result because the adapter does not fit this version"),
    ):
        bad = write_record(tmp_path / "bad.jsonl", record)
        done = invoke(good, bad, "--history-only", "-o", out)
        assert (done.exit_code, says in done.output) == (2, True), done.output
        assert tree(out) == before


def test_a_page_beside_its_history_and_a_damaged_history_are_named(out: Path, tmp_path: Path) -> None:
    for name in ("history/lib.md", "implementations.json"):
        text = (out / name).read_text("utf-8")
        (out / name).write_text(text.replace("lib", "bil", 1), "utf-8")
        done = invoke("--check", "-o", out)
        says = f"{out / name}: does not match its history; run stc publish --history-only\n"
        assert (done.exit_code, done.output) == (1, says)
        (out / name).write_text(text, "utf-8")
    with (out / "history/lib.jsonl").open("a") as file:
        file.write("{}\n")
    before = tree(out)
    for args in (["--check"], [tmp_path / "new.jsonl"], ["--history-only"]):
        done = invoke(*args, "-o", out)
        assert (done.exit_code, "lib.jsonl, line 2: " in done.output) == (2, True), done.output
        assert tree(out) == before


def test_all_are_run_to_the_end_however_they_hang(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    main = Mock()
    monkeypatch.setattr("safetensors_conformance.cli.publish.run.main", main)
    assert invoke("-o", tmp_path / "pages").exit_code == 2
    options = main.call_args.args[0]
    assert options[options.index("--max-hangs") + 1] == "0"
