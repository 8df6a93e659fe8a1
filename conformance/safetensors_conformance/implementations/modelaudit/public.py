"""``modelaudit.scan_file``, which chooses the scanner, to be compared with the adapter."""

from __future__ import annotations

from adapter import Scan
from modelaudit import scan_file
from stc_host.library import marked


@marked
class Chosen(Scan):
    """The same verdict on what ``scan_file`` reports."""

    version = "public"
    scan = staticmethod(scan_file)
