"""``python -m benchmarks counts``: counts function calls in everyday work.

Times depend on the machine, but the number of calls to Python and C functions depends only on the program. If
that number has grown by more than a fifth, the work has become slower on every machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from safetensors_conformance.programs.launcher import child_variables

COMMITTED = Path(__file__).with_name("counts.json")
TOLERANCE = 0.2
"""Share by which a count may grow before the check fails."""

_COUNTED = """
import sys
from pathlib import Path
from benchmarks.files import header_of

def file_of(tensors, data=None):
    header = header_of(tensors, 4)
    return len(header).to_bytes(8, "little") + header + bytes(4 * tensors if data is None else data)

def counted(work):
    calls = 0
    def note(frame, event, what):
        nonlocal calls
        calls += event in ("call", "c_call")
    sys.setprofile(note)
    try:
        work()
    except SystemExit:
        pass
    finally:
        sys.setprofile(None)
    return calls
"""
"""Beginning of the programs below. Each program prints one number."""
_COMMAND = """
def work():
    from safetensors_reference.main import main
    main({arguments})
print(counted(work), file=sys.stderr)
"""
_HEADER = """
from safetensors_reference import {function}
data = file_of({tensors}, {data})
{function}(data)  # fill the caches before counting
print(counted(lambda: {function}(data)), file=sys.stderr)
"""
_JUDGED = """
from collections import deque
from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.run.session import Session
from safetensors_corpus import load_manifest
cases = [case for case in load_manifest().reading if case.area == "layout"]
with Session(resolve("reference")) as session:
    session.start()
    deque(session.verdicts(cases[:50]), maxlen=0)
    calls = counted(lambda: deque(session.verdicts(cases[50:250]), maxlen=0))
print(calls // 200, file=sys.stderr)
"""
_FUZZED = """
def work(inputs):
    from safetensors_reference.main import main
    main(["fuzz", "--impl", "reference", "--max-execs", str(inputs), "--seed", "1"])
print((counted(lambda: work(1200)) - counted(lambda: work(200))) // 1000, file=sys.stderr)
"""
_REPORTED = """
import shutil, tempfile
from safetensors_reference.main import main
with tempfile.TemporaryDirectory() as folder:
    def report(runs):
        main(["report", *(f"{folder}/runs/{n}.jsonl" for n in range(runs)), "-o", folder])
    options = ["-q", "--no-smoke", "--impl", "exit:true {path}", "--case", "layout/*"]
    try:
        main(["run", *options, "--report", folder])
    except SystemExit:
        pass
    (record,) = Path(folder).glob("*.jsonl")
    Path(folder, "runs").mkdir()
    for n in range(6):
        shutil.copy(record, f"{folder}/runs/{n}.jsonl")
    counted(lambda: report(6))  # fill the caches before counting
    print((counted(lambda: report(6)) - counted(lambda: report(2))) // 4, file=sys.stderr)
"""
_VALID = "corpus/files/framing/one-tensor.safetensors"
PROGRAMS: Mapping[str, str] = {
    "stc --version": _COMMAND.format(arguments=["--version"]),
    "stc check FILE": _COMMAND.format(arguments=["check", _VALID]),
    "prove a header of 100 tensors": _HEADER.format(function="read_header", tensors=100, data=None),
    "prove a header of 10,000 tensors": _HEADER.format(function="read_header", tensors=10_000, data=None),
    "explain a header of 100 tensors": _HEADER.format(function="explain", tensors=100, data=1),
    "judge a case, in the main process": _JUDGED,
    "fuzz an input": _FUZZED,
    "report a further run": _REPORTED,
}


def count(name: str) -> int:
    """Count the calls of one kind of work in a separate process."""
    done = subprocess.run(
        [sys.executable, "-c", _COUNTED + PROGRAMS[name]],
        cwd=Path(__file__).parents[1],
        env={**child_variables(), "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stderr.strip().rpartition("\n")[2]
    if not last.isdigit():
        raise click.ClickException(f"{name}: {done.stderr[-2000:]}")
    return int(last)


def committed() -> dict[str, int]:
    known: dict[str, dict[str, int]] = json.loads(COMMITTED.read_text(encoding="utf-8"))
    return known.get(version(), {})


def version() -> str:
    return "{}.{}".format(*sys.version_info)


@click.command()
@click.option(
    "--check", is_flag=True, help="Exit with 1 if a count is more than a fifth above the committed count."
)
@click.option("--write", is_flag=True, help="Write the current counts for this version of Python.")
def counts(check: bool, write: bool) -> None:
    """Count the calls of everyday work: startup, headers, judging, fuzzing and reports."""
    known = committed()
    found = {name: count(name) for name in PROGRAMS}
    grown = [name for name in found if name in known and found[name] > known[name] * (1 + TOLERANCE)]
    click.echo(f"{'calls':>10} {'committed':>10}  Python {version()}")
    for name, calls in found.items():
        mark = "  more than a fifth above the committed count" if name in grown else ""
        click.echo(f"{calls:>10,} {known.get(name, 0):>10,}  {name}{mark}")
    if write:
        everything = json.loads(COMMITTED.read_text(encoding="utf-8")) if COMMITTED.exists() else {}
        text = json.dumps({**everything, version(): found}, indent=1, sort_keys=True)
        COMMITTED.write_text(text + "\n", encoding="utf-8")
    if check and not known:
        click.echo(f"there are no committed counts for Python {version()}, so nothing was checked")
    if check and grown:
        raise SystemExit(1)
