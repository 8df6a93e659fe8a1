"""Readers that access foreign resources, and report in their rejection how far they got.

Each looks only at what the test has made for it, told by the variables that begin with FAKE.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path


class _Reaches:
    name, version = "reaches", "1"

    def read(self, path: str) -> None:
        try:
            got = self.reach(path)
        except OSError as err:
            got = f"could not: {type(err).__name__}"
        raise ValueError(got)

    def reach(self, path: str) -> str:
        raise NotImplementedError


class WritesToHome(_Reaches):
    def reach(self, path: str) -> str:
        (Path.home() / "planted").write_text("x", encoding="ascii")
        return f"wrote to {Path.home()}"


class ReadsAKey(_Reaches):
    def reach(self, path: str) -> str:
        return (Path(os.environ["FAKE_HOME"]) / ".ssh" / "id_ed25519").read_text(encoding="ascii")


class WritesToTheCorpus(_Reaches):
    def reach(self, path: str) -> str:
        # The input itself is a copy in a folder of the reader's own.
        (Path(os.environ["FAKE_CORPUS"]) / "planted").write_text("x", encoding="ascii")
        return "wrote to the corpus"


class Connects(_Reaches):
    def reach(self, path: str) -> str:
        socket.create_connection(("127.0.0.1", int(os.environ["FAKE_PORT"])), 5).close()
        return "connected"


class Kills(_Reaches):
    def reach(self, path: str) -> str:
        os.kill(int(os.environ["FAKE_VICTIM"]), signal.SIGKILL)
        return "killed"


class CountsProcesses(_Reaches):
    def reach(self, path: str) -> str:
        return " ".join(sorted(entry for entry in os.listdir("/proc") if entry.isdigit()))


class FillsItsOwnFolder(_Reaches):
    def reach(self, path: str) -> str:
        with open("/tmp/much", "wb") as file:
            file.writelines(bytes(1 << 20) for _ in range(300))
        return "filled"


if __name__ == "__main__":
    if sys.argv[1].startswith("SIG"):
        os.kill(os.getpid(), getattr(signal, sys.argv[1]))
    sys.exit(int(sys.argv[1]))
