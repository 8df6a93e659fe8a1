"""The page for newcomers: every command on it is run as it stands there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from .support import REPOSITORY

PAGE = REPOSITORY / "docs" / "first-run.md"
BLOCK = re.compile(r"^```(?P<info>[^\n]+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass
class Block:
    """A fenced block: its words, and what stands in it."""

    body: str
    kind: str
    marks: set[str] = field(default_factory=set)
    settings: dict[str, str] = field(default_factory=dict)


def blocks() -> list[Block]:
    out = []
    for match in BLOCK.finditer(PAGE.read_text(encoding="utf-8")):
        kind, *words = match["info"].split()
        settings = dict(word.split("=", 1) for word in words if "=" in word)
        out.append(Block(match["body"], kind, {w for w in words if "=" not in w}, settings))
    return out


def execute(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as a newcomer would, with the installed package and without the network."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PIP_NO_INDEX": "1", "NO_COLOR": "1", "COLUMNS": "200"}
    return subprocess.run(
        ["sh", "-ec", command],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )


def test_every_command_does_what_the_page_says(tmp_path: Path) -> None:
    shutil.copytree(REPOSITORY / "docs", tmp_path / "docs")
    output, ran, left_out = "", 0, set()
    for block in blocks():
        if name := block.settings.get("file"):
            (tmp_path / name).write_text(block.body, encoding="utf-8")
        elif "run" in block.marks:
            tool = block.settings.get("needs", "sh")
            output = ""
            if shutil.which(tool) is None:
                left_out.add(tool)
                continue
            result = execute(block.body, tmp_path)
            output = result.stdout
            wanted = int(block.settings.get("status", "0"))
            assert result.returncode == wanted, f"$ {block.body}{output}"
            ran += 1
        elif "shows" in block.marks and output:
            for line in block.body.splitlines():
                assert line in output, f"not shown: {line}\n{output}"
    assert ran >= 8
    if left_out:
        pytest.skip(f"{ran} commands run; the others need {', '.join(sorted(left_out))}")


def test_nothing_but_the_installation_is_left_unmarked() -> None:
    unmarked = [b.body.strip() for b in blocks() if not b.marks and not b.settings]
    assert unmarked == ["pip install -e ."]
