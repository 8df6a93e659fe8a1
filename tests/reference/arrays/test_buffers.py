"""New memory for large loads: what it holds, where it lies, and when huge pages are given up."""

from __future__ import annotations

import ctypes

import pytest

from safetensors_reference.arrays import buffers as pages
from safetensors_reference.arrays.buffers import HUGE, HUGE_FROM, MADV_HUGEPAGE, MADV_NOHUGEPAGE, Pages

Advice = list[tuple[int, int, int]]


def address_of(view: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(view))


@pytest.mark.parametrize("size", [1, 4096, HUGE_FROM - 1, HUGE_FROM, HUGE_FROM + 1, 3 * HUGE_FROM + 4097])
def test_memory_is_zero_and_writable_to_its_last_byte(size: int) -> None:
    made = Pages()
    view = made.new(size)
    assert len(view) == size
    made.make(address_of(view), size)
    assert bytes(view) == bytes(size)
    view[0] = view[size - 1] = 7
    assert bytes(view).count(7) == (2 if size > 1 else 1)


def test_large_memory_begins_on_a_huge_page() -> None:
    assert all(address_of(Pages().new(HUGE_FROM + extra)) % HUGE == 0 for extra in (0, 1, 4095, HUGE - 1))


def test_memory_that_there_is_not_is_a_memory_error() -> None:
    for size in (1 << 62, 1 << 80):
        with pytest.raises(MemoryError):
            Pages().new(size)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Advice:
    """Advice given, in order; nobody follows it."""
    out: Advice = []

    def advise(address: int, size: int, advice: int) -> bool:
        out.append((address, size, advice))
        return True

    monkeypatch.setattr(pages, "_advise", advise)
    return out


def clock(monkeypatch: pytest.MonkeyPatch, *seconds: float) -> None:
    """Have calls take so long: the clock is looked at before and after each."""
    times = [0.0]
    for one in seconds:
        times += [times[-1], times[-1] + one]
    told = iter(times[1:])
    monkeypatch.setattr("safetensors_reference.arrays.buffers.time.thread_time", lambda: next(told))


def test_huge_pages_are_given_up_at_the_first_that_comes_slowly(
    taken: Advice, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Pages()
    views = [made.new(HUGE_FROM), made.new(2 * HUGE_FROM)]
    assert [(size, advice) for _, size, advice in taken] == [
        (HUGE_FROM, MADV_HUGEPAGE),
        (2 * HUGE_FROM, MADV_HUGEPAGE),
    ]
    taken.clear()
    clock(monkeypatch, 0.9 * pages.SLOW, 2.1 * pages.SLOW, 9.0)
    for place in range(3):
        made.make(address_of(views[0]) + place * HUGE, HUGE)
    given_up = [(address, size) for address, size, advice in taken if advice == MADV_NOHUGEPAGE]
    assert given_up == [(address_of(view), len(view)) for view in views]
    assert [advice for _, _, advice in taken].index(MADV_NOHUGEPAGE) == 2


def test_more_pages_at_once_may_take_longer(taken: Advice, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Pages()
    view = made.new(2 * HUGE_FROM)
    clock(monkeypatch, 8.5 * pages.SLOW)
    made.make(address_of(view), 8 * HUGE)
    assert MADV_NOHUGEPAGE not in [advice for _, _, advice in taken]


def test_memory_too_small_for_huge_pages_is_left_alone(
    taken: Advice, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Pages()
    view = made.new(HUGE_FROM - 1)
    clock(monkeypatch, 9.0)
    made.make(address_of(view), len(view))
    assert [advice for _, _, advice in taken] == [pages.MADV_POPULATE_WRITE]


def test_a_system_without_the_advice_gives_pages_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_madvise", None)
    made = Pages()
    view = made.new(HUGE_FROM)
    made.make(address_of(view), len(view))
    assert bytes(view[:9]) == bytes(9)
