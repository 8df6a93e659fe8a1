"""The ``stc`` command, and an option type that its commands share.

Commands of this package are found by name. Other packages add their commands through an entry-point group.
Package metadata is read only for those commands, because reading it takes longer than most checks. Listing
the commands does not load them.
"""

from __future__ import annotations

import errno
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import pairwise
from typing import Any

import click

VERSION = "2026.11.0"
"""Version of all packages in this project. The build reads it from this file."""
GROUP = "stc.commands"
OWN = ("audit", "check", "rules")
INTERRUPTED = 130
"""Exit status after Ctrl-C. The status that click uses would mean that faults were found."""
INSTALL = "pip install 'safetensors-conformance[harness]'"
SUMMARIES = {
    "audit": "Audit many files and write one row per file.",
    "baseline": "Show, explain and rewrite expected failures.",
    "check": "Check that files obey every rule of the safetensors format.",
    "check-protocol": "Test a program's use of the worker protocol, step by step, and report its mistakes.",
    "corpus": "Build, inspect, copy, verify and release the corpus of test files.",
    "diff": "Run implementations over the same inputs and show where they disagree.",
    "examples": "Copy shims, readers and adapters as starting points.",
    "fuzz": "Generate inputs from the rules of the format, and report wrong answers.",
    "impl": "List the known implementations, install them into their own environments, and try them.",
    "publish": "Write the published reports: a page for each implementation, a comparison, and a chart.",
    "report": "Write an audit report of runs and fuzzing findings.",
    "rules": "Look up the rules of the format, and generate the pages about them.",
    "run": "Run an implementation over the corpus and judge its answers.",
    "site": "Write the website: rules, cases, programs, releases, reports and documents as static files.",
    "trend": "Run versions of an implementation and show the fixes and regressions between them.",
    "trophies": "List known bugs that the suite has found, and the versions that no longer have them.",
}
"""First sentence of the help of each command, so ``stc --help`` does not have to load the commands."""
WITHOUT_HARNESS = (*OWN, "corpus", "examples")
"""Commands that are useful without the ``harness`` extra."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class UnusableError(click.ClickException):
    """Something is unusable. The program exits with status 2, because status 1 means findings."""

    exit_code = 2


class Commands(click.Group):
    """Loads commands on demand, so ``stc check`` starts quickly and does not import other packages."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        from importlib.metadata import entry_points

        return sorted({*OWN, *entry_points(group=GROUP).names})

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from importlib.util import find_spec

        names = self.list_commands(ctx)
        incomplete = not all(map(find_spec, harness_modules()))
        marked = [name for name in names if incomplete and name not in WITHOUT_HARNESS]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(f"{name}*" if name in marked else name, SUMMARIES.get(name, "")) for name in names]
            )
        if marked:
            formatter.write(f"\n* needs the harness: {INSTALL}\n")

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        try:
            command = _loaded(cmd_name)
        except ModuleNotFoundError as err:
            if not of_harness(err.name):
                raise
            return without_harness(f"stc {cmd_name}")
        assert command is None or isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as err:
            import difflib  # imported here because only unknown commands need it

            near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            if near:
                raise click.UsageError(f"{err.message} Did you mean {near[0]!r}?", ctx) from err
            raise

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with _visible_errors():
            if any(arg == "-" and before != "--list" for before, arg in pairwise(["", *args])):
                raise click.UsageError(
                    "- (standard input or output) cannot be used here, because stc needs files that it can "
                    "read at any position; save the bytes to a file first, or write ./- for a file named -"
                )
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _visible_errors():
                return super().invoke(ctx)
        except KeyboardInterrupt as err:  # the command did not handle it or has not been loaded yet
            click.echo("interrupted", err=True)
            raise SystemExit(INTERRUPTED) from err
        except ModuleNotFoundError as err:
            if not of_harness(err.name):
                raise
            raise UnusableError(f"this command needs the harness: {INSTALL}") from err
        except OSError as err:
            # Errors of named files have a file name.
            if err.filename is not None or err.errno not in _FULL:
                raise
            raise UnusableError(f"the output cannot be written: {err.strerror}") from err


@contextmanager
def _visible_errors() -> Iterator[None]:
    try:
        yield
    except click.ClickException as err:
        from .text import visible_lines  # imported here because most commands do not fail

        err.message = visible_lines(err.message)  # type: ignore[misc]  # keep the same error object
        raise


def _loaded(name: str) -> object:
    if name in OWN:
        return getattr(import_module(f".{name}.cli", __package__), name)
    from importlib.metadata import entry_points

    return next((point.load() for point in entry_points(group=GROUP, name=name)), None)


def of_harness(module: str | None) -> bool:
    """Return whether a module belongs to a package that the ``harness`` extra installs."""
    return bool(module) and str(module).partition(".")[0] in harness_modules()


def harness_modules() -> list[str]:
    """Return the packages of the ``harness`` extra. Each of them contains a module of the same name."""
    from importlib.metadata import requires

    found = (_HARNESS.match(line.lower()) for line in requires("safetensors-conformance") or ())
    return [match[1] for match in found if match]


_HARNESS = re.compile(r"([\w.-]+).*extra == ['\"]harness['\"]")


def without_harness(name: str) -> click.Command:
    """Return a substitute for a command that cannot be loaded."""

    def missing(**_: object) -> None:
        raise UnusableError(f"{name} needs the harness: {INSTALL}")

    settings: dict[str, Any] = {"ignore_unknown_options": True, "help_option_names": []}
    arguments = click.Argument(["arguments"], nargs=-1)
    return click.Command(name.rsplit(maxsplit=1)[-1], settings, missing, [arguments], add_help_option=False)


class SecondsRange(click.FloatRange):
    """A number of seconds between ``least`` and one day."""

    def __init__(self, least: float = 0.001) -> None:
        super().__init__(least, 86_400)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if not math.isfinite(float(click.FLOAT.convert(value, param, ctx))):
            self.fail(f"{value} is not a number of seconds", param, ctx)
        return float(super().convert(value, param, ctx))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="safetensors-conformance")
def main() -> None:
    """Check safetensors files, and the programs that read and write them.

    \b
    stc check FILE|FOLDER...           check files, explain their faults, and check that models are whole
    stc audit SOURCE...                audit millions of files and write one row per file
    stc run --impl NAME                run an implementation over the corpus
    stc diff --impl A --impl B         compare two implementations over the corpus
    stc trend NAME VERSION...          show what each release fixed or broke
    stc impl list                      list the known implementations
    stc corpus show CASE               show the purpose and bytes of a case
    pytest --pyargs safetensors_conformance --impl=NAME
                                       run an implementation as a test suite
    """
