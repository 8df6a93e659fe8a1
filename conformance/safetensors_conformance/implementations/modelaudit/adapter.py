"""Adapter of ModelAudit's ``scan_file``, which selects the scanner by the content of the file."""

from __future__ import annotations

import os

from stc_host.library import call, marked

os.environ["PROMPTFOO_DISABLE_TELEMETRY"] = "1"  # scan_file reports each use to its makers

from modelaudit import IssueSeverity, scan_file

HARMLESS = (IssueSeverity.DEBUG, IssueSeverity.INFO)
OF_CONTENT = "attack_type"
"""Detail of issues about suspicious content of a valid file, such as names that look like code."""


@marked
class Scan:
    """A file with a warning or worse about its format counts as rejected."""

    def check(self, path: str) -> bool:
        result = call(scan_file, path)
        bad = [issue for issue in result.issues if issue.severity not in HARMLESS]
        # A critical suspicion makes the whole scan fail, so the scan's success says nothing about the format.
        return all(OF_CONTENT in (issue.details or {}) for issue in bad) if bad else result.success
