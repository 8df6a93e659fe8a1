"""Files that change, end early or cannot be read while a load is under way."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from safetensors_reference import UnreadableError
from safetensors_reference.device import DeviceError, load_files
from safetensors_reference.rules.errors import AccessError

from ..support import raw_bytes
from .faulty import FILE, BrokenError, arm, assert_clean, load
from .support import data_of, file_of, write


def during_reads(patch: pytest.MonkeyPatch, turn: int, change: Callable[[], object]) -> None:
    """Have something happen just before the read with this number."""
    real = os.preadv
    lock = threading.Lock()
    left = [turn]

    def preadv(*args: Any) -> int:
        with lock:
            left[0] -= 1
            if left[0] == 0:
                change()
        return real(*args)

    patch.setattr(os, "preadv", preadv)


@pytest.mark.parametrize("turn", [1, 5, 30])
@pytest.mark.parametrize("left", [0, 2000, len(FILE) - 1, None])
def test_a_file_that_shrinks_or_is_rewritten_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turn: int, left: int | None
) -> None:
    path = write(tmp_path, FILE)
    before = set(threading.enumerate())
    engine, ring = arm(monkeypatch, "never", 1, BrokenError)
    change = partial(os.utime, path, ns=(1, 1)) if left is None else partial(os.truncate, path, left)
    during_reads(monkeypatch, turn, change)
    words = "was modified after it was opened" if left is None else "became shorter"
    with pytest.raises((UnreadableError, AccessError), match=f"file.safetensors: the file {words}") as caught:
        load(path)
    assert caught.value.code == "API_TRUNCATED"
    if isinstance(caught.value, UnreadableError):
        assert "at byte " in str(caught.value)
    path.write_bytes(FILE)
    assert_clean(engine, ring, path, before)


def test_a_file_that_is_replaced_while_it_is_read_keeps_its_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, FILE)
    arm(monkeypatch, "never", 1, BrokenError)
    during_reads(monkeypatch, 1, lambda: write(tmp_path, b"something else", "other").replace(path))
    assert b"".join(map(raw_bytes, load(path).values())) == data_of(FILE)
    assert path.read_bytes() == b"something else"


def test_a_read_that_the_system_refuses_names_the_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, FILE)
    before = set(threading.enumerate())
    engine, ring = arm(monkeypatch, "preadv", 1, lambda: OSError(5, "Input/output error"))
    start = len(FILE) - len(data_of(FILE))
    with pytest.raises(
        UnreadableError, match=rf"at byte ({start:,}|{start + 900:,}|{start + 1800:,}): Input"
    ) as err:
        load(path)
    assert err.value.code == "IO_ERROR"
    assert_clean(engine, ring, path, before)


def test_a_second_file_that_is_bad_leaves_nothing_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, ring = arm(monkeypatch, "allocate", 2, lambda: MemoryError("no more"))
    paths = [write(tmp_path, file_of([(name, "U8", [5000])]), name) for name in "ab"]
    with pytest.raises(
        DeviceError, match=r"b: cpu has too little memory for 5,000 bytes \(MemoryError: no more\)"
    ):
        load_files(paths, device="cpu")
    assert ([memory() for memory in engine.memories], ring.made) == ([None], 0)
    write(tmp_path, b"short", "b")
    with pytest.raises(ValueError, match="FRM_"):
        load_files(paths, device="cpu")
    assert len(engine.memories) == 1
