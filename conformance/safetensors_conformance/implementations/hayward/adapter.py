"""Adapter for Hayward's ``ModelFileScanner``.

A file counts as rejected if a finding concerns its format rather than the content of tensors.
"""

from pathlib import Path

from hayward import ModelFileScanner
from stc_host.library import attribute, call, marked

OF_CONTENT = "MFV-EXEC-"
"""Rules about programs that are hidden in a file. They do not concern the file format."""


@marked
class Scan:
    def __init__(self) -> None:
        self._scanner = ModelFileScanner()

    def check(self, path: str) -> bool:
        findings = call(self._scanner.scan_file, Path(path))
        return all(str(attribute(finding, "rule_id")).startswith(OF_CONTENT) for finding in findings)
