"""A child process with deadlines: lines in, lines out, memory and time watched, killed as a group."""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from safetensors_reference.rules.errors import PortableError

from .supervision import start

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .supervision import Template

LINE_LIMIT = 64 << 20
"""Longest answer in bytes that is held."""
STDERR_TAIL = 8 << 10
STDERR_AT_ONCE = 1 << 20
"""Most bytes of standard error taken in one go; a process may write without end."""
WATCH_EVERY = 0.05
"""Seconds between two looks at the memory of a process that has not answered yet."""
LAST_WORDS_SECONDS = 0.5
"""Seconds that a process is given to say more, or to end, when it has no reason to go on."""
NAP_SECONDS = 0.0002
"""Sleep before the next of many answers is waited for: writing to a pipe that nobody waits at wakes nobody,
and waking another process costs more than a small file does."""
CHUNK = 1 << 16
"""Most bytes taken from a pipe in one go."""
STRETCH_FACTOR = 6
"""Times its limit that an answer may take by the clock where the machine gives the process no processor."""
MAX_PROCESSES = 1000
"""Most processes that a tested program may run at the same time."""
DUE_SHARE = 0.9
"""Part of the limit that counts as all of it: the kernel counts processor time in steps of 10 ms."""
GLANCES = 5
"""Times that a late process is looked at before it is said to be asleep: a busy one may wait for a moment."""


class DiedError(PortableError):
    """The process ended. ``status``: exit status, negative for a signal, None when it was killed here."""

    def __init__(self, status: int | None) -> None:
        super().__init__(describe_status(status))
        self.status = status


class LateError(PortableError):
    """The process did not answer in time and was killed.

    Attributes:
        after: words on how much later than its limit it was killed, empty for at once.
        starved: True when the machine never gave it the processor time of its limit: nothing is known then.
    """

    def __init__(self, after: str = "", *, starved: bool = False) -> None:
        super().__init__("no answer in time")
        self.after = after
        self.starved = starved


class Deadline:
    """The time when an answer is due: ``seconds`` from now by the clock, and later on a busy machine.

    What hangs is late by the clock, whether it uses the processor or sleeps. A process that stands ready and
    is not let on a processor is late through no fault of its own: it gets more time, at most
    ``STRETCH_FACTOR`` times its limit, until it has used as much processor time as the limit says.
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
        """Begin to count processor time, ``used`` being that of the process now; done once."""
        if self._used_before is None:
            self._used_before = used

    def left(self, used: float) -> float:
        """Return the processor time in seconds that it may still use; ``used`` is its processor time now."""
        self.count_from(used)
        assert self._used_before is not None
        left = self.seconds - (used - self._used_before)
        return left if left > (1 - DUE_SHARE) * self.seconds else 0.0

    def stretch(self, seconds: float) -> None:
        """Put the deadline off by ``seconds`` from now, at most to the end."""
        self.at = min(time.monotonic() + seconds, self.end)
        self._grace = True

    def take_grace(self) -> bool:
        """Return whether an answer that is there already still counts: once each time the deadline passes.

        The harness itself may have been kept waiting. A process that always has a line ready is late.
        """
        had, self._grace = self._grace, False
        return had

    def late(self, *, starved: bool = False) -> LateError:
        waited = time.monotonic() - self.began
        busy = waited > 1.25 * self.seconds
        return LateError(f" after {waited:.1f} s, the machine is busy" if busy else "", starved=starved)


class HungryError(PortableError):
    """The process used more memory than allowed and was killed.

    Attributes:
        note: words behind the limit: in how many processes it was used, empty for one.
        instead: what was too much when it was not memory, empty otherwise.
    """

    def __init__(self, instead: str = "", *, in_all: int = 1, told: bool = True) -> None:
        super().__init__(instead or "used more memory than allowed")
        self.instead = instead
        counted = "" if told else ", shared pages counted in each"
        self.note = f" in {in_all:,} processes{counted}" if in_all > 1 else ""


class FloodError(PortableError):
    """The process wrote a line longer than ``LINE_LIMIT`` and was killed."""

    def __init__(self) -> None:
        super().__init__("it wrote an endless line on standard output")


class DeafError(Exception):
    """The process has closed its standard input, so it cannot know what it was asked. It still runs."""


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
    """A running child with pipes, in a session of its own. Whatever it starts dies with it.

    With a ``template`` it is a fork of that.
    """

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
        self._closed = False  # standard input, by whom it was sent to
        self._killed = False  # here, so that its exit status says nothing of it
        self.stderr = bytearray()
        self._sending = False
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._out, selectors.EVENT_READ)
        self._selector.register(self._err, selectors.EVENT_READ)
        self._looked = 0.0

    @property
    def spent(self) -> float | None:
        """Processor time in seconds that the process used, known when it has ended."""
        return self._started.spent

    @property
    def measured(self) -> int:
        return self.pid

    def meant(self, status: int) -> int:
        return status

    def allow(self, memory_bytes: int) -> None:
        self._memory = memory_bytes

    def write(self, line: bytes, deadline: Deadline) -> None:
        """Send a line and wait until it is sent. Raises DiedError, LateError, HungryError, FloodError."""
        self.send(line)
        while self._unsent:
            self._pump(deadline)
            if len(self._buffer) > LINE_LIMIT:
                self.kill()
                raise FloodError
        if self._closed:
            raise DiedError(self.reap())

    def send(self, lines: bytes) -> None:
        """Send lines as far as the process takes them now, the rest while its answers are waited for.

        Nothing is read here: a process that answers faster than it is listened to has to wait.
        """
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
            return  # as nearly always, and asking the selector takes longer than a small answer
        self._sending = not self._sending
        if self._sending:
            self._selector.register(self._stdin, selectors.EVENT_WRITE)
        else:
            self._selector.unregister(self._stdin)

    @property
    def deaf(self) -> bool:
        """True when nobody has the other end of standard input open any more."""
        if not self._closed:
            poll = select.poll()
            poll.register(self._stdin, 0)  # that there is no reader is told unasked
            self._closed = bool(poll.poll(0))
        return self._closed

    def read_line(self, deadline: Deadline, *, heard: bool = True) -> bytes:
        """Return the next line of standard output, without its newline.

        Args:
            deadline: when the line is due.
            heard: False when the process may not know yet that the line is due. One that has closed its
                standard input and says nothing more for ``LAST_WORDS_SECONDS`` will never know: DeafError.

        Raises DiedError, LateError, HungryError, FloodError, DeafError.
        """
        if time.monotonic() >= deadline.at:
            self._go_on_or_kill(deadline)
        at = self._buffer.find(b"\n")
        if at < 0:
            at = self._more(deadline, heard=heard)
        line = bytes(self._buffer[:at])
        del self._buffer[: at + 1]
        return line

    def _more(self, deadline: Deadline, *, heard: bool) -> int:
        began = time.monotonic()
        while True:
            searched = len(self._buffer)
            if searched > LINE_LIMIT:
                self.kill()
                raise FloodError
            if not heard and time.monotonic() > began + LAST_WORDS_SECONDS and self.deaf:
                raise DeafError
            self._pump(deadline)
            at = self._buffer.find(b"\n", searched)
            if at >= 0:
                return at

    def read_to_end(self, deadline: Deadline) -> int | None:
        """Wait for the end of the process, throw its output away, and return its exit status, as ``reap``.

        Raises LateError, HungryError.
        """
        try:
            while True:
                self._pump(deadline)
                self._buffer.clear()
        except DiedError as err:
            return err.status

    def ends(self, seconds: float) -> bool:
        """Wait at most ``seconds`` for more output or the end; True for an end without a further word.

        True also for a process that closes its standard output: nothing more will come from it.
        """
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
                return not self.alive  # a child of its own still holds its output open
        return False

    @property
    def unfinished(self) -> bytes:
        """Return what stands on standard output behind the last line that was taken."""
        return bytes(self._buffer)

    def has_output(self, seconds: float) -> bool:
        """Wait at most ``seconds`` for something on standard output, without reading or killing."""
        return bool(self._buffer) or bool(select.select([self._out], [], [], seconds)[0])

    def _pump(self, deadline: Deadline) -> None:
        """Wait for output and collect it; watch time and memory while there is none."""
        left = deadline.at - time.monotonic()
        if left <= 0:
            self._go_on_or_kill(deadline)
            return
        self._flush()
        events = self._selector.select(min(left, WATCH_EVERY))
        now = time.monotonic()
        if not events or now > max(self._looked, deadline.began) + 4 * WATCH_EVERY:
            self._looked = now
            self._watch_memory()
            if not deadline.counts:
                deadline.count_from(self.processor_seconds())
        if not events and not self.alive and not self._selector.select(0):
            raise DiedError(self.reap())  # a child of its own still holds its output open
        self._collect(events)

    def _collect(self, events: Iterable[tuple[selectors.SelectorKey, int]]) -> None:
        """Take what there is of output. Raises DiedError at its end."""
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

    def _go_on_or_kill(self, deadline: Deadline) -> None:
        """Put a deadline off that has passed, when the machine is to blame. Raises LateError when not."""
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
        """Tell whether a thread of these processes runs, stands ready to run or waits for a disk."""
        for _ in range(GLANCES):
            if any(state in "RD" for process in self._started.family() for state in _states(process)):
                return True
            time.sleep(WATCH_EVERY / GLANCES)
        return False

    def drain_stderr(self) -> str:
        """Return and forget what was written to standard error so far."""
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
        """Raise HungryError, and kill, when the process or its descendants are beyond what is allowed.

        Pages that several of them share count once, where the system tells.
        """
        family = self._started.family()
        if len(family) > MAX_PROCESSES:
            self.kill()
            raise HungryError(f"ran more than {MAX_PROCESSES:,} processes at the same time")
        if sum(map(_resident, family)) <= self._memory:
            return
        if len(family) == 1:
            self.kill()
            raise HungryError
        shares = [_share(process) for process in family]
        told = all(share is not None for share in shares)
        used = sum(
            _resident(process) if share is None else share
            for process, share in zip(family, shares, strict=True)
        )
        if used > self._memory:
            self.kill()
            raise HungryError(in_all=len(family), told=told)

    def processor_seconds(self) -> float | None:
        """Processor time in seconds that the process and its descendants used so far, None when it is gone.

        Children that have ended count where their parent waited for them, as most do.
        """
        total, known = 0.0, False
        for process in self._started.family():
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
                known = True
        return total if known else None

    def bytes_read(self) -> int | None:
        """Bytes that the process asked the system to read so far, None where that cannot be known."""
        try:
            with open(f"/proc/{self.measured}/io", "rb", buffering=0) as io:  # noqa: PTH123 - as above
                return int(io.read(64).split()[1])
        except (OSError, ValueError, IndexError):
            return None

    @property
    def said_something(self) -> bool:
        return bool(self.stderr) or bool(select.select([self._err], [], [], 0)[0])

    def reset_peak(self) -> int | None:
        """Reset the kernel's high-water mark; return resident memory now, None where it cannot be done."""
        try:
            with open(f"/proc/{self.measured}/clear_refs", "wb", buffering=0) as refs:  # noqa: PTH123 - hot path
                refs.write(b"5")
        except OSError:
            return None
        return self.peak()

    def peak(self) -> int | None:
        """Highest resident memory since the last reset in bytes, None where it cannot be read."""
        try:
            with open(f"/proc/{self.measured}/status", "rb", buffering=0) as status:  # noqa: PTH123 - hot path
                text = status.read(4096)
        except OSError:
            return None
        at = text.find(b"VmHWM:")
        return int(text[at + 6 : text.index(b"kB", at)]) * 1024 if at >= 0 else None

    def reap(self) -> int | None:
        """Wait for a process that has closed its output; None when it had to be killed, or was before."""
        status = self._started.wait(1.0)
        self.kill()
        return None if self._killed or status is None else self.meant(status)

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

    def wait_closed(self, seconds: float) -> None:
        """Close standard input and give the process ``seconds`` to end by itself, then kill it."""
        self.close_input()
        self._started.wait(seconds)
        self.kill()
        self._selector.close()
        if self._out >= 0:
            os.close(self._out)
            os.close(self._err)
            self._out = self._err = -1


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def _share(process: psutil.Process) -> int | None:
    """Resident memory in bytes with shared pages divided among those who share them, None if not told."""
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
        # The name in brackets may hold anything; the state stands behind the last of them.
        return [(thread / "stat").read_text("latin-1").rpartition(")")[2].split()[0] for thread in threads]
    except (OSError, IndexError):
        pass
    try:  # no /proc, or it changed while it was read: the state of the process as a whole
        return ["R" if process.status() in (psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP) else "S"]
    except psutil.Error:
        return []
