"""Tested programs that show what they can access: readers that refuse every file with it, and a program.

The readers look only at what a test has made for them, in variables that begin with FAKE. ``python
access_fakes.py STATUS`` ends with that status or signal. With the path of a note in place of the status, the
program writes its variables there.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path


def telling(reach: Callable[[], str]) -> type:
    def read(_self: object, _path: str) -> None:
        try:
            got = reach()
        except OSError as err:
            got = f"could not: {type(err).__name__}"
        raise ValueError(got)

    return type("Tells", (), {"name": "tells", "version": "1", "read": read})


def write_to_home() -> str:
    (Path.home() / "planted").write_text("x", encoding="ascii")
    return f"wrote to {Path.home()}"


def connect() -> str:
    socket.create_connection(("127.0.0.1", int(os.environ["FAKE_PORT"])), 5).close()
    return "connected"


def kill() -> str:
    os.kill(int(os.environ["FAKE_VICTIM"]), signal.SIGKILL)
    return "killed"


WritesToHome = telling(write_to_home)
ReadsAKey = telling(lambda: Path(os.environ["FAKE_HOME"], ".ssh", "id_ed25519").read_text(encoding="ascii"))
# The input itself is a copy in a folder of the reader's own.
WritesToTheCorpus = telling(lambda: str(Path(os.environ["FAKE_CORPUS"], "planted").write_bytes(b"x")))
Connects = telling(connect)
Kills = telling(kill)
CountsProcesses = telling(lambda: " ".join(sorted(filter(str.isdigit, os.listdir("/proc")))))
FillsItsOwnFolder = telling(lambda: str(Path("/tmp/much").write_bytes(bytes(300 << 20))))


if __name__ == "__main__":
    how = sys.argv[1]
    if "/" in how:
        Path(how).write_text(json.dumps(dict(os.environ)), encoding="utf-8")
        sys.exit(0)
    if how.startswith("SIG"):
        os.kill(os.getpid(), getattr(signal, how))
    sys.exit(int(how))
