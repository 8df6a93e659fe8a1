"""``python -m benchmarks fuzzer`` as people and programs meet it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from benchmarks.__main__ import benchmarks
from proof.held_out import PARTS


def run(*args: str | Path) -> Result:
    arguments = ["fuzzer", *map(str, args)]
    result = CliRunner().invoke(benchmarks, arguments, env={"NO_COLOR": "1"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_the_easy_set_can_be_measured(tmp_path: Path) -> None:
    path = tmp_path / "easy.json"
    result = run("--set", "easy", "--max-execs", "20", "--json", path, "--gate")
    assert result.exit_code == 1
    assert "below the required share" in result.stdout
    document = json.loads(path.read_text(encoding="utf-8"))
    assert len(document["outcomes"]) == document["summary"][0]["bugs"] == 41
    row = document["summary"][0]
    assert row["reached"] >= row["triggered"] >= row["detected"] > 5


@pytest.mark.parametrize(
    ("args", "words"),
    [
        *((("--seeds", seeds), "is not a list of numbers") for seeds in (",", "a")),
        (("--max-execs", "1", "--json", "/dev/null/x"), "--json /dev/null/x: Not a directory"),
        (("--set", "easy", "--part", "first"), "--part selects readers of --set held-out"),
    ],
)
def test_what_cannot_run_is_explained_and_exits_with_2(args: tuple[str, ...], words: str) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert words in result.stderr


def test_a_part_of_the_held_out_set_can_be_measured(tmp_path: Path) -> None:
    path = tmp_path / "part.json"
    result = run("--set", "held-out", "--part", "second", "--max-execs", "2", "--json", path)
    assert result.exit_code == 0
    assert "held-out set, second part, at most 2 inputs per bug" in result.stdout
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["part"] == "second"
    assert [row["bug"] for row in document["outcomes"]] == [reader.name for reader in PARTS["second"]]
