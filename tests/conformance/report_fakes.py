"""Correct readers that tamper with the report folder, whose path is in a variable."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .quick_reader import Reference
else:
    from quick_reader import Reference

FOLDER = "REPORT_FOLDER"


def _fake(act: Callable[[Path], object]) -> type[Reference]:
    class Fake(Reference):
        done = False

        def read(self, path: str) -> Any:
            folder, until = Path(os.environ[FOLDER]), time.monotonic() + 0.3
            while not self.done and time.monotonic() < until:
                if _records(folder):  # under pytest it is begun behind the first case
                    self.done = True
                    act(folder)
                time.sleep(0.01)
            return super().read(path)

    return Fake


def _records(folder: Path) -> list[Path]:
    return list(folder.glob("*.jsonl"))


def _remove(folder: Path) -> None:
    for path in _records(folder):
        path.unlink()


def _move(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))
    folder.symlink_to("elsewhere")


def _replace(folder: Path) -> None:
    for path in _records(folder):
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(data)


def _change(folder: Path) -> None:
    for path in _records(folder):
        with path.open("r+b") as file:
            file.write(b"[")


def _link_summary(folder: Path) -> None:
    (folder / "summary.md").symlink_to("../victim")


RemovesTheFolder = _fake(shutil.rmtree)
MovesTheFolder = _fake(_move)
RemovesTheRecord = _fake(_remove)
ReplacesTheRecord = _fake(_replace)
ChangesTheRecord = _fake(_change)
LinksTheSummary = _fake(_link_summary)
