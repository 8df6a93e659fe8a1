"""Adapter for ``grit.scan.scan_file``. A file with a violation counts as rejected."""

from typing import Any

from grit.scan import SEV_VIOLATION, ScanReport, scan_file
from stc_host.library import Refused, call, marked


@marked
class Scan:
    def open(self, path: str) -> list[tuple[str, Any, Any]]:
        report = call(ScanReport)
        parsed = call(scan_file, path, report)
        found = [finding.message for finding in report.findings if finding.severity == SEV_VIOLATION]
        if not parsed or found:
            raise Refused("; ".join([*report.unparseable, *found]))
        return [(t.name, t.dtype, t.shape) for t in report.tensors]
