"""Templates: hosts that load an adapter once and fork a worker for each request.

A fork takes milliseconds where loading a framework takes a second, and like a new program it has handled no
request. Only for libraries whose forks are known to answer like started programs: their descriptors say
``forks``. Standard library only.
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
    """Start forks that run ``work``, on requests from standard input, until the harness is gone.

    ``answers`` is the descriptor to which ``work`` writes; it becomes the standard output of a request.
    ``work`` returns the exit status.
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
