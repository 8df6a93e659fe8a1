"""The command ``safetensors-print``, to be compared with the adapter."""

from __future__ import annotations

import command
from stc_host.library import marked


@marked
class Command:
    """``safetensors-print FILE``; what it prints is not looked at."""

    version = "public"

    def check(self, path: str) -> bool:
        """Run the command on a file."""
        command.run("safetensors-print", path)
        return True
