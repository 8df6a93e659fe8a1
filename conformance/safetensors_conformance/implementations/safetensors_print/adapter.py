"""Adapter of ``safetensors_print.reader.read_report``."""

from __future__ import annotations

from safetensors_print.reader import SafetensorsFormatError, read_report
from stc_host.library import attribute, call, marked


@marked
class Report:
    """A report with errors counts as refused."""

    rejects = (SafetensorsFormatError,)  # what read_report documents

    def check(self, path: str) -> bool:
        """Read the file and look for errors in the report."""
        errors: bool = attribute(call(read_report, path), "has_errors")
        return errors is False if isinstance(errors, bool) else errors
