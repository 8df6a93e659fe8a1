"""The command of a package, run on a file; runs in the environment of the package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from stc_host.library import Refused


def run(program: str, *words: str) -> None:
    """Run ``program words`` in a process of its own. Raises Refused for an exit status that is not 0."""
    command = [str(Path(sys.executable).with_name(program)), *words]
    done = subprocess.run(command, env={**os.environ, "PYTHONUTF8": "1"}, capture_output=True, check=False)
    if done.returncode:
        raise Refused(f"exit status {done.returncode}")
