"""The atheris engine and its target, run as they are."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from safetensors_fuzz.engines.atheris import engine as atheris_engine
from safetensors_fuzz.engines.atheris.engine import AtherisRun, tally_of
from safetensors_fuzz.engines.atheris.files import write_seeds
from safetensors_fuzz.engines.atheris.loop import TargetConfig
from safetensors_fuzz.engines.atheris.target import RULES_LAYER
from safetensors_fuzz.engines.config import FuzzConfig, RunError
from safetensors_fuzz.finding import ENTRY
from safetensors_fuzz.loop.recorder import Tally
from safetensors_reference import explain

from ..samples import OTHER_METADATA

needs_atheris = pytest.mark.skipif(
    importlib.util.find_spec("atheris") is None, reason="atheris is not installed (extra: fuzz)"
)
READERS = Path(__file__).parents[1] / "readers_here.py"


def script() -> str:
    """The console script, by its path: libFuzzer starts it again through a shell."""
    path = Path(sys.executable).parent / "stc-fuzz-target"
    found = str(path) if path.exists() else shutil.which("stc-fuzz-target")
    assert found, "stc-fuzz-target is not installed; run pip install -e ."
    return found


def target(*flags: str, cwd: Path, impl: str = "right", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the console script with a reader of ``readers_here``."""
    environment = {
        **os.environ,
        "STC_FUZZ_IMPLS": f"here:{READERS}:{impl}",
        "PYTHONHASHSEED": "0",
        **variables,
    }
    return subprocess.run(
        [script(), *flags], cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def run_atheris(
    impls: Sequence[str],
    scratch: Path,
    *,
    output: Path | None = None,
    progress: Callable[[Tally], None] = lambda _: None,
    **config: Any,
) -> AtherisRun:
    """Do a run, each in a folder of its own."""
    place = Path(tempfile.mkdtemp(dir=scratch))
    run = AtherisRun(FuzzConfig(tuple(impls), **config), place, Tally(), progress=progress, output=output)
    run.do()
    return run


@pytest.fixture
def slots(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Folders of inputs that the targets told of while they ran."""
    told: set[str] = set()

    def watched(path: Path) -> tuple[Tally, str]:
        result, folder = tally_of(path)
        told.add(folder)
        return result, folder

    monkeypatch.setattr(atheris_engine, "tally_of", watched)
    return told


def removed(slots: set[str]) -> bool:
    """True when there were folders and none is left."""
    folders = [Path(name) for name in slots if name]
    return bool(folders) and not any(path.exists() for path in folders)


def test_what_the_target_is_asked_comes_from_the_environment(tmp_path: Path) -> None:
    asked = TargetConfig(("reference", "cmd:./a b"), ("read", "prove"), "text", tmp_path, seed=7)
    assert TargetConfig.of(asked.variables(), ["-seed=7", "corpus"]) == asked
    assert TargetConfig.of({}, []).impls == ("reference",)
    with pytest.raises(ValueError, match="STC_FUZZ_PROFILE: 'strict' is not one of"):
        TargetConfig.of({"STC_FUZZ_PROFILE": "strict"}, [])


def test_without_atheris_the_extra_is_named(tmp_path: Path) -> None:
    (tmp_path / "atheris.py").write_text("raise ImportError('not here')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [script(), "-runs=1"], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "pip install 'safetensors-conformance[fuzz]'" in done.stderr
    assert "Traceback" not in done.stderr


@needs_atheris
def test_only_the_rules_layer_is_watched(tmp_path: Path) -> None:
    done = target("-runs=300", "-seed=1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    watched = [
        line.partition("safetensors_reference.")[2]
        for line in done.stderr.splitlines()
        if "Instrumenting" in line
    ]
    assert watched == list(RULES_LAYER)
    assert "DONE" in done.stderr


@needs_atheris
def test_a_planted_bug_is_found_made_small_and_read_back(tmp_path: Path) -> None:
    run = run_atheris([f"here:{READERS}:forgets_the_end"], tmp_path, max_execs=600, output=tmp_path / "out")
    result = run.tally
    assert 500 <= result.execs <= 700
    assert not run.deaths
    finding = next(f for f in result.findings.values() if f.codes == ("OFF_TRAILING",))
    assert (finding.verdict, finding.engine, finding.replays) == ("wrong-accept", "atheris", 3)
    assert finding.size <= 20
    assert [fault.code for fault in explain(finding.files[ENTRY]).faults] == ["OFF_TRAILING"]
    assert (tmp_path / "out" / finding.slug / "finding.json").is_file()
    assert result.stages["json"] > 0.5 * result.execs
    assert len(result.rules) > 20
    # The second run knows it: nothing new to tell, and it says how often it came up.
    again = run_atheris([f"here:{READERS}:forgets_the_end"], tmp_path, max_execs=600, output=tmp_path / "out")
    assert again.tally.findings == {}
    assert finding.signature in again.tally.known


@pytest.mark.nightly
@needs_atheris
def test_the_same_seed_does_the_same(tmp_path: Path) -> None:
    first, second, other = (
        run_atheris([f"here:{READERS}:right"], tmp_path, max_execs=500, seed=seed).tally for seed in (5, 5, 6)
    )
    assert first.findings == second.findings == other.findings == {}
    assert (first.execs, first.outcomes, first.rules) == (second.execs, second.outcomes, second.rules)
    assert first.outcomes != other.outcomes


@needs_atheris
def test_a_reader_behind_a_worker_and_several_jobs(tmp_path: Path, slots: set[str]) -> None:
    corpus = tmp_path / "corpus"
    impls = ["safetensors", OTHER_METADATA]
    result = run_atheris(impls, tmp_path, profile="official", max_execs=200, jobs=2, corpus=corpus).tally
    assert 150 <= result.execs <= 250
    assert {name for f in result.findings.values() for name in f.got} == {OTHER_METADATA}
    assert any(corpus.iterdir())
    assert removed(slots)


@pytest.mark.nightly
@needs_atheris
def test_a_target_that_dies_is_told_and_replaced(tmp_path: Path, slots: set[str]) -> None:
    result = run_atheris(
        [f"here:{READERS}:dies_of_a_rare_name", "safetensors"],
        tmp_path,
        profile="official",
        max_execs=800,
        output=tmp_path,
    )
    assert result.deaths
    assert all(death.data is not None and b"weight_map" in death.data for death in result.deaths)
    assert "deadly signal" in result.deaths[0].words
    assert {path.read_bytes() for path in (tmp_path / "deaths").iterdir()} == {
        death.data for death in result.deaths
    }
    assert result.tally.execs > 300  # it went on
    assert removed(slots)


@pytest.mark.by_day(2)
@needs_atheris
@pytest.mark.parametrize(
    ("impl", "words"),
    [
        ("referense", "did you mean reference?"),
        ("here:no_such_module:read", "No module named 'no_such_module'"),
        ("here:readers", "MODULE_OR_FILE:FUNCTION"),
        ("py:no_such_module:Reader", "cannot start"),
    ],
)
def test_a_target_that_cannot_start_says_why(impl: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(RunError) as error:
        run_atheris([impl], tmp_path, max_execs=10)
    assert words in str(error.value)
    assert "\n" not in str(error.value).strip()


# It may come while a file is being opened, which Python then closes itself, and says so.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@needs_atheris
def test_an_interrupt_is_passed_on_and_the_result_is_there(tmp_path: Path, slots: set[str]) -> None:
    seen: list[int] = []
    config = FuzzConfig(("safetensors",), seconds=60, profile="official")

    def press_ctrl_c(result: Tally) -> None:
        seen.append(result.execs)
        if result.execs and len(seen) < 1000:
            seen.extend([0] * 1000)
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()

    began = time.monotonic()
    run = AtherisRun(config, tmp_path, Tally(), progress=press_ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        run.do()
    assert run.tally.execs > 0
    assert time.monotonic() - began < 40
    assert removed(slots)


@pytest.mark.nightly
@needs_atheris
def test_fork_works_from_the_console_script(tmp_path: Path) -> None:
    write_seeds(tmp_path / "seeds", 20)
    done = target(
        "-fork=1", "-max_total_time=2", "-seed=1", "seeds",
        cwd=tmp_path, impl="forgets_the_end", STC_FUZZ_OUTPUT="out",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "-fork=1: fuzzing in separate process(s)" in done.stderr
    assert any(path.name.startswith("off-trailing") for path in (tmp_path / "out").iterdir())


@pytest.mark.nightly
@needs_atheris
def test_minimize_crash_works_from_the_console_script(tmp_path: Path) -> None:
    header = b'{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}'
    large = len(header).to_bytes(8, "little") + header + b"AA" + b"junk"
    (tmp_path / "large").write_bytes(large)
    done = target(
        "-minimize_crash=1", "-runs=250", "-seed=1", "-exact_artifact_path=small", "large",
        cwd=tmp_path, impl="forgets_the_end", STC_FUZZ_RAISE="OFF_TRAILING",
    )  # fmt: skip
    assert "CRASH_MIN" in done.stderr
    assert "WrongAnswerError: OFF_TRAILING" in done.stderr
    small = (tmp_path / "small").read_bytes()
    assert len(small) < len(large)
    assert "OFF_TRAILING" in {fault.code for fault in explain(small).faults}


@pytest.mark.nightly
@needs_atheris
def test_a_corpus_is_merged_from_the_console_script(tmp_path: Path) -> None:
    write_seeds(tmp_path / "all")
    (tmp_path / "few").mkdir()
    done = target("-merge=1", "-max_len=1024", "few", "all", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert 5 < len(list((tmp_path / "few").iterdir())) < len(list((tmp_path / "all").iterdir()))
