"""``python -m benchmarks performance``: measures everything that users wait for, and compares it with goals.

Where a comparison is possible, a row shows a ratio from interleaved runs. The other rows depend on the
machine. The page ``docs/performance.md`` is generated from the committed results of one run.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import msgspec

from safetensors_conformance import pytest_suite
from safetensors_conformance.implementations.descriptor import longest_first
from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.programs.launcher import child_variables

from . import files
from .fuzzer.speed import speed

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).with_name("performance.json")
PAGE = ROOT / "docs" / "performance.md"


class Row(msgspec.Struct, frozen=True):
    """One figure and its goal.

    Attributes:
        work: the work that a user waits for.
        unit: unit of the figure; ``x`` for a ratio.
        goal: upper bound, or lower bound if ``least`` is set.
        value: measured value, or None if there is none.
        least: whether more is better.
        why: method, or why there is no value.
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
    """Results of one run, with a description of the machine."""

    date: str
    machine: str
    versions: dict[str, str]
    rows: tuple[Row, ...]


def spent(argv: Sequence[str], **options: Any) -> float:
    """Run a program, and return the processor seconds of the program and its children."""
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
    """Return the JSON output of another benchmark, which runs in its own process."""
    argv = [sys.executable, "-m", "benchmarks", *arguments, "--json"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise click.ClickException(f"{' '.join(arguments)}: {done.stderr[-500:]}")
    return json.loads(done.stdout)


def start_up() -> list[Row]:
    """Measure the startup of ``stc``."""
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
    """Measure the test suite relative to the same number of empty tests."""
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
    why = f"processor time relative to {count:,} empty tests; 3 rounds"
    return [Row("`pytest conformance --impl=safetensors`", "x", 2.0, round(took / nothing, 2), why)]


def headers() -> list[Row]:
    """Measure opening and validating files relative to the official library."""
    table = {int(n): row["reference"] for n, row in _measured("header", "--rounds", "9")["tensors"].items()}
    why = "slowest of {} tensors; processor time relative to the official library; 9 rounds"
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
    why = (
        f"a header of {len(header) >> 20} MiB; relative to the official library; 3 rounds, each in a new "
        "process"
    )
    return [
        Row("open and validate, 1,300,000 tensors: time", "x", 0.6, round(time_, 2), why),
        Row("open and validate, 1,300,000 tensors: memory", "x", 0.35, round(space, 2), why),
    ]


def fuzzing(inputs: int = 20_000) -> list[Row]:
    """Measure the loop of the fuzzer relative to a loop that only reads similar inputs in one process."""
    found = speed(inputs, 3)
    bare = f"a loop that only reads with both in one process ({found.per_second(found.bare):,.0f} inputs/s)"
    per_core = "inputs/s per core"
    reader, atheris = (round(found.per_second(x)) for x in (found.judged, found.atheris))
    return [
        Row(
            "fuzz loop, reference and official library",
            "x",
            2.5,
            round(found.ratio, 2),
            f"relative to {bare}",
        ),
        Row(
            "fuzz loop, official library in a worker, reference as judge",
            *("x", 2.5, round(found.judged / found.bare, 2), "relative to the same loop"),
        ),
        Row(
            "speed of this loop",
            per_core,
            5000,
            reader,
            "on this machine; all processes together",
            least=True,
        ),
        Row("atheris engine", per_core, 6000, atheris, "on this machine; runs the reference", least=True),
    ]


def harness() -> list[Row]:
    """Measure the cost of the harness per case."""
    ways = _measured("harness", "--rounds", "9")["ways"]
    why = "wall time per case in addition to a direct call, on this machine; 9 rounds"
    return [
        Row("harness: run a case in a worker", "µs", 25, ways["worker"]["added_us"], why),
        Row("harness: run and judge a case", "µs", 45, ways["judged"]["added_us"], why),
    ]


def loads() -> list[Row]:
    """Measure copying a large file relative to the official library."""
    found = _measured("load", "--rounds", "5")["loads"]["copied, 512 MiB, new process"]
    why = "wall time relative to the `pread` backend of the official library; 5 rounds, each in a new process"
    return [Row("copy 512 MiB with torch", "x", 0.30, found["copy"], why)]


READERS = ("safetensors-pread", "torch-load")
"""Loaders of ``python -m benchmarks device`` that read the file. The others return mapped pages."""


def devices() -> list[Row]:
    """Measure loads onto the CPU as a device relative to other loaders that read the file."""
    options = ["--device", "cpu", "--no-limits", "--megabytes", "512", "--warm", "3"]
    options += [word for name in READERS for word in ("--loader", name)]
    runs = [_measured("device", *options) for _ in range(3)]
    first, later = ([_over_best(run, warm) for run in runs] for warm in (False, True))
    work = "device load on the CPU, first load of a process"
    why = (
        "wall time relative to the fastest loader of other libraries that reads the file; worst of three "
        "kinds of files, 512 MB; 3 rounds, each in a new process"
    )
    return [
        Row(work, "x", 0.9, _worst(first), why),
        Row(
            "device load on the CPU, later loads",
            "x",
            0.9,
            _worst(later),
            "as above, but the other loaders reuse memory that they have freed",
        ),
    ]


def _over_best(run: Any, warm: bool) -> dict[str, float]:
    """For each kind of file, return the time of the reference relative to the fastest of ``READERS``."""
    out = {}
    for file in run["files"]:
        times: dict[str, list[float]] = {}
        for sample in file["samples"]:
            if (sample["kind"] != "first") == warm:
                times.setdefault(sample["loader"], []).append(sample["seconds"])
        typical = {name: statistics.median(found) for name, found in times.items()}
        out[file["kind"]] = typical["reference"] / min(typical[name] for name in READERS)
    return out


def _worst(rounds: Sequence[dict[str, float]]) -> float:
    """Return the largest of the medians over rounds."""
    return round(max(statistics.median(one[kind] for one in rounds) for kind in rounds[0]), 2)


NOT_RUN = (Row("device load on a GPU", "x", 0.9, None, "no GPU was available"),)
REPORT, PUBLISH = "`stc report` of all implementations", "`stc publish -j 2`"
UNPUBLISHED = (
    Row(REPORT, "s", 8, None, "needs the records of all implementations (`--all`)"),
    Row(PUBLISH, "min", 3, None, "needs a run of all implementations (`--all`)"),
)


def published() -> list[Row]:
    """Run every implementation with an installed environment, and generate the report and all pages."""
    everything = [selector for descriptor in longest_first() for selector in descriptor.listed]
    ready = [x for x in everything if (env := resolve(x).environment) is None or env.ready]
    stc = str(Path(sys.executable).with_name("stc"))
    with tempfile.TemporaryDirectory() as folder:
        records = [f"{folder}/records"]
        impls = [word for selector in ready for word in ("--impl", selector)]
        run = [stc, "run", "-q", "--jobs", "2", "--max-hangs", "0", "--report", *records, *impls]
        took = _wall(run, 0, 1, 2) + _wall([stc, "publish", *records, "-o", f"{folder}/pages"])
        reported = _wall([stc, "report", *records, "-o", f"{folder}/report"])
    why = (
        f"wall time; {len(ready)} of {len(everything)} entry points, with environments that were already "
        "installed"
    )
    return [
        Row(REPORT, "s", 8, round(reported, 1), f"wall time; {len(ready)} entry points"),
        Row(PUBLISH, "min", 3, round(took / 60, 1), why),
    ]


def _wall(argv: Sequence[str], *statuses: int) -> float:
    """Return the wall time of a command in seconds."""
    began = time.monotonic()
    done = subprocess.run(argv, env=child_variables(), capture_output=True, text=True, check=False)
    if done.returncode not in (statuses or (0,)):
        raise click.ClickException(f"{' '.join(argv[:3])} ...: {(done.stderr or done.stdout)[-500:]}")
    return time.monotonic() - began


PARTS: tuple[Callable[[], list[Row]], ...] = (start_up, suite, headers, fuzzing, harness, loads, devices)


def measured(*, everything: bool) -> Results:
    """Run all measurements. They take minutes, or half an hour with every implementation."""
    rows: list[Row] = []
    for part in (*PARTS, published) if everything else PARTS:
        click.echo(f"{(part.__doc__ or '').splitlines()[0]}", err=True)
        rows += part()
    packages = ("safetensors-conformance", "safetensors", "torch", "msgspec", "pytest")
    return Results(
        dt.datetime.now(dt.UTC).date().isoformat(),
        f"{_processor()}, {len(os.sched_getaffinity(0))} cores, {platform.system()}",
        {"Python": platform.python_version(), **{name: version(name) for name in packages}},
        (*rows, *NOT_RUN, *(() if everything else UNPUBLISHED)),
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


LEFT = {
    "open and validate, 1 to 100 tensors": (
        "one tensor is the worst case. Proving takes less than a third of the time; opening, reading "
        "and closing the file take the rest."
    ),
    "open and validate, 1,000 to 100,000 tensors": (
        "decoding by msgspec takes two thirds of the time; counting quotes and checking the ranges take "
        "the rest."
    ),
    "fuzz loop, reference and official library": (
        "the worker of the reference takes half of the time, because it explains the inputs that it "
        "rejects: four out of five. The loop that only reads also explains these inputs, but its "
        "memory is already warm. Generating and judging inputs take another two fifths."
    ),
    "atheris engine": (
        "generating inputs takes two fifths of the time, explaining rejections takes a third, and the "
        "proving path takes a sixth."
    ),
    "harness: run and judge a case": (
        "a case needs about 560 Python calls (`judge a case`), and no single call dominates."
    ),
    "copy 512 MiB with torch": (
        "allocating pages in the kernel takes seven tenths of the time on both cores; reading takes the rest."
    ),
    "device load on the CPU, later loads": (
        "the goal is missed only for the kind `llm`. There, the other loaders are so fast that they "
        "cannot have allocated pages: they reuse memory that the C library kept. The loader of the "
        "reference returns memory to the system. It would be faster if it kept the memory, but it would "
        "then hold memory that nobody uses."
    ),
    REPORT: (
        "the report reads 400,000 answers. The goal assumed 46 entry points with 2,354 cases each; "
        "there are now 68 entry points with 6,688 cases each."
    ),
    PUBLISH: (
        "this goal also assumed only a quarter of the answers. The command spends nearly all of the time "
        "on running the implementations, and the cost of their answers is "
        "[withheld](disclosure.md#held-back-not-even-as-a-number)."
    ),
}
"""Where the time goes, for each kind of work whose goal is missed on some machine."""
UNKNOWN = "the cause is unknown."
_PAGE = """\
# Performance

Generated by `python -m benchmarks performance --write`; do not edit. Figures without a unit are ratios.
Lower values are better unless the goal says `at least`. Absolute times are valid only for this machine. On
other machines, they may differ by a factor of two.

The benchmarks ran on {date}: {machine}; {versions}.

| work | measured | goal | | how |
| --- | --: | --: | --- | --- |
{rows}

{left}

The number of Python calls is the same on any machine, so it shows what a change costs.
`python -m benchmarks counts` counts the calls for startup, headers, judging, fuzzing and reports. CI rejects
a change that increases a count by more than a fifth. Separate pages contain the figures for
[audits](audit.md#what-it-costs) and [devices](device-bench.md).
"""


def page(results: Results) -> str:
    """Return the page about a run."""
    versions = ", ".join(f"{name} {number}" for name, number in results.versions.items())
    rows = "\n".join(map(_line, results.rows))
    left = "\n".join(
        f"- {row.work}: {LEFT.get(row.work, UNKNOWN)}" for row in results.rows if row.verdict == "missed"
    )
    left = (
        f"The following goals were missed. The list shows where the time goes:\n\n{left}"
        if left
        else "All goals were reached."
    )
    return _PAGE.format(date=results.date, machine=results.machine, versions=versions, rows=rows, left=left)


def _line(row: Row) -> str:
    unit = "" if row.unit == "x" else f" {row.unit}"
    value = "–" if row.value is None else f"{row.value:,g}{unit}"
    goal = f"{'at least ' if row.least else ''}{row.goal:,g}{unit}"
    return f"| {row.work} | {value} | {goal} | {row.verdict} | {row.why} |"


def load_results() -> Results:
    return msgspec.json.decode(RESULTS.read_bytes(), type=Results)


@click.command()
@click.option("--write", is_flag=True, help="Write the results and generate the page.")
@click.option(
    "--check",
    is_flag=True,
    help="Measure nothing. Exit with 1 if the page does not match the recorded results.",
)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Also run and report every implementation, which takes half an hour.",
)
def performance(write: bool, check: bool, everything: bool) -> None:
    """Measure everything that users wait for, and report which goals are reached (5 minutes)."""
    if check:
        if PAGE.read_text(encoding="utf-8") != page(load_results()):
            raise click.ClickException(
                "docs/performance.md is not current: run with --write to measure again, or undo the change"
            )
        click.echo("docs/performance.md is current")
        return
    results = measured(everything=everything)
    for row in results.rows:
        click.echo(f"{row.verdict:<8} {row.value!s:>8} {row.goal!s:>8} {row.unit:<4} {row.work}")
    if write:
        RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
        PAGE.write_text(page(results), encoding="utf-8")
