"""The page for newcomers: every command on it runs, in nightly tests literally.

By day its ``stc`` is called in this process, for the start of a command takes longer than what it does, and
what runs everything runs a sample.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from safetensors_reference.main import main

from ..suite_runs import corpus_of, load_once, one_of_each, suite_here
from ..support import REPOSITORY, committed

PAGE = REPOSITORY / "docs" / "first-run.md"
BLOCK = re.compile(r"^```(?P<info>[^\n]+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


Block = tuple[str, set[str], dict[str, str]]
"""Content, marks and settings of a fenced block."""


def blocks() -> Iterator[Block]:
    for match in BLOCK.finditer(PAGE.read_text(encoding="utf-8")):
        _, *words = match["info"].split()
        settings = dict(word.split("=", 1) for word in words if "=" in word)
        yield match["body"], {word for word in words if "=" not in word}, settings


Execute = Callable[[str, Path], tuple[int, str]]
"""Runs a command in a folder; gives its exit status and what it printed."""


def as_it_stands(command: str, folder: Path) -> tuple[int, str]:
    """Run a command as a newcomer would, with the installed package and without the network."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PIP_NO_INDEX": "1", "NO_COLOR": "1", "COLUMNS": "200"}
    done = subprocess.run(
        ["sh", "-ec", f"exec 2>&1\n{command}"],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout


def here(command: str, folder: Path) -> tuple[int, str]:
    """Call our own command in this process; run any other, and the one that starts fast, unchanged."""
    name, *arguments = shlex.split(command)
    if name == "pytest" and arguments[:2] == ["--pyargs", "safetensors_conformance"]:
        ran = suite_here(*arguments[2:], cwd=folder, target=None)
        return ran.returncode, ran.stdout + ran.stderr
    if name != "stc" or arguments[0] == "check":
        return as_it_stands(command, folder)
    with contextlib.chdir(folder):
        done = CliRunner(env={"NO_COLOR": "1", "COLUMNS": "200"}).invoke(main, arguments)
    return done.exit_code, done.output


@pytest.mark.parametrize("execute", [here, pytest.param(as_it_stands, marks=pytest.mark.nightly)])
def test_the_commands_do_what_it_says(
    execute: Execute, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run all commands of the page one after the other, and look for the lines that it shows."""
    wanted = [case.id for case in one_of_each(committed().reading)[::12]]
    load_once(monkeypatch, corpus_of(tmp_path / "corpus", "layout/hole-", "header/name-bytes-ff", *wanted))
    folder = tmp_path / "page"
    shutil.copytree(REPOSITORY / "docs", folder / "docs")
    output, ran, left_out = "", 0, set()
    for body, marks, settings in blocks():
        if name := settings.get("file"):
            (folder / name).write_text(body, encoding="utf-8")
        elif "run" in marks:
            tool = settings.get("needs", "sh")
            output = ""
            if shutil.which(tool) is None:
                left_out.add(tool)
                continue
            status, output = execute(body, folder)
            assert status == int(settings.get("status", "0")), f"$ {body}{output}"
            ran += 1
        elif "shows" in marks and output:
            for line in body.splitlines():
                assert line in output, f"not shown: {line}\n{output}"
    assert ran >= 8
    if left_out:
        pytest.skip(f"{ran} commands run; the others need {', '.join(sorted(left_out))}")


def test_nothing_but_the_installation_is_left_unmarked() -> None:
    unmarked = [body.strip() for body, marks, settings in blocks() if not marks and not settings]
    assert unmarked == ['pip install -e ".[harness]"']
