"""The command ``model-fingerprint``, to be compared with the adapter."""

from __future__ import annotations

from typing import Any

import command
from stc_host.library import marked


@marked
class Command:
    """``model-fingerprint FILE``; what it prints is not looked at."""

    version = "public"

    def open(self, path: str) -> list[tuple[Any, ...]]:
        """Run the command on a file."""
        command.run("model-fingerprint", path)
        return []
