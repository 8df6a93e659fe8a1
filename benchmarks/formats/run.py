"""Runs each experiment in its own process, in the environment of its format."""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from safetensors_conformance.implementations.commands import InstallError
from safetensors_conformance.implementations.environment import cache_folder, make
from safetensors_conformance.programs.launcher import child_variables
from safetensors_reports.text import visible

from .. import ROOT
from .table import FORMATS

COUNTED = ("safe", "zero_copy", "lazy", "size", "layout", "flexible", "bits")
ROUNDS = 3
YARDSTICK = "safetensors"
_SECONDS, COST_SECONDS = 1200, 180
_OWN = {"PYTHONDONTWRITEBYTECODE": "1", "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
Answer = dict[str, Any]
Say = Callable[[str], None]


class Measured(msgspec.Struct, frozen=True, omit_defaults=True):
    """Results for one format.

    Attributes:
        library: package and version.
        date: day of the run.
        machine: processors and system.
        why: reason why nothing was run.
        ways: name and call of each way of loading.
        answers: answers of each experiment, one for each way; if there is none, only ``why``.
        cost: for each way, the loading time of each file, relative to the yardstick.
    """

    library: str
    date: str
    machine: str
    why: str = ""
    ways: tuple[tuple[str, str], ...] = ()
    answers: dict[str, tuple[Answer, ...]] = msgspec.field(default_factory=dict)
    cost: tuple[dict[str, float], ...] = ()


def ask(python: Path, name: str, way: int, experiment: str, folder: str, say: Say) -> Answer:
    """Return the answer of a process, or ``why`` if it gave none. Messages about a failure go to ``say``."""
    argv = [str(python), "-m", "benchmarks.formats.probe", name, str(way), experiment, folder]
    env = child_variables(own=_OWN)
    limit = COST_SECONDS if experiment == "cost" else _SECONDS
    try:
        done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, timeout=limit, check=True)
        answer: Answer = json.loads(done.stdout.splitlines()[-1])
    except (subprocess.SubprocessError, OSError, ValueError, IndexError) as err:
        text = (getattr(err, "stderr", b"") or str(err).encode()).decode(errors="replace")
        say(f"{name} {experiment}: {visible(text.strip()[-200:])}")
        return {"why": "the experiment did not return an answer"}
    return answer


def measure(names: Collection[str], say: Say) -> dict[str, Measured]:
    """Measure the formats, which takes minutes. If one cannot be installed, its result gives the reason."""
    machine = f"{os.cpu_count()} processors, {sys.platform}, Python {platform.python_version()}"
    day = dt.datetime.now(dt.UTC).date().isoformat()
    out, pythons, ways = {}, {}, {}
    for name in dict.fromkeys((YARDSTICK, *names)):
        environment, library = FORMATS[name].environment(), f"{FORMATS[name].library} {FORMATS[name].version}"
        say(f"{name}: {library}")
        why = ""
        try:
            make(environment)
            ways[name] = ask(environment.python, name, 0, "ways", "", say).get("ways", [])
            why = "" if ways[name] else "the library is installed but cannot be imported"
        except InstallError as err:
            why = visible(str(err).replace(str(cache_folder()), "the folder of environments"))
        out[name] = Measured(library, day, machine, why)
        if not why:
            pythons[name] = environment.python
    runs = [(name, at) for name in pythons for at in range(len(ways[name]))]

    def counted(name: str, at: int, experiment: str) -> Answer:
        with tempfile.TemporaryDirectory() as folder:
            say(f"{name}, way {at}: {experiment}")
            return ask(pythons[name], name, at, experiment, folder, say)

    jobs = [(*run, experiment) for run in runs if run[0] in names for experiment in COUNTED]
    # Keeping several of the largest files at the same time would exhaust memory.
    with ThreadPoolExecutor(1) as alone, ThreadPoolExecutor(max(1, (os.cpu_count() or 2) - 1)) as others:
        begun = {job: (alone if job[-1] == "size" else others).submit(counted, *job) for job in jobs}
        answers = {job: future.result() for job, future in begun.items()}
    costs = _costs(runs, pythons, say)
    for name in filter(pythons.get, names):
        at = [run for run in runs if run[0] == name]
        out[name] = msgspec.structs.replace(
            out[name],
            ways=tuple((way, call) for way, call in ways[name]),
            answers={key: tuple(answers[(*run, key)] for run in at) for key in COUNTED},
            cost=tuple(costs[run] for run in at),
        )
    return {name: out[name] for name in names}


def _costs(runs: list[tuple[str, int]], pythons: dict[str, Path], say: Say) -> dict[Any, dict[str, float]]:
    """Return medians of interleaved rounds, relative to the first way of the yardstick."""
    times: dict[Any, list[Answer]] = {run: [] for run in runs}
    with tempfile.TemporaryDirectory() as folder:
        places = {run: str(Path(folder) / f"{run[0]}-{run[1]}") for run in runs}
        for run, place in places.items():
            Path(place).mkdir()
            ask(pythons[run[0]], *run, "make", place, say)
        for number in range(ROUNDS):
            say(f"loading times, round {number + 1} of {ROUNDS}")
            for run, place in places.items():
                times[run].append(ask(pythons[run[0]], *run, "cost", place, say))

    def median(run: tuple[str, int], file: str) -> float | None:
        found = [answer[file] for answer in times.get(run, []) if file in answer]
        return statistics.median(found) if len(found) == ROUNDS else None

    out: dict[Any, dict[str, float]] = {run: {} for run in runs}
    for file in ("large", "small"):
        whole = median((YARDSTICK, 0), file)
        for run in runs:
            if whole and (one := median(run, file)):
                out[run][file] = round(one / whole, 2)
    return out
