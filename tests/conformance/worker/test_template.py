"""Forks of a template: independent answers, ends that programs confirm, no leftovers."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
import pytest

from safetensors_conformance.implementations.descriptor import descriptors
from safetensors_conformance.implementations.selectors import Target, resolve
from safetensors_conformance.outcome import StepResult
from safetensors_conformance.programs.launcher import Confinement
from safetensors_conformance.programs.sandbox import Sandbox
from safetensors_conformance.worker.worker import Limits, PipeWorker, StartError, retry_alone

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="templates are of Linux")

ADAPTER = """
import os, signal, time
with open({loads!r}, "a") as file:
    file.write("loaded\\n")
LOADED_BY = os.getpid()
ASKED = []

class PanicException(BaseException):
    pass

class Adapter:
    def read(self, path):
        ASKED.append(path)
        if path == "panic":
            raise PanicException("slice index")
        if path == "asked before":
            return [(name, "U8", (0,), b"") for name in ASKED]
        if path == "large":
            return [("w", "U8", (1 << 30,), bytearray(1 << 30))]
        if path == "filled":
            kept = [b"x" * (1 << 20) for _ in range(1 << 10)]
        if path == "fork dies" and os.getpid() != LOADED_BY or path == "dies":
            os.kill(os.getpid(), signal.SIGSEGV)
        if path == "fork waits" and os.getpid() != LOADED_BY:
            time.sleep(60)
        return []
"""


@pytest.fixture
def forking(tmp_path: Path) -> Target:
    """A reader that may be forked; ``loads`` in its folder has one line per load."""
    adapter = tmp_path / "adapter.py"
    adapter.write_text(ADAPTER.format(loads=str(tmp_path / "loads")))
    return replace(resolve(f"py:{adapter}:Adapter"), entry=descriptors()["safetensors"].entries[0])


@pytest.fixture
def loads(tmp_path: Path) -> Callable[[], int]:
    return lambda: len((tmp_path / "loads").read_text().splitlines())


def asked(worker: PipeWorker, path: str) -> StepResult:
    """Ask as a run does, retrying failures."""
    result = worker.ask("read", path)
    if result.outcome in ("crash", "hang", "exhausted"):
        return retry_alone(worker, partial(worker.ask, "read", path), result)
    return result


@pytest.fixture
def worker(forking: Target, request: pytest.FixtureRequest) -> Iterator[PipeWorker]:
    """A worker of it, started, of limits that a test may give. When it is closed nothing of it is left."""
    seconds, memory = getattr(request, "param", (10, 256 << 20))
    worker = PipeWorker(forking, Limits(seconds, memory))
    worker.start()
    yield worker
    worker.close()
    assert all_end(forking)


def all_end(target: Target) -> bool:
    """Wait until no process of a target is left; False when some go on."""
    until = time.monotonic() + 5
    while time.monotonic() < until:
        words = [process.info["cmdline"] or () for process in psutil.process_iter(["cmdline"])]
        if not any(target.argv[-1] in line for line in words):
            return True
        time.sleep(0.01)
    return False


def test_a_panic_is_asked_again_of_a_fork_that_was_asked_nothing(
    worker: PipeWorker, loads: Callable[[], int]
) -> None:
    assert worker.ask("read", "other").outcome == "accept"
    result = asked(worker, "panic")
    assert (result.outcome, result.message) == ("crash", "PanicException: slice index")
    worker.renew()
    names = [tensor["name"] for tensor in worker.ask("read", "asked before").tensors or ()]
    assert names == ["asked before"]
    assert loads() == 1


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("worker", [(0.5, 256 << 20)], indirect=True)
@pytest.mark.parametrize("path", ["fork dies", "fork waits"])
def test_an_end_that_only_a_fork_comes_to_is_nobodys_fault(path: str, worker: PipeWorker) -> None:
    result = asked(worker, path)
    assert (result.outcome, result.message.partition(":")[0]) == ("accept", "asked twice")


def test_a_death_is_seen_in_a_program_that_was_started(worker: PipeWorker, loads: Callable[[], int]) -> None:
    result = asked(worker, "dies")
    assert (result.outcome, result.message) == ("crash", "killed by SIGSEGV")
    assert loads() == 2
    worker.renew()
    assert worker.ask("read", "other").outcome == "accept"
    assert loads() == 2


@pytest.mark.parametrize("worker", [(30, 128 << 20)], indirect=True)
@pytest.mark.parametrize("path", ["large", "filled"])
def test_memory_of_a_fork_is_limited_as_that_of_a_program(path: str, worker: PipeWorker) -> None:
    assert asked(worker, path).outcome == "exhausted"
    assert worker.ask("read", "other").outcome == "accept"


def test_without_its_template_the_program_itself_is_started(
    worker: PipeWorker, loads: Callable[[], int]
) -> None:
    template = worker.template
    assert template is not None
    assert template._host is not None
    psutil.Process(template._host.pid).kill()
    worker.renew()
    assert worker.ask("read", "other").outcome == "accept"
    assert loads() == 2


HARNESS = """
import sys
from dataclasses import replace
from safetensors_conformance.implementations.descriptor import descriptors
from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.worker.worker import Limits, PipeWorker
known = descriptors()["safetensors"].entries[0]
worker = PipeWorker(replace(resolve(sys.argv[1]), entry=known), Limits(60, 256 << 20))
worker.start()
print("started", flush=True)
worker.ask("read", "fork waits")
"""


def test_nothing_of_a_template_outlives_the_harness(forking: Target) -> None:
    command = [sys.executable, "-c", HARNESS, forking.selector]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == b"started\n"
        harness.kill()
    assert all_end(forking)


def test_an_adapter_that_cannot_be_loaded_is_told_as_ever(forking: Target, tmp_path: Path) -> None:
    (tmp_path / "adapter.py").write_text("import no_such_module\n")
    worker = PipeWorker(forking, Limits(10, 256 << 20))
    with pytest.raises(StartError, match="no_such_module"):
        worker.start()
    worker.close()


def test_only_what_says_so_is_forked_and_nothing_in_a_sandbox(forking: Target, tmp_path: Path) -> None:
    plain = replace(forking, entry=descriptors()["transformers"].entries[0])
    assert plain.template(plain.command(0), Confinement()) is None
    boxed = Confinement(sandbox=Sandbox(tmp_path, net=False))
    assert forking.template(forking.command(0), boxed) is None
