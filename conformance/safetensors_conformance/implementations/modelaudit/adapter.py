"""Adapter for ModelAudit's ``scan_file``, which selects a scanner by the content of the file.

A file counts as rejected if its format causes a warning or a more severe issue.
"""

import os

from stc_host.library import call, marked

os.environ["PROMPTFOO_DISABLE_TELEMETRY"] = "1"  # otherwise scan_file reports each use to its developers

from modelaudit import IssueSeverity, scan_file

HARMLESS = (IssueSeverity.DEBUG, IssueSeverity.INFO)
OF_CONTENT = "attack_type"
"""Key in the details of an issue about suspicious content in a valid file, such as names that look like code.
"""


@marked
class Scan:
    def check(self, path: str) -> bool:
        result = call(scan_file, path)
        bad = [issue for issue in result.issues if issue.severity not in HARMLESS]
        # A critical suspicion makes the whole scan fail, so ``success`` counts only without such issues.
        return all(OF_CONTENT in (issue.details or {}) for issue in bad) if bad else result.success
