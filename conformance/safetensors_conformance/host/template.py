"""Templates: a host that has loaded its adapter and answers nothing; each worker is a fork of it.

A fork is there in a few milliseconds where loading a framework takes a second, and it has been asked nothing
before, as a program that was started. Only for libraries whose forks are known to answer as such a program
does: their descriptors say ``forks``. Standard library only.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from typing import Any

from . import supervisor


class Fork:
    """A fork that a keeper has begun."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None


def serve_forks(answers: int, work: Callable[[], int]) -> None:
    """Begin forks that carry out ``work`` until the harness is gone, which asks on standard input.

    Args:
        answers: descriptor on which ``work`` answers; it becomes the standard output of a request.
        work: returns the exit status.
    """

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
            os._exit(status)  # never back into the keeper

    with socket.socket(fileno=os.dup(0)) as requests:
        supervisor.serve(requests, begin)
