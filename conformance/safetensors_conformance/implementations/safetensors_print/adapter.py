"""Adapter of the command ``safetensors-print``."""

from __future__ import annotations

import command
from safetensors_print.cli import main
from stc_host.library import marked


@marked
class Report:
    """Exit status 0 means that a file conforms."""

    def check(self, path: str) -> bool:
        command.run(main, path)
        return True
