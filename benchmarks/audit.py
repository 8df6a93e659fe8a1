"""``python -m benchmarks audit``: measures how many files per second ``stc audit`` and other programs check.

Each program checks the same files in its own process, and the measured time includes its
startup. Rounds are interleaved, and the results are medians. Processor time is the sum over all processes of
a program. It shows what an idle machine could achieve, while wall time shows the speed on this machine.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import click
import psutil

from safetensors_conformance.programs.launcher import child_variables

from . import files

_PR_SET_CHILD_SUBREAPER = 36
FOLDER = 1000
"""Number of files per folder."""
AUDIT = "stc audit"
_LOOPS = {
    "huggingface_hub": "from huggingface_hub import parse_local_safetensors_file_metadata as f",
    "safe_open": (
        "from safetensors import safe_open\n"
        "def f(p):\n"
        "    with safe_open(p, 'np') as s: return list(s.keys()), s.metadata()"
    ),
    "modelaudit": (
        "from modelaudit.scanners.safetensors_scanner import SafeTensorsScanner as S\n"
        "def f(p): return S().scan(p)"
    ),
    "read whole files": "def f(p): return len(open(p, 'rb').read())",
}
"""Code for each reader. It defines ``f(path)``, which one process calls in a loop, as a scanner would."""
_HUB = """
import sys, time
from huggingface_hub import HfApi
api = HfApi(endpoint=sys.argv[1], token=False)
names = sys.stdin.read().split()
api.parse_safetensors_file_metadata("org/model", names[0])
began = time.perf_counter()
for name in names:
    api.parse_safetensors_file_metadata("org/model", name)
print((time.perf_counter() - began) / len(names))
"""
"""Code that prints how many seconds the Hub client needs per file when it fetches metadata sequentially."""
_PREFIX = "org/model/resolve/main/"
_LOOP = "import glob, sys\n{setup}\nfor p in glob.iglob(sys.argv[1] + '/*/*.safetensors'): f(p)"


def make_tree(top: Path, count: int, tensors: int) -> None:
    """Write files with the given number of tensors below a folder."""
    header = files.header_of(tensors, 4)
    data = len(header).to_bytes(8, "little") + header + bytes(4 * tensors)
    for number in range(count):
        folder = top / f"{number // FOLDER:04d}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:07d}.safetensors").write_bytes(data)


def timed(argv: list[str]) -> dict[str, float]:
    """Run a program. Returns its wall time, and the processor time of all its processes, in seconds."""
    # When the program ends, its helper processes become children of this process, so their time counts too.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    others = {child.pid for child in psutil.Process().children()}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    process = subprocess.Popen(argv, env=child_variables(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, said = process.communicate()
    wall = time.perf_counter() - began
    if process.returncode not in (0, 1):
        raise click.ClickException(f"{argv[1:4]}: exit status {process.returncode}: {said.decode()[-300:]}")
    for helper in psutil.Process().children():
        if helper.pid not in others:
            os.waitpid(helper.pid, 0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = sum(getattr(after, part) - getattr(before, part) for part in ("ru_utime", "ru_stime"))
    return {"wall": wall, "processor": used}


def stc(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from safetensors_reference.main import main; main()", *arguments]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--files", "count", type=int, default=20_000, show_default=True, help="Number of files in the tree."
)
@click.option("--tensors", type=int, default=100, show_default=True, help="Number of tensors in each file.")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, help="Rounds.")
@click.option("--names", type=int, metavar="N", help="Instead, measure time and memory for up to N names.")
@click.option(
    "--latency",
    type=float,
    metavar="MS",
    help="Instead, read the files from a server that waits MS before each response.",
)
@click.option(
    "--at-once", type=int, default=64, show_default=True, help="With --latency: number of parallel requests."
)
@click.option(
    "--python", type=click.Path(exists=True), help="Also measure modelaudit, with this interpreter."
)
@click.option("--json", "as_json", is_flag=True, help="Print the results as a JSON object.")
def audit(
    count: int,
    tensors: int,
    rounds: int,
    names: int | None,
    latency: float | None,
    at_once: int,
    python: str | None,
    as_json: bool,
) -> None:
    """Check many files with 'stc audit', 'stc check' and loops over other readers, local or remote."""
    with tempfile.TemporaryDirectory(prefix="stc-bench-") as folder:
        top = Path(folder) / "tree"
        make_tree(top, count, tensors)
        if names is not None:
            rows = list(_names(top, count, names))
        elif latency is not None:
            rows = [_remote(top, count, latency, at_once) for _ in range(rounds)]
        else:
            rows = _local(top, count, rounds, python)
    if as_json:
        click.echo(json.dumps(rows))
        return
    columns = list(dict.fromkeys(column for row in rows for column in row))
    for row in [{column: column for column in columns}, *rows]:
        click.echo("  ".join(f"{row.get(column, '')!s:>{max(12, len(column))}}" for column in columns))


def _local(top: Path, count: int, rounds: int, python: str | None) -> list[dict[str, Any]]:
    out = top.parent / "rows.jsonl"
    ways = {
        AUDIT: stc("audit", str(top), "-o", str(out)),
        "stc audit --jobs 1": stc("audit", str(top), "-o", str(out), "--jobs", "1"),
        "stc check -q": stc("check", "-q", str(top)),
    }
    for name, setup in _LOOPS.items():
        program = python if name == "modelaudit" else sys.executable
        if program is not None:
            ways[name] = [program, "-c", _LOOP.format(setup=setup), str(top)]
    times: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, argv in ways.items():
            out.unlink(missing_ok=True)
            times[name].append(timed(argv))
    median = {n: {k: statistics.median(r[k] for r in found) for k in found[0]} for n, found in times.items()}
    base = median[AUDIT]
    return [
        {
            "way": name,
            "files/s": round(count / found["wall"]),
            "best files/s": round(count / min(row["wall"] for row in times[name])),
            "files/s of processor": round(count / found["processor"]),
            "wall x audit": round(found["wall"] / base["wall"], 2),
            "processor x audit": round(found["processor"] / base["processor"], 2),
        }
        for name, found in median.items()
    ]


_MAIN = """
import resource, sys
from safetensors_reference.audit.cli import audit
try:
    audit(sys.argv[1:])
finally:
    own = resource.getrusage(resource.RUSAGE_SELF)
    # Peak of this program only, because ru_maxrss starts with the value of its parent.
    with open("/proc/self/status") as status:
        peak = next(line.split()[1] for line in status if line.startswith("VmHWM:"))
    print("MAIN", peak, own.ru_utime + own.ru_stime, file=sys.stderr)
"""


def _names(top: Path, count: int, most: int) -> Iterator[dict[str, Any]]:
    """Yield the cost of 1,000 names, of 10,000 names, and so on up to ``most``.

    If there are more names than files, some names are alternative spellings of the same path.
    """
    paths = sorted(str(path) for path in top.rglob("*.safetensors"))
    number = 1000
    while number <= most:
        names, out = top.parent / "names.txt", top.parent / "rows.jsonl"
        out.unlink(missing_ok=True)
        with names.open("w") as lines:
            for at in range(number):
                folder, _, name = paths[at % count].rpartition("/")
                lines.write(f"{folder}{'/.' * (at // count)}/{name}\n")
        for what in ("first run", "nothing new"):
            began = time.perf_counter()
            argv = [sys.executable, "-c", _MAIN, "--list", str(names), "-o", str(out)]
            run = subprocess.run(argv, env=child_variables(), capture_output=True, text=True, check=False)
            wall = time.perf_counter() - began
            _, memory, processor = run.stderr.splitlines()[-1].split()
            yield {
                "names": number,
                "what": what,
                "seconds": round(wall, 2),
                "microseconds a name": round(wall / number * 1e6, 1),
                "main process, MB": int(memory) // 1024,
                "main process, s": round(float(processor), 2),
                "rows": out.read_bytes().count(b"\n"),
            }
        number *= 10


def _serve(top: str, latency: float, pipe: Connection) -> None:
    """Serve byte ranges of files, with a pause before each response, until the pipe receives a message."""
    from aiohttp import web

    asked = 0

    async def answer(request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        await asyncio.sleep(latency)
        data = (Path(top) / request.path.lstrip("/").removeprefix(_PREFIX)).read_bytes()
        first, last = (int(number) for number in request.headers["Range"][6:].split("-"))
        last = min(last, len(data) - 1)
        fields = {"Content-Range": f"bytes {first}-{last}/{len(data)}", "ETag": '"1"'}
        return web.Response(status=206, body=data[first : last + 1], headers=fields)

    async def main() -> None:
        app = web.Application()
        app.router.add_get("/{path:.*}", answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        pipe.send(runner.addresses[0][1])
        await asyncio.get_running_loop().run_in_executor(None, pipe.recv)
        pipe.send(asked)

    asyncio.run(main())


@contextmanager
def _server(top: Path, latency: float) -> Iterator[tuple[int, Connection]]:
    here, there = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=_serve, args=(str(top), latency, there), daemon=True)
    process.start()
    yield here.recv(), here
    process.join()


def _remote(top: Path, count: int, latency: float, at_once: int) -> dict[str, Any]:
    with _server(top, latency / 1000) as (port, pipe):
        names = top.parent / "names.txt"
        paths = sorted(path.relative_to(top).as_posix() for path in top.rglob("*.safetensors"))
        names.write_text("".join(f"http://127.0.0.1:{port}/{path}\n" for path in paths))
        out = top.parent / "rows.jsonl"
        out.unlink(missing_ok=True)
        found = timed(stc("audit", "--list", str(names), "-o", str(out), "--at-once", str(at_once)))
        first = top.parent / "first.txt"
        first.write_text("".join(names.read_text().splitlines(keepends=True)[:1]))
        start = timed(stc("audit", "--list", str(first)))
        some = paths[:200]
        hub = subprocess.run(
            [sys.executable, "-c", _HUB, f"http://127.0.0.1:{port}"],
            input="\n".join(some), env=child_variables(), capture_output=True, text=True, check=True,
        )  # fmt: skip
        pipe.send(None)
        asked = pipe.recv() - 1 - len(some) - 1
    verdicts = {json.loads(line)["verdict"] for line in out.read_bytes().splitlines()}
    bound = asked * latency / 1000 / at_once
    return {
        "files": count,
        "requests": asked,
        "verdicts": "/".join(sorted(verdicts)),
        "seconds": round(found["wall"], 2),
        "without start": round(found["wall"] - start["wall"], 2),
        "latency allows": round(bound, 2),
        "share": f"{bound / (found['wall'] - start['wall']):.0%}",
        "hub's call, files/s": round(1 / float(hub.stdout), 1),
        "files/s": round(count / (found["wall"] - start["wall"])),
        "processor s": round(found["processor"], 2),
    }
