"""The supervisor of tested programs: nothing that they start outlives them, nor the harness.

Standard library only, one thread. ``python supervisor.py FD`` reads requests from the socket ``FD``; for each
it forks a keeper, which starts the program, becomes the parent of whatever the program leaves behind
(``PR_SET_CHILD_SUBREAPER``), and kills all of it when it is told to or when the harness is gone, however that
ended: the keeper sees the end of its socket. A program whose keeper is killed gets a SIGKILL of the kernel
(``PR_SET_PDEATHSIG``).

A request is a length (four bytes, little-endian) with four descriptors attached, standard input, output and
error of the program and the keeper's own socket, and then so many bytes of JSON: ``argv``, ``env``, ``cwd``.
A template (``python_host.py``) serves such requests, too: there the program is a fork of the template.
The keeper answers in lines of JSON: ``{"pid": n, "keeper": n}`` or ``{"errno": n, "strerror": text,
"filename": text}``, then ``{"status": n, "spent": seconds, "gone": flag}`` when the program has ended, with
``gone`` when nothing of it is left, and ``{"gone": true}`` when all is killed, as the byte ``k`` asks for.
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
"""Of ``<linux/prctl.h>``."""
KILL_SECONDS = 5.0
"""Longest time that killing goes on against processes that start others meanwhile."""


class Program(Protocol):
    """A program that a keeper has begun: its process, and its exit status when it has been waited for."""

    pid: int
    returncode: int | None


Begin = Callable[[dict[str, Any], list[int], list[int]], Program]
"""Begins the program of a request in a keeper, with standard streams and without what is the keeper's own.

Raises OSError.
"""


def popen(request: dict[str, Any], stdio: list[int], _own: list[int]) -> Program:
    return subprocess.Popen(
        request["argv"],
        stdin=stdio[0],
        stdout=stdio[1],
        stderr=stdio[2],
        env=request["env"],
        cwd=request["cwd"],
        start_new_session=True,
        # Safe here: a process of one thread.
        preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGKILL),  # noqa: PLW1509
    )


def serve(requests: socket.socket, begin: Begin) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for a keeper
    while True:
        length, fds, _, _ = socket.recv_fds(requests, 4, 4)
        if len(length) < 4:
            return
        text = bytearray()
        left = int.from_bytes(length, "little")
        while left:  # never more than this request: the next one may be there already, with its descriptors
            chunk = requests.recv(min(left, 1 << 16))
            if not chunk:
                return
            text += chunk
            left -= len(chunk)
        if os.fork() == 0:
            requests.close()
            keep(json.loads(text), fds, begin)
            os._exit(0)
        for fd in fds:
            os.close(fd)


def keep(request: dict[str, Any], fds: list[int], begin: Begin) -> None:
    """Start a program and see to its end and that of all that it starts."""
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
        say(harness, {"errno": err.errno, "strerror": err.strerror, "filename": str(err.filename)})
        return
    for fd in fds[:3]:
        os.close(fd)
    say(harness, {"pid": program.pid, "keeper": os.getpid()})
    with contextlib.suppress(OSError):
        while True:
            reap(program, harness)
            ready, _, _ = select.select([harness.fileno(), woken], [], [])
            if woken in ready:
                os.read(woken, 1 << 12)
            if harness.fileno() in ready:
                told = harness.recv(1)
                kill_all(program, harness)
                if not told:
                    return
                say(harness, {"gone": True})
    kill_all(program, None)  # the harness was gone while it was told something


def prctl(option: int, value: int) -> None:
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def say(harness: socket.socket, message: dict[str, Any]) -> None:
    harness.sendall(json.dumps(message).encode() + b"\n")


def reap(program: Program, harness: socket.socket | None) -> bool:
    """Wait for all that has ended and tell of the program; True when something is left that has not."""
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
            say(harness, {**ended, "gone": not left})
    return left


def kill_all(program: Program, harness: socket.socket | None) -> None:
    """Kill the program, its group and all descendants, in whatever session they are."""
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
    """Return the processes that descend from ``root``, nothing where there is no ``/proc``."""
    children: dict[int, list[int]] = {}
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir("/proc"):  # noqa: PTH208 - start stays free of pathlib
            if name.isdigit():
                with contextlib.suppress(OSError, ValueError, IndexError):
                    # The name in brackets may hold anything; the parent is the second field behind it.
                    parent = int(read(f"/proc/{name}/stat").rpartition(b")")[2].split()[1])
                    children.setdefault(parent, []).append(int(name))
    found = list(children.get(root, ()))
    for pid in found:
        found += children.get(pid, ())
    return found


def read(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 - as above
        return file.read()


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), popen)
