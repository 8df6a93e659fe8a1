"""``stc trend``: several versions of one implementation over the corpus, and what changed between them."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from safetensors_corpus import Manifest
from safetensors_corpus.cli.common import UnusableError
from safetensors_reference.rules.book import PROFILES
from safetensors_reference.seconds import SecondsRange
from safetensors_reports.history.model import Trend, VersionRun, trend_document
from safetensors_reports.history.model import trend as hold_together
from safetensors_reports.history.render import trend_markdown, trend_text

from ..implementations.selectors import SelectorError, Target
from ..run.interruption import ending_as_interrupted
from ..run.options import RunOptions
from ..run.results import ReportError
from ..run.versions import all_due, notes_of, run_version, some_of, targets_of
from ..worker.confinement import Confinement
from ..worker.worker import Limits
from .common import confined, corpus, corpus_shown, max_hangs_option, select, write_report


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name", metavar="NAME")
@click.argument("versions", nargs=-1, required=True, metavar="VERSION...")
@click.option("--entry", default="", help="Another way of calling it, such as numpy (stc impl info NAME).")
@click.option(
    "--case", "cases", multiple=True, metavar="ID", help="Only these cases; a glob such as 'layout/*' works."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@click.option(
    "--report",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write trend.json, trend.md and the run record of each version here.",
)
@click.option("--profile", type=click.Choice(PROFILES), help="Grade disputed cases by this profile.")
@click.option("--heavy", is_flag=True, help="Also the cases with inputs of up to 100 MB, or a sparse TiB.")
@click.option("--corpus", "corpus_path", type=click.Path(path_type=Path), help="Another corpus.")
@click.option("--time-limit", type=SecondsRange(), default=10.0, show_default=True, help="Seconds per step.")
@click.option("--memory-limit", type=click.IntRange(1), default=2048, show_default=True, help="MiB per step.")
@max_hangs_option
@confined
@click.option("--show", type=click.IntRange(1), default=5, show_default=True, help="Cases shown per rule.")
def trend(
    name: str,
    versions: tuple[str, ...],
    entry: str,
    cases: tuple[str, ...],
    as_json: bool,
    report: Path | None,
    profile: str | None,
    heavy: bool,
    corpus_path: Path | None,
    time_limit: float,
    memory_limit: int,
    max_hangs: int,
    show: int,
    confinement: Confinement,
) -> None:
    """Run versions of an implementation and show what was fixed and what broke from each to the next.

    NAME is a known implementation that is installed from a package index (stc impl list). Each
    VERSION gets an environment of its own, made when it is missing. Neighbours are compared in
    the order given; a version that cannot be installed is shown with the reason and passed over.

    \b
    fixed, broken           failed before and does not now, and the other way round
    fails otherwise         another failure than before
    chooses otherwise       another option of an open choice
    supported now, not any more   what is not supported is neither fixed nor broken
    not known               the adapter failed in one of the two, or does not fit it

    \b
    Examples
      stc trend safetensors 0.3.0 0.3.1 0.4.0 0.5.3 0.7.0 0.8.0
      stc trend safetensors 0.7.0 0.8.0 --entry numpy --report out
      stc trend mlx 0.31.1 0.31.2 --case 'layout/*'

    Baselines are not used: known failures are what a trend is about.

    \b
    Exit status: 0 every version was run, 2 one could not be, 130 interrupted.
    """
    manifest = corpus(corpus_path)
    chosen = some_of(select(manifest, cases, heavy=heavy)) if cases else all_due(manifest, heavy=heavy)
    try:
        targets = targets_of(name, entry, versions)
    except SelectorError as err:
        raise click.UsageError(str(err)) from err
    options = RunOptions(
        manifest,
        profile,
        Limits(time_limit, memory_limit << 20, corpus_shown(confinement, manifest)),
        use_baseline=False,
        smoke=False,
        heavy=heavy,
        max_hangs=max_hangs,
    )
    runs: list[VersionRun] = []
    interrupted = False
    bar = _Bar()
    try:
        with ending_as_interrupted():
            for number, target in targets.items():
                bar.begin(target.selector)
                runs.append(run_version(target, number, options, report, chosen, bar.tick))
                bar.end()
    except KeyboardInterrupt:
        interrupted = True
    except ReportError as err:
        raise UnusableError(f"the report cannot be written: {err}") from err
    finally:
        bar.end()
    called = name + (f":{entry}" if entry else "")
    result = _result(called, manifest, targets, runs, interrupted=interrupted)
    if report is not None:
        write_report(report, "trend", trend_document(result), trend_markdown(result))
    if as_json:
        click.echo(json.dumps(trend_document(result), indent=1, allow_nan=False))
    else:
        click.echo("\n".join(trend_text(result, show)))
    raise SystemExit(130 if interrupted else result.exit_status)


class _Bar:
    """Progress of one version after another; shown from the first case on, since installing shows its own."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task: TaskID | None = None
        self._name = ""

    def begin(self, name: str) -> None:
        self._name = name

    def tick(self, done: int, total: int) -> None:
        if self._task is None:
            self._progress.start()
            self._task = self._progress.add_task(self._name)
        self._progress.update(self._task, completed=done, total=total)

    def end(self) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
            self._progress.stop()
            self._task = None


def _result(
    name: str, manifest: Manifest, targets: dict[str, Target], runs: list[VersionRun], *, interrupted: bool
) -> Trend:
    notes = notes_of(manifest, next(iter(targets.values()), None))
    suite = version("safetensors-conformance")
    return hold_together(name, suite, manifest.version, runs, notes, interrupted=interrupted)
