"""Adapter of Hayward's ``ModelFileScanner``."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from hayward.scanner import ModelFileScanner
from stc_host.library import call, marked


@marked
class Scan:
    """A file with a finding counts as refused."""

    name = "hayward"
    version = version("hayward")
    language = "Python"

    def __init__(self) -> None:
        self._scanner = ModelFileScanner()

    def check(self, path: str) -> bool:
        """Scan the file."""
        return len(call(self._scanner.scan_file, Path(path))) == 0
