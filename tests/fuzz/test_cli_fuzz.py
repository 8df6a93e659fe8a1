"""``stc fuzz`` as people and programs meet it."""

from __future__ import annotations

import json
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
    result = run("--impl", "reference", "--max-execs", "400", "--seed", "9")
    assert result.exit_code == 0
    assert re.search(
        r"^400 inputs in [\d.]+ s \([\d,]+/s\) · engine outcome · seed 9$", result.stdout, re.MULTILINE
    )
    counts = re.findall(r"^ +([\d,]+)  (accept|reject)$", result.stdout, re.MULTILINE)
    assert sum(int(count) for count, _ in counts) == 400
    assert re.search(r"past JSON \d+ % · past the schema \d+ % · valid \d+ %", result.stdout)
    assert "0 findings" in result.stdout


def test_the_reference_is_the_default() -> None:
    result = run("--max-execs", "3")
    assert result.exit_code == 0
    assert "3 inputs" in result.stdout


def test_findings_are_listed_written_and_exit_with_1(tmp_path: Path) -> None:
    result = run("--impl", f"py:{FAKES}:AcceptsAll", "--max-execs", "120", "-o", tmp_path / "findings")
    assert result.exit_code == 1
    places = sorted(p.name for p in (tmp_path / "findings").iterdir())
    assert len(places) > 5
    assert f"{len(places)} findings" in result.stdout
    for place in places:
        assert f"{tmp_path / 'findings' / place}" in result.stdout
        files = {p.name for p in (tmp_path / "findings" / place).iterdir()}
        assert {"input.safetensors", "finding.json", "layout.svg", "README.md"} < files
        assert sum(name.startswith("test_") for name in files) == 1


def test_what_was_found_can_be_replayed(tmp_path: Path) -> None:
    run("--impl", f"py:{FAKES}:OtherMetadata", "--max-execs", "60", "-o", tmp_path)
    (place,) = tmp_path.iterdir()
    again = run("replay", place)
    assert again.exit_code == 1
    assert "STILL WRONG" in again.stdout
    fixed = run("replay", place, "--impl", "reference")
    assert fixed.exit_code == 0


def test_several_processes_share_the_inputs_and_tell_findings_once() -> None:
    result = run("--impl", f"py:{FAKES}:OtherMetadata", "--max-execs", "301", "--jobs", "2")
    assert result.exit_code == 1
    assert "301 inputs" in result.stdout
    assert "1 findings" in result.stdout


def test_a_second_run_starts_from_the_inputs_of_the_first(tmp_path: Path) -> None:
    corpus = tmp_path / "kept"
    first = run("--max-execs", "300", "--corpus", corpus)
    kept = sorted(p.name for p in corpus.iterdir())
    assert len(kept) > 50
    assert f"{len(kept)} inputs kept" in first.stdout.replace(",", "")
    second = run("--max-execs", str(len(kept)), "--corpus", corpus)
    assert second.exit_code == 0
    assert set(kept) <= {p.name for p in corpus.iterdir()}


def test_known_signatures_stay_quiet(tmp_path: Path) -> None:
    triage = tmp_path / "triage.toml"
    triage.write_text(
        '[[known]]\nsignature = "valid: accept:A reference; accept:B rules"\nreason = "a fake"\n'
        'issue = "https://example.org/1"\nreview_by = 2999-01-01\n',
        encoding="utf-8",
    )
    result = run("--impl", f"py:{FAKES}:OtherMetadata", "--max-execs", "60", "--triage", triage)
    assert result.exit_code == 0, result.stdout
    assert "0 findings, 1 known ones kept quiet" in result.stdout


@pytest.mark.parametrize("engine", ["outcome", "hypothesis"])
def test_engines_find_the_same_fault(engine: str) -> None:
    result = run("--impl", f"py:{FAKES}:OtherMetadata", "--max-execs", "150", "--engine", engine)
    assert result.exit_code == 1
    assert "wrong-content" in result.stdout


def test_the_reference_answers_its_inner_questions() -> None:
    result = run("--steps", "prove,check", "--max-execs", "400")
    assert result.exit_code == 0, result.stdout
    assert "unsupported / reject" in result.stdout
    assert "accept / accept" in result.stdout


def test_other_steps_are_asked() -> None:
    result = run("--steps", "read,slice,write,index", "--max-execs", "60")
    assert result.exit_code == 0, result.stdout
    for step in ("slice", "write", "index"):
        assert f"{step}: pass" in result.stdout


def test_the_easy_set_can_be_measured(tmp_path: Path) -> None:
    path = tmp_path / "easy.json"
    result = run("bench", "--set", "easy", "--max-execs", "40", "--json", path, "--gate")
    assert result.exit_code == 1
    assert "below the gate" in result.stdout
    document = json.loads(path.read_text(encoding="utf-8"))
    assert len(document["outcomes"]) == document["summary"][0]["bugs"] == 41
    row = document["summary"][0]
    assert row["reached"] >= row["triggered"] >= row["detected"] > 5


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--impl", "py:no_such_module:Reader"), "cannot start 'py:no_such_module:Reader'"),
        (("--impl", "referense"), "did you mean reference?"),
        (("--impl", "exit:no-such-program {path}"), "not found or not executable"),
        (("--max-execs", "0"), "Invalid value"),
        (("--time", "0"), "Invalid value"),
        (("--seed", "x"), "Invalid value"),
        (("--steps", "read,fly"), "no step 'fly'; there are open, read, slice, write, index, prove, check"),
        (("--steps", "open", "--impl", f"py:{FAKES}:AcceptsAll"), "has none of the steps open; it has read"),
        (("--triage", str(FAKES)), "fakes.py"),
        (("--corpus", "/dev/null/x"), "/dev/null"),
        (("bench", "--seeds", "a"), "is no list of numbers"),
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
