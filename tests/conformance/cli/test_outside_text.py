"""Foreign text stays on its line, escaped, in terminals, pytest's output, JUnit files and records."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from click.testing import CliRunner, Result

from safetensors_reference.main import main

from ..suite_runs import suite_here
from ..support import HERE, QUICK

pytestmark = pytest.mark.usefixtures("loaded_once")

CASES = ("framing/one-tensor", "framing/no-bytes", "header/name-twice-adjacent")
DIFF, CHECK = f"diff --impl {QUICK} --case {CASES[0]}", "check-protocol"
WAYS = ("dies-at-start", "refuses-to-start", "dies", "noise", "refuses", "tensors", "mistake", "outcome")


def loud(how: str) -> str:
    return f"cmd:{sys.executable} -IS {HERE / 'loud_fake.py'} {how}"


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
