"""Where bytes come from: every kind of input gives the same result, and what cannot be read says so."""

from __future__ import annotations

import array
import ctypes
import gzip
import io
import itertools
import mmap
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, cast
from unittest.mock import Mock

import numpy as np
import pytest

from safetensors_reference import UnreadableError, explain, safe_open
from safetensors_reference.source import MemorySource, SourceLike, open_source

from .support import ABCD, W, entry, make
from .writing.support import ordinary_user

VALID = make(f'{{"w":{W}}}   ', ABCD)
BROKEN = make(f'{{"w":{W}}}   ', ABCD + b"efgh")
assert len(VALID) % 4 == len(BROKEN) % 4 == 0, "both fit a view of 32-bit items"


def through_file(data: bytes, folder: Path) -> Path:
    path = folder / "file.safetensors"
    path.write_bytes(data)
    return path


def linked(data: bytes, folder: Path) -> Path:
    link = folder / f"link {len(data)}"
    link.symlink_to(through_file(data, folder))
    return link


def mapped(data: bytes, folder: Path) -> mmap.mmap:
    with through_file(data, folder).open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def looped(folder: Path) -> Path:
    path = folder / "loop"
    path.symlink_to(path)
    return path


KINDS: dict[str, Callable[[bytes, Path], SourceLike]] = {
    "bytes": lambda data, _: data,
    "bytearray": lambda data, _: bytearray(data),
    "memoryview of a slice": lambda data, _: memoryview(b"xx" + data + b"yy")[2:-2],
    "memoryview with steps": lambda data, _: memoryview(b"".join(bytes([byte, 7]) for byte in data))[::2],
    "two-dimensional memoryview": lambda data, _: memoryview(data).cast("B", [len(data) // 4, 4]),
    "explicit byte order": lambda data, _: (ctypes.c_uint32 * (len(data) // 4)).from_buffer_copy(data),
    "characters": lambda data, _: ctypes.create_string_buffer(data, len(data)),
    "items of four bytes": lambda data, _: array.array("I", data),
    "NumPy, read backwards": lambda data, _: cast("Any", np.frombuffer(data[::-1], np.uint8)[::-1]),
    "mapping": mapped,
    "str path": lambda data, folder: str(through_file(data, folder)),
    "Path": through_file,
    "symbolic link": linked,
    "BytesIO": lambda data, _: io.BytesIO(data),
    "file object": lambda data, folder: through_file(data, folder).open("rb"),
    "unbuffered file object": lambda data, folder: through_file(data, folder).open("rb", buffering=0),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_input_gives_the_same_result(kind: str, tmp_path: Path) -> None:
    for data in (BROKEN, VALID):
        what = KINDS[kind](data, tmp_path)
        explanation = explain(what)
        assert explanation.size == len(data)
        assert explanation.faults == explain(data).faults
        assert explanation.header == explain(data).header
        if data is VALID:
            with safe_open(what, "raw") as file:
                assert bytes(file.get_tensor("w")) == ABCD
            named = {"BytesIO": "<file object>"}.get(kind, getattr(what, "name", "<bytes>"))
            assert explanation.name == (str(what) if isinstance(what, (str, Path)) else named)
        if isinstance(what, (io.IOBase, mmap.mmap)):
            what.close()
        elif isinstance(what, bytearray):
            what.append(0)  # nothing holds it


def test_an_empty_view_is_an_empty_file() -> None:
    assert explain(memoryview((ctypes.c_ubyte * 3 * 0)())).faults == explain(b"").faults


def test_what_the_caller_opened_stays_open_and_what_is_opened_here_is_closed(tmp_path: Path) -> None:
    file = Unlisted(VALID)
    file.seek(5)
    assert explain(file).valid
    assert not file.closed
    data = bytearray(BROKEN)
    memory = MemorySource(data)
    data[0] = 7
    assert memory.read(0, 1) == b"\7", "memory is not copied until it is read"
    with open_source(through_file(BROKEN, tmp_path)) as source:
        assert source.read(0, 8) == BROKEN[:8]
    with pytest.raises((OSError, ValueError)):
        source.read(0, 8)


def without_permission(path: Path) -> None:
    path.chmod(0)
    with ordinary_user():  # the superuser reads every file
        explain(path)


def of_a_pipe(_: Path) -> None:
    reader, writer = os.pipe()
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        explain(file)


def detached(path: Path) -> None:
    file = path.open("rb")
    opened = safe_open(file, "raw")
    with file.detach():
        opened.get_tensor("w")


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (lambda path: explain(path.with_name("no\x1b")), r"/no\\u001b: No such file"),
        (lambda path: explain(path.parent), "not a regular file"),
        (lambda path: explain(path / "below-a-file"), "Not a directory"),
        (lambda path: explain(path.with_name("n" * 300)), "too long"),
        (lambda path: explain(f"{path}nul\0name"), r"nul\\u0000name: .*null"),
        (lambda path: explain(looped(path.parent)), "symbolic links"),
        (lambda _: explain(os.devnull), "not a regular file"),
        (without_permission, "Permission denied"),
        (of_a_pipe, "cannot be read by position"),
        (lambda _: explain(lying(b"")), "became shorter"),
        (detached, "detached"),
        *(
            (lambda _, answer=answer: explain(lying(answer)), "<file object>: cannot be read")
            for answer in (
                None,
                "text",
                8,
                b"x" * 1000,
                bytearray(8),
                OSError("no"),
                ValueError(),
                TypeError(),
            )
        ),
    ],
)
def test_what_cannot_be_read_is_no_verdict(
    read: Callable[[Path], object], words: str, tmp_path: Path
) -> None:
    with pytest.raises(UnreadableError, match=words):
        read(through_file(VALID, tmp_path))


def test_a_fifo_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    """In a process of its own, so that waiting fails this test and does not hang it (API-13)."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    code = "import sys; from safetensors_reference import explain; explain(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, str(fifo)], capture_output=True, text=True, timeout=60, check=False
    )
    assert "UnreadableError" in done.stderr
    assert "not a regular file" in done.stderr


def numbered(folder: Path, tensors: int = 64, size: int = 512) -> Path:
    """A file whose tensor ``n`` holds nothing but the byte ``n``."""
    entries = ",".join(
        f'"{n}":{entry("U8", f"[{size}]", f"[{n * size},{(n + 1) * size}]")}' for n in range(tensors)
    )
    return through_file(make(f"{{{entries}}}", b"".join(bytes([n]) * size for n in range(tensors))), folder)


class Slow(io.BytesIO):
    """Hands on the processor between seek and read, as any thread may be made to."""

    def read(self, count: int | None = -1, /) -> bytes:
        time.sleep(0)
        return super().read(count)


class Drip(io.BytesIO):
    """Gives at most three bytes at a time, as raw files may."""

    def read(self, count: int | None = -1, /) -> bytes:
        return super().read(count if count is None else min(count, 3))


def packed(path: Path) -> BinaryIO:
    with gzip.open(path.with_suffix(".gz"), "wb") as file:
        file.write(path.read_bytes())
    return cast("BinaryIO", gzip.open(path.with_suffix(".gz")))


def unwritten(path: Path) -> BinaryIO:
    """A file whose last bytes are in the buffer of its object only."""
    data = path.read_bytes()
    path.write_bytes(data[:-512])
    file = path.open("r+b")
    file.seek(0, os.SEEK_END)
    file.write(data[-512:])
    return file


OBJECTS: dict[str, Callable[[Path], BinaryIO]] = {
    "buffered": lambda path: path.open("rb"),
    "unbuffered": lambda path: cast("BinaryIO", path.open("rb", buffering=0)),
    "written to": unwritten,
    "gzip": packed,
    "memory": lambda path: Slow(path.read_bytes()),
    "three bytes at a time": lambda path: Drip(path.read_bytes()),
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_threads_that_share_a_file_object_read_what_they_ask_for(kind: str, tmp_path: Path) -> None:
    """Two sources over one object, several threads over each."""
    interval = sys.getswitchinterval()
    with OBJECTS[kind](numbered(tmp_path)) as file:
        sources = safe_open(file, "raw"), safe_open(file, "raw")

        def wrong(thread: int) -> int:
            opened = sources[thread % 2]
            names = [str((thread * 7 + n) % 64) for n in range(300)]
            return sum(bytes(opened.get_tensor(name)) != bytes([int(name)]) * 512 for name in names)

        sys.setswitchinterval(1e-6)
        try:
            with ThreadPoolExecutor(6) as pool:
                assert list(pool.map(wrong, range(6))) == [0] * 6
        finally:
            sys.setswitchinterval(interval)


def test_a_file_opened_by_python_keeps_its_position(tmp_path: Path) -> None:
    with numbered(tmp_path).open("rb") as file, safe_open(file, "raw") as opened:
        file.seek(11)
        opened.get_tensor("3")
        assert file.tell() == 11


def lying(answer: object) -> BinaryIO:
    """A file object that always reads as ``answer``, or raises it."""
    file = io.BytesIO(VALID)
    file.read = Mock(side_effect=itertools.repeat(answer))  # type: ignore[method-assign]
    return file


@pytest.mark.parametrize("kind", ["buffered", "unbuffered", "gzip", "memory", "three bytes at a time"])
def test_a_file_object_that_was_closed_is_no_verdict(kind: str, tmp_path: Path) -> None:
    file = OBJECTS[kind](numbered(tmp_path))
    opened = safe_open(file, "raw")
    file.close()
    with pytest.raises(UnreadableError, match="closed"):
        opened.get_tensor("1")
    with pytest.raises(UnreadableError, match="closed"):
        explain(file)


class Unlisted(io.BytesIO):
    """No weak references, and equal to every other."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True
