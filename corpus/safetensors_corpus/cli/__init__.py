"""The ``stc corpus`` group, which imports each command on first use."""

from __future__ import annotations

from importlib import import_module

import click

from safetensors_reference.main import of_harness, without_harness

COMMANDS = {
    "bugs": ("bugs:bugs", "List bugs reported in real readers and the cases that show them."),
    "build": ("maintain:build", "Write the case files and corpus.json. Every run writes the same bytes."),
    "copy": ("maintain:copy", "Copy the corpus into a folder to vendor it."),
    "diff": ("look:diff", "Compare two versions of the corpus."),
    "list": ("look:list_cases", "List cases by name, rule, choice, kind and other properties."),
    "packages": ("maintain:packages", "Package the corpus for cargo, npm, Go and Python."),
    "release": ("maintain:release", "Pack a release: the archive, the checksums and the list of changes."),
    "show": ("look:show", "Show the purpose, rules, expectation and input of one case."),
    "stats": ("maintain:stats", "Count the cases and show which rules they cover."),
    "verify": ("maintain:verify", "Check a copy of the corpus for changed, missing and extra files."),
}
"""Maps each command name to its module and attribute in this package, and its short help."""


class LazyGroup(click.Group):
    """Group that imports a command on first use, so a broken module affects only its own command."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        place, line = COMMANDS[cmd_name]
        module, _, attribute = place.partition(":")
        try:
            command = getattr(import_module(f".{module}", __package__), attribute)
        except (ImportError, AttributeError) as err:
            if isinstance(err, ModuleNotFoundError) and of_harness(err.name):
                return without_harness(f"stc corpus {cmd_name}")
            return _missing(cmd_name, line, str(err))
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])


def _missing(name: str, line: str, reason: str) -> click.Command:
    def fail(**_: object) -> None:
        raise click.ClickException(f"stc corpus {name} cannot be loaded: {reason}")

    return click.Command(
        name,
        callback=fail,
        params=[click.Argument(["anything"], nargs=-1, type=click.UNPROCESSED)],
        help=line,
        context_settings={"ignore_unknown_options": True},
    )


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def corpus() -> None:
    """Build, inspect, copy, verify and release the corpus of test files.

    \b
    stc corpus list --rule OFF-07      list the cases of one rule
    stc corpus show CASE               show one case and its bytes
    stc corpus copy vendor/corpus      vendor the corpus in your project
    """
