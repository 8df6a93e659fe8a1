"""``stc corpus`` as a group: its help, commands loaded late, and one whose module is missing."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from safetensors_corpus.cli import COMMANDS, corpus
from safetensors_corpus.publish.show import byte_count

from ..small import run


def test_sizes_are_exact_and_rounded() -> None:
    for size, text in (
        (0, "0 bytes"),
        (1023, "1,023 bytes"),
        (1024, "1,024 bytes (1 KiB)"),
        (1 << 33, "8,589,934,592 bytes (8 GiB)"),
    ):
        assert byte_count(size) == text


def test_the_help_lists_every_command_and_imports_none_of_them() -> None:
    program = (
        "import sys; from click.testing import CliRunner; from safetensors_corpus.cli import corpus;"
        "out = CliRunner().invoke(corpus, ['-h']).stdout;"
        "print([m for m in sys.modules if m.startswith('safetensors_corpus.cli.')]); print(out)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.startswith("[]\n")
    for name in COMMANDS:
        assert f"  {name} " in result.stdout
    assert list(COMMANDS) == sorted(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_line_in_the_list_is_the_first_of_the_help(name: str) -> None:
    command = corpus.get_command(click.Context(corpus), name)
    assert command is not None
    assert command.name == name
    assert (command.help or "").split("\n\n")[0].replace("\n", " ").strip() == COMMANDS[name][1]
    assert "Usage:" in run(name, "-h").stdout


def test_a_missing_module_breaks_only_its_own_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "later", ("of_a_later_version:later", "Comes later."))
    monkeypatch.setitem(COMMANDS, "half", ("common:half", "Is half there."))
    assert "Comes later." in run("-h").stdout
    for name in ("later", "half"):
        run(name, "--option", "argument", status=1, err=f"stc corpus {name} cannot be loaded: ")
        run(name, "-h", status=0)
    run("build", "--check", "-h", status=0)
    run("biuld", status=2, err="No such command 'biuld'")
