"""Client that starts a loader's process, sends requests to it, and kills it at the time limit."""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from safetensors_conformance.programs.launcher import child_variables
from safetensors_reference.rules.errors import PortableError

from .. import SEARCH_PATH
from .loaders import WARM

_PATH = re.compile(r"(?<![\w./])(?:/[^\s/:'\"]+)+/(?=[^\s/])")


class LoaderError(PortableError):
    """A loader returned no result. The message gives the reason without paths of this machine.

    Attributes:
        status: ``missing``, ``failed`` or ``timeout``.
    """

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(without_paths(reason))
        self.status = status


class Client:
    """A loader's process. It runs in its own session so that Ctrl-C reaches only the client."""

    def __init__(
        self,
        name: str,
        device: str,
        target: str | None,
        paths: Sequence[str],
        limit: float,
        environment: Mapping[str, str] | None = None,
        env: Sequence[str] = (),
    ) -> None:
        """Start the process without waiting for it.

        ``limit`` is in seconds and applies to every answer. ``environment`` sets variables that are not set
        yet, and ``env`` lists additional variables to inherit.
        """
        self.name = name
        self.limit = limit
        self.version: str | None = None
        asked = {"name": name, "device": device, "target": target, "paths": list(paths), "limit": limit}
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        path = joined(*SEARCH_PATH, os.environ.get("PYTHONPATH"))
        settings = dict(environment or {})
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.loader_process", json.dumps(asked)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
            env={**settings, **child_variables((*WARM, *settings, *env), {"PYTHONPATH": path})},
        )
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._pump, daemon=True).start()

    def _pump(self) -> None:
        assert self._process.stdout is not None
        with suppress(ValueError):  # the process may have exited and closed its input
            for line in self._process.stdout:
                self._lines.put(line)
        self._lines.put("")

    def ready(self) -> None:
        """Wait until the process has imported everything and started CUDA. Raises LoaderError."""
        reply = self._answer("to start")
        if "missing" in reply:
            raise LoaderError("missing", str(reply["missing"]))
        self.version = reply["ready"]["version"]

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request. Kills a process that hangs. Raises LoaderError."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except OSError:
            pass  # the process has ended, and its last output gives the reason
        reply = self._answer("for a single load")
        if "failed" in reply:
            raise LoaderError("failed", str(reply["failed"]))
        return reply

    def _answer(self, what: str) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=self.limit)
        except queue.Empty:
            self.close()
            text = f"took more than {self.limit:g} s {what} and was killed"
            raise LoaderError("timeout", text) from None
        if not line:
            raise LoaderError("failed", self._ended())
        try:
            reply: dict[str, Any] = json.loads(line)
        except ValueError as err:
            self.close()
            raise LoaderError(
                "failed", f"wrote to the stream that carries the answers: {line[:80]!r}"
            ) from err
        return reply

    def _ended(self) -> str:
        self._end(patience=5.0)
        status = self._process.returncode
        names = {number.value: number.name for number in signal.Signals}
        how = names.get(-status, f"signal {-status}") if status < 0 else f"exit status {status}"
        self._errors.seek(0)
        lines = self._errors.read().strip().splitlines()
        return f"the process ended ({how})" + (f": {lines[-1][:300]}" if lines else "")

    def close(self) -> None:
        self._end()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()
        with suppress(OSError):
            self._errors.close()

    def _end(self, patience: float = 0.0) -> None:
        """Wait for the process to exit, and kill it and its children if it does not."""
        if self._process.returncode is not None:
            return
        until = time.monotonic() + patience
        # Until the process is reaped, no other process can have the same process id.
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        with suppress(OSError):
            while os.waitid(os.P_PID, self._process.pid, flags) is None and time.monotonic() < until:
                time.sleep(0.01)
        with suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def without_paths(text: str) -> str:
    """Shorten paths to their last part, and escape characters that cannot be printed.

    Published text must not contain folder names of a machine, and every Unicode encoding must be able to
    represent it.
    """
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in _PATH.sub("", text))


def joined(*paths: str | None) -> str:
    return os.pathsep.join(path for path in paths if path)
