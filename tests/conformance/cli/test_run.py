"""``stc run``: its options, cases by name, files that are none, choices, and turns of runs."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from safetensors_conformance.cli.baseline import baseline
from safetensors_conformance.cli.diff import diff
from safetensors_conformance.cli.report import report
from safetensors_conformance.cli.run import given_up, run
from safetensors_conformance.options import OPTIONS, PROFILES
from safetensors_reference.rules import book

from ..support import QUICK, REPOSITORY, TRIGGER

pytestmark = pytest.mark.usefixtures("loaded_once")

LAX = "py:docs/examples/mylib_adapter.py:Adapter"
CHOICE = ("--case", "header/leading-whitespace-tab")
ONE = ("--impl", "reference", "--case", TRIGGER)


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(run, arguments)
    return result.exit_code, result.output


def test_the_command_line_follows_the_table_that_the_plugin_shares() -> None:
    command = {name: param for param in run.params for name in param.opts if isinstance(param, click.Option)}
    assert OPTIONS.keys() - command.keys() == {"--update-baseline"}  # only pytest rewrites baselines in a run
    assert PROFILES == book.PROFILES
    for name, option in ((name, option) for name, option in command.items() if name in OPTIONS):
        known = OPTIONS[name]
        assert (option.help, option.is_flag, option.multiple) == (known.help, known.flag, known.many), name
        bounds = getattr(option.type, "min", None), getattr(option.type, "max", None)
        assert bounds == (known.least, known.most), name
        assert tuple(getattr(option.type, "choices", ())) == known.choices, name


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("layout/hole-between-tow", "layout/hole-between-two"),
        ("hole-between-two", "layout/hole-between-two"),
        ("layuot/*", "layout/"),
    ],
)
def test_an_unknown_case_is_guessed(given: str, meant: str) -> None:
    status, out = call("--case", given)
    assert (status, f"did you mean {meant}" in out) == (2, True)


def test_an_unusable_baseline_is_refused_before_anything_runs(tmp_path: Path) -> None:
    adapter = tmp_path / "adapter.py"
    adapter.write_text(f"open('{tmp_path}/started', 'w')\nclass A:\n  def read(self, path): return []\n")
    status, out = call("--impl", f"py:{adapter}:A", "--baseline", str(tmp_path / "none.toml"))
    assert (status, "none.toml: No such file" in out, (tmp_path / "started").exists()) == (2, True, False)


@pytest.mark.by_day(5)
@pytest.mark.parametrize("thing", ["fifo", "zeros"])
@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (run, (*ONE, "--corpus")),
        (run, (*ONE, "--baseline")),
        (diff, (*ONE, "--impl", "safetensors", "--triage")),
        (diff, ("--impl", "reference", "--impl", "safetensors")),
        (baseline, ("show", "reference", "--file")),
        (report, ("-o", "out")),
    ],
)
def test_what_is_no_regular_file_neither_hangs_a_command_nor_fills_the_memory(
    thing: str,
    command: click.Command,
    arguments: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "given"
    if thing == "fifo":
        os.mkfifo(place)
    else:
        place.symlink_to("/dev/zero")
    result = CliRunner().invoke(command, [*arguments, str(place)])
    assert result.exit_code in (1, 2), result.output
    assert "not a regular file" in result.output


def test_the_failure_in_the_readme_is_real(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    _, out = call("--impl", LAX, "--case", "layout/hole-between-two")
    failure, _, _ = out.partition("\n\n")
    assert failure.startswith(LAX)
    assert f"```\n{failure}\n```\n" in (REPOSITORY / "README.md").read_text(encoding="utf-8")


def test_the_answer_to_a_choice_is_shown() -> None:
    status, out = call("--impl", "reference", *CHOICE)
    assert status == 0
    for words in (
        "CHOICE:REJECT",
        "choice    leading-whitespace: Whitespace before the opening brace",
        "answer    reject: reject the file",
        "or        accept: skip the whitespace and read on",
        "profiles  text, hardened: reject; official: accept",
    ):
        assert words in out
    for chosen in ((*CHOICE, "--quiet"), ("--case", f"{CHOICE[1]}*"), ("--case", TRIGGER)):
        assert "answer" not in call("--impl", "reference", *chosen, "--no-smoke")[1]


def test_a_run_without_any_case_is_no_success(few_cases: Path, tmp_path: Path) -> None:
    raw = json.loads((few_cases / "corpus.json").read_text("utf-8"))
    (tmp_path / "corpus.json").write_text(json.dumps({**raw, "cases": []}), "utf-8")
    status, output = call("--impl", QUICK, "--corpus", str(tmp_path))
    assert (status, "the corpus is empty" in output) == (2, True), output
    status, output = call("--impl", QUICK, "--case", "resource/opened-only-2p4?")
    assert (status, "all matching cases are heavy; add --heavy" in output) == (2, True), output


def test_a_turn_is_given_up_for_a_while_and_taken_again_whatever_happens() -> None:
    """Never more runs are at work than allowed, and waiting for a hang blocks no other run."""
    turns, free = threading.BoundedSemaphore(1), []

    def waits() -> None:
        with given_up(turns):
            free.append(turns.acquire(blocking=False))
            turns.release()
            raise ValueError("while waiting")

    with turns:
        with pytest.raises(ValueError, match="while waiting"):
            waits()
        free.append(turns.acquire(blocking=False))
    assert free == [True, False]
