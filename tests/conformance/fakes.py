"""Readers with known behaviour: each wraps the reference and misbehaves in one way, on certain files.

They run inside the real worker through the real Python host. the bytes of the file decide, so that the
other cases of the same run show whether the harness survived.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from known_files import holds

if TYPE_CHECKING:
    from .quick_reader import InvalidFileError, Reading, Reference
else:
    from quick_reader import InvalidFileError, Reading, Reference


class _Fake(Reference):
    name = "fake"
    version = "1.0"

    def misbehave(self, path: str) -> Any:
        raise AssertionError

    def open(self, path: str) -> Any:
        return self.misbehave(path) if holds(path) else super().open(path)

    def read(self, path: str) -> Any:
        return self.misbehave(path) if holds(path) else super().read(path)


class AlwaysAccepts:
    """Accepts every file and says that it is empty."""

    def open(self, path: str) -> Any:
        return {"tensors": [], "metadata": None}

    read = open


class AlwaysRejects:
    """Refuses every file."""

    def read(self, path: str) -> Any:
        raise ValueError("no")


class Small(Reading):
    """Right about every file, under another name."""

    name = "small"
    version = "1"


class GoesThroughASet(_Fake):
    def misbehave(self, path: str) -> Any:
        raise InvalidFileError(" ".join({f"tensor-{number}" for number in range(40)}))


class AlwaysHangs:
    """Answers nothing about any file."""

    def read(self, path: str) -> Any:
        time.sleep(3600)


class AlwaysDies:
    """Ends its process at every file."""

    def read(self, path: str) -> Any:
        os._exit(5)


class Hangs(_Fake):
    def misbehave(self, path: str) -> Any:
        time.sleep(3600)


class Slow(_Fake):
    """Takes nearly a second, and answers rightly in the end."""

    def misbehave(self, path: str) -> Any:
        time.sleep(0.9)
        return Reference().read(path)


class StuckAtFirst(_Fake):
    """Hangs after another file, but is quick alone."""

    before = False

    def read(self, path: str) -> Any:
        if not holds(path):
            self.before = True
        return super().read(path)

    def misbehave(self, path: str) -> Any:
        if self.before:
            time.sleep(3600)
        return Reference().read(path)


class HangsTwice(_Fake):
    """At two files with others between them."""

    def open(self, path: str) -> Any:
        if holds(path, "framing/no-bytes", "layout/two-dtypes"):
            time.sleep(3600)
        return Reference.open(self, path)

    def read(self, path: str) -> Any:
        return Reference.read(self, path)


class HangsIgnoringSignals(_Fake):
    def misbehave(self, path: str) -> Any:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
            signal.signal(number, signal.SIG_IGN)
        while True:
            pass


class Crashes(_Fake):
    """Dies by a segmentation fault."""

    def misbehave(self, path: str) -> Any:
        sys.stderr.write("about to crash\n")
        sys.stderr.flush()
        ctypes.string_at(0)


class DiesOfNoBytes(Reference):
    """Dies by a segmentation fault of an empty file, and reads all others."""

    name = "fake"

    def open(self, path: str) -> Any:
        return super().open(path) if os.stat(path).st_size else ctypes.string_at(0)

    def read(self, path: str) -> Any:
        return super().read(path) if os.stat(path).st_size else ctypes.string_at(0)


class CrashesTheSecondTime(Reference):
    """Dies at the second file that it reads, whichever that is."""

    name = "fake"
    seen = 0

    def read(self, path: str) -> Any:
        self.seen += 1
        if self.seen == 2:
            os.abort()
        return super().read(path)


class Aborts(_Fake):
    def misbehave(self, path: str) -> Any:
        os.abort()


class Exits(_Fake):
    """Ends the process politely in the middle of a request."""

    def misbehave(self, path: str) -> Any:
        os._exit(0)


class EatsMemory(_Fake):
    def misbehave(self, path: str) -> Any:
        hoard = []
        while True:
            hoard.append(bytearray(64 << 20))


class Noisy(_Fake):
    """Prints on standard output, through Python and past it; the answers are right."""

    def open(self, path: str) -> Any:
        print("opening", path)
        return Reference.open(self, path)

    def read(self, path: str) -> Any:
        print('{"seq": 1, "outcome": "accept", "tensors": []}', flush=True)
        os.write(1, b"raw noise\n")
        return Reference.read(self, path)


class LiesAboutContent(_Fake):
    """Returns one byte changed."""

    def misbehave(self, path: str) -> Any:
        header = Reference.open(self, path)
        rows = [(n, d, s, bytes(8)) for n, d, s in header["tensors"]]
        return {"tensors": rows, "metadata": header["metadata"]}


class LosesMetadata(_Fake):
    def read(self, path: str) -> Any:
        return {**Reference.read(self, path), "metadata": {}}


class Lazy:
    """Opens everything, finds out when reading."""

    def __init__(self) -> None:
        self._reference = Reference()

    def open(self, path: str) -> Any:
        try:
            return self._reference.open(path)
        except ValueError:
            return []

    def read(self, path: str) -> Any:
        return self._reference.read(path)


class ReturnsNonsense(_Fake):
    def misbehave(self, path: str) -> Any:
        return 42


class SlipsUp(_Fake):
    """The adapter itself has a slip of the pen."""

    def misbehave(self, path: str) -> Any:
        return undefined_name  # type: ignore[name-defined]  # noqa: F821


class Panics(_Fake):
    def misbehave(self, path: str) -> Any:
        panic = type("PanicException", (BaseException,), {})
        raise panic("called `Option::unwrap()` on a `None` value")


class NeedsNotF32(Reference):
    """Declares to lack F32 and says so per file."""

    lacks = ("dtype-f32",)

    def read(self, path: str) -> Any:
        answer = super().read(path)
        rows = list(answer["tensors"])
        if any(r[1] == "F32" for r in rows):
            raise ValueError("F32 is not known here")
        return {"tensors": rows, "metadata": answer["metadata"]}


class Flaps(Reference):
    """Takes another option of one choice on every second file."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    def read(self, path: str) -> Any:
        if holds(path, "header/leading-*"):
            self._count += 1
            self.profile("official" if self._count % 2 else "hardened")
        try:
            return super().read(path)
        finally:
            self.profile("hardened")


class NoSteps:
    """Has neither open nor read."""
