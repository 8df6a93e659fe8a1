"""Checks that only a GPU shows, with fake device memory: streams, returned memory, peaks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from safetensors_conformance.host import device_checks
from safetensors_conformance.host.device_checks import Buffers, DeviceChecks, NotThereError
from safetensors_conformance.host.library import AdapterError


class Card(Buffers):
    """A device that counts its allocations."""

    streams = True

    def __init__(self, device: str) -> None:
        assert device == "cuda:0"
        self.used = self.most = 0
        self.counts = self.waits = True

    def take(self, size: int) -> None:
        self.used += size if self.counts else 0
        self.most = max(self.most, self.used)

    def place(self, tensor: Any) -> str:
        return str(tensor.place)

    def address(self, tensor: Any) -> tuple[int, int]:
        return tensor.begin, 4

    def data_elsewhere(self, tensor: Any) -> bytes:
        return self.data(tensor) if self.waits else bytes(len(tensor))

    def churn(self, sizes: list[int]) -> list[Tensor]:
        return [Tensor(self, b"\xa5" * size) for size in sizes]

    def in_use(self) -> int:
        return self.used

    def highest(self) -> int:
        return self.most

    def reset_highest(self) -> None:
        self.most = self.used


class Tensor(bytearray):
    """Memory of the card, released with its last reference."""

    def __init__(self, card: Card, held: bytes, place: str = "cuda:0", begin: int = 256) -> None:
        super().__init__(held)
        self.card, self.place, self.begin = card, place, begin
        card.take(len(held))

    def __del__(self) -> None:
        self.card.take(-len(self))


def one_by_one(card: Card, names: str = "ab", size: int = 8, **more: Any) -> Iterator[tuple[Any, ...]]:
    """Hand out tensors of their own, so that one is on the card at a time, as each is dropped."""
    for name in names:
        yield name, "F32", [2], Tensor(card, name.encode() * size, **more)


def in_one_buffer(card: Card) -> Iterator[tuple[Any, ...]]:
    """Give all tensors but the middle one back after the last."""
    rows = [*one_by_one(card, "abcde")]
    yield from rows
    for place in (0, 1, 3, 4):
        rows[place][3][:] = bytes(8)


@pytest.fixture(autouse=True)
def _card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(device_checks.MEMORIES, "torch", Card)


def begin(
    rows: Callable[[Card], Any] = one_by_one, takes: tuple[int, ...] = (), lacks: str = "", **more: Any
) -> DeviceChecks:
    """Begin to check a loader that takes memory of the card first, and refuses the file ``bad``."""

    def device(path: str, device: str) -> Any:
        assert device == "cuda:0"
        for size in takes:
            checks._memory.take(size)
        if path == "bad":
            raise ValueError("no")
        return rows(checks._memory)

    checks = DeviceChecks(SimpleNamespace(device=device, **more), "cuda:0")
    vars(checks._memory)[lacks] = False
    return checks


def statuses(checks: DeviceChecks) -> dict[str, str]:
    return {check["name"]: check["status"] for check in checks.results}


UNKNOWN = dict.fromkeys(("lifetime", "peak", "returned"), "unknown")
EMPTY = {**UNKNOWN, "alignment": "unknown", "kept": "unknown"}
ALL_HOLD = dict.fromkeys((*EMPTY, "stream", "threads", "stopped"), "pass")


@pytest.mark.parametrize(
    ("loader", "others", "untouched", "words"),
    [
        ({}, {}, "pass", ""),
        ({"rows": partial(one_by_one, names="abc")}, {}, "pass", ""),
        ({"rows": in_one_buffer}, {}, "pass", ""),
        ({"takes": (1, -1)}, {}, "fail", ""),
        ({"lacks": "counts"}, UNKNOWN, "unknown", ""),
        ({"rows": partial(one_by_one, names="e", size=0, begin=3)}, EMPTY, "unknown", ""),
        ({"lacks": "waits"}, {"stream": "fail"}, "pass", "'a' contains different bytes on another stream"),
        # Eight loads: the first, two at once, two around a stop, and one for each of the other checks.
        (
            {"takes": (100,)},
            {"stopped": "fail", "returned": "fail"},
            "fail",
            "800 bytes of device memory remain",
        ),
    ],
)
def test_what_a_card_shows_of_a_loader_and_of_a_refusal(
    loader: dict[str, Any], others: dict[str, str], untouched: str, words: str
) -> None:
    checks = begin(**loader)
    checks._memory.used = 1000  # of others
    for _ in range(2):
        checks.run("good")
        assert statuses(checks) == {**ALL_HOLD, **others}
        assert words in str(checks.results)
    with pytest.raises(ValueError, match="no"):
        checks.run("bad")
    assert statuses(checks) == {"untouched": untouched}


FULL = RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried")
RESULTS: list[tuple[Any, str]] = [
    (None, "returned NoneType instead of tensors"),
    (5, "returned int instead of tensors"),
    ({"a": 1}, "returned a dict without 'tensors'"),
    ([("a", "F32", [2])], r"instead of \(name, dtype, shape, tensor\)"),
    ([(["a"], "F32", [2], None)], "which is not a string"),
]


@pytest.mark.parametrize(
    ("loader", "error", "words"),
    [
        *(({"rows": lambda _, result=result: result}, AdapterError, words) for result, words in RESULTS),
        ({"rows": partial(one_by_one, place="cuda:1")}, AdapterError, "'a' is on cuda:1 instead of cuda:0"),
        ({"device_bytes": lambda: "x"}, AdapterError, "did not return a number"),
        ({"rows": Mock(side_effect=FULL)}, MemoryError, "DefaultCPUAllocator"),
    ],
)
def test_what_is_no_result_is_a_mistake_of_the_adapter_or_of_the_machine(
    loader: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        begin(**loader).run("good")


def test_torch_that_is_not_there_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(NotThereError, match="it needs torch, which cannot be imported"):
        DeviceChecks(SimpleNamespace(), "cpu")
