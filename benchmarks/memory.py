"""``python -m benchmarks memory``: measures the peak memory and the time needed to open files."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click
from rich.progress import track

from safetensors_conformance.programs.variables import child_variables

from .headers import KINDS, written

_OURS = "from safetensors_reference import read_header\ndef f(p): return len(read_header(p).tensors)"
_OFFICIAL = (
    "from safetensors import safe_open\n"
    "def f(p):\n"
    "    with safe_open(p, framework='np') as s: return len(s.keys())"
)
_WAYS = {
    "read": _OURS,
    "official": "from safetensors_reference import explain\ndef f(p): return explain(p, 'official')",
    "check": (
        "from safetensors_reference.files.names import FileInput\n"
        "from safetensors_reference.check.result import check_input\n"
        "def f(p): return check_input(FileInput(p), 'hardened').to_json()"
    ),
}
_CHILD = """
import sys, time
{setup}
try:
    f(sys.argv[2])  # import and cache everything that is not part of the cost of a header
except Exception:
    pass
def status(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(key)) / 1024
before = status("VmRSS:")
with open("/proc/self/clear_refs", "w") as refs:
    refs.write("5")
began = time.process_time()
try:
    f(sys.argv[1])
except Exception:
    pass
print(status("VmHWM:") - before, (time.process_time() - began) * 1000)
"""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--rounds", type=click.IntRange(1), default=3, show_default=True, help="Number of processes per figure."
)
@click.option(
    "--tensors", type=int, default=1_600_000, show_default=True, help="Number of tensors in the long header."
)
@click.option("--kinds", is_flag=True, help="Measure only this reader, on every kind of expensive header.")
@click.option("--kind", multiple=True, type=click.Choice(list(KINDS)), help="With --kinds: only this kind.")
@click.option(
    "--size",
    type=click.IntRange(1_000),
    default=5_000_000,
    show_default=True,
    help="With --kinds: header size in bytes.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def memory(rounds: int, tensors: int, kinds: bool, kind: tuple[str, ...], size: int, as_json: bool) -> None:
    """Measure the memory and the processor time needed to open a file (Linux only).

    Memory is the growth of resident memory, and each sample comes from a new process. The first file has a
    header full of empty tensors. The second file is 12 bytes long and declares a header of 100,000,000 bytes.

    \b
    With --kinds, the figures are multiples of the header size:
    read       read_header, profile hardened
    official   explain, profile official
    check      the work of stc check, including its answer as JSON
    """
    if not Path("/proc/self/clear_refs").exists():
        raise click.ClickException("this benchmark needs /proc, which this system does not have")
    if kinds:
        _by_kind(kind or tuple(KINDS), size, rounds, as_json)
        return
    rows: dict[str, dict[str, dict[str, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="stc-bench-") as folder:
        long, short = Path(folder) / "long", Path(folder) / "short"
        entry = '"{0}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'
        header = ("{" + ",".join(entry.format(i) for i in range(tensors)) + "}").encode()
        long.write_bytes(len(header).to_bytes(8, "little") + header)
        short.write_bytes((100_000_000).to_bytes(8, "little") + b"{}  ")
        names = {f"{tensors:,} tensors": long, "12 bytes": short}
        for label, path in track(names.items(), description="memory", transient=True):
            ways = {"official": _OFFICIAL, "reference": _OURS}
            rows[label] = {name: _median(setup, path, rounds) for name, setup in ways.items()}
    if as_json:
        click.echo(json.dumps({"rounds": rounds, "header_bytes": len(header), "files": rows}))
        return
    click.echo(f"opening, medians of {rounds} processes each; the long header has {len(header):,} bytes")
    for label, ways_of in rows.items():
        for name, row in ways_of.items():
            click.echo(f"{label:<18} {name:<12} {row['growth_mib']:>9.1f} MiB {row['ms']:>10.1f} ms")


def _by_kind(kinds: Sequence[str], size: int, rounds: int, as_json: bool) -> None:
    rows: dict[str, dict[str, dict[str, float]]] = {}
    if not as_json:
        click.echo(
            f"headers of {size:,} bytes, medians of {rounds} processes each: memory relative to the "
            "header, seconds"
        )
    with tempfile.TemporaryDirectory(prefix="stc-bench-") as folder:
        path = Path(folder) / "file"
        for kind in kinds:
            path.write_bytes(written(kind, size))
            ways = {name: _median(setup, path, rounds) for name, setup in _WAYS.items()}
            for row in ways.values():
                row["times"] = round(row["growth_mib"] * 2**20 / size, 1)
            rows[kind] = ways
            if not as_json:  # print each result immediately, because all kinds take minutes
                cells = (
                    f"{name} {row['times']:>5.1f}x {row['ms'] / 1000:>6.1f} s" for name, row in ways.items()
                )
                click.echo(f"{kind:<34} {'   '.join(cells)}")
    if as_json:
        click.echo(json.dumps({"rounds": rounds, "header_bytes": size, "kinds": rows}))


def _median(setup: str, path: Path, rounds: int) -> dict[str, float]:
    figures = []
    for _ in range(rounds):
        warm = path.with_name("warm")
        warm.write_bytes(written("shape with a string", 1_000))
        argv = [sys.executable, "-c", _CHILD.format(setup=setup), str(path), str(warm)]
        run = subprocess.run(argv, env=child_variables(), capture_output=True, text=True, check=False)
        if run.returncode:
            raise click.ClickException(
                f"a measuring process ended with status {run.returncode}: {run.stderr[-500:]!a}"
            )
        figures.append([float(x) for x in run.stdout.split()])
    growth, wall = (round(statistics.median(column), 3) for column in zip(*figures, strict=True))
    return {"growth_mib": growth, "ms": wall}
