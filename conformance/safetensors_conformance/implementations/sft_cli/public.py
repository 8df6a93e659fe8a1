"""The command ``sft ls``, to be compared with the adapter."""

from __future__ import annotations

from typing import Any

import command
from stc_host.library import marked


@marked
class Command:
    """``sft ls FILE``; what it prints is not looked at."""

    version = "public"

    def open(self, path: str) -> list[tuple[Any, ...]]:
        """Run the command on a file."""
        command.run("sft", "ls", path)
        return []
