"""Makes all ranks agree on success or failure, using the store of their process group.

Before any collective, every rank posts a note and waits until all other ranks have posted a note without an
error. If one rank has an error, all ranks therefore raise an error, and no rank waits forever in a
collective. A missing note identifies a dead rank. The process groups of all backends have a store.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import FrameType
from typing import Any, NamedTuple, Self

import torch.distributed as dist

from ...rules.errors import AccessError, SafetensorsError, reason
from ...text import shorten, shown

GRACE = 5.0
"""Seconds that a failed rank waits for the others to read its error, because it may host the store."""
NEWS_INTERVAL = 1.0
"""Seconds between checks for failed ranks during a collective."""
MIN_PAUSE = 1e-4
MAX_PAUSE = 0.02
MAX_TEXT = 1000

_groups: dict[str, int] = {}


class RankError(SafetensorsError, RuntimeError):
    """Raised if another rank failed, stopped responding or made a different call.

    ``ranks`` contains the numbers of these ranks in the process group.
    """

    def __init__(
        self, message: str, ranks: tuple[int, ...], code: str | None = None, rule: str | None = None
    ) -> None:
        super().__init__(message, code, rule)
        self.ranks = ranks


class RankNote(NamedTuple):
    """Message of a rank: a value to compare, or an error; ``broken`` if the group can no longer be used."""

    fact: str = ""
    shown: str = ""
    error: str | None = None
    code: str | None = None
    rule: str | None = None
    broken: bool = False


class InterruptGate:
    """Delays Ctrl-C while interrupting this rank would leave the other ranks in the middle of a step.

    The first Ctrl-C is raised immediately only while files are read. At other times, it is delayed until the
    other ranks can be informed. A second Ctrl-C is always raised immediately, and sets ``second_interrupt``.
    A gate that is entered in the main thread replaces the SIGINT handler until the gate is exited.
    """

    def __init__(self) -> None:
        self.second_interrupt = False
        self._old: Callable[[int, FrameType | None], Any] | None = None
        self._came = False
        self._held = False
        self._open = False

    def __enter__(self) -> Self:
        self.second_interrupt = self._came = self._held = self._open = False
        if threading.current_thread() is threading.main_thread():
            old = signal.getsignal(signal.SIGINT)
            if callable(old):
                self._old = old
                signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        old, self._old = self._old, None
        if old is not None:
            signal.signal(signal.SIGINT, old)
            if self._held and error is None:
                old(signal.SIGINT, None)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        first, self._came = not self._came, True
        if first and not self._open:
            self._held = True
            return
        self.second_interrupt = not first
        self._open = self._held = False
        if self._old is not None:
            self._old(number, frame)

    def attempt(self, do: Callable[..., object], *args: object) -> BaseException | None:
        """Raise a delayed Ctrl-C or call ``do``, in which Ctrl-C is raised at once, and return the error."""
        try:
            self._open = True
            if self._held and self._old is not None:
                self._held = False
                self._old(signal.SIGINT, None)
            do(*args)
        except BaseException as err:
            return err
        finally:
            self._open = False
        return None


class RankSync:
    """Synchronizes, step by step, an object that exists on all ranks; objects are numbered when created."""

    def __init__(self, group: Any, timeout: float) -> None:
        """Number this object. Raises AccessError if there is no usable group."""
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < 1e9:
            raise AccessError(f"timeout must be a number of seconds above 0, not {shown(timeout)}")
        if not dist.is_available() or not dist.is_initialized():
            raise AccessError("there is no process group; call torch.distributed.init_process_group first")
        self.group = dist.group.WORLD if group is None else group
        self.rank = dist.get_rank(self.group)
        if self.rank < 0:
            raise AccessError("this process does not belong to the given process group")
        self.world = dist.get_world_size(self.group)
        config = str(dist.get_backend_config(self.group))
        self.backends = dict(item.split(":", 1) for item in config.split(",") if ":" in item)
        self.timeout = timeout
        self.broken: str | None = None
        self.gate = InterruptGate()
        try:
            store = self.group.get_group_store()
        except (AttributeError, RuntimeError) as err:
            raise AccessError(f"this process group has no store ({reason(err)})") from err
        name = str(self.group.group_name)
        number = _groups[name] = _groups.get(name, 0) + 1
        self._store = dist.PrefixStore(f"safetensors/{number}", store)
        self._step = 0

    def agree(self, error: BaseException | None = None, fact: str = "", shown: str = "") -> list[RankNote]:
        """Post the result of this rank, and return the notes of all ranks.

        Raises ``error`` if it is not None, or RankError if another rank failed.
        """
        if self.broken is not None:
            raise error if error is not None else AccessError(self.broken)
        self._step += 1
        if error is not None:
            others = [f"{self._step}/seen/{rank}" for rank in range(self.world) if rank != self.rank]
            # the original error is more important than an error from the store
            with suppress(RankError, KeyboardInterrupt):
                self._post(_note_of(error, False))
                self._call(lambda: self._store.set(f"{self._step}/seen/{self.rank}", "1"))
                if others:
                    self.wait(lambda: self._check(others), min(GRACE, self.timeout))
            raise error
        self._post(RankNote(fact, shown))
        if not self.wait(self._complete, self.timeout):
            missing = self._missing()
            self._step += 1
            # Otherwise, ranks that arrive late would find no note with an error, although this rank has left.
            self._post(RankNote(error=f"gave up waiting for {name_ranks(missing)}", broken=True))
            self._mark_broken()
            text = f"{name_ranks(missing)} did not respond within {self.timeout:g} s"
            causes = "possible causes: a process exited, hung or made a different call"
            raise RankError(f"{text}; {causes}", tuple(missing))
        notes = self._notes()
        bad = [rank for rank, note in enumerate(notes) if note.error is not None]
        if bad:
            self._call(lambda: self._store.set(f"{self._step}/seen/{self.rank}", "1"))
            if any(note.broken for note in notes):
                self._mark_broken()
            raise _failure(dict(enumerate(notes)), bad)
        self._call(lambda: self._store.delete_key(self._key(self._step - 1, self.rank)))
        return notes

    def wait(self, done: Callable[[], bool], seconds: float, longest_pause: float = MAX_PAUSE) -> bool:
        end = time.monotonic() + seconds
        pause = MIN_PAUSE
        while not done():
            if time.monotonic() >= end:
                return False
            time.sleep(pause)
            pause = min(pause * 1.5, longest_pause)
        return True

    def has_broken_rank(self) -> bool:
        return any(
            self._check([self._key(self._step + 1, rank)]) and self._read(self._step + 1, rank).broken
            for rank in range(self.world)
            if rank != self.rank
        )

    def give_up(self, error: BaseException) -> RankError | None:
        """Report that a collective failed, and return the error of the rank that caused the failure.

        The group is unusable afterwards.
        """
        if self.broken is not None:
            return None
        self._step += 1
        try:
            self._post(_note_of(error, True))
            self.wait(self._complete, min(GRACE, self.timeout))
            missing = self._missing()
            notes = {r: self._read(self._step, r) for r in range(self.world) if r not in missing}
        except RankError as err:
            return err
        self._mark_broken()
        if missing:
            text = f"{name_ranks(missing)} exited or hung during a collective operation ({reason(error)})"
            return RankError(text, tuple(missing))
        # The error of a rank that did not give up is closer to the cause.
        bad = [rank for rank, note in sorted(notes.items()) if note.error is not None and rank != self.rank]
        bad.sort(key=lambda rank: notes[rank].broken)
        return _failure(notes, bad) if bad else None

    def report_interrupt(self) -> None:
        """Report an interrupt that occurred between two steps. The group is unusable afterwards."""
        if self.broken is None:
            self._step += 1
            with suppress(RankError):
                self._post(RankNote(error="interrupted twice (KeyboardInterrupt)", broken=True))
            self._mark_broken()

    def leave(self, error: BaseException | None) -> None:
        """Report that this rank will not take part in further steps."""
        if self.broken is None:
            self._step += 1
            text = "closed the files" if error is None else f"left: {reason(error)}"
            with suppress(RankError):  # the process that hosts the store may have exited
                self._post(RankNote(error=text, broken=True))
            self.broken = "the files are closed"

    def _key(self, step: int, rank: int) -> str:
        return f"{step}/{rank}"

    def _post(self, note: RankNote) -> None:
        text = json.dumps(note)
        self._call(lambda: self._store.set(self._key(self._step, self.rank), text))

    def _read(self, step: int, rank: int) -> RankNote:
        data: Any = self._call(lambda: self._store.get(self._key(step, rank)))
        return RankNote(*json.loads(data))

    def _notes(self) -> list[RankNote]:
        keys = [self._key(self._step, rank) for rank in range(self.world)]
        if self._store.has_extended_api():
            texts: list[Any] = self._call(lambda: self._store.multi_get(keys))
            return [RankNote(*json.loads(text)) for text in texts]
        return [self._read(self._step, rank) for rank in range(self.world)]

    def _complete(self) -> bool:
        return self._check([self._key(self._step, rank) for rank in range(self.world)])

    def _missing(self) -> list[int]:
        return [rank for rank in range(self.world) if not self._check([self._key(self._step, rank)])]

    def _check(self, keys: list[str]) -> bool:
        return bool(self._call(lambda: self._store.check(keys)))

    def _call(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except RuntimeError as err:
            self._mark_broken()
            text = f"the store of the process group does not respond ({reason(err)})"
            hint = "the process that hosts the store, usually rank 0, has probably exited"
            raise RankError(f"{text}; {hint}", ()) from err

    def _mark_broken(self) -> None:
        self.broken = "an earlier failure left the process group in an unknown state; start all ranks again"


def _failure(notes: Mapping[int, RankNote], bad: list[int]) -> RankError:
    first = notes[bad[0]]
    more = f" ({name_ranks(bad[1:])} failed too)" if len(bad) > 1 else ""
    return RankError(f"rank {bad[0]} failed: {first.error}{more}", tuple(bad), first.code, first.rule)


def name_ranks(ranks: list[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    shown = [f"{rank:,}" for rank in ranks[:8]]
    if len(ranks) > 8:
        return f"ranks {', '.join(shown)} and {len(ranks) - 8:,} more"
    return f"ranks {', '.join(shown[:-1])} and {shown[-1]}"


def _note_of(error: BaseException, broken: bool) -> RankNote:
    if isinstance(error, SafetensorsError):
        return RankNote("", "", shorten(str(error), MAX_TEXT), error.code, error.rule, broken)
    interrupted = isinstance(error, KeyboardInterrupt)
    text = "interrupted (KeyboardInterrupt)" if interrupted else shorten(reason(error), MAX_TEXT)
    return RankNote(error=text, broken=broken)
