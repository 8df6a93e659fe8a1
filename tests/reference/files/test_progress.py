"""The progress bar of both commands: when it appears, and what it tells."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from safetensors_reference.files import progress
from safetensors_reference.files.progress import ProgressBar

from ..audit.support import VALID, write_tree


@pytest.mark.parametrize(("pause", "drawn"), [(-1, True), (1000, False)])
def test_the_bar_moves_but_not_for_every_file(
    monkeypatch: pytest.MonkeyPatch, pause: float, drawn: bool
) -> None:
    monkeypatch.setattr(progress, "REFRESH", pause)
    out = StringIO()
    console = Console(file=out, force_terminal=True, color_system=None)
    with ProgressBar(console=console) as bar:
        for _ in range(3):
            bar.advance()
    assert ("checked 2 files" in out.getvalue()) == drawn
    assert ("checked 3 files" in out.getvalue()) == drawn
    assert "checked 1 files" not in out.getvalue(), "it appears with the second file"


def test_the_bar_tells_files_rate_and_time_left(tmp_path: Path) -> None:
    write_tree(tmp_path, {f"{n}.safetensors": VALID for n in range(4)})
    console = Console(force_terminal=True, width=80, record=True)
    with ProgressBar([str(tmp_path)], console) as bar:
        bar._count()
        bar._drawn -= 10
        bar.advance(3)
        assert bar._bar is not None
        assert bar._bar.tasks[0].total == 4
    text = console.export_text()
    assert "3 files" in text
    assert "/s" in text
