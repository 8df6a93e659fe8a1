"""``stc fuzz`` as people and programs meet it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from safetensors_fuzz.cli import fuzz

FAKES = Path(__file__).parent / "fakes.py"


def run(*args: str | Path) -> Result:
    result = CliRunner().invoke(fuzz, [str(a) for a in args], env={"NO_COLOR": "1"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_a_quiet_run_says_what_was_done_and_exits_with_0() -> None:
    result = run("--impl", "reference", "--max-execs", "40", "--seed", "9")
    assert result.exit_code == 0
    assert re.search(r"^40 inputs in [\d.]+ s \([\d,]+/s\), seed 9$", result.stdout, re.MULTILINE)
    counts = re.findall(r"^ +([\d,]+)  (accept|reject)$", result.stdout, re.MULTILINE)
    assert sum(int(count) for count, _ in counts) == 40
    assert "0 findings" in result.stdout


def test_the_reference_is_the_default() -> None:
    result = run("--max-execs", "3")
    assert result.exit_code == 0
    assert "3 inputs" in result.stdout


def test_findings_are_listed_written_and_exit_with_1(tmp_path: Path) -> None:
    fake = f"py:{FAKES}:AcceptsAll"
    result = run("--impl", "reference", "--impl", fake, "--max-execs", "30", "-o", tmp_path / "findings")
    assert result.exit_code == 1
    places = sorted(p.name for p in (tmp_path / "findings").iterdir())
    assert places
    assert f"{len(places)} findings" in result.stdout
    for place in places:
        assert re.search(rf"^  {place}  ", result.stdout, re.MULTILINE)
        assert {p.name for p in (tmp_path / "findings" / place).iterdir()} == {
            "input.safetensors",
            "finding.json",
        }


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--impl", "py:no_such_module:Reader"), "cannot start 'py:no_such_module:Reader'"),
        (("--impl", "referense"), "did you mean reference?"),
        (("--impl", "exit:no-such-program {path}"), "not found or not executable"),
        (("--max-execs", "0"), "Invalid value"),
        (("--time", "0"), "Invalid value"),
        (("--seed", "x"), "Invalid value"),
    ],
)
def test_what_cannot_run_is_explained_and_exits_with_2(args: tuple[str, ...], words: str) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert words in result.stderr


def test_a_time_limit_ends_the_run() -> None:
    result = run("--time", "0.3", "--max-execs", "100000000")
    assert result.exit_code == 0
    assert "0 findings" in result.stdout
