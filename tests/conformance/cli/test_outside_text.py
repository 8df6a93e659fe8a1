"""Foreign text stays on its line, escaped, wherever it is shown; names that are not UTF-8 stay themselves."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from click.testing import CliRunner, Result

from safetensors_conformance.cli.report import report as report_command
from safetensors_conformance.cli.run import run as run_command
from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.run.session import Session
from safetensors_reference.main import main

from ..suite_runs import suite_here
from ..support import PROGRAM, QUICK, TRIGGER, cases, fake, stdio

pytestmark = pytest.mark.usefixtures("loaded_once")

CASES = ("framing/one-tensor", "framing/no-bytes", "header/name-twice-adjacent")
DIFF, CHECK = f"diff --impl {QUICK} --case {CASES[0]}", "check-protocol"
WAYS = ("dies-at-start", "refuses-to-start", "dies", "noise", "refuses", "tensors", "mistake", "outcome")


loud = functools.partial(stdio, "loud", isolated=True)


def called(*arguments: str) -> Result:
    """Run a command whose output is tame."""
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert_tame(result.output)
    return result


def assert_tame(text: str) -> None:
    """Lines hold printable characters only, and none is a command of a forge's log."""
    assert text.strip()
    for line in text.split("\n"):
        assert line.isprintable(), ascii(line)
        assert not line.lstrip().startswith(("::", "##[")), line


@pytest.mark.by_day(11)
@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("command", ["run", "run --no-smoke", f"run --no-smoke --impl {QUICK}", DIFF, CHECK])
def test_a_command_shows_no_text_raw(how: str, command: str, tmp_path: Path) -> None:
    name, *more = command.split()
    if name == "run":
        more += [*(part for case in CASES for part in ("--case", case)), "--report", str(tmp_path)]
    assert called(name, "--impl", loud(how), *more).exit_code in (1, 2)
    if name == "run":
        assert_tame((tmp_path / "summary.md").read_text("utf-8"))
    for record in tmp_path.glob("*.jsonl"):
        assert_tame(record.read_text("ascii"))


@pytest.mark.parametrize("how", ["dies-at-start", "refuses"])
def test_pytest_and_junit_show_none_either(how: str, few_cases: Path, tmp_path: Path) -> None:
    junit = tmp_path / "junit.xml"
    chosen = ["--no-smoke", "-k", "one-tensor", "-rA", f"--corpus={few_cases}"]
    ran = suite_here("--impl", loud(how), *chosen, f"--junit-xml={junit}")
    assert ran.returncode in (1, 2, 4)
    assert_tame(ran.stdout.encode("utf-8").decode("utf-8"))
    assert_tame(junit.read_text("utf-8") if junit.is_file() else "(none)")


HOSTILE = "\x1b[31m\u202e\n::error::pwn\n##[add-mask]x"


def baseline(folder: Path, **more: object) -> str:
    """A baseline of one entry about a case with a hostile name."""
    entry = {"case": f"framing/{HOSTILE}", "read": "wrong-reject", "why": HOSTILE, **more}
    path = folder / "hostile.toml"
    path.write_text(tomlkit.dumps({"implementation": "x", "expected": [entry]}), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("more", [{}, {HOSTILE: 1}, {"versions": HOSTILE}, {"versions": "==" + "9" * 5000}])
def test_a_baseline_shows_no_text_raw(more: dict[str, Any], tmp_path: Path) -> None:
    path = baseline(tmp_path, **more)
    run = ["run", "--impl", QUICK, "--baseline", path, "--case", "framing/no-bytes"]
    for args in (run, ["baseline", "show", QUICK, "--file", path]):
        assert bool(called(*args).exit_code) == bool(more)


@pytest.mark.parametrize(
    "args", [[HOSTILE], ["run", "--impl", HOSTILE], ["run", "--case", HOSTILE], ["run", f"-{HOSTILE}"]]
)
def test_errors_show_no_argument_raw(args: list[str]) -> None:
    assert called(*args).exit_code == 2


def test_a_stale_entry_is_shown_no_more_raw(tmp_path: Path, few_cases: Path) -> None:
    args = ["--impl", QUICK, "--baseline", baseline(tmp_path), "--corpus", str(few_cases)]
    assert "matches no case" in called("run", *args).output
    ran = suite_here(*args, "-k", "baseline")
    assert "matches no case" in ran.stdout
    assert_tame(ran.stdout)


# Names that are not UTF-8 differ from every name of a valid file and affect no other verdict


NO_UTF8 = ("header/name-bytes-ff", "header/bytes-in-name-latin-1-letter", "header/name-bytes-surrogate")
VALID = (TRIGGER, "layout/two-dtypes", "header/edges-of-utf8-in-name", "header/edges-of-utf8-in-metadata")


@pytest.mark.parametrize("selector", [stdio("raw"), stdio("hex"), fake("GivesBytes")])
def test_who_takes_such_a_name_is_found_out_and_is_right_about_the_others(selector: str) -> None:
    asked = cases(*NO_UTF8, *VALID)
    with Session(resolve(selector)) as session:
        session.plan(asked)
        told = {case.id: session.judge(case).verdict for case in asked}
    assert told == dict.fromkeys(NO_UTF8, "wrong-accept") | dict.fromkeys(VALID, "pass")


@pytest.mark.by_day(1)
@pytest.mark.parametrize("selector", [stdio("raw"), fake("GivesBytes"), fake("Surrogates")])
def test_records_and_reports_hold_such_names(tmp_path: Path, selector: str) -> None:
    runner = CliRunner()
    names = ["--case", "header/name-bytes-*", "--case", "layout/*two-dtypes", "--case", "framing/*"]
    ran = runner.invoke(run_command, ["--impl", selector, "--no-smoke", "--report", str(tmp_path), *names])
    assert ran.exit_code == 1, ran.output
    assert "wrong-accept 0" not in ran.output or "wrong-content 0" not in ran.output
    (record,) = tmp_path.glob("*.jsonl")
    rows = [json.loads(line) for line in record.read_bytes().decode("ascii").splitlines()]
    assert any("\\udc" in json.dumps(row.get("content")) for row in rows)
    out = tmp_path / "audit"
    forms = ["--html", "--markdown", "--sarif", "--intoto", "--badge"]
    options = [*forms, "-o", str(out), f"--artifact={selector}={PROGRAM}"]
    reported = runner.invoke(report_command, [str(record), *options])
    assert reported.exit_code == 0, reported.output
    for path in out.iterdir():
        path.read_bytes().decode("utf-8")
