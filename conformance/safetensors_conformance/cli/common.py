"""Code shared by the harness's commands: the corpus, selectors, options and output."""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from safetensors_corpus import Case, Manifest, ManifestError, load_manifest
from safetensors_corpus.cli.common import did_you_mean
from safetensors_reference.main import SecondsRange, UnusableError
from safetensors_reports.record.file import write_text

from ..case_verdict import CaseVerdict
from ..implementations.selectors import SelectorError, Target, resolve
from ..options import DEVICE_NAMES, OPTIONS, is_device
from ..programs.launcher import Confinement
from ..programs.sandbox import SandboxError
from ..run.session import Session
from ..worker.worker import Limits

Command = TypeVar("Command", bound=Callable[..., Any])


@contextlib.contextmanager
def reported_as(error: Callable[[str], click.ClickException], *kinds: type[Exception]) -> Iterator[None]:
    """Convert exceptions of these kinds to ``error`` with the same message."""
    try:
        yield
    except kinds as err:
        raise error(str(err)) from err


def corpus(path: Path | None) -> Manifest:
    with reported_as(UnusableError, ManifestError):
        return load_manifest(path)


def shared_option(name: str, parameter: str = "", **settings: Any) -> Callable[[Command], Command]:
    """Return the click version of an option that the pytest plugin also has."""
    known = OPTIONS[name]
    details: dict[str, Any] = {"help": known.help, "metavar": known.metavar, "default": known.default}
    if known.flag:
        details = {"help": known.help, "is_flag": True}
    elif known.many:
        details |= {"multiple": True, "default": ()}
    elif known.choices:
        details["type"] = click.Choice(known.choices)
    elif known.type is int:
        least, most = (None if bound is None else int(bound) for bound in (known.least, known.most))
        details |= {"type": click.IntRange(least, most), "show_default": True}
    elif known.type is float:
        details |= {"type": SecondsRange(), "show_default": True}
    return click.option(name, *filter(None, [parameter]), **details | settings)


def checked_device(_context: click.Context, _option: click.Parameter, name: str | None) -> str | None:
    if name is not None and not is_device(name):
        raise click.BadParameter(f"{name!r}: {DEVICE_NAMES}")
    return name


def sandbox_options(command: Command) -> Command:
    """Add ``--env``, ``--sandbox`` and ``--sandbox-net``."""
    for name in ("--sandbox-net", "--sandbox", "--env"):
        command = shared_option(name)(command)
    return command


def confinement_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``sandbox_options``; the command receives their values as ``confinement``."""

    @sandbox_options
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

    @shared_option("--time-limit")
    @shared_option("--memory-limit")
    @confinement_options
    @functools.wraps(command)
    def wrapper(
        *args: Any, time_limit: float, memory_limit: int, confinement: Confinement, **options: Any
    ) -> None:
        command(*args, limits=Limits(time_limit, memory_limit << 20, confinement), **options)

    return wrapper


corpus_option = shared_option("--corpus", "corpus_path", type=click.Path(path_type=Path))


def progress(*, shown: bool = True) -> Progress:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not (shown and console.is_terminal))


def tracked(session: Session, cases: Sequence[Case], *, shown: bool = True) -> Iterator[CaseVerdict]:
    """Yield the verdict on each case that has a step to run, and show a progress bar if ``shown``."""
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
    with reported_as(click.UsageError, SelectorError):
        return [resolve(s) for s in dict.fromkeys(selectors)]


def hand_out(
    name: str, document: object, text: Sequence[str], markdown: str, *, folder: Path | None, as_json: bool
) -> None:
    """Print a result. If a ``folder`` is given, also write ``<name>.json`` and ``<name>.md`` to it."""
    data = json.dumps(document, indent=1, allow_nan=False)
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            write_text(folder / f"{name}.json", data + "\n")
            write_text(folder / f"{name}.md", markdown)
    except OSError as err:
        raise UnusableError(f"--report {folder}: {err.strerror or err}") from err
    click.echo(data if as_json else "\n".join(text))


def select(manifest: Manifest, patterns: Sequence[str], *, heavy: bool = False) -> list[Case]:
    """Return the cases that match a pattern, or all cases if there are no patterns.

    A heavy case is included only if ``heavy`` is true or if a pattern is its full id.
    """
    if patterns and manifest.by_id.keys() >= set(patterns):
        return [case for case in manifest.cases if case.id in patterns]
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(c.id, pattern) for c in manifest.cases):
            hint = did_you_mean(pattern.strip("*"), (c.id for c in manifest.cases))
            raise click.UsageError(
                f"--case {pattern!r} matches no case{hint}; search with: stc corpus list WORD"
            )
    chosen = [
        c
        for c in manifest.cases
        if c.id in patterns
        or ((heavy or not c.heavy) and any(fnmatch.fnmatchcase(c.id, p) for p in patterns or ("*",)))
    ]
    if not chosen:
        why = "all matching cases are heavy; add --heavy" if manifest.cases else "the corpus is empty"
        raise click.UsageError(f"no cases to run: {why}")
    return chosen


cases_option = click.option(
    "--case",
    "cases",
    multiple=True,
    metavar="ID",
    help="Run only this case; repeatable. Globs such as 'layout/*' work.",
)
