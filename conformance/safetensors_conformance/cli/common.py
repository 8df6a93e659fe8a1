"""Code shared by the harness's commands: the corpus, selectors, options and output."""

from __future__ import annotations

import fnmatch
import functools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from safetensors_corpus import Case, Manifest, ManifestError, load_manifest
from safetensors_corpus.cli.common import UnusableError, did_you_mean
from safetensors_reference.main import SecondsRange
from safetensors_reference.rules.book import PROFILES
from safetensors_reports.output import write_text

from ..implementations.selectors import SelectorError, Target, resolve
from ..run.results import DEVICE_NAMES, MAX_HANGS, is_device
from ..verdict.judge import CaseVerdict, Session
from ..worker.confinement import Confinement, SandboxError
from ..worker.worker import MAX_MEMORY_MIB, Limits


def corpus(path: Path | None) -> Manifest:
    try:
        return load_manifest(path)
    except ManifestError as err:
        raise UnusableError(str(err)) from err


def checked_device(_context: click.Context, _option: click.Parameter, name: str | None) -> str | None:
    if name is not None and not is_device(name):
        raise click.BadParameter(f"{name!r}: {DEVICE_NAMES}")
    return name


def confinement_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the environment and sandbox options; the command receives them as ``confinement``."""

    @click.option(
        "--env",
        "env",
        multiple=True,
        metavar="NAME",
        help="Also pass this environment variable to tested programs. By default they get only a short list "
        "of variables, without tokens.",
    )
    @click.option("--sandbox", is_flag=True, help="Run tested programs inside bubblewrap (Linux).")
    @click.option("--sandbox-net", is_flag=True, help="Allow network access in the sandbox.")
    @functools.wraps(command)
    def wrapper(*args: Any, env: tuple[str, ...], sandbox: bool, sandbox_net: bool, **options: Any) -> None:
        try:
            confinement = Confinement.of(env, sandbox=sandbox, net=sandbox_net)
        except (ValueError, SandboxError) as err:
            raise click.UsageError(str(err)) from err
        command(*args, confinement=confinement, **options)

    return wrapper


def limit_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the limit options and those of ``confinement_options``; the command receives them as ``limits``."""

    @click.option(
        "--time-limit",
        type=SecondsRange(),
        default=10.0,
        show_default=True,
        help="Time limit for each step, in seconds.",
    )
    @click.option(
        "--memory-limit",
        type=click.IntRange(1, MAX_MEMORY_MIB),
        default=2048,
        show_default=True,
        help="Memory limit for each step, in MiB.",
    )
    @confinement_options
    @functools.wraps(command)
    def wrapper(
        *args: Any, time_limit: float, memory_limit: int, confinement: Confinement, **options: Any
    ) -> None:
        command(*args, limits=Limits(time_limit, memory_limit << 20, confinement), **options)

    return wrapper


def progress(*, shown: bool = True) -> Progress:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not (shown and console.is_terminal))


def tracked(session: Session, cases: Sequence[Case], *, shown: bool = True) -> Iterator[CaseVerdict]:
    """Yield the verdicts on the cases that have a step to run, and advance a progress bar.

    ``shown`` is False if this progress bar would interfere with another one.
    """
    cases = [case for case in cases if session.steps(case)]
    with progress(shown=shown) as bar:
        yield from bar.track(session.verdicts(cases), len(cases), description=session.target.selector)


def existing_folder(_context: click.Context, _option: click.Parameter, folder: Path | None) -> Path | None:
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as err:
            raise click.BadParameter(f"{folder}: {err.strerror or err}") from err
    return folder


def targets(selectors: Sequence[str]) -> list[Target]:
    try:
        return [resolve(s) for s in dict.fromkeys(selectors)]
    except SelectorError as err:
        raise click.UsageError(str(err)) from err


def hand_out(
    name: str, document: object, text: Sequence[str], markdown: str, *, folder: Path | None, as_json: bool
) -> None:
    """Print a result. If ``folder`` is given, also write ``<name>.json`` and ``<name>.md`` there.

    Creates the folder if it is missing. Raises click.ClickException.
    """
    data = json.dumps(document, indent=1, allow_nan=False)
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            write_text(folder / f"{name}.json", data + "\n")
            write_text(folder / f"{name}.md", markdown)
    except OSError as err:
        raise click.ClickException(f"--report {folder}: {err.strerror or err}") from err
    click.echo(data if as_json else "\n".join(text))


def select(manifest: Manifest, patterns: Sequence[str], *, heavy: bool = False) -> list[Case]:
    """Return the cases that match any id or glob, or all cases if there are no patterns.

    Heavy cases are included only if ``heavy`` is true or their full id is given. Raises click.UsageError.
    """
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(c.id, pattern) for c in manifest.cases):
            hint = did_you_mean(pattern.strip("*"), (c.id for c in manifest.cases))
            raise click.UsageError(
                f"--case {pattern!r} matches no case{hint}; look it up with: stc corpus list WORD"
            )
    chosen = [
        c
        for c in manifest.cases
        if c.id in patterns
        or ((heavy or not c.heavy) and any(fnmatch.fnmatchcase(c.id, p) for p in patterns or ("*",)))
    ]
    if not chosen:
        why = "all matching cases are heavy; add --heavy" if manifest.cases else "the corpus is empty"
        raise click.UsageError(f"there is no case to run: {why}")
    return chosen


corpus_option = click.option(
    "--corpus", "corpus_path", type=click.Path(path_type=Path), help="Use this corpus."
)
grade_option = click.option(
    "--profile",
    type=click.Choice(PROFILES),
    help="Grade disputed cases by this profile. Where the profile leaves a choice open, any option passes.",
)
heavy_option = click.option(
    "--heavy", is_flag=True, help="Include cases with inputs of up to 100 MB, or a sparse file of 1 TiB."
)
cases_option = click.option(
    "--case",
    "cases",
    multiple=True,
    metavar="ID",
    help="Run only this case; repeatable. Globs such as 'layout/*' work.",
)
max_hangs_option = click.option(
    "--max-hangs",
    type=click.IntRange(0),
    default=MAX_HANGS,
    show_default=True,
    help="Stop after this many hangs in a row, or 10 times as many crashes; 0 means never.",
)
