"""``python -m benchmarks memory``: measures the peak memory and the time needed for expensive headers."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from safetensors_conformance.programs.launcher import child_variables

from .headers import KINDS, written

_WAYS = {
    "read": "from safetensors_reference import read_header\ndef f(p): return len(read_header(p).tensors)",
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
    "--kind",
    multiple=True,
    type=click.Choice(list(KINDS)),
    help="Only this kind. Can be given several times.",
)
@click.option(
    "--size",
    type=click.IntRange(1_000),
    default=5_000_000,
    show_default=True,
    help="Header size in bytes.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def memory(rounds: int, kind: tuple[str, ...], size: int, as_json: bool) -> None:
    """Measure the memory and the processor time that expensive headers need (Linux only).

    Memory is the growth of resident memory, as a multiple of the header size. Each sample comes from a new
    process.

    \b
    read       read_header, profile hardened
    official   explain, profile official
    check      the work of stc check, including its answer as JSON
    """
    if not Path("/proc/self/clear_refs").exists():
        raise click.ClickException("this benchmark needs /proc, which this system does not have")
    rows: dict[str, dict[str, dict[str, float]]] = {}
    if not as_json:
        click.echo(
            f"headers of {size:,} bytes, medians of {rounds} processes each: memory relative to the "
            "header, seconds"
        )
    with tempfile.TemporaryDirectory(prefix="stc-bench-") as folder:
        path = Path(folder) / "file"
        for name_of_kind in kind or KINDS:
            path.write_bytes(written(name_of_kind, size))
            ways = {name: _median(setup, path, rounds) for name, setup in _WAYS.items()}
            for row in ways.values():
                row["times"] = round(row["growth_mib"] * 2**20 / size, 1)
            rows[name_of_kind] = ways
            if not as_json:  # print each result immediately, because all kinds take minutes
                cells = (
                    f"{name} {row['times']:>5.1f}x {row['ms'] / 1000:>6.1f} s" for name, row in ways.items()
                )
                click.echo(f"{name_of_kind:<34} {'   '.join(cells)}")
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
