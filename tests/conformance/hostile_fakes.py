"""Hostile readers: each is right about every file except the one that triggers it.

They run inside the real worker, most of them through the real Python host. ``python hostile_fakes.py HOW``
speaks the protocol itself, for what the host would not let through. They start often, so what takes long to
load is loaded where it is needed.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from known_files import holds

if TYPE_CHECKING:
    from .quick_reader import Reference
else:
    from quick_reader import Reference


class Hostile(Reference):
    """Acts up, then reads as if nothing had happened, if it still can."""

    name = "hostile"
    version = "1.0"

    def read(self, path: str) -> Any:
        if holds(path):
            self.act_up(path)
        return super().read(path)

    def act_up(self, path: str) -> None:
        raise AssertionError


class OverflowsTheStack(Hostile):
    def act_up(self, path: str) -> None:
        sys.setrecursionlimit(1 << 30)
        callback = ctypes.CFUNCTYPE(None)
        call: list[Any] = []
        call.append(callback(lambda: call[0]()))
        call[0]()


class MapsWhatIsCutOff(Hostile):
    def act_up(self, path: str) -> None:
        import tempfile

        with tempfile.TemporaryFile() as file:
            file.write(bytes(1 << 16))
            file.flush()
            view = mmap.mmap(file.fileno(), 1 << 16)
            file.truncate(0)
            bytes(view)


class AllocatesMuch(Hostile):
    def act_up(self, path: str) -> None:
        bytearray(8 << 30)


class ExitsByException(Hostile):
    def act_up(self, path: str) -> None:
        sys.exit(3)


class ForksAndDies(Hostile):
    """The child keeps the pipes open."""

    def act_up(self, path: str) -> None:
        if os.fork() == 0:
            time.sleep(60)
        os._exit(4)


class ForksAndBothAnswer(Hostile):
    def act_up(self, path: str) -> None:
        os.fork()


class LeavesAGrandchild(Hostile):
    """A grandchild in a session of its own, with the pipes inherited."""

    def act_up(self, path: str) -> None:
        import subprocess

        grandchild = subprocess.Popen(["sleep", "600"], start_new_session=True)
        Path(os.environ["HOSTILE_PID_FILE"]).write_text(str(grandchild.pid), encoding="ascii")


class HangsWithAGrandchild(LeavesAGrandchild):
    def act_up(self, path: str) -> None:
        super().act_up(path)
        time.sleep(600)


class HelperInAnotherGroup(LeavesAGrandchild):
    def act_up(self, path: str) -> None:
        import subprocess

        helper = subprocess.Popen(["sleep", "600"], preexec_fn=os.setpgrp)  # noqa: PLW1509 - one thread
        Path(os.environ["HOSTILE_PID_FILE"]).write_text(str(helper.pid), encoding="ascii")
        time.sleep(600)


class StopsItself(Hostile):
    def act_up(self, path: str) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)


class FloodsStderr(Hostile):
    def act_up(self, path: str) -> None:
        while True:
            os.write(2, b"error " * 1000)


class FloodsStderrFromAThread(Hostile):
    """The answers go on as if nothing was."""

    def act_up(self, path: str) -> None:
        threading.Thread(target=FloodsStderr.act_up, args=(self, path), daemon=True).start()


class LeavesThreads(Hostile):
    """Threads that never end keep a Python process from ending."""

    def act_up(self, path: str) -> None:
        for _ in range(3):
            threading.Thread(target=time.sleep, args=(600,)).start()


class ChangesTheClock(Hostile):
    """Every clock of this process jumps."""

    def act_up(self, path: str) -> None:
        for name in ("time", "monotonic", "perf_counter", "process_time"):
            setattr(time, name, lambda: 1e12)


class ClosesStdin(Hostile):
    def act_up(self, path: str) -> None:
        os.close(0)


class ClosesStderr(Hostile):
    def act_up(self, path: str) -> None:
        os.close(2)


class ClosesEverything(Hostile):
    def act_up(self, path: str) -> None:
        os.closerange(0, 64)


class ChangesFolder(Hostile):
    def act_up(self, path: str) -> None:
        os.chdir("/")


class LowersFileLimit(Hostile):
    """Hardly any further file can be opened by this process."""

    def act_up(self, path: str) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))


class Deletes(Hostile):
    def read(self, path: str) -> Any:
        chosen, content = holds(path), Reference.read(self, path)
        if chosen:
            os.unlink(path)
        return content


class WritesIntoTheFile(Hostile):
    """Changes the file behind the reader's back: same size, other data, the old time of change."""

    def read(self, path: str) -> Any:
        chosen, content = holds(path), Reference.read(self, path)
        content = {**content, "tensors": [(n, d, s, bytes(b)) for n, d, s, b in content["tensors"]]}
        if chosen:
            before = os.stat(path)
            with open(path, "r+b") as file:
                file.seek(-1, os.SEEK_END)
                file.write(b"\xff")
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        return content


class Replaces(Hostile):
    """Puts something else in place of the file."""

    def read(self, path: str) -> Any:
        chosen, content = holds(path), Reference.read(self, path)
        content = {**content, "tensors": [(n, d, s, bytes(b)) for n, d, s, b in content["tensors"]]}
        if chosen:
            os.unlink(path)
            self.put(path)
        return content

    def put(self, path: str) -> None:
        raise AssertionError


class PutsAFifo(Replaces):
    def put(self, path: str) -> None:
        os.mkfifo(path)


class LinksToZeros(Replaces):
    def put(self, path: str) -> None:
        os.symlink("/dev/zero", path)


class PutsAFolder(Replaces):
    def put(self, path: str) -> None:
        os.mkdir(path)


class SpoilsAllInputs(Replaces):
    """Empties every file next to its input."""

    def put(self, path: str) -> None:
        for other in Path(path).parent.iterdir():
            other.write_bytes(b"")


class MovesTheFolder(Replaces):
    def put(self, path: str) -> None:
        import shutil

        folder = Path(path).parent
        folder.rename(folder.with_name(folder.name + "-moved"))
        shutil.rmtree(folder.with_name(folder.name + "-moved"))


class DigsDeep(Hostile):
    """Nests folders too deeply for recursion, and makes one unreadable."""

    def act_up(self, path: str) -> None:
        before = os.getcwd()
        os.chdir(os.path.dirname(path))
        os.symlink("/", "link")
        os.mkdir("closed")
        open("closed/file", "w").close()
        os.chmod("closed", 0)
        for _ in range(1500):
            os.mkdir("deep")
            os.chdir("deep")
        os.chdir(before)

    def hold(self, path: str) -> Any:
        self.act_up(path)
        return super().hold(path)


class TellsWhatIsBeside(Hostile):
    """Reports the names of its input and the files next to it as metadata."""

    def open(self, path: str) -> Any:
        beside = " ".join(sorted(os.listdir(os.path.dirname(path))))
        return {"tensors": [], "metadata": {"name": os.path.basename(path), "beside": beside}}

    read = open

    def slice(self, path: str, tensor: str, index: Any) -> Any:
        raise ValueError


class ComplainsOfTheFile(Hostile):
    """Refuses every file, with its path, its name and its folder in the message."""

    def open(self, path: str) -> Any:
        print("opening", path)
        stem = os.path.basename(path).removesuffix(".safetensors")
        raise ValueError(f"cannot read {path} ({stem} in {os.path.dirname(path)!r})")

    read = hold = open

    def slice(self, path: str, tensor: str, index: Any) -> Any:
        self.open(path)


# Programs


def answer(request: dict[str, Any]) -> dict[str, Any]:
    reader = Reference()
    try:
        content = getattr(reader, request["step"])(request["path"])
    except ValueError as err:
        return {"seq": request["seq"], "outcome": "reject", "message": str(err)}
    rows = [{"name": row[0], "dtype": row[1], "shape": list(row[2])} for row in content["tensors"]]
    return {"seq": request["seq"], "outcome": "accept", "tensors": rows, "metadata": content["metadata"]}


NESTED = b"[" * 900 + b"]" * 900
LINES: dict[str, tuple[bytes, ...]] = {
    "ahead": (b"GOOD", b"NEXT"),
    "twice": (b"GOOD", b"GOOD"),
    "no-utf-8": (b'{"seq": SEQ, "outcome": "reject", "message": "caf\xe9"}',),
    "no-json": (b'{"seq": SEQ, "outcome": "reject", "message": "\\d"}',),
    "nan": (b'{ACCEPT: [], "metadata": {"a": NaN}, "cpu_ms": NaN, "wall_ms": -Infinity}',),
    "huge-numbers": (b'{ACCEPT: [{"name": "w", "shape": [1e999], "nbytes": 1E+999}], "wall_ms": 1e999}',),
    "endless-digits": (b'{ACCEPT: [{"name": "w", "shape": [' + b"1" * 5000 + b"]}]}",),
    "deep": (b"{ACCEPT: " + b"[" * 100_000 + b"]" * 100_000 + b"}",),
    "deep-metadata": (b'{ACCEPT: [], "metadata": {"a": ' + NESTED + b"}}",),
    "deep-shape": (b'{ACCEPT: [{"name": "w", "dtype": "F32", "shape": ' + NESTED + b"}]}",),
    "odd-types": (
        b'{ACCEPT: [{"name": "w", "shape": {"a": []}, "dtype": [1], "nbytes": "8"}], "metadata": [[]]}',
    ),
}
"""Lines that a program writes in place of its answer."""


ONCE = ("long-", "rows-", "fills", "talks-and-fills")
"""Beginnings of the names of those that do so much that one step is enough."""


def lines(how: str, good: dict[str, Any]) -> list[bytes]:
    seq = b"%d" % good["seq"]
    if how.startswith("long-"):
        size = int(how.removeprefix("long-"))
        return [b'{"seq": %s, "outcome": "reject", "message": "' % seq + b"x" * size + b'"}']
    if how.startswith("rows-"):
        rows = b",".join(b'{"name": "t%d"}' % i for i in range(int(how.removeprefix("rows-"))))
        return [b'{"seq": %s, "outcome": "accept", "tensors": [%s]}' % (seq, rows)]
    places = {
        b"ACCEPT": b'"seq": SEQ, "outcome": "accept", "tensors"',
        b"SEQ": seq,
        b"GOOD": json.dumps(good).encode(),
        b"NEXT": json.dumps({**good, "seq": good["seq"] + 1}).encode(),
    }
    out = [*LINES[how]]
    for place, text in places.items():
        out = [line.replace(place, text) for line in out]
    return out


def talk_and_fill() -> None:
    """Never leave the harness a quiet moment, and take memory all the while."""
    hoard = []
    while True:
        hoard.append(b"\x01" * (8 << 20))
        for _ in range(20):
            os.write(2, b"more\n")
            time.sleep(0.0005)


def program(how: str) -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if request["cmd"] == "stop":
            return
        steps = b'["read"]' if how.startswith(ONCE) else b'["open", "read"]'
        out = [b'{"protocol": 1, "implementation": {"name": "hostile"}, "steps": %s}' % steps]
        if request["cmd"] == "run":
            good = answer(request)
            out = [json.dumps(good).encode()]
            if holds(request["path"]):
                if how == "reserves":
                    mmap.mmap(-1, 8 << 30)  # pages are handed out as they are touched
                elif how == "fills":
                    bytearray(b"\x01") * (8 << 30)
                elif how == "talks-and-fills":
                    talk_and_fill()
                else:
                    out = lines(how, good)
        sys.stdout.buffer.write(b"\n".join(out) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    program(sys.argv[1])
