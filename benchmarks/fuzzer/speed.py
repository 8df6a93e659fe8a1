"""Speed of the fuzzer, as processor time per input over all processes.

Workers are grandchildren that this process does not wait for, so ``RUSAGE_CHILDREN`` does not include them.
They are measured while they are alive.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import psutil

from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.programs.launcher import child_variables
from safetensors_conformance.worker.worker import Limits
from safetensors_fuzz.engines.campaign import Campaign, Settings
from safetensors_fuzz.engines.run import known_signatures
from safetensors_fuzz.loop.subjects import WorkerSubject, complete

BOTH = ("reference", "safetensors")


@dataclass(frozen=True)
class Speed:
    """Processor time per input, in microseconds.

    Attributes:
        bare: reading the same inputs with the reference and the official library in one process.
        loop: the loop of the fuzzer, with both of them in workers.
        judged: the loop with only the official library in a worker; the reference only judges.
        atheris: the atheris engine, which runs the reference.
    """

    bare: float
    loop: float
    judged: float
    atheris: float

    @staticmethod
    def per_second(microseconds: float) -> float:
        return 1e6 / microseconds

    @property
    def ratio(self) -> float:
        return self.loop / self.bare


def bare(inputs: Sequence[bytes]) -> float:
    """Measure how long both libraries take to read the inputs in this process, without the fuzzer's loop."""
    from safetensors import SafetensorError, deserialize

    from safetensors_reference import InvalidFileError, read_header

    began = time.process_time()
    for one in inputs:
        with suppress(InvalidFileError):
            read_header(one)
        with suppress(SafetensorError, ValueError, OverflowError, MemoryError):
            deserialize(one)  # type: ignore[no-untyped-call]
    return (time.process_time() - began) / len(inputs) * 1e6


class Listed(WorkerSubject):
    """An implementation in its worker that records its inputs in ``inputs``."""

    def __init__(self, impl: str) -> None:
        super().__init__(resolve(impl), ("read",), Limits())
        self.inputs: list[bytes] = []

    def announce(self, inputs: Sequence[tuple[bytes, str]]) -> None:
        self.inputs += [data for data, _ in inputs]
        super().announce(inputs)


def loop(inputs: int, impls: Sequence[str]) -> tuple[float, list[bytes]]:
    """Measure ``stc fuzz`` with workers, without its startup. Returns the processor time and the inputs.

    The same seed generates the same inputs for the same implementations.
    """
    subjects = [Listed(impl) for impl in impls]
    try:
        complete([*subjects], ("read",))
        known = known_signatures(None, [subject.plain for subject in subjects])
        began = used()
        Campaign(subjects, Settings(max_execs=inputs, known=known)).run()
        return (used() - began) / inputs * 1e6, subjects[0].inputs
    finally:
        for subject in subjects:
            subject.close()


def used() -> float:
    """Return the processor time in seconds of this process and of all its descendants."""
    total = time.process_time()
    for process in psutil.Process().children(recursive=True):
        times = process.cpu_times()
        total += times.user + times.system
    return total


FEW = 500
"""Number of inputs in the atheris run that measures the startup."""


def atheris(inputs: int) -> float:
    """Measure ``stc fuzz --engine atheris`` without its startup. The subject runs in the same process."""
    return (_atheris(inputs + FEW) - _atheris(FEW)) / inputs * 1e6


def _atheris(inputs: int) -> float:
    stc = str(Path(sys.executable).with_name("stc"))
    argv = [stc, "fuzz", "--engine", "atheris", "--seed", "1", "--max-execs", str(inputs)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(argv, env=child_variables(), capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise click.ClickException(f"{' '.join(argv)}: {done.stderr[-500:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def speed(inputs: int = 20_000, rounds: int = 3) -> Speed:
    """Return the medians of interleaved rounds. Each round takes half a minute."""
    _, made = loop(inputs, BOTH)
    ways: tuple[Callable[[], float], ...] = (
        lambda: bare(made),
        lambda: loop(inputs, BOTH)[0],
        lambda: loop(inputs, BOTH[1:])[0],
        lambda: atheris(inputs),
    )
    rows = [[way() for way in ways] for _ in range(rounds)]
    return Speed(*(statistics.median(column) for column in zip(*rows, strict=True)))


@click.command("fuzz-speed")
@click.option(
    "--inputs",
    type=click.IntRange(1000),
    default=20_000,
    show_default=True,
    help="Number of inputs in a run.",
)
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, help="Interleaved rounds.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def fuzz_speed(inputs: int, rounds: int, as_json: bool) -> None:
    """Measure the processor time per input of the fuzzer, over all its processes."""
    found = speed(inputs, rounds)
    if as_json:
        click.echo(json.dumps(asdict(found), indent=1))
        return
    for name, value in asdict(found).items():
        click.echo(f"{name:<8} {value:6.1f} µs  {Speed.per_second(value):6,.0f} inputs/s per core")
    click.echo(f"loop / bare {found.ratio:.2f}")
