"""Adapter of Hayward's ``ModelFileScanner``."""

from __future__ import annotations

from pathlib import Path

from hayward import ModelFileScanner
from stc_host.library import attribute, call, marked

OF_CONTENT = "MFV-EXEC-"
"""Rules about programs hidden in a file, which do not concern its format."""


@marked
class Scan:
    """A file with a finding about its format counts as refused; one about what a tensor holds does not."""

    def __init__(self) -> None:
        self._scanner = ModelFileScanner()

    def check(self, path: str) -> bool:
        findings = call(self._scanner.scan_file, Path(path))
        return all(str(attribute(finding, "rule_id")).startswith(OF_CONTENT) for finding in findings)
