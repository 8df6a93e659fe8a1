"""Adapter of ``grit.scan.scan_file``, which lists tensors and violations."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from grit.scan import SEV_VIOLATION, ScanReport, scan_file


class Scan:
    """A file with a violation counts as refused."""

    name = "grit-datatype"
    version = version("grit-datatype")
    language = "Python"
    rejects = (ValueError,)

    def open(self, path: str) -> list[tuple[str, Any, Any]]:
        """Scan the header."""
        report = ScanReport()
        parsed = scan_file(path, report)
        found = [finding.message for finding in report.findings if finding.severity == SEV_VIOLATION]
        if not parsed or found:
            raise ValueError("; ".join([*report.unparseable, *found]))
        return [(t.name, t.dtype, t.shape) for t in report.tensors]
