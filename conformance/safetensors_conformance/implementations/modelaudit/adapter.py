"""Adapter of ModelAudit's ``SafeTensorsScanner``."""

from __future__ import annotations

from modelaudit.scanners.base import IssueSeverity
from modelaudit.scanners.safetensors_scanner import SafeTensorsScanner
from stc_host.library import call, marked

HARMLESS = (IssueSeverity.DEBUG, IssueSeverity.INFO)


@marked
class Scan:
    """A file with a warning or worse counts as refused."""

    def check(self, path: str) -> bool:
        result = call(call(SafeTensorsScanner).scan, path)
        harmless = all(issue.severity in HARMLESS for issue in result.issues)
        return result.success and harmless
