"""``stc fuzz`` as people and programs meet it."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest

from safetensors_fuzz.cli import fuzz, report
from safetensors_fuzz.engines.campaign import Tally
from safetensors_fuzz.engines.run import FuzzConfig
from safetensors_fuzz.finding import load

from ..samples import ACCEPTS_ALL, FAKES, OTHER_METADATA, invoke

run = partial(invoke, fuzz)


@pytest.mark.parametrize(
    ("args", "status", "counts", "words"),
    [
        (("--max-execs", "200", "--seed", "9"), 0, 200, r"^200 inputs in .* engine outcome · seed 9$"),
        (("--max-execs", "200"), 0, 200, r"passed JSON \d+ % · passed the schema \d+ % · valid \d+ %"),
        (("--steps", "prove,check", "--max-execs", "100"), 0, 100, "accept / accept"),
        (("--steps", "read,slice,write,index", "--max-execs", "40"), 0, 40, "index: pass"),
        (("--steps", "read,slice", "--max-execs", "3", "--jobs", "8"), 0, 3, "^3 inputs in "),
        (("--impl", OTHER_METADATA, "--max-execs", "61", "--jobs", "2"), 1, 61, "^1 finding$"),
    ],
)
def test_a_run_counts_its_inputs(args: tuple[str, ...], status: int, counts: int, words: str) -> None:
    """No input is lost or run twice, whatever the number of steps and of processes."""
    result = run(*args)
    assert result.exit_code == status, result.stdout
    assert re.search(words, result.stdout, re.MULTILINE)
    assert ("0 findings" in result.stdout) == (status == 0)
    outcomes = re.findall(r"^ {2,}([\d,]+)  \w", result.stdout, re.MULTILINE)
    assert sum(int(count.replace(",", "")) for count in outcomes) == counts


def test_findings_are_listed_written_and_exit_with_1(tmp_path: Path) -> None:
    result = run("--impl", ACCEPTS_ALL, "--max-execs", "6", "-o", tmp_path / "findings")
    assert result.exit_code == 1
    places = sorted((tmp_path / "findings").iterdir())
    assert len(places) > 2
    assert f"{len(places)} findings" in result.stdout
    for place in places:
        assert str(place) in result.stdout
        assert load(place).slug == place.name


def test_a_finding_that_cannot_be_written_ends_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "write_bytes", Mock(side_effect=OSError(28, "No space left on device")))
    result = run("--impl", OTHER_METADATA, "--max-execs", "24", "-o", tmp_path)
    assert result.exit_code == 1
    assert "24 inputs in" in result.stdout
    assert "1 finding\n" in result.stdout
    assert re.search(r"Error: cannot write met-\S+: .*No space left", result.stderr)


def test_a_second_run_starts_from_the_inputs_of_the_first(tmp_path: Path) -> None:
    corpus = tmp_path / "kept"
    first = run("--max-execs", "100", "--corpus", corpus)
    kept = sorted(p.name for p in corpus.iterdir())
    assert len(kept) > 20
    assert f"{len(kept)} inputs kept" in first.stdout.replace(",", "")
    second = run("--max-execs", str(len(kept)), "--corpus", corpus)
    assert second.exit_code == 0
    assert set(kept) <= {p.name for p in corpus.iterdir()}


def test_known_signatures_stay_quiet(tmp_path: Path) -> None:
    triage = tmp_path / "triage.toml"
    triage.write_text(
        '[[known]]\nsignature = "valid: accept:A OtherMetadata; accept:B reference"\nreason = "a fake"\n'
        'issue = "https://example.org/1"\nreview_by = 2999-01-01\n',
        encoding="utf-8",
    )
    result = run("--impl", OTHER_METADATA, "--max-execs", "24", "--triage", triage)
    assert result.exit_code == 0, result.stdout
    assert "0 findings, 1 known omitted" in result.stdout


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (FuzzConfig(("reference",), engine="atheris"), True),
        (FuzzConfig(("reference",), ("prove", "check"), engine="atheris"), False),
        (FuzzConfig(("reference",)), False),
        (FuzzConfig(("mlx",), engine="atheris"), False),
    ],
)
def test_that_atheris_asks_the_proving_path_alone_is_told(config: FuzzConfig, told: bool) -> None:
    assert ("only the proving path" in "\n".join(report(config, Tally(), {}))) == told


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--impl", "py:no_such_module:Reader"), "cannot start 'py:no_such_module:Reader'"),
        (("--impl", "referense"), "did you mean reference?"),
        (("--impl", "exit:no-such-program {path}"), "does not exist or is not executable"),
        (("--max-execs", "0"), "Invalid value"),
        (("--time", "0"), "Invalid value"),
        (("--seed", "x"), "Invalid value"),
        (("--steps", ","), "no steps to run; available steps: open, read, slice, write, index, prove, check"),
        (("--steps", "", "--jobs", "2"), "no steps to run"),
        (("--steps", "", "--engine", "atheris"), "no steps to run"),
        (("--engine", "hypothesis"), "draw inputs with safetensors_fuzz.strategies.files()"),
        (("--steps", "read,slice", "--max-execs", "1"), "1 input is too few: files and plans share the"),
        (("--impl", ""), "unknown implementation ''"),
        (("--max-execs", "9", "-o", "/dev/null"), "-o /dev/null: File exists; give a writable"),
        (("--max-execs", "9", "-o", "/dev/null/x"), "-o /dev/null/x: Not a directory; give a writable"),
        (("--steps", "read,fly"), "unknown step 'fly'; available steps: open, read, slice, write, index,"),
        (("--steps", "open", "--impl", ACCEPTS_ALL), "has none of the steps open; it has read"),
        (("--steps", "write,slice", "--impl", ACCEPTS_ALL), "supports any of the steps write, slice"),
        (("--jobs", "2", "--max-execs", "4", "--impl", "py:no_such_module:X"), "cannot start"),
        (("--triage", str(FAKES)), "fakes.py"),
        (("--corpus", "/dev/null/x"), "/dev/null"),
    ],
)
def test_what_cannot_run_is_explained_and_exits_with_2(args: tuple[str, ...], words: str) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert words in result.stderr


@pytest.mark.parametrize(
    ("args", "jobs"),
    [((), 1), (("--time", "9", "--max-execs", "9"), 1), (("--time", "9"), 3), (("-j", "2"), 2)],
)
def test_only_a_time_takes_every_core_by_itself(
    args: tuple[str, ...], jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = Mock()
    monkeypatch.setattr("safetensors_fuzz.cli.Run", ran)
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    assert run(*args).exit_code == 0
    assert [call.args[0].jobs for call in ran.call_args_list] == [jobs]


@pytest.mark.parametrize("step", ["read", "slice"])
def test_a_time_limit_ends_the_run(step: str) -> None:
    result = run("--time", "0.3", "--max-execs", "100000000", "--steps", step)
    assert result.exit_code == 0
    assert "0 findings" in result.stdout
