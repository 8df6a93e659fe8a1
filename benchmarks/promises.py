"""``python -m benchmarks promises``: the promises that loaders keep, on the CPU and on a simulated device.

The page ``docs/loaders.md`` is generated from the committed results.
"""

from __future__ import annotations

import datetime as dt
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import fill

import click
import msgspec

from safetensors_conformance.implementations.commands import InstallError
from safetensors_conformance.implementations.selectors import Target, resolve
from safetensors_conformance.programs.launcher import Confinement
from safetensors_conformance.run.session import Session
from safetensors_conformance.worker.worker import Limits, StartError
from safetensors_corpus import Case, load_manifest
from safetensors_reference.rules.pages import escape
from safetensors_reports.record.device_checks import CHECKS, STATUSES

from . import ROOT

RESULTS = Path(__file__).with_name("promises.json")
PAGE = ROOT / "docs" / "loaders.md"
LOADERS = (
    "reference",
    "safetensors:torch",
    "fastsafetensors",
    "runai-model-streamer",
    "safetensors:prefetch",
    "instanttensor",
)
SIMULATED = "npu:1"
"""Name of the simulated device. Several libraries accept only names that they know."""
VARIABLES = {"SIMULATED_TYPE": SIMULATED.partition(":")[0], "SIMULATED_DELAY": "2000"}
INTRODUCTION = (
    "Users of a loader rely on more than the right bytes. `stc run --device` [checks](run-it.md#devices) "
    "whether a loader keeps the following promises, which the written format does not require:"
)
DATED = (
    "We measured these results on {date} with corpus {corpus}. *Unknown* means that the device or the "
    "loader gives no way to find out whether the loader keeps the promise."
)
ABOUT_SIMULATED = (
    "The simulated device has the streams and the allocator of an accelerator, but it runs on the CPU "
    "([what it is](device.md#what-has-been-tested)). It appears as an NPU, because some loaders accept only "
    "names that they know."
)
AREAS = ("framing", "header", "entry", "dtype", "shape", "layout")
EVERY = 8


class LoaderRow(msgspec.Struct, frozen=True):
    """Results of one loader on one device: counts of statuses by check, or why it did not run."""

    loader: str
    version: str
    device: str
    files: int = 0
    checks: dict[str, dict[str, int]] = {}
    reason: str = ""

    def cell(self, check: str) -> str:
        counts = self.checks.get(check, {})
        if counts.get("fail"):
            return f"not kept for {counts['fail']:,} of {sum(counts.values()):,} files"
        return "kept" if counts.get("pass") else "unknown"


class Results(msgspec.Struct, frozen=True):
    """All rows, with the date and the version of the corpus."""

    date: str
    corpus: str
    rows: list[LoaderRow]


@click.command()
@click.option("--write", is_flag=True, help="Write the results, and generate the page.")
@click.option("--check", is_flag=True, help="Measure nothing. Exit with 1 if the page is not current.")
def promises(write: bool, check: bool) -> None:
    """Check the promises of loaders onto a device, on the CPU and on a simulated accelerator (a minute).

    Each loader runs in its own environment. The simulated accelerator needs a C++ compiler.
    """
    if check:
        if PAGE.read_text("utf-8") != page(load()):
            raise click.ClickException("docs/loaders.md is not current: run with --write")
        click.echo("docs/loaders.md is current")
        return
    manifest = load_manifest()
    cases = [case for case in manifest.reading if case.area in AREAS][::EVERY]
    rows = []
    with simulated_device():
        for device in ("cpu", SIMULATED):
            for loader in LOADERS:
                rows.append(measure(loader, device, cases))
                told = rows[-1].reason or ", ".join(f"{name} {rows[-1].cell(name)}" for name in CHECKS)
                click.echo(f"{loader} {rows[-1].version} on {device}: {told}")
    results = Results(dt.datetime.now(tz=dt.UTC).date().isoformat(), manifest.version, rows)
    if write:
        RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
        PAGE.write_text(page(results), "utf-8")


@contextmanager
def simulated_device() -> Iterator[None]:
    """Make the simulated device available to every process that imports torch."""
    from tests.simulated_device import NoCompilerError, build, install

    with tempfile.TemporaryDirectory() as made:
        try:
            library = build(Path(made))
        except NoCompilerError as err:
            raise click.ClickException(str(err)) from err
        folder = Path(made, "site")
        folder.mkdir()
        install(library, folder)
        before = dict(os.environ)
        os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
        os.environ.update(VARIABLES)
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


def measure(loader: str, device: str, cases: list[Case]) -> LoaderRow:
    target = resolve(loader)
    counts: dict[str, Counter[str]] = {check: Counter() for check in CHECKS}
    files = 0
    version = ""
    try:
        target.prepare()
        with new_session(target, device) as session:
            version = session.start().version
            for verdict in session.verdicts(cases):
                step = verdict.steps.get("device")
                if step is None:
                    continue
                files += 1
                if "not a valid DeviceType" in step.result.message:
                    return LoaderRow(loader, version, device, reason="does not support this kind of device")
                for check in step.result.checks:
                    counts[check.name][check.status] += 1
    except (StartError, InstallError) as err:
        said = str(err).partition("; ")[0]
        return LoaderRow(loader, version, device, reason=said.rpartition("Error: ")[2])
    checks = {name: {s: found[s] for s in STATUSES if found[s]} for name, found in counts.items()}
    return LoaderRow(loader, version, device, files, checks)


def new_session(target: Target, device: str) -> Session:
    return Session(target, Limits(60.0, confinement=Confinement(env=tuple(VARIABLES))), device=device)


def load() -> Results:
    return msgspec.json.decode(RESULTS.read_bytes(), type=Results)


def page(results: Results) -> str:
    blocks = [
        "# Promises of loaders",
        INTRODUCTION,
        table(("promise", "meaning"), [(name, promise.about) for name, promise in CHECKS.items()]),
        DATED.format(date=results.date, corpus=results.corpus),
    ]
    for device in dict.fromkeys(row.device for row in results.rows):
        if device == SIMULATED:
            blocks += ["## On a simulated accelerator", ABOUT_SIMULATED]
        else:
            blocks.append("## On the CPU")
        rows = [row for row in results.rows if row.device == device]
        ran = [(row.loader, row.version, *map(row.cell, CHECKS)) for row in rows if not row.reason]
        blocks.append(table(("loader", "version", *CHECKS), ran))
        blocks.append(
            "\n".join(f"- {row.loader} did not run: {escape(row.reason)}" for row in rows if row.reason)
        )
    blocks.append("`python -m benchmarks promises --write` measures everything again.")
    wrapped = [block if block[0] in "|#-" else fill(block, 120) for block in blocks]
    return "\n\n".join(wrapped) + "\n"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (columns, ["---"] * len(columns), *rows))
