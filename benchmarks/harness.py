"""``python -m benchmarks harness``: measures the cost per case that the harness adds to a direct call."""

from __future__ import annotations

import json
import statistics
import time
from collections import deque
from collections.abc import Callable

import click
from rich.progress import track

from safetensors_conformance.cli.common import corpus
from safetensors_conformance.host import python_host as host
from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.run.session import MAX_IN_FLIGHT, Session
from safetensors_conformance.worker.worker import Limits, Request, make_worker


@click.command()
@click.option(
    "--impl",
    default="safetensors",
    show_default=True,
    help="A built-in implementation whose adapter is written in Python.",
)
@click.option("--rounds", type=click.IntRange(3), default=9, show_default=True, help="Interleaved rounds.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def harness(impl: str, rounds: int, as_json: bool) -> None:
    """Measure the cost per case that the harness adds to a direct call of the library.

    \b
    direct   the adapter, called in this process, including the digest of every tensor
    worker   the same in the worker process, with limits and a memory watch
    judged   worker, verified file and verdict, i.e. the work of `stc run` for each case
    """
    manifest = corpus(None)
    target = resolve(impl)
    adapter = host.load(target.argv[-1])
    steps = host.steps_of(adapter)
    step = "read" if "read" in steps else steps[0]
    cases = [c for c in manifest.reading if step in c.steps]
    paths = [str(c.path) for c in cases]
    worker = make_worker(target, Limits())
    worker.start()

    def direct() -> None:
        for number, path in enumerate(paths, 1):
            host.run(adapter, {"seq": number, "step": step, "path": path})

    def through_worker() -> None:
        for start in range(0, len(paths), MAX_IN_FLIGHT):
            window = paths[start : start + MAX_IN_FLIGHT]
            worker.send_ahead([Request(step, path) for path in window])
            for path in window:
                worker.ask(step, path)

    def judged() -> float:
        with Session(target) as session:
            session.start()
            began = time.perf_counter()
            deque(session.verdicts(cases), maxlen=0)
            return time.perf_counter() - began

    ways: dict[str, Callable[[], float | None]] = {
        "direct": direct,
        "worker": through_worker,
        "judged": judged,
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in track(range(rounds), description="rounds", transient=True):
        for name, way in ways.items():
            began = time.perf_counter()
            own = way()
            times[name].append((own if own is not None else time.perf_counter() - began) / len(cases))
    worker.close()
    _print(impl, len(cases), rounds, times, as_json)


def _print(impl: str, cases: int, rounds: int, times: dict[str, list[float]], as_json: bool) -> None:
    base = statistics.median(times["direct"])
    rows = {
        name: {
            "us_per_case": round(statistics.median(values) * 1e6, 1),
            "min_us": round(min(values) * 1e6, 1),
            "cases_per_s": round(1 / statistics.median(values)),
            "over_direct": round(statistics.median(values) / base, 2),
            "added_us": round((statistics.median(values) - base) * 1e6, 1),
        }
        for name, values in times.items()
    }
    if as_json:
        click.echo(json.dumps({"impl": impl, "cases": cases, "rounds": rounds, "ways": rows}))
        return
    click.echo(f"{impl}, {cases} cases, medians of {rounds} interleaved rounds")
    click.echo(f"{'way':<8} {'us/case':>9} {'(min)':>9} {'cases/s':>9} {'x direct':>9} {'added us':>9}")
    for name, row in rows.items():
        click.echo(
            f"{name:<8} {row['us_per_case']:>9} {row['min_us']:>9} {row['cases_per_s']:>9} "
            f"{row['over_direct']:>9} {row['added_us']:>9}"
        )
