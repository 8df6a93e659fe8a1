"""Measurement of the limits in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from safetensors_conformance.programs.launcher import child_variables

from .. import SEARCH_PATH
from .client import joined, without_paths


def run(path: Path, device: str, limit: float) -> Iterator[dict[str, Any]]:
    """Yield the rows of ``limits.measure``.

    If rows are missing, a row with ``what`` set to ``failed`` gives the reason. ``limit`` is in seconds and
    applies to all rows together.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", f"{__package__}.limits", str(path), device],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=child_variables(own={"PYTHONPATH": joined(*SEARCH_PATH, os.environ.get("PYTHONPATH"))}),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    late = threading.Event()

    def stop() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(limit, stop)
    timer.start()
    try:
        for line in process.stdout:
            row: dict[str, Any] = json.loads(line)
            yield row
        errors = process.stderr.read().strip().splitlines()
        if late.is_set():
            yield {"what": "failed", "setting": "", "reason": f"took more than {limit:g} s"}
        elif process.wait():
            reason = without_paths(errors[-1][:300]) if errors else f"exit status {process.returncode}"
            yield {"what": "failed", "setting": "", "reason": reason}
    finally:
        timer.cancel()
        with suppress(OSError):
            process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
