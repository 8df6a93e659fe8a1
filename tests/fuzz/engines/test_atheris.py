"""The atheris engine and its target, run as they are."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from safetensors_fuzz.engines.atheris import engine as atheris_engine
from safetensors_fuzz.engines.atheris.engine import run_atheris
from safetensors_fuzz.engines.atheris.loop import TargetConfig
from safetensors_fuzz.engines.atheris.target import watch
from safetensors_fuzz.engines.campaign import Tally
from safetensors_fuzz.engines.run import FuzzConfig, RunError
from safetensors_fuzz.finding import ENTRY
from safetensors_reference import explain
from safetensors_reference.header.explain import check_layout
from safetensors_reference.header.model import Range

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
    environment = os.environ | {
        "STC_FUZZ_IMPLS": f"here:{READERS}:{impl}",
        "PYTHONHASHSEED": "0",
        **variables,
    }
    return subprocess.run(
        [script(), *flags], cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def tally_of(*impls: str, progress: Callable[[Tally], None] = lambda _: None, **config: Any) -> Tally:
    """Run the engine and return its tally."""
    tally = Tally()
    run_atheris(FuzzConfig(impls, **config), tally, progress=progress)
    return tally


@pytest.fixture
def slots(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """Check that targets have folders of inputs, and that none of these remain."""
    folders: set[str] = set()
    count = atheris_engine._count

    def watched(*arguments: Any) -> list[str]:
        found = count(*arguments)
        folders.update(found)
        return found

    monkeypatch.setattr(atheris_engine, "_count", watched)
    yield folders
    assert folders
    assert not any(Path(folder).exists() for folder in folders)


def test_what_the_target_is_asked_comes_from_the_environment(tmp_path: Path) -> None:
    asked = TargetConfig(("reference", "cmd:./a b"), ("read", "prove"), "text", tmp_path, seed=7)
    assert TargetConfig.of(asked.environment(), ["-seed=7", "corpus"]) == asked
    assert TargetConfig.of({}, []).impls == ("reference",)
    with pytest.raises(ValueError, match="STC_FUZZ_PROFILE: 'strict' is not one of"):
        TargetConfig.of({"STC_FUZZ_PROFILE": "strict"}, [])


def test_without_atheris_the_extra_is_named(tmp_path: Path) -> None:
    (tmp_path / "atheris.py").write_text("raise ImportError('not here')")
    done = target("-runs=1", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode == 2
    assert "pip install 'safetensors-conformance[fuzz]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_every_function_that_checks_the_layout_is_watched() -> None:
    called: list[types.CodeType] = []
    watched: list[types.FunctionType] = []

    def note(frame: types.FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_globals["__name__"] == check_layout.__module__:
            called.append(frame.f_code)

    ranges = [Range("c", 6, 8, 0, 0), Range("b", 5, 2, 0, 0), Range("a", 0, 2, 0, 0)]
    sys.setprofile(note)
    try:
        faults = list(check_layout(ranges, 50, 10, True))
    finally:
        sys.setprofile(None)
    watch(types.SimpleNamespace(instrument_func=watched.append))
    assert [fault.code for fault in faults] == ["OFF_REVERSED"]
    assert {code.co_name for code in called} - {"<genexpr>", "<listcomp>"} == {f.__name__ for f in watched}


@needs_atheris
def test_a_planted_bug_is_found_and_made_small() -> None:
    tally = tally_of(f"here:{READERS}:forgets_the_end", max_execs=600)
    assert 500 <= tally.execs <= 700
    assert not tally.unstable
    finding = next(f for f in tally.findings.values() if f.codes == ("OFF_TRAILING",))
    assert (finding.verdict, finding.engine, finding.replays) == ("wrong-accept", "atheris", 3)
    assert finding.size <= 20
    assert [fault.code for fault in explain(finding.files[ENTRY]).faults] == ["OFF_TRAILING"]
    assert tally.stages["json"] > 0.5 * tally.execs
    assert len(tally.rules) > 20


@pytest.mark.nightly
@needs_atheris
def test_the_same_seed_does_the_same() -> None:
    first, second, other = (tally_of(f"here:{READERS}:right", max_execs=500, seed=seed) for seed in (5, 5, 6))
    assert first.findings == second.findings == other.findings == {}
    assert (first.execs, first.outcomes, first.rules) == (second.execs, second.outcomes, second.rules)
    assert first.outcomes != other.outcomes


@needs_atheris
@pytest.mark.usefixtures("slots")
def test_a_reader_behind_a_worker_and_several_jobs(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus; exit"
    tally = tally_of("safetensors", OTHER_METADATA, profile="official", max_execs=200, jobs=2, corpus=corpus)
    assert 150 <= tally.execs <= 250
    assert {name for f in tally.findings.values() for name in f.got} == {OTHER_METADATA}
    assert not tally.known
    assert any(corpus.iterdir())


@pytest.mark.nightly
@needs_atheris
@pytest.mark.usefixtures("slots")
def test_a_target_that_dies_is_reported_and_replaced(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus; exit"
    reader = f"here:{READERS}:dies_of_a_size"
    tally = tally_of(reader, "safetensors", profile="official", seconds=10, corpus=corpus)
    assert list(tally.unstable) == ["a target died: libFuzzer: deadly signal"]
    assert tally.execs > 100
    assert any(corpus.iterdir())


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
def test_a_target_that_cannot_start_says_why(impl: str, words: str) -> None:
    with pytest.raises(RunError) as error:
        tally_of(impl, max_execs=10)
    assert words in str(error.value)
    assert "\n" not in str(error.value).strip()


# It may come while a file is being opened, which Python then closes itself, and says so.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@needs_atheris
@pytest.mark.usefixtures("slots")
def test_an_interrupt_ends_all_targets_and_the_result_is_there() -> None:
    tally, interrupts = Tally(), list[threading.Timer]()

    def press_ctrl_c(result: Tally) -> None:
        if result.execs and not interrupts:
            interrupts.append(threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)))
            interrupts[0].start()

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_atheris(
            FuzzConfig(("safetensors",), seconds=60, profile="official"), tally, progress=press_ctrl_c
        )
    assert tally.execs > 0
    assert time.monotonic() - began < 40


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
