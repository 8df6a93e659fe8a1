"""Foreign text stays on its line, escaped, in terminals, pytest's output, JUnit files and records."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from click.testing import CliRunner

from safetensors_reference.main import main

from ..suite_runs import suite_here
from ..support import HERE, QUICK

pytestmark = pytest.mark.usefixtures("loaded_once")

CASES = ("framing/one-tensor", "framing/no-bytes", "header/name-twice-adjacent")
WAYS = ("dies-at-start", "refuses-to-start", "dies", "noise", "refuses", "tensors", "mistake", "outcome")


def loud(how: str) -> str:
    return f"cmd:{sys.executable} -IS {HERE / 'loud_fake.py'} {how}"


def assert_tame(text: str) -> None:
    """Lines hold printable characters only, and none is a command of a forge's log."""
    assert text.strip()
    for line in text.split("\n"):
        assert line.isprintable(), ascii(line)
        assert not line.lstrip().startswith(("::", "##[")), line


@pytest.mark.by_day(8)
@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("more", [(), ("--no-smoke",), ("--impl", QUICK, "--no-smoke")])
def test_a_run_shows_no_text_raw(how: str, more: tuple[str, ...], tmp_path: Path) -> None:
    chosen = [part for case in CASES for part in ("--case", case)]
    result = CliRunner().invoke(
        main, ["run", "--impl", loud(how), *chosen, "--report", str(tmp_path), *more], catch_exceptions=False
    )
    assert result.exit_code in (1, 2)
    assert_tame(result.output)
    assert_tame((tmp_path / "summary.md").read_text("utf-8"))
    for record in tmp_path.glob("*.jsonl"):
        assert_tame(record.read_text("ascii"))


@pytest.mark.by_day(3)
@pytest.mark.parametrize("command", ["diff", "check-protocol"])
@pytest.mark.parametrize("how", ["dies-at-start", "refuses", "tensors", "outcome"])
def test_comparisons_and_checks_of_the_protocol_show_none_either(command: str, how: str) -> None:
    more = ["--impl", QUICK, "--case", CASES[0]] if command == "diff" else []
    result = CliRunner().invoke(main, [command, "--impl", loud(how), *more], catch_exceptions=False)
    assert result.exit_code in (1, 2)
    assert_tame(result.output)


@pytest.mark.parametrize("how", ["dies-at-start", "refuses"])
def test_pytest_and_junit_show_none_either(how: str, few_cases: Path, tmp_path: Path) -> None:
    junit = tmp_path / "junit.xml"
    chosen = ["--no-smoke", "-k", "one-tensor", "-rA", f"--corpus={few_cases}"]
    ran = suite_here("--impl", loud(how), *chosen, f"--junit-xml={junit}")
    assert ran.returncode in (1, 2, 4)
    assert_tame(ran.stdout.encode("utf-8").decode("utf-8"))
    assert_tame(junit.read_text("utf-8") if junit.is_file() else "(none)")


HOSTILE = "\x1b[31m\u202e\n::error::pwn\n##[add-mask]x"


def baseline(folder: Path, **more: object) -> Path:
    """A baseline of one entry about a case with a hostile name."""
    entry = {"case": f"framing/{HOSTILE}", "read": "wrong-reject", "why": HOSTILE, **more}
    path = folder / "hostile.toml"
    path.write_text(tomlkit.dumps({"implementation": "x", "expected": [entry]}), encoding="utf-8")
    return path


@pytest.mark.parametrize("more", [{}, {HOSTILE: 1}, {"versions": HOSTILE}, {"versions": "==" + "9" * 5000}])
@pytest.mark.parametrize("command", ["run", "baseline show"])
def test_a_baseline_shows_no_text_raw(command: str, more: dict[str, Any], tmp_path: Path) -> None:
    given = ["--impl", QUICK, "--baseline"] if command == "run" else [QUICK, "--file"]
    chosen = ["--case", "framing/no-bytes"] if command == "run" else []
    args = [*command.split(), *given, str(baseline(tmp_path, **more)), *chosen]
    result = CliRunner().invoke(main, args, catch_exceptions=False)
    assert_tame(result.output)
    assert bool(result.exit_code) == bool(more)


@pytest.mark.parametrize(
    "args", [[HOSTILE], ["run", "--impl", HOSTILE], ["run", "--case", HOSTILE], ["run", f"-{HOSTILE}"]]
)
def test_errors_show_no_argument_raw(args: list[str]) -> None:
    result = CliRunner().invoke(main, args, catch_exceptions=False)
    assert result.exit_code == 2
    assert_tame(result.output)


def test_a_stale_entry_is_shown_no_more_raw(tmp_path: Path, few_cases: Path) -> None:
    args = ["--impl", QUICK, "--baseline", str(baseline(tmp_path)), "--corpus", str(few_cases)]
    result = CliRunner().invoke(main, ["run", *args], catch_exceptions=False)
    assert "matches no case" in result.output
    assert_tame(result.output)
    ran = suite_here(*args, "-k", "baseline")
    assert "matches no case" in ran.stdout
    assert_tame(ran.stdout)
