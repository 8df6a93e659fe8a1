"""``python -m benchmarks header`` and ``load``: measure this reader and the official reader in the same run.

Every round runs each reader once, in turn, so that both run under the same conditions. The results are ratios
of medians. Loads run in their own processes if reused memory would make them look too fast.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.progress import track

from safetensors_conformance.programs.launcher import child_variables

from . import files

Ways = Mapping[str, Callable[[], object]]
OFFICIAL = "official"


def interleaved(ways: Ways, rounds: int, inner: int) -> dict[str, list[float]]:
    """Return the processor seconds per call for each function, as one figure per round.

    The first round is not counted.
    """
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            began = time.process_time()
            for _ in range(inner):
                way()
            if number:
                times[name].append((time.process_time() - began) / inner)
    return times


def ratios(times: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return each median relative to that of the official library."""
    base = statistics.median(times[OFFICIAL])
    return {name: round(statistics.median(values) / base, 3) for name, values in times.items()}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rounds", type=click.IntRange(3), default=9, show_default=True, help="Counted rounds.")
@click.option(
    "--largest", type=int, default=100_000, show_default=True, help="Largest number of tensors in a file."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def header(rounds: int, largest: int, as_json: bool) -> None:
    """Compare the time to open and validate a file with that of the official safe_open().keys()."""
    try:
        from safetensors import safe_open
    except ImportError as err:
        raise click.ClickException('needs the official library: pip install -e ".[official]"') from err
    from safetensors_reference.header.read import read_header

    table: dict[int, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="stc-bench-") as folder:
        counts = [n for n in (1, 10, 100, 1_000, 10_000, 100_000) if n <= largest]
        for count in track(counts, description="header", transient=True):
            path = Path(folder) / f"{count}.safetensors"
            files.write(path, count, 4)
            name = str(path)

            def official(name: str = name) -> object:
                with safe_open(name, framework="np") as file:
                    return list(file.keys())

            def reference(name: str = name) -> object:
                return list(read_header(name).tensors)

            ways: dict[str, Callable[[], object]] = {OFFICIAL: official, "reference": reference}
            times = interleaved(ways, rounds, max(1, 2_000 // count))
            table[count] = {
                "official_us": round(statistics.median(times[OFFICIAL]) * 1e6, 1),
                **ratios(times),
            }
    if as_json:
        click.echo(json.dumps({"rounds": rounds, "tensors": table}))
        return
    click.echo(
        f"open and validate: processor time relative to the official library, medians of {rounds} "
        "interleaved rounds"
    )
    _table("tensors", table)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rounds", type=click.IntRange(3), default=7, show_default=True, help="Counted rounds.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--megabytes", type=int, default=512, show_default=True, help="Size of the file.")
def load(rounds: int, as_json: bool, megabytes: int) -> None:
    """Copy all tensors into new memory with torch, and compare the wall time with the official library.

    The official library uses backend="pread". Each sample comes from a new process.
    """
    with tempfile.TemporaryDirectory(prefix="stc-bench-") as folder:
        path = Path(folder) / "large.safetensors"
        files.write(path, 64, megabytes * (1 << 20) // 64)
        times = _fresh(path, rounds)
    base = round(statistics.median(times[OFFICIAL]) * 1e3, 1)
    out = {f"copied, {megabytes} MiB, new process": {"official_ms": base, **ratios(times)}}
    if as_json:
        click.echo(json.dumps({"rounds": rounds, "loads": out}))
        return
    click.echo(
        f"load with torch: time relative to the official library, medians of {rounds} interleaved rounds"
    )
    _table("load", out)


def _fresh(path: Path, rounds: int) -> dict[str, list[float]]:
    """Time one load per process, alternating between the two libraries. Only the load is timed."""
    times: dict[str, list[float]] = {OFFICIAL: [], "copy": []}
    for _ in track(range(rounds), description="copied", transient=True):
        for name, setup in ((OFFICIAL, _PREAD), ("copy", _OURS)):
            argv = [sys.executable, "-c", _CHILD.format(setup=setup, path=str(path))]
            run = subprocess.run(argv, env=child_variables(), capture_output=True, text=True, check=False)
            if run.returncode:
                raise click.ClickException(f"{name}: {run.stderr[-500:]!a}")
            times[name].append(float(run.stdout))
    return times


_OURS = "from safetensors_reference.torch import load_file as f"
_PREAD = (
    "from safetensors import safe_open\n"
    "def f(p):\n"
    "    with safe_open(p, framework='pt', backend='pread') as s:\n"
    "        return {k: s.get_tensor(k) for k in s.keys()}"
)
_CHILD = """
import time, torch
{setup}
began = time.perf_counter()
out = f({path!r})
print(time.perf_counter() - began)
"""


def _table(first: str, table: Mapping[Any, Mapping[str, Any]]) -> None:
    columns = list(dict.fromkeys(key for row in table.values() for key in row))
    width = max(len(first), *(len(str(key)) for key in table))
    click.echo(f"{first:<{width}}  " + "  ".join(f"{c:>12}" for c in columns))
    for key, row in table.items():
        cells = "  ".join(f"{row.get(c, ''):>12}" for c in columns)
        click.echo(f"{key!s:<{width}}  {cells}")
