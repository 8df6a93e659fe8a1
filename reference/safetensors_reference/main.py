"""The ``stc`` command, and a type of option that its commands share.

Each package adds its own commands through an entry-point group.
"""

from __future__ import annotations

import math
from importlib.metadata import entry_points, version
from typing import Any

import click

GROUP = "stc.commands"


class Commands(click.Group):
    """Loads a command when it is asked for, so that ``stc check`` starts fast and imports nothing upward."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Names of all installed commands."""
        return sorted(entry_points(group=GROUP).names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Load one command."""
        for point in entry_points(group=GROUP, name=cmd_name):
            command = point.load()
            assert isinstance(command, click.Command)
            return command
        return None


class SecondsRange(click.FloatRange):
    """Seconds from ``least`` up to a day."""

    def __init__(self, least: float = 0.001) -> None:
        super().__init__(least, 86_400)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return a number. NaN compares with nothing, and so is in every range of click's."""
        if not math.isfinite(float(click.FLOAT.convert(value, param, ctx))):
            self.fail(f"{value} is no number of seconds", param, ctx)
        return float(super().convert(value, param, ctx))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("safetensors-conformance"), prog_name="safetensors-conformance")
def main() -> None:
    """Check safetensors files, and the programs that read and write them.

    \b
    stc check FILE...                  is this file valid, and if not, why
    stc run --impl NAME                run an implementation over the corpus
    stc diff --impl A --impl B         where two implementations see different files
    stc trend NAME VERSION...          what each release of one fixed or broke
    stc impl list                      the implementations that are known
    stc corpus show CASE               what a case is about, and its bytes
    pytest conformance --impl=NAME     the same run as a test suite
    """
