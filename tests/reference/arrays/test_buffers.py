"""New memory for large loads: what it holds, where it lies, and when huge pages are given up."""

from __future__ import annotations

import ctypes

import pytest

from safetensors_reference.arrays import buffers as pages
from safetensors_reference.arrays.buffers import (
    HUGE,
    HUGE_FROM,
    MADV_HUGEPAGE,
    MADV_NOHUGEPAGE,
    MADV_POPULATE_WRITE,
    Pages,
)


def address_of(view: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(view))


@pytest.mark.parametrize("size", [1, 4096, HUGE_FROM - 1, HUGE_FROM, HUGE_FROM + 1, 3 * HUGE_FROM + 4097])
@pytest.mark.parametrize("advised", [True, False])
def test_memory_is_zero_and_writable_to_its_last_byte(
    monkeypatch: pytest.MonkeyPatch, size: int, advised: bool
) -> None:
    if not advised:
        monkeypatch.setattr(pages, "_madvise", None)
    made = Pages()
    view = made.new(size)
    assert len(view) == size
    assert size < HUGE_FROM or address_of(view) % HUGE == 0
    made.make(address_of(view), size)
    assert bytes(view) == bytes(size)
    view[0] = view[size - 1] = 7
    assert bytes(view).count(7) == (2 if size > 1 else 1)


def test_memory_that_there_is_not_is_a_memory_error() -> None:
    for size in (1 << 62, 1 << 80):
        with pytest.raises(MemoryError):
            Pages().new(size)


def test_huge_pages_are_given_up_at_the_first_that_comes_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[tuple[int, int, int]] = []
    monkeypatch.setattr(pages, "_advise", lambda *advice: not taken.append(advice))  # type: ignore[func-returns-value]
    made = Pages()
    small, *views = (made.new(size) for size in (HUGE_FROM - 1, HUGE_FROM, 2 * HUGE_FROM))
    assert [advice[1:] for advice in taken] == [
        (HUGE_FROM, MADV_HUGEPAGE),
        (2 * HUGE_FROM, MADV_HUGEPAGE),
    ]
    # Seconds for each call, and whether it is the one that is too slow; more pages may take longer.
    first = address_of(views[0])
    for at, size, seconds, slow in (
        (first, HUGE, 0.9 * pages.SLOW, False),
        (address_of(views[1]), 8 * HUGE, 8.5 * pages.SLOW, False),
        (first + HUGE, HUGE, 2.1 * pages.SLOW, True),
        (address_of(small), len(small), 9.0, False),
    ):
        taken.clear()
        times = iter((0.0, seconds))
        monkeypatch.setattr("safetensors_reference.arrays.buffers.time.thread_time", lambda t=times: next(t))
        made.make(at, size)
        assert [advice for _, _, advice in taken] == [MADV_POPULATE_WRITE, *[MADV_NOHUGEPAGE] * 2 * slow]
        assert not slow or [advice[:2] for advice in taken[1:]] == [(address_of(v), len(v)) for v in views]
