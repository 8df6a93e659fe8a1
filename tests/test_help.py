"""Help texts of every command."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from benchmarks.__main__ import benchmarks
from proof.broken.__main__ import matrix
from proof.documents.__main__ import documents
from proof.mutation.__main__ import mutants
from proof.promote import command as promote
from safetensors_reference.main import main
from safetensors_reports.history.trend import WORDS
from tools.covering import covering


def help_texts(command: click.Command, name: str) -> Iterator[tuple[str, str]]:
    # Click keeps the help option that it makes first, so it has to be the one of a real call.
    context = click.Context(command, info_name=name, help_option_names=["-h", "--help"])
    yield name, command.get_help(context)
    if isinstance(command, click.Group):
        for sub in command.list_commands(context):
            found = command.get_command(context, sub)
            assert found is not None
            yield from help_texts(found, f"{name} {sub}")


COMMANDS = {
    "stc": main,
    "benchmarks": benchmarks,
    "proof.broken": matrix,
    "proof.documents": documents,
    "proof.mutation": mutants,
    "proof.promote": promote,
    "tools.covering": covering,
}


@pytest.mark.parametrize("name", COMMANDS)
def test_marks_that_keep_lines_do_not_show(name: str) -> None:
    r"""A raw docstring shows ``\b`` and joins the lines after it."""
    texts = dict(help_texts(COMMANDS[name], name))
    assert [command for command, text in texts.items() if "\\b" in text or "\b" in text] == []


def test_the_help_of_trend_explains_the_words_of_its_output() -> None:
    text = dict(help_texts(main, "stc"))["stc trend"]
    assert [word for word in WORDS.values() if word.lower() not in text] == []
