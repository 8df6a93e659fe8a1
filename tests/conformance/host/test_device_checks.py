"""Checks that only a GPU shows, with fake device memory: streams, returned memory, peaks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from safetensors_conformance.host import device_checks
from safetensors_conformance.host.device_checks import DeviceChecks, NotThereError
from safetensors_conformance.host.library import AdapterError


class Card:
    """A device that counts its allocations."""

    streams = True

    def __init__(self, device: str) -> None:
        self.device = device
        self.used = 0
        self.most = 0
        self.waits = True

    def take(self, size: int) -> None:
        self.used += size
        self.most = max(self.most, self.used)

    def enter_thread(self) -> None:
        """There is one device."""

    def place(self, tensor: Any) -> str:
        return str(tensor.place)

    def address(self, tensor: Any) -> tuple[int, int]:
        return tensor.begin, 4

    def data(self, tensor: Any) -> bytes:
        return bytes(tensor.held)

    def data_elsewhere(self, tensor: Any) -> bytes:
        return bytes(tensor.held) if self.waits else bytes(len(tensor.held))

    def churn(self, sizes: list[int]) -> list[Tensor]:
        return [Tensor(self, b"\xa5" * size) for size in sizes]

    def wait(self) -> None:
        """Nothing is ever queued."""

    def in_use(self) -> int:
        return self.used

    def highest(self) -> int:
        return self.most

    def reset_highest(self) -> None:
        self.most = self.used


class Tensor:
    """Memory of the card, released with its last reference."""

    def __init__(self, card: Card, held: bytes, place: str = "cuda:0", begin: int = 256) -> None:
        self.card, self.held, self.place, self.begin = card, held, place, begin
        card.take(len(held))

    def __del__(self) -> None:
        self.card.used -= len(self.held)


class Loader:
    """Loads two tensors; ``how`` selects the fault."""

    def __init__(self, how: Callable[[Card], None] = lambda card: None, *, place: str = "cuda:0") -> None:
        self.how = how
        self.place = place
        self.card: Any = None

    def device(self, path: str, device: str) -> Iterator[tuple[str, str, list[int], Tensor]]:
        assert device == "cuda:0"
        self.how(self.card)
        if path == "bad":
            raise ValueError("no")
        for name in "ab":
            yield name, "F32", [2], Tensor(self.card, name.encode() * 8, self.place)


@pytest.fixture
def begin(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], DeviceChecks]:
    monkeypatch.setitem(device_checks.MEMORIES, "torch", Card)

    def make(loader: Any) -> DeviceChecks:
        checks = DeviceChecks(loader, "cuda:0")
        loader.card = checks._memory  # the card is made by the checks
        return checks

    return make


Begin = Callable[[Any], DeviceChecks]


def run(checks: DeviceChecks, path: str = "good") -> dict[str, str]:
    checks.run(path)
    return {check["name"]: check["status"] for check in checks.results}


ALL_HOLD = dict.fromkeys(
    ("alignment", "kept", "lifetime", "stream", "threads", "stopped", "peak", "returned"), "pass"
)


def test_all_is_known_of_a_card(begin: Begin) -> None:
    checks = begin(Loader())
    assert run(checks) == ALL_HOLD
    assert run(checks) == ALL_HOLD
    assert refused(checks) == {"untouched": "pass"}


def refused(checks: DeviceChecks) -> dict[str, str]:
    """Return the checks of a file that the loader rejects, and no others."""
    with pytest.raises(ValueError, match="no"):
        checks.run("bad")
    return {check["name"]: check["status"] for check in checks.results}


def test_another_stream_that_sees_other_bytes(begin: Begin) -> None:
    checks = begin(Loader(lambda card: setattr(card, "waits", False)))
    assert run(checks) == {**ALL_HOLD, "stream": "fail"}
    assert "tensor 'a' contains different bytes on another stream" in str(checks.results)


def test_memory_that_stays(begin: Begin) -> None:
    checks = begin(Loader(lambda card: card.take(100)))
    assert run(checks) == {**ALL_HOLD, "stopped": "fail", "returned": "fail"}
    # Eight loads: the first, two at once, two around a stop, and one for each of the other checks.
    assert "800 bytes of device memory remain in use after everything was dropped" in str(checks.results)


def test_memory_of_one_tensor_at_a_time_is_counted(begin: Begin) -> None:
    """A loader that hands out tensors of their own has one on the card at a time, as each is dropped."""

    class Three(Loader):
        def device(self, path: str, device: str) -> Iterator[Any]:
            if path == "bad":
                raise ValueError("no")
            for name in "abc":
                yield name, "F32", [2], Tensor(self.card, name.encode() * 8)

    checks = begin(Three())
    assert run(checks) == ALL_HOLD
    assert refused(checks) == {"untouched": "pass"}


def test_memory_that_the_card_does_not_count_is_not_known_to_come_back(begin: Begin) -> None:
    def elsewhere(card: Card) -> None:
        card.take = lambda size: None  # type: ignore[method-assign]

    checks = begin(Loader(elsewhere))
    checks._memory.used = 1000
    assert run(checks) == {**ALL_HOLD, "peak": "unknown", "returned": "unknown", "lifetime": "unknown"}
    assert refused(checks) == {"untouched": "unknown"}


@pytest.mark.parametrize(("peak", "status"), [(0, "pass"), (1, "fail")])
def test_a_peak_while_a_file_is_refused(begin: Begin, peak: int, status: str) -> None:
    def up_and_down(card: Card) -> None:
        card.take(peak)
        card.used -= peak

    checks = begin(Loader(up_and_down))
    run(checks)
    assert refused(checks) == {"untouched": status}


def test_a_tensor_on_another_card_is_a_mistake_and_no_pass(begin: Begin) -> None:
    checks = begin(Loader(place="cuda:1"))
    with pytest.raises(AdapterError, match="'a' is on cuda:1 instead of cuda:0"):
        checks.run("good")


def test_a_file_of_empty_tensors_shows_neither_alignment_nor_lifetime(begin: Begin) -> None:
    class Empty(Loader):
        def device(self, path: str, device: str) -> Iterator[Any]:
            yield "e", "F32", [0], Tensor(self.card, b"", begin=3)

    told = run(begin(Empty()))
    assert (told["alignment"], told["lifetime"], told["threads"]) == ("unknown", "unknown", "pass")


def test_the_kept_tensor_has_neighbours(begin: Begin) -> None:
    """Of tensors in one buffer that is given back with the first of them, the middle one is kept."""

    class Five(Loader):
        def device(self, path: str, device: str) -> Iterator[Any]:
            tensors = [Tensor(self.card, name.encode() * 8) for name in "abcde"]
            for name, tensor in zip("abcde", tensors, strict=True):
                yield name, "F32", [2], tensor
            for place in (0, 1, 3, 4):
                tensors[place].held = bytes(8)

    assert run(begin(Five()))["lifetime"] == "pass"


def test_torch_that_is_not_there_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(NotThereError, match="it needs torch, which cannot be imported"):
        DeviceChecks(Loader(), "cpu")


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (None, "returned NoneType instead of tensors"),
        (5, "returned int instead of tensors"),
        ({"a": 1}, "returned a dict without 'tensors'"),
        ([("a", "F32", [2])], r"instead of \(name, dtype, shape, tensor\)"),
        ([(["a"], "F32", [2], None)], "which is not a string"),
    ],
)
def test_what_is_no_result_is_a_mistake_of_the_adapter(begin: Begin, result: Any, words: str) -> None:
    class Odd(Loader):
        def device(self, path: str, device: str) -> Any:
            return result

    with pytest.raises(AdapterError, match=words):
        begin(Odd()).run("good")


def test_a_count_that_is_none_is_a_mistake_of_the_adapter(begin: Begin) -> None:
    class Odd(Loader):
        def device_bytes(self) -> Any:
            return "x"

    with pytest.raises(AdapterError, match="did not return a number"):
        begin(Odd()).run("good")


def test_torch_without_memory_on_the_cpu_is_out_of_memory(begin: Begin) -> None:
    def full(card: Card) -> None:
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried")

    with pytest.raises(MemoryError, match="DefaultCPUAllocator"):
        begin(Loader(full)).run("good")
