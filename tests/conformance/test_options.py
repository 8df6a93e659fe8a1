"""The table of options that the pytest plugin and ``stc run`` share."""

from __future__ import annotations

import click
import pytest

from safetensors_conformance.cli.run import run
from safetensors_conformance.options import OPTIONS, PROFILES
from safetensors_reference.rules import book

ONLY_PYTEST = {"--update-baseline"}
COMMAND = {name: param for param in run.params for name in param.opts if isinstance(param, click.Option)}


def test_profiles_are_those_of_the_rules() -> None:
    assert PROFILES == book.PROFILES


def test_only_pytest_rewrites_baselines_in_a_run() -> None:
    assert OPTIONS.keys() - COMMAND.keys() == ONLY_PYTEST


@pytest.mark.parametrize("name", sorted(OPTIONS.keys() - ONLY_PYTEST))
def test_the_command_line_follows_the_table(name: str) -> None:
    known, option = OPTIONS[name], COMMAND[name]
    assert (option.help, option.is_flag, option.multiple) == (known.help, known.flag, known.many)
    bounds = getattr(option.type, "min", None), getattr(option.type, "max", None)
    assert bounds == (known.least, known.most)
    assert tuple(getattr(option.type, "choices", ())) == known.choices
