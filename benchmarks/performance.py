"""``python -m benchmarks performance``: everything that somebody waits for, with its goal, as one table.

Rows are ratios of interleaved runs where there is something to hold against; the others are told with the
machine. The page ``docs/performance.md`` is made of the committed results of one run.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import msgspec

from safetensors_conformance import pytest_suite
from safetensors_conformance.worker.variables import child_variables
from safetensors_fuzz.grammar.grammar import Grammar

from . import files

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).with_name("performance.json")
PAGE = ROOT / "docs" / "performance.md"


class Row(msgspec.Struct, frozen=True):
    """One figure and its goal.

    Attributes:
        work: what is waited for.
        unit: what the figure is; ``x`` for a ratio.
        goal: most that is wanted; least where ``least`` is set.
        value: what was measured; None where it was not.
        least: whether more is better.
        why: how it was measured, or why it was not.
    """

    work: str
    unit: str
    goal: float
    value: float | None
    why: str
    least: bool = False

    @property
    def verdict(self) -> str:
        """``reached``, ``missed`` or ``not run``."""
        if self.value is None:
            return "not run"
        return "reached" if (self.value >= self.goal if self.least else self.value <= self.goal) else "missed"


class Results(msgspec.Struct, frozen=True):
    """What one run measured, and where."""

    date: str
    machine: str
    versions: dict[str, str]
    rows: tuple[Row, ...]


def spent(argv: Sequence[str], **options: Any) -> float:
    """Run a program and return the seconds of processor time that it and its children took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(argv, env=child_variables(), capture_output=True, text=True, check=False, **options)
    if done.returncode not in (0, 1):
        raise click.ClickException(f"{' '.join(argv)[:200]}: {done.stderr[-500:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def medians(ways: Sequence[Sequence[str]], rounds: int, **options: Any) -> list[float]:
    """Return the median of each program's processor time over interleaved rounds."""
    times = [[spent(argv, **options) for argv in ways] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*times, strict=True)]


def _measured(*arguments: str) -> Any:
    """Return what another benchmark prints as JSON, run in a process of its own."""
    argv = [sys.executable, "-m", "benchmarks", *arguments, "--json"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise click.ClickException(f"{' '.join(arguments)}: {done.stderr[-500:]}")
    return json.loads(done.stdout)


def start_up() -> list[Row]:
    """Measure how long ``stc`` takes to start."""
    stc = str(Path(sys.executable).with_name("stc"))
    file = str(ROOT / "corpus" / "files" / "framing" / "one-tensor.safetensors")
    empty, shown, checked = medians(
        [[sys.executable, "-c", "pass"], [stc, "--version"], [stc, "check", file]], rounds=15
    )
    why = f"processor time; an empty Python program takes {empty * 1000:.0f} ms; 15 rounds"
    return [
        Row("`stc --version`", "ms", 100, round(shown * 1000, 1), why),
        Row("`stc check FILE`", "ms", 150, round(checked * 1000, 1), why),
    ]


def suite() -> list[Row]:
    """Measure the suite beside as many empty tests."""
    plain = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    ours = [*plain, str(Path(pytest_suite.__file__).parent / "tests"), "--impl=safetensors"]
    with tempfile.TemporaryDirectory(prefix="stc-bench-") as folder:
        told = subprocess.run(
            ours, env=child_variables(), cwd=folder, capture_output=True, text=True, check=False
        )
        last = told.stdout.strip().rpartition("\n")[2]
        count = sum(int(number) for number in re.findall(r"(\d+) (?:passed|failed|xfailed|skipped)", last))
        empty = Path(folder) / "test_empty.py"
        empty.write_text(
            "import pytest\n"
            f"@pytest.mark.parametrize('case', [f'area/case-of-a-name-{{i}}' for i in range({count})])\n"
            "def test_read(case): pass\n"
        )
        took, nothing = medians([ours, [*plain, str(empty)]], rounds=3, cwd=folder)
    why = f"processor time over that of {count:,} empty tests; 3 rounds"
    return [Row("`pytest conformance --impl=safetensors`", "x", 2.0, round(took / nothing, 2), why)]


def headers() -> list[Row]:
    """Measure opening and validating beside the official library."""
    table = {int(n): row["accelerated"] for n, row in _measured("header", "--rounds", "9")["tensors"].items()}
    why = "the worst of {}; processor time over the official library's, 9 rounds"
    few = max(value for n, value in table.items() if n <= 100)
    many = max(value for n, value in table.items() if n > 100)
    return [
        Row("open and validate, 1 to 100 tensors", "x", 0.95, few, why.format("1, 10 and 100")),
        Row("open and validate, 1,000 to 100,000 tensors", "x", 0.45, many, why.format("1,000 to 100,000")),
        *_huge(),
    ]


_HUGE = """
import resource
def seconds(): u = resource.getrusage(resource.RUSAGE_SELF); return u.ru_utime + u.ru_stime
{setup}
def peak(): return int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM:")).split()[1])
memory, began = peak(), seconds()
out = f({path!r})
print(seconds() - began, peak() - memory)
"""


_OFFICIAL = """
from safetensors import safe_open
def f(p):
    with safe_open(p, "np") as s: return s, list(s.keys())
"""


def _huge() -> list[Row]:
    setups = (
        "from safetensors_reference.header.read import read_header as f",
        _OFFICIAL,
    )
    seconds: list[list[float]] = [[], []]
    memory: list[list[float]] = [[], []]
    with tempfile.TemporaryDirectory(prefix="stc-bench-") as folder:
        path = Path(folder) / "huge.safetensors"
        header = files.header_of(1_300_000, 4, "l.{0}.w")
        path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(5_200_000))
        for _ in range(3):
            for at, setup in enumerate(setups):
                argv = [sys.executable, "-c", _HUGE.format(setup=setup, path=str(path))]
                done = subprocess.run(argv, env=child_variables(), capture_output=True, text=True, check=True)
                took, used = map(float, done.stdout.split())
                seconds[at].append(took)
                memory[at].append(used)
    time_, space = (statistics.median(x[0]) / statistics.median(x[1]) for x in (seconds, memory))
    why = f"a header of {len(header) >> 20} MiB, over the official library's; 3 rounds, new processes"
    return [
        Row("open and validate, 1,300,000 tensors: time", "x", 0.6, round(time_, 2), why),
        Row("the same: memory", "x", 0.35, round(space, 2), why),
    ]


def fuzzing(inputs: int = 20_000) -> list[Row]:
    """Measure the loop of the fuzzer beside one that only reads the same sort of inputs, in one process."""
    from safetensors import SafetensorError, deserialize

    from safetensors_reference import InvalidFileError, read_header

    grammar = Grammar(random.Random(1))  # noqa: S311 - reproducible on purpose
    data = [grammar.input().render() for _ in range(inputs)]
    bare = []
    for _ in range(3):
        began = time.process_time()
        for one in data:
            with suppress(InvalidFileError):
                read_header(one)
            with suppress(SafetensorError, ValueError, OverflowError, MemoryError):
                deserialize(one)  # type: ignore[no-untyped-call]
        bare.append(time.process_time() - began)
    stc = str(Path(sys.executable).with_name("stc"))
    command = [stc, "fuzz", "--impl", "reference", "--impl", "safetensors", "--seed", "1", "--max-execs"]
    loop = statistics.median(spent([*command, str(inputs)]) - spent([*command, "64"]) for _ in range(3))
    own = statistics.median(bare)
    why = f"processor time of all processes over that of a bare loop ({inputs / own:,.0f} inputs/s)"
    return [
        Row("fuzz loop, reference and official library", "x", 2.5, round(loop / own, 2), why),
        Row("the same", "inputs/s of a core", 5000, round(inputs / loop), "on this machine", least=True),
    ]


def harness() -> list[Row]:
    """Measure what the harness adds to a case."""
    ways = _measured("harness", "--no-pytest", "--rounds", "9")["ways"]
    why = "wall time of a case above that of a direct call, on this machine; 9 rounds"
    return [
        Row("harness: a case sent ahead", "µs", 25, ways["worker"]["added_us"], why),
        Row("harness: a case judged", "µs", 45, ways["judged"]["added_us"], why),
    ]


def loads() -> list[Row]:
    """Measure copying a large file beside the official library."""
    found = _measured("load", "--rounds", "5")["loads"]["copied, 512 MiB, new process"]
    why = "wall time over the official library's backend `pread`; 5 rounds, new processes"
    return [Row("copy 512 MiB with torch", "x", 0.30, found["copy"], why)]


NOT_RUN = (
    Row(
        "device load on the CPU, over the best peer that reads",
        "x",
        0.9,
        None,
        "`python -m benchmarks device`",
    ),
    Row("device load on a GPU", "x", 0.9, None, "no GPU was at hand: nothing is known"),
    Row("`stc report` of all implementations", "s", 8, None, "needs the records of all of them"),
    Row("`stc publish -j 2`", "min", 3, None, "installs and runs every implementation"),
)
PARTS: tuple[Callable[[], list[Row]], ...] = (start_up, suite, headers, fuzzing, harness, loads)


def measured() -> Results:
    """Measure everything; minutes."""
    rows: list[Row] = []
    for part in PARTS:
        click.echo(f"{(part.__doc__ or '').splitlines()[0]}", err=True)
        rows += part()
    packages = ("safetensors-conformance", "safetensors", "torch", "msgspec", "pytest")
    return Results(
        dt.datetime.now(dt.UTC).date().isoformat(),
        f"{_processor()}, {len(os.sched_getaffinity(0))} cores, {platform.system()}",
        {"Python": platform.python_version(), **{name: version(name) for name in packages}},
        (*rows, *NOT_RUN),
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


_PAGE = """\
# Performance

Generated by `python -m benchmarks performance --write`; change that. What people wait for, and what was
wanted. Figures without a unit are ratios; less is better unless `at least` says otherwise. Absolute times
are of this machine alone: machines differ twofold.

Run on {date}: {machine}; {versions}.

| work | measured | goal | | how |
| --- | --: | --: | --- | --- |
{rows}

What a change costs is watched by counts, which are the same on any machine: `python -m benchmarks counts`
counts the calls of starting, of headers, of judging and of fuzzing, and CI fails a change that makes a fifth
more of them. [Audits](audit.md#what-it-costs) and [devices](device-bench.md) have figures of their own.
"""


def page(results: Results) -> str:
    """Return the page about a run."""
    versions = ", ".join(f"{name} {number}" for name, number in results.versions.items())
    rows = "\n".join(map(_line, results.rows))
    return _PAGE.format(date=results.date, machine=results.machine, versions=versions, rows=rows)


def _line(row: Row) -> str:
    unit = "" if row.unit == "x" else f" {row.unit}"
    value = "–" if row.value is None else f"{row.value:,g}{unit}"
    goal = f"{'at least ' if row.least else ''}{row.goal:,g}{unit}"
    return f"| {row.work} | {value} | {goal} | {row.verdict} | {row.why} |"


def load_results() -> Results:
    """Return the committed results."""
    return msgspec.json.decode(RESULTS.read_bytes(), type=Results)


@click.command()
@click.option("--write", is_flag=True, help="Commit what is measured, and make the page.")
@click.option("--check", is_flag=True, help="Measure nothing; fail when the page is not that of the results.")
def performance(write: bool, check: bool) -> None:
    """Measure all that somebody waits for, and say which goals are reached (5 minutes)."""
    if check:
        if PAGE.read_text(encoding="utf-8") != page(load_results()):
            raise click.ClickException("docs/performance.md is not current: --write measures, or git restore")
        click.echo("docs/performance.md is current")
        return
    results = measured()
    for row in results.rows:
        click.echo(f"{row.verdict:<8} {row.value!s:>8} {row.goal!s:>8} {row.unit:<4} {row.work}")
    if write:
        RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
        PAGE.write_text(page(results), encoding="utf-8")
