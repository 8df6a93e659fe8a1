"""A child process with deadlines: lines in, lines out, memory watched, killed as a group."""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Sequence

LINE_LIMIT = 64 << 20
"""Longest answer in bytes that is held."""
STDERR_TAIL = 8 << 10
STDERR_AT_ONCE = 1 << 20
"""Most bytes of standard error taken in one go; a process may write without end."""
WATCH_EVERY = 0.05
"""Seconds between two looks at the memory of a process that has not answered yet."""


class DiedError(Exception):
    """The process ended. ``status``: exit status, negative for a signal, None when it was killed here."""

    def __init__(self, status: int | None) -> None:
        super().__init__(describe_status(status))
        self.status = status


class LateError(Exception):
    """The process did not answer in time and was killed."""


class HungryError(Exception):
    """The process used more memory than allowed and was killed."""


class FloodError(Exception):
    """The process wrote a line longer than ``LINE_LIMIT`` and was killed."""


def describe_status(status: int | None) -> str:
    """Say what an exit status means."""
    if status is None:
        return "closed its standard output and was killed"
    if status < 0:
        try:
            return f"killed by {signal.Signals(-status).name}"
        except ValueError:
            return f"killed by signal {-status}"
    return f"ended with exit status {status}"


class Child:
    """A running child with pipes. It leads a process group of its own, so that helpers die with it."""

    def __init__(self, argv: Sequence[str], memory_bytes: int) -> None:
        self._memory = memory_bytes
        self._popen = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            # Else readers in Python that go through a set of names answer otherwise from run to run.
            env={"PYTHONHASHSEED": "0", **os.environ},
        )
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        assert self._popen.stderr is not None
        self.pid = self._popen.pid
        self._stdin = self._popen.stdin.fileno()
        self._out = self._popen.stdout.fileno()
        self._err = self._popen.stderr.fileno()
        os.set_blocking(self._stdin, False)
        self._buffer = bytearray()
        self.stderr = bytearray()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._out, selectors.EVENT_READ)
        self._selector.register(self._err, selectors.EVENT_READ)
        self._process: psutil.Process | None = None
        self._descendants: set[psutil.Process] = set()
        self._looked = 0.0

    def allow(self, memory_bytes: int) -> None:
        """Set the resident memory in bytes above which the process is killed."""
        self._memory = memory_bytes

    def write(self, line: bytes, deadline: float) -> None:
        """Send a line. Raises DiedError or LateError."""
        rest = memoryview(line)
        while rest:
            try:
                rest = rest[os.write(self._stdin, rest) :]
            except BlockingIOError:
                self._pump(deadline)
            except BrokenPipeError as err:
                raise DiedError(self.reap()) from err

    def read_line(self, deadline: float) -> bytes:
        """Return the next line of standard output, without its newline.

        ``deadline`` is a ``time.monotonic`` value. Raises DiedError, LateError, HungryError, FloodError.
        """
        searched = 0
        self._looked = time.monotonic()
        while True:
            at = self._buffer.find(b"\n", searched)
            if at >= 0:
                line = bytes(self._buffer[:at])
                del self._buffer[: at + 1]
                return line
            searched = len(self._buffer)
            if searched > LINE_LIMIT:
                self.kill()
                raise FloodError
            self._pump(deadline)

    @property
    def unfinished(self) -> bytes:
        """Return what stands on standard output behind the last line that was taken."""
        return bytes(self._buffer)

    def has_output(self, seconds: float) -> bool:
        """Wait at most ``seconds`` for something on standard output, without reading or killing."""
        return bool(self._buffer) or bool(select.select([self._out], [], [], seconds)[0])

    def _pump(self, deadline: float) -> None:
        """Wait for output and collect it; watch time and memory while there is none."""
        left = deadline - time.monotonic()
        if left <= 0:
            self.kill()
            raise LateError
        events = self._selector.select(min(left, WATCH_EVERY))
        now = time.monotonic()
        if not events or now > self._looked + 4 * WATCH_EVERY:
            self._looked = now
            if self.resident() > self._memory:
                self.kill()
                raise HungryError
        if not events and not self.alive and not self._selector.select(0):
            raise DiedError(self.reap())  # a child of its own still holds its output open
        for key, _ in events:
            chunk = os.read(key.fd, 1 << 16)
            if key.fd == self._out:
                if not chunk:
                    raise DiedError(self.reap())
                self._buffer += chunk
            elif chunk:
                self._keep_stderr(chunk)
            else:
                self._selector.unregister(key.fd)

    def _keep_stderr(self, chunk: bytes) -> None:
        self.stderr += chunk
        if len(self.stderr) > 2 * STDERR_TAIL:
            del self.stderr[:-STDERR_TAIL]

    def drain_stderr(self) -> str:
        """Return and forget what was written to standard error so far."""
        with contextlib.suppress(OSError, KeyError):
            os.set_blocking(self._err, False)
            for _ in range(STDERR_AT_ONCE >> 16):
                if not (chunk := os.read(self._err, 1 << 16)):
                    break
                self._keep_stderr(chunk)
        text = bytes(self.stderr[-STDERR_TAIL:]).decode("utf-8", "replace")
        self.stderr.clear()
        return text

    def resident(self) -> int:
        """Resident memory of the process and its children in bytes, 0 when it is gone."""
        try:
            if self._process is None:
                self._process = psutil.Process(self.pid)
            total = int(self._process.memory_info().rss)
            for child in self._process.children(recursive=True):
                self._descendants.add(child)
                with contextlib.suppress(psutil.Error):
                    total += int(child.memory_info().rss)
        except psutil.Error:
            return 0
        return total

    def bytes_read(self) -> int | None:
        """Bytes that the process asked the system to read so far, None where that cannot be known."""
        try:
            with open(f"/proc/{self.pid}/io", "rb", buffering=0) as io:  # noqa: PTH123 - as above
                return int(io.read(64).split()[1])
        except (OSError, ValueError, IndexError):
            return None

    @property
    def said_something(self) -> bool:
        """True when there is something on standard error that was not drained yet."""
        return bool(self.stderr) or bool(select.select([self._err], [], [], 0)[0])

    def reset_peak(self) -> int | None:
        """Reset the kernel's high-water mark; return resident memory now, None where it cannot be done."""
        try:
            with open(f"/proc/{self.pid}/clear_refs", "wb", buffering=0) as refs:  # noqa: PTH123 - hot path
                refs.write(b"5")
        except OSError:
            return None
        return self.peak()

    def peak(self) -> int | None:
        """Highest resident memory since the last reset in bytes, None where it cannot be read."""
        try:
            with open(f"/proc/{self.pid}/status", "rb", buffering=0) as status:  # noqa: PTH123 - hot path
                text = status.read(4096)
        except OSError:
            return None
        at = text.find(b"VmHWM:")
        return int(text[at + 6 : text.index(b"kB", at)]) * 1024 if at >= 0 else None

    def reap(self) -> int | None:
        """Wait for a process that has closed its output; None when it had to be killed."""
        try:
            status: int | None = self._popen.wait(1.0)
        except subprocess.TimeoutExpired:
            status = None
        self.kill()
        return status

    def kill(self) -> None:
        """Kill the whole process group, and the descendants known outside of it, and wait."""
        if self._popen.returncode is None:
            self.resident()  # finds the descendants while they can be found
        self._kill_group()
        self._popen.wait()
        for descendant in self._descendants:
            with contextlib.suppress(psutil.Error):
                descendant.kill()
        self._descendants.clear()

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    @property
    def alive(self) -> bool:
        """True while the process runs."""
        return self._popen.poll() is None

    def close_input(self) -> None:
        """Close standard input."""
        assert self._popen.stdin is not None
        with contextlib.suppress(OSError):
            self._popen.stdin.close()

    def wait_closed(self, seconds: float) -> None:
        """Close standard input and give the process ``seconds`` to end by itself, then kill it."""
        if seconds and self.alive:
            self.resident()  # as in kill: what it leaves behind cannot be found once it has ended
        self.close_input()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(seconds)
        self.kill()
        self._selector.close()
        assert self._popen.stdout is not None
        assert self._popen.stderr is not None
        self._popen.stdout.close()
        self._popen.stderr.close()
