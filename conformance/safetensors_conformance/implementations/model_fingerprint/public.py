"""The command ``model-fingerprint`` called whole, to be compared with the adapter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from stc_host.library import Refused, marked


@marked
class Command:
    """``model-fingerprint FILE`` in a process of its own; what it prints is not looked at."""

    version = "public"

    def open(self, path: str) -> list[tuple[Any, ...]]:
        """Run the command on a file."""
        command = [Path(sys.executable).with_name("model-fingerprint"), path]
        done = subprocess.run(
            command, env={**os.environ, "PYTHONUTF8": "1"}, capture_output=True, check=False
        )
        if done.returncode:
            raise Refused(f"exit status {done.returncode}")
        return []
