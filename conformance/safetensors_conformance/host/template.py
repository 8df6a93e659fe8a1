"""Templates: hosts that load an adapter once and fork a worker for each request.

Loading a framework takes a second, and a fork takes milliseconds. Only adapters whose descriptors say
``forks`` use templates. This file uses only the standard library.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from typing import Any

from . import supervisor


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
            supervisor.prctl(supervisor.PR_SET_PDEATHSIG, signal.SIGKILL)
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
        supervisor.serve(requests, begin)
