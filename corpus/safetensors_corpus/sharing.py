"""Execute a *concurrent* case, in which several readers read one file at the same time.

This module uses only the standard library, because the Python host runs it in the environments of the tested
libraries, where this project is not installed.

Readers are threads or forked processes. All readers start a round together. In a round, each reader reads its
tensors one by one, and evaluates them after all readers have read theirs. The opener of the file can read
tensors before and after the rounds, and can close the file during a round.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn, Protocol

Reply = dict[str, Any]
"""A tensor row or an answer in the format of the worker protocol."""

WORST = ("crash", "hang", "exhausted", "harness-error")
"""Outcomes that take precedence over all rows, worst first."""


class Subject(Protocol):
    """The tested implementation."""

    def open(self) -> Any: ...

    def take(self, handle: Any, name: str) -> Any: ...

    def look(self, name: str, taken: Any) -> Reply: ...

    def close(self, handle: Any) -> None: ...

    def failed(self, err: BaseException) -> Reply: ...


def run_concurrent(action: Mapping[str, Any], subject: Subject) -> Reply:
    """Execute an action, and return the distinct rows of all readers or a failure.

    If readers return different rows for a tensor, the answer contains all of these rows, even if other
    readers reject the file.
    """
    opener = _Reader(subject, action, "")
    handle = opener.open() if action["opened"] == "once" or action["before"] or action["after"] else None
    opener.read(handle, action["before"])
    if not opener.failures:
        closed = _run(subject, action, handle, opener)
        opener.read(handle, () if closed else action["after"])
        if handle is not None and not closed:
            opener.close(handle, "unsupported")  # a reader that has nothing to close
    return _answer(opener)


def _answer(gathered: _Reader) -> Reply:
    failures = sorted(gathered.failures, key=lambda f: WORST.index(f["outcome"]) if _is_bad(f) else 9)
    names = [row["name"] for row in gathered.rows]
    if failures and (_is_bad(failures[0]) or len(set(names)) == len(names)):
        return failures[0]
    return {"outcome": "accept", "tensors": gathered.rows}


def _is_bad(failure: Reply) -> bool:
    return failure["outcome"] in WORST


class _Reader:
    """A reader with its rows and failures. ``label`` precedes all its messages except adapter errors."""

    def __init__(self, subject: Subject, action: Mapping[str, Any], label: str) -> None:
        self._subject = subject
        self._action = action
        self._label = label
        self.rows: list[Reply] = []
        self.failures: list[Reply] = []

    def open(self) -> Any:
        with self._recorded():
            return self._subject.open()
        return None

    def read(self, handle: Any, names: Any, *, refusable: bool = False) -> None:
        self.look(self.take(handle, names, refusable=refusable))

    def take(self, handle: Any, names: Any, *, refusable: bool) -> list[tuple[str, Any]]:
        taken = []
        for name in () if handle is None else names:
            with self._recorded("reject" if refusable else ""):
                taken.append((name, self._subject.take(handle, name)))
        return taken

    def look(self, taken: list[tuple[str, Any]]) -> None:
        for name, value in taken:
            with self._recorded():
                self.add([self._subject.look(name, value)])

    def add(self, rows: list[Reply]) -> None:
        self.rows += [row for row in rows if row not in self.rows]

    def close(self, handle: Any, passed: str) -> None:
        with self._recorded(passed):
            self._subject.close(handle)

    def rounds(self, own: Mapping[str, Any], handle: Any, meet: Callable[[], object]) -> None:
        action = self._action
        each = action["opened"] == "each"
        if each:
            handle = self.open()
        for number in range(1, action["times"] + 1):
            # From this round on, threads may find that the file is closed, but processes have their own copy
            # of it.
            late = action["by"] == "threads" and 0 < action["closed"] <= number
            meet()
            taken = self.take(handle, own["tensors"], refusable=own["unknown"] or late)
            meet()
            self.look(taken)
        if each and handle is not None:
            self.close(handle, "unsupported")

    @contextlib.contextmanager
    def _recorded(self, passed: str = "") -> Iterator[None]:
        try:
            yield
        except KeyboardInterrupt:
            raise
        except BaseException as err:
            failure = self._subject.failed(err)
            if failure["outcome"] != passed:
                label = "" if failure["outcome"] == "harness-error" else self._label
                message = ": ".join(filter(None, (label, failure.get("message"))))
                self.failures.append({**failure, "message": message})


def _run(subject: Subject, action: Mapping[str, Any], handle: Any, opener: _Reader) -> bool:
    group = (_Threads if action["by"] == "threads" else _Processes)(subject, action, handle)
    closed = False
    with group:
        for number in range(1, action["times"] + 1):
            closing = action["closed"] == number
            closed = closed or closing
            if closing and action["by"] == "processes":
                opener.close(handle, "")
            group.meet()
            if closing and action["by"] == "threads":
                # a reader may refuse to close the file while other readers use it
                opener.close(handle, "reject")
            group.meet()
        for rows, failures in group.ended():
            opener.add(rows)
            opener.failures += failures
    return closed


class _Threads:
    def __init__(self, subject: Subject, action: Mapping[str, Any], handle: Any) -> None:
        self._barrier = threading.Barrier(len(action["readers"]) + 1)
        self._readers = [_Reader(subject, action, "in a thread") for _ in action["readers"]]
        self._threads = [
            threading.Thread(target=self._thread, args=(reader, own, handle), daemon=True)
            for reader, own in zip(self._readers, action["readers"], strict=True)
        ]

    def _thread(self, reader: _Reader, own: Mapping[str, Any], handle: Any) -> None:
        with contextlib.suppress(threading.BrokenBarrierError):
            reader.rounds(own, handle, self.meet)

    def __enter__(self) -> None:
        for thread in self._threads:
            try:
                thread.start()
            except RuntimeError as err:  # there is no memory for another stack
                self._barrier.abort()
                raise MemoryError(str(err)) from err

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self._barrier.abort()

    def meet(self) -> None:
        self._barrier.wait()

    def ended(self) -> Iterator[tuple[list[Reply], list[Reply]]]:
        for thread, reader in zip(self._threads, self._readers, strict=True):
            thread.join()
            yield reader.rows, reader.failures


class _Processes:
    """Readers in forked processes. Each has a pipe for its messages and a pipe that resumes it."""

    def __init__(self, subject: Subject, action: Mapping[str, Any], handle: Any) -> None:
        if not hasattr(os, "fork"):
            raise NotImplementedError("this system has no fork")
        self._subject, self._action, self._handle = subject, action, handle
        self._children: list[tuple[int, int, int]] = []

    def __enter__(self) -> None:
        for own in self._action["readers"]:
            heard, said = os.pipe()
            waits, go = os.pipe()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # some libraries start threads
                child = os.fork()
            if child == 0:
                self._child(own, said, waits)
            os.close(said)
            os.close(waits)
            self._children.append((child, heard, go))

    def _child(self, own: Mapping[str, Any], said: int, waits: int) -> NoReturn:
        status = 1
        try:

            def meet() -> None:
                os.write(said, b".")
                if not os.read(waits, 1):
                    os._exit(1)  # the parent process has exited

            reader = _Reader(self._subject, self._action, "in a process")
            reader.rounds(own, self._handle, meet)
            data = json.dumps([reader.rows, reader.failures]).encode()
            while data:
                data = data[os.write(said, data) :]
            status = 0
        finally:
            os._exit(status)

    def __exit__(self, *_: object) -> None:
        for child, heard, go in self._children:
            os.close(heard)
            os.close(go)
            if child:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)

    def meet(self) -> None:
        for _, heard, _ in self._children:
            os.read(heard, 1)
        for _, _, go in self._children:
            with contextlib.suppress(BrokenPipeError):
                os.write(go, b".")

    def ended(self) -> Iterator[tuple[list[Reply], list[Reply]]]:
        for place, (child, heard, go) in enumerate(self._children):
            message = b""
            while chunk := os.read(heard, 1 << 16):
                message += chunk
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            self._children[place] = (0, heard, go)
            if status:
                yield [], [{"outcome": "crash", "message": f"a process {_end(status)}"}]
            else:
                yield tuple(json.loads(message))


def _end(status: int) -> str:
    if status > 0:
        return f"ended with exit status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"
