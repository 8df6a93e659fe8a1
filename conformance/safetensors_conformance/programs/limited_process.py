"""Child processes with deadlines, which communicate in lines over pipes and are killed as a group."""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import psutil

from safetensors_reference.rules.errors import PortableError

from .launcher import Template, start

LINE_LIMIT = 64 << 20
"""Longest answer in bytes."""
STDERR_TAIL = 8 << 10
STDERR_AT_ONCE = 1 << 20
"""Maximum number of bytes of standard error to read at a time, because a process may write endlessly."""
WATCH_EVERY = 0.05
"""Seconds between memory checks of a process that has not answered yet."""
LAST_WORDS_SECONDS = 0.5
"""How many seconds a process has to write more output, or to exit, when it has no reason to continue."""
NAP_SECONDS = 0.0002
"""Seconds to sleep before waiting, because waking a process takes longer than reading a small file."""
CHUNK = 1 << 16
STRETCH_FACTOR = 6
"""Multiple of its time limit that an answer may take if the machine gives the process no CPU time."""
MAX_PROCESSES = 1000
FULL_SHARE = 0.9
"""Share of the limit that counts as the whole limit, because the kernel counts CPU time in steps of 10 ms."""
STATE_SAMPLES = 5
"""Number of samples of a late process's state before it counts as asleep. A busy process may wait briefly."""


class DiedError(PortableError):
    """The process has ended. ``status`` is negative for a signal, or None if the harness killed it."""

    def __init__(self, status: int | None) -> None:
        super().__init__(describe_status(status))
        self.status = status


class TimeLimitError(PortableError):
    """The process was killed at its deadline. ``starved`` is true if the machine was too busy to run it."""

    def __init__(self, after: str = "", *, starved: bool = False) -> None:
        super().__init__("no answer in time")
        self.after = after
        self.starved = starved


class Deadline:
    """Time by which an answer must arrive: ``seconds`` from now, or later on a busy machine.

    A process that is ready to run but gets no CPU time is not at fault. Its deadline moves until it has used
    its limit in CPU time, but no further than ``STRETCH_FACTOR`` times the limit.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.began = time.monotonic()
        self.at = self.began + seconds
        self._used_before: float | None = None
        self._grace = True

    @property
    def end(self) -> float:
        return self.began + STRETCH_FACTOR * self.seconds

    @property
    def counts(self) -> bool:
        return self._used_before is not None

    def count_from(self, used: float | None) -> None:
        """Start counting CPU time at ``used``. Later calls do nothing."""
        if self._used_before is None:
            self._used_before = used

    def left(self, used: float) -> float:
        self.count_from(used)
        assert self._used_before is not None
        left = self.seconds - (used - self._used_before)
        return left if left > (1 - FULL_SHARE) * self.seconds else 0.0

    def stretch(self, seconds: float) -> None:
        """Postpone the deadline to ``seconds`` from now, but not beyond ``end``."""
        self.at = min(time.monotonic() + seconds, self.end)
        self._grace = True

    def take_grace(self) -> bool:
        """Return whether to accept an answer that has already arrived. This is true once per deadline."""
        had, self._grace = self._grace, False
        return had

    def late(self, *, starved: bool = False) -> TimeLimitError:
        waited = time.monotonic() - self.began
        busy = waited > 1.25 * self.seconds
        after = f" after {waited:.1f} s because the machine is busy" if busy else ""
        return TimeLimitError(after, starved=starved)


class MemoryLimitError(PortableError):
    """The process exceeded its memory limit, or the limit named in ``instead``, and was killed."""

    def __init__(self, instead: str = "", *, in_all: int = 1, shares_known: bool = True) -> None:
        super().__init__(instead or "used more memory than allowed")
        self.instead = instead
        counted = "" if shares_known else ", shared pages counted in each of them"
        self.note = f" in {in_all:,} processes{counted}" if in_all > 1 else ""


class EndlessLineError(PortableError):
    """The process wrote a line longer than ``LINE_LIMIT`` and was killed."""

    def __init__(self) -> None:
        super().__init__("it wrote an endless line on standard output")


class StdinClosedError(Exception):
    """The process is still running but has closed its standard input, so it cannot read the request."""


def describe_status(status: int | None) -> str:
    if status is None:
        return "closed its standard output and was killed"
    if status < 0:
        try:
            return f"killed by {signal.Signals(-status).name}"
        except ValueError:
            return f"killed by signal {-status}"
    return f"ended with exit status {status}"


class Child:
    """A child process with pipes, in its own session. Its descendants are killed with it."""

    signals_as_status = False
    """Whether another program runs this one and reports a death by signal as 128 plus the signal number."""

    def __init__(
        self,
        argv: Sequence[str],
        memory_bytes: int,
        variables: Mapping[str, str],
        template: Template | None = None,
    ) -> None:
        self._memory = memory_bytes
        self._started = (template.start if template else start)(argv, variables)
        self.pid = self._started.pid
        self._stdin, self._out, self._err = self._started.stdin, self._started.stdout, self._started.stderr
        os.set_blocking(self._stdin, False)
        self._buffer = bytearray()
        self._unsent = bytearray()
        self._closed = False  # the program closed its standard input
        self._killed = False  # the harness killed it, so its exit status is meaningless
        self.stderr = bytearray()
        self._sending = False
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._out, selectors.EVENT_READ)
        self._selector.register(self._err, selectors.EVENT_READ)
        self._last_memory_check = 0.0

    @property
    def spent(self) -> float | None:
        """CPU seconds that the process used. The value is known once the process has ended."""
        return self._started.spent

    @property
    def program_pid(self) -> int:
        return self.pid

    def allow(self, memory_bytes: int) -> None:
        self._memory = memory_bytes

    def write(self, line: bytes, deadline: Deadline) -> None:
        """Send a whole line. Raises DiedError, TimeLimitError, MemoryLimitError, EndlessLineError."""
        self.send(line)
        while self._unsent:
            self._pump(deadline)
            if len(self._buffer) > LINE_LIMIT:
                self.kill()
                raise EndlessLineError
        if self._closed:
            raise DiedError(self.reap())

    def send(self, lines: bytes) -> None:
        """Send as much as the process accepts now. The rest is sent while waiting for an answer."""
        self._unsent += lines
        self._flush()

    def _flush(self) -> None:
        try:
            while self._unsent and not self._closed:
                del self._unsent[: os.write(self._stdin, self._unsent)]
        except BlockingIOError:
            pass
        except OSError:  # a pipe without a reader
            self._closed = True
        if self._closed:
            self._unsent.clear()
        if bool(self._unsent) == self._sending:
            return  # the usual case; calling the selector takes longer than reading a small answer
        self._sending = not self._sending
        if self._sending:
            self._selector.register(self._stdin, selectors.EVENT_WRITE)
        else:
            self._selector.unregister(self._stdin)

    @property
    def stdin_closed(self) -> bool:
        if not self._closed:
            poll = select.poll()
            poll.register(self._stdin, 0)  # poll always reports a missing reader
            self._closed = bool(poll.poll(0))
        return self._closed

    def read_line(self, deadline: Deadline, *, request_delivered: bool = True) -> bytes:
        """Return the next line of standard output, without its newline.

        ``request_delivered`` is False if the process may not have read the request yet. Raises the errors of
        ``write``, and StdinClosedError if the process can no longer read the request.
        """
        if time.monotonic() >= deadline.at:
            self._extend_or_kill(deadline)
        at, began = self._buffer.find(b"\n"), time.monotonic()
        while at < 0:
            searched = len(self._buffer)
            if searched > LINE_LIMIT:
                self.kill()
                raise EndlessLineError
            if not request_delivered and time.monotonic() > began + LAST_WORDS_SECONDS and self.stdin_closed:
                raise StdinClosedError
            self._pump(deadline)
            at = self._buffer.find(b"\n", searched)
        line = bytes(self._buffer[:at])
        del self._buffer[: at + 1]
        return line

    def read_to_end(self, deadline: Deadline) -> int | None:
        """Discard output until the process ends, and return the status that ``reap`` returns."""
        try:
            while True:
                self._pump(deadline)
                self._buffer.clear()
        except DiedError as err:
            return err.status

    def ends(self, seconds: float) -> bool:
        """Wait up to ``seconds``, and return whether the process ends or closes its output silently."""
        if self._buffer:
            return False
        until = time.monotonic() + seconds
        while not self._buffer:
            self._flush()
            to_send = [self._stdin] if self._unsent else []
            readable, writable, _ = select.select([self._out], to_send, [], 0)
            if not readable and not writable:
                time.sleep(NAP_SECONDS)
                left = max(until - time.monotonic(), 0)
                readable, writable, _ = select.select([self._out], to_send, [], left)
            if readable:
                self._buffer += (chunk := os.read(self._out, CHUNK))
                return not chunk
            if not writable:
                return not self.alive  # one of its children keeps the output open
        return False

    @property
    def partial_line(self) -> bytes:
        return bytes(self._buffer)

    def has_output(self, seconds: float) -> bool:
        return bool(self._buffer) or bool(select.select([self._out], [], [], seconds)[0])

    def _pump(self, deadline: Deadline) -> None:
        left = deadline.at - time.monotonic()
        if left <= 0:
            self._extend_or_kill(deadline)
            return
        self._flush()
        events = self._selector.select(min(left, WATCH_EVERY))
        now = time.monotonic()
        if not events or now > max(self._last_memory_check, deadline.began) + 4 * WATCH_EVERY:
            self._last_memory_check = now
            self._watch_memory()
            if not deadline.counts:
                deadline.count_from(self.processor_seconds())
        if not events and not self.alive and not self._selector.select(0):
            raise DiedError(self.reap())  # one of its children keeps the output open
        self._collect(events)

    def _collect(self, events: Iterable[tuple[selectors.SelectorKey, int]]) -> None:
        for key, _ in events:
            if key.fd == self._stdin:
                self._flush()
                continue
            chunk = os.read(key.fd, CHUNK)
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

    def _extend_or_kill(self, deadline: Deadline) -> None:
        """Extend an expired deadline if the machine is busy, or kill the process and raise TimeLimitError."""
        if deadline.take_grace():
            if b"\n" not in self._buffer:
                self._collect(self._selector.select(0))
            if b"\n" in self._buffer:
                return
        used = self.processor_seconds()
        left = 0.0 if used is None else deadline.left(used)
        if not left or not self._wants_processor():
            self.kill()
            raise deadline.late()
        if time.monotonic() >= deadline.end:
            self.kill()
            raise deadline.late(starved=True)
        deadline.stretch(max(left / 2, WATCH_EVERY))

    def _wants_processor(self) -> bool:
        for _ in range(STATE_SAMPLES):
            if any(state in "RD" for process in self._started.family() for state in _states(process)):
                return True
            time.sleep(WATCH_EVERY / STATE_SAMPLES)
        return False

    def drain_stderr(self) -> str:
        with contextlib.suppress(OSError, KeyError):
            os.set_blocking(self._err, False)
            for _ in range(STDERR_AT_ONCE // CHUNK):
                if not (chunk := os.read(self._err, CHUNK)):
                    break
                self._keep_stderr(chunk)
        text = bytes(self.stderr[-STDERR_TAIL:]).decode("utf-8", "replace")
        self.stderr.clear()
        return text

    def resident(self) -> int:
        return sum(map(_resident, self._started.family()))

    def _watch_memory(self) -> None:
        """Kill a process that uses too much memory, counting shared pages once. Raises MemoryLimitError."""
        family = self._started.family()
        if len(family) > MAX_PROCESSES:
            self.kill()
            raise MemoryLimitError(f"ran more than {MAX_PROCESSES:,} processes at the same time")
        if sum(map(_resident, family)) <= self._memory:
            return
        if len(family) == 1:
            self.kill()
            raise MemoryLimitError
        shares = [_share(process) for process in family]
        shares_known = all(share is not None for share in shares)
        used = sum(
            _resident(process) if share is None else share
            for process, share in zip(family, shares, strict=True)
        )
        if used > self._memory:
            self.kill()
            raise MemoryLimitError(in_all=len(family), shares_known=shares_known)

    def processor_seconds(self) -> float | None:
        """CPU seconds of the process, its descendants and reaped children, or None if it has ended."""
        total, measurable = 0.0, False
        for process in self._started.family():
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
                measurable = True
        return total if measurable else None

    def bytes_read(self) -> int | None:
        try:
            return int(Path(f"/proc/{self.program_pid}/io").read_bytes().split()[1])
        except (OSError, ValueError, IndexError):
            return None

    @property
    def said_something(self) -> bool:
        return bool(self.stderr) or bool(select.select([self._err], [], [], 0)[0])

    def reset_peak(self) -> int | None:
        """Reset the kernel's peak counter, and return the current resident memory, or None if unsupported."""
        try:
            Path(f"/proc/{self.program_pid}/clear_refs").write_bytes(b"5")
        except OSError:
            return None
        return self.peak()

    def peak(self) -> int | None:
        try:
            status = Path(f"/proc/{self.program_pid}/status").read_bytes()
            return int(status.partition(b"\nVmHWM:")[2].split()[0]) * 1024
        except (OSError, IndexError):
            return None

    def reap(self) -> int | None:
        """Wait for a process that has closed its output. Returns None if the harness had to kill it."""
        status = self._started.wait(1.0)
        self.kill()
        if self._killed or status is None:
            return None
        return 128 - status if self.signals_as_status and 128 < status <= 128 + 64 else status

    def kill(self) -> None:
        if self.alive:
            self._killed = True
        self._started.kill_all()

    @property
    def alive(self) -> bool:
        return self._started.wait(0) is None

    def close_input(self) -> None:
        if self._stdin < 0:
            return
        self._closed = True
        self._flush()
        os.close(self._stdin)
        self._stdin = -1

    def end(self) -> str:
        """Kill the process at once, and return the end of its standard error."""
        stderr = self.drain_stderr()
        self.wait_closed(0)
        return stderr

    def wait_closed(self, seconds: float) -> None:
        """Close the standard input, wait up to ``seconds`` for the process to exit, then kill it."""
        self.close_input()
        self._started.wait(seconds)
        self.kill()
        self._selector.close()
        if self._out >= 0:
            os.close(self._out)
            os.close(self._err)
            self._out = self._err = -1


class SandboxedChild(Child):
    """A child that bubblewrap (``sandbox.py``) runs. Bubblewrap forwards the program's output."""

    signals_as_status = True
    _program: int | None = None

    @property
    def program_pid(self) -> int:
        if self._program is None:
            try:
                leaders = psutil.Process(self.pid).children()
                programs = [program for leader in leaders for program in leader.children()]
            except psutil.Error:
                programs = []
            if not programs:
                return self.pid
            self._program = programs[0].pid
        return self._program


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def _share(process: psutil.Process) -> int | None:
    """Resident bytes of the process, with each shared page divided among its users, or None if unknown."""
    try:
        text = Path(f"/proc/{process.pid}/smaps_rollup").read_bytes()
        return int(text.partition(b"\nPss:")[2].split()[0]) * 1024
    except (FileNotFoundError, ProcessLookupError):
        return None if process.is_running() else 0
    except (OSError, IndexError, ValueError):
        return None


def _states(process: psutil.Process) -> list[str]:
    try:
        threads = list(Path(f"/proc/{process.pid}/task").iterdir())
        # The name in brackets may contain anything; the state follows the last bracket.
        return [(thread / "stat").read_text("latin-1").rpartition(")")[2].split()[0] for thread in threads]
    except (OSError, IndexError):
        pass
    try:  # there is no /proc, or it changed while it was read: use the state of the process as a whole
        return ["R" if process.status() in (psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP) else "S"]
    except psutil.Error:
        return []
