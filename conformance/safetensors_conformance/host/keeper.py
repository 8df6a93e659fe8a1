"""Keepers, which ensure that processes of tested programs do not outlive them or the harness.

This file uses only the standard library and runs in a single thread. ``python keeper.py FD`` is the
supervisor: it reads requests from the socket ``FD`` and forks a keeper for each of them. The keeper starts
the program and adopts all processes that the program leaves behind (``PR_SET_CHILD_SUBREAPER``). It kills
them on request, or when the harness ends and its end of the keeper's socket is closed. If the keeper itself
is killed, the kernel kills the program (``PR_SET_PDEATHSIG``).

A request is a length (four bytes, little-endian) with four descriptors attached: the program's standard
input, output and error, and the keeper's socket. The length is followed by that many bytes of JSON: ``argv``,
``env``, ``cwd``. A template serves these requests, too. It is a Python host that has already loaded its
adapter, which may take a second. It starts each program as a fork of itself, which takes milliseconds.

The keeper replies with one JSON object per line. The first is ``{"pid": n, "keeper": n}`` or
``{"errno": n, "strerror": text, "filename": text}``. Once the program has ended, the keeper sends
``{"status": n, "spent": seconds, "gone": flag}``, where ``gone`` means that all of its processes have ended.
In response to the byte ``k``, it sends ``{"gone": true}`` after all processes have been killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
"""From ``<linux/prctl.h>``."""
KILL_SECONDS = 5.0
"""Maximum time for killing processes that keep starting other processes."""


class Program(Protocol):
    """A program started by a keeper. ``returncode`` is None until the program has been reaped."""

    pid: int
    returncode: int | None


Begin = Callable[[dict[str, Any], list[int], list[int]], Program]
"""Starts the program of a request, with its standard streams and the descriptors to close. Raises OSError."""


def popen(request: dict[str, Any], stdio: list[int], _own: list[int]) -> Program:
    return subprocess.Popen(
        request["argv"],
        stdin=stdio[0],
        stdout=stdio[1],
        stderr=stdio[2],
        env=request["env"],
        cwd=request["cwd"],
        start_new_session=True,
        # This is safe because the process has only one thread.
        preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGKILL),  # noqa: PLW1509
    )


def serve(requests: socket.socket, begin: Begin) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nothing waits for the keepers
    while True:
        length, fds, _, _ = socket.recv_fds(requests, 4, 4)
        if len(length) < 4:
            return
        text = bytearray()
        left = int.from_bytes(length, "little")
        while left:  # never read beyond this request, because the next one may follow with its descriptors
            chunk = requests.recv(min(left, 1 << 16))
            if not chunk:
                return
            text += chunk
            left -= len(chunk)
        if os.fork() == 0:
            requests.close()
            run_keeper(json.loads(text), fds, begin)
            os._exit(0)
        for fd in fds:
            os.close(fd)


class Fork:
    """A fork started by a keeper."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None


def serve_forks(answers: int, work: Callable[[], int]) -> None:
    """Fork for each request on standard input. ``work`` writes to ``answers`` and returns the exit status."""

    def begin(_request: dict[str, Any], stdio: list[int], own: list[int]) -> Fork:
        pid = os.fork()
        if pid:
            return Fork(pid)
        status = 1
        try:
            os.setsid()
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            read, write, errors = stdio
            for fd, standard in ((read, 0), (write, answers), (errors, 1), (errors, 2)):
                os.dup2(fd, standard)
            for fd in (*stdio, *own):
                os.close(fd)
            status = work()
        finally:
            os._exit(status)  # never return into the keeper

    with socket.socket(fileno=os.dup(0)) as requests:
        serve(requests, begin)


def run_keeper(request: dict[str, Any], fds: list[int], begin: Begin) -> None:
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    harness = socket.socket(fileno=fds[3])
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    try:
        program = begin(request, fds[:3], [fds[3], woken, wake])
    except OSError as err:
        send(harness, {"errno": err.errno, "strerror": err.strerror, "filename": str(err.filename)})
        return
    for fd in fds[:3]:
        os.close(fd)
    send(harness, {"pid": program.pid, "keeper": os.getpid()})
    with contextlib.suppress(OSError):
        while True:
            reap(program, harness)
            ready, _, _ = select.select([harness.fileno(), woken], [], [])
            if woken in ready:
                os.read(woken, 1 << 12)
            if harness.fileno() in ready:
                command = harness.recv(1)
                kill_all(program, harness)
                if not command:
                    return
                send(harness, {"gone": True})
    kill_all(program, None)  # the harness disappeared during a message


def prctl(option: int, value: int) -> None:
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def send(harness: socket.socket, message: dict[str, Any]) -> None:
    harness.sendall(json.dumps(message).encode() + b"\n")


def reap(program: Program, harness: socket.socket | None) -> bool:
    """Reap processes that have ended and report the program's end. Return whether any process is left."""
    ended = None
    while True:
        try:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            left = False
            break
        if not pid:
            left = True
            break
        if pid == program.pid:
            program.returncode = os.waitstatus_to_exitcode(status)
            ended = {"status": program.returncode, "spent": usage.ru_utime + usage.ru_stime}
    if ended is not None and harness is not None:
        with contextlib.suppress(OSError):
            send(harness, {**ended, "gone": not left})
    return left


def kill_all(program: Program, harness: socket.socket | None) -> None:
    """Kill the program, its process group and all descendants, in any session."""
    until = time.monotonic() + KILL_SECONDS
    pause = 0.0005
    if program.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(program.pid, signal.SIGKILL)
    while reap(program, harness) and time.monotonic() < until:
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir("/proc"):  # noqa: PTH208 - start stays free of pathlib
            if name.isdigit():
                with contextlib.suppress(OSError, ValueError, IndexError):
                    # The name in brackets may contain anything. The parent is the second field after it.
                    with open(f"/proc/{name}/stat", "rb") as stat:  # noqa: PTH123 - as above
                        parent = int(stat.read().rpartition(b")")[2].split()[1])
                    children.setdefault(parent, []).append(int(name))
    found = list(children.get(root, ()))
    for pid in found:
        found += children.get(pid, ())
    return found


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), popen)
