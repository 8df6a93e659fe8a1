"""What a process holds after many requests: leaks are found, and caches and collectors are not."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetensors_corpus import repeating
from safetensors_corpus.repeating import SHARE, Usage, usage_of, what_stays

SIZE = 1000


def stays(held: Callable[[int], int], name: str, unit: int) -> str:
    """Return what stays if a process holds ``held(n)`` units after ``n`` requests."""
    requests = 0

    def run() -> None:
        nonlocal requests
        requests += 1

    def usage() -> Usage:
        return Usage(5, 50, 1, 10_000)._replace(**{name: held(requests) * unit})

    return what_stays(run, 300, SIZE, usage)


@pytest.mark.parametrize(
    ("name", "unit"), [("descriptors", 1), ("mappings", 1), ("threads", 1), ("memory", SIZE)]
)
@given(every=st.integers(1, round(1 / SHARE) - 1), cache=st.integers(0, 100))
def test_growth_in_proportion_to_the_requests_is_found(name: str, unit: int, every: int, cache: int) -> None:
    assert name.replace("memory", "size of the file") in stays(
        lambda n: n // every + min(n, cache), name, unit
    )


@pytest.mark.parametrize(("name", "unit"), [("descriptors", 1), ("mappings", 1), ("memory", SIZE)])
@given(most=st.integers(0, 600))
def test_caches_and_garbage_that_is_collected_are_not_found(name: str, unit: int, most: int) -> None:
    assert stays(lambda n: min(n, most), name, unit) == ""
    assert stays(lambda n: n % (most + 1), name, unit) == ""


def test_usage_counts_an_open_descriptor() -> None:
    before = usage_of()
    descriptor = os.open(os.devnull, os.O_RDONLY)
    try:
        assert usage_of().descriptors == before.descriptors + 1
    finally:
        os.close(descriptor)
    assert before.memory > 1 << 20
    with pytest.raises(NotImplementedError, match="cannot be inspected"):
        usage_of(0)


def test_slow_requests_do_not_last_for_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(repeating, "PATIENCE", 20.0)
    answered: list[None] = []
    with pytest.raises(NotImplementedError, match="more than 20 seconds"):
        what_stays(lambda: answered.append(None), 300, SIZE, usage_of)
    assert len(answered) == 20
