"""Files named on the command line: a FIFO or a device neither hangs a command nor fills the memory."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from safetensors_conformance.cli.baseline import baseline
from safetensors_conformance.cli.diff import diff
from safetensors_conformance.cli.report import report
from safetensors_conformance.cli.run import run

from ..support import TRIGGER

ONE = ("--impl", "reference", "--case", TRIGGER)


@pytest.mark.by_day(5)
@pytest.mark.parametrize("thing", ["fifo", "zeros"])
@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (run, (*ONE, "--corpus")),
        (run, (*ONE, "--baseline")),
        (diff, (*ONE, "--impl", "safetensors", "--triage")),
        (diff, ("--impl", "reference", "--impl", "safetensors")),
        (baseline, ("show", "reference", "--file")),
        (report, ("-o", "out")),
    ],
)
def test_what_is_no_regular_file_is_said(
    thing: str,
    command: click.Command,
    arguments: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "given"
    if thing == "fifo":
        os.mkfifo(place)
    else:
        place.symlink_to("/dev/zero")
    result = CliRunner().invoke(command, [*arguments, str(place)])
    assert result.exit_code in (1, 2), result.output
    assert "not a regular file" in result.output
