"""GPUDirect Storage: how KvikIO is driven, with a stand-in for it; the real one needs a GPU's driver."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from safetensors_reference import UnreadableError
from safetensors_reference.device import DeviceError, gds, load_file
from safetensors_reference.device.engine import PAGE
from safetensors_reference.rules.errors import AccessError

from .support import CountingEngine, at_turn, file_of, said, write

WORDS = [("a", "U8", [3]), ("b", "F32", [300]), ("c", "I64", [40]), ("d", "F8_E4M3", [0])]


class Kvikio(ModuleType):
    """A file of KvikIO that reads when the result is wanted, as late as it may."""

    def __init__(self) -> None:
        super().__init__("kvikio")
        self.pending = 0
        self.reads: list[tuple[int, int]] = []
        self.step: Callable[[], object] = lambda: None

    @contextmanager
    def CuFile(self, path: str, flags: str) -> Iterator[Any]:  # noqa: N802 - the name is KvikIO's
        fd = os.open(path, {"r": os.O_RDONLY}[flags])

        def pread(buf: Any, size: int, file_offset: int = 0) -> SimpleNamespace:
            self.reads.append((buf.ctypes.data % PAGE, file_offset % PAGE))
            self.pending += 1

            def get() -> int:
                self.pending -= 1
                self.step()
                data = os.pread(fd, size, file_offset)
                buf[: len(data)] = np.frombuffer(data, np.uint8)
                return len(data)

            return SimpleNamespace(get=get)

        try:
            yield SimpleNamespace(pread=pread)
        finally:
            os.close(fd)


@pytest.fixture
def kvikio(monkeypatch: pytest.MonkeyPatch) -> Kvikio:
    module = Kvikio()
    monkeypatch.setitem(sys.modules, "kvikio", module)
    monkeypatch.setattr(gds, "MAX_READ", 100)
    return module


@pytest.mark.parametrize("names", [None, ["a", "c"], ["d"], []])
def test_the_same_tensors_as_without(tmp_path: Path, kvikio: Kvikio, names: Any) -> None:
    path = write(tmp_path, file_of(WORDS, 3))
    plain = load_file(path, device="cpu", names=names)
    tensors = load_file(path, device="cpu", names=names, gds=True)
    assert {n: said(t) for n, t in tensors.items()} == {n: said(t) for n, t in plain.items()}
    assert kvikio.pending == 0


def test_it_needs_the_package(words: Path, monkeypatch: pytest.MonkeyPatch, engine: CountingEngine) -> None:
    monkeypatch.setitem(sys.modules, "kvikio", None)
    said = r"gds=True needs the package kvikio-cu12 or kvikio-cu13.*; load without gds=True"
    with pytest.raises(AccessError, match=said):
        load_file(words, device="cpu", gds=True)
    assert engine.sizes == []


def test_reads_and_memory_have_the_same_alignment(
    tmp_path: Path, kvikio: Kvikio, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Except for a header whose length would misalign the elements."""
    monkeypatch.setattr(gds, "MAX_READ", 4 * PAGE)
    tensors = [("a", "U8", [50_000]), ("b", "F64", [9])]
    length = int.from_bytes(file_of(tensors)[:8], "little")
    for padding in (-length % 8, -length % 8 + 1):
        path = write(tmp_path, file_of(tensors, padding))
        plain = load_file(path, device="cpu")
        kvikio.reads.clear()
        got = load_file(path, device="cpu", gds=True)
        assert {n: said(t) for n, t in got.items()} == {n: said(t) for n, t in plain.items()}
        aligned = {memory == file for memory, file in kvikio.reads}
        assert len(kvikio.reads) > 3
        assert aligned == {padding % 8 == -length % 8}


def cut(path: Path, words: str = "") -> None:
    os.truncate(path, path.stat().st_size - 6522)  # in the first read
    if words:
        raise RuntimeError(words)


def fail(_path: Path) -> None:
    raise RuntimeError("cuFile error 5\nand more")


def interrupt(_path: Path) -> None:
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    time.sleep(0.02)


SHORTER = r"file.safetensors: the file became shorter .* at byte [\d,]+"
ONWARDS = r"file.safetensors: file bytes from [\d,]+ onwards .*cuFile error 5\)$"


@pytest.mark.parametrize(
    ("step", "turn", "error", "words"),
    [
        (cut, 1, UnreadableError, SHORTER),
        # The end of the file is no fault of the device.
        (partial(cut, words="pread(O_DIRECT): unexpected EOF"), 1, UnreadableError, SHORTER),
        (fail, 2, DeviceError, ONWARDS),
        (interrupt, 1, KeyboardInterrupt, "^$"),
        (fail, 0, DeviceError, r"file.safetensors: KvikIO failed \(RuntimeError: cuFile error 5\)"),
    ],
)
def test_a_fault_waits_for_what_was_asked_for(
    tmp_path: Path,
    kvikio: Kvikio,
    monkeypatch: pytest.MonkeyPatch,
    step: Callable[[Path], None],
    turn: int,
    error: type[BaseException],
    words: str,
) -> None:
    """The step comes at a read, or where the file is opened."""
    path = write(tmp_path, file_of([*WORDS, ("e", "U8", [5000])]))
    name = "step" if turn else "CuFile"
    monkeypatch.setattr(kvikio, name, at_turn(getattr(kvikio, name), max(turn, 1), partial(step, path)))
    with pytest.raises(error, match=words):
        load_file(path, device="cpu", gds=True)
    assert kvikio.pending == 0
    assert len(kvikio.reads) < 15
