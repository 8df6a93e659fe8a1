"""The engines: the devices that exist, and the alignment of their memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from safetensors_reference.device.engine import PAGE, AcceleratorEngine, CpuEngine, open_engine
from safetensors_reference.device.plan import MAX_ALIGN
from safetensors_reference.rules.errors import AccessError


@pytest.mark.parametrize("offset", [0, 16])
def test_pinned_memory_begins_on_a_page_whatever_torch_gives(
    monkeypatch: pytest.MonkeyPatch, offset: int
) -> None:
    """Pinned by a stand-in; torch gives pages unless it is set to pin what malloc gives."""
    given: list[int] = []

    def empty(size: int, *, pin_memory: bool, **_more: Any) -> torch.Tensor:
        assert pin_memory
        given.append(size)
        return CpuEngine().staging(size + PAGE)[offset:][:size]

    monkeypatch.setattr(torch, "empty", empty)
    memory = AcceleratorEngine(torch.device("cuda", 0)).staging(3 * PAGE)
    assert (memory.numel(), memory.data_ptr() % PAGE) == (3 * PAGE, 0)
    assert given == ([3 * PAGE] if not offset else [3 * PAGE, 4 * PAGE])


@pytest.mark.parametrize("size", [0, 1, 4097, 1 << 20])
def test_memory_of_the_cpu_is_aligned(size: int) -> None:
    engine = CpuEngine()
    for memory in (engine.allocate(size), engine.staging(size)):
        assert (memory.dtype, tuple(memory.shape)) == (torch.uint8, (size,))
        assert memory.data_ptr() % max(MAX_ALIGN, PAGE) == 0


def test_copies_on_the_cpu_change_nothing_beside_them() -> None:
    engine = CpuEngine()
    memory, staged = engine.allocate(300_000), engine.staging(300_000)
    memory.fill_(1)
    staged.fill_(2)
    lane = engine.lane()
    assert lane.copy(memory[5_001:205_001], staged[3:200_003]) is None
    assert memory[:5_001].eq(1).all()
    assert memory[5_001:205_001].eq(2).all()
    assert memory[205_001:].eq(1).all()


@pytest.mark.parametrize("device", ["cuda:99", "xpu:99", "mps:99", "mtia:99", "simulated:99"])
def test_a_device_that_does_not_exist_is_named(device: str, simulated: object) -> None:
    words = rf"device '{device}' does not exist: torch .* finds \d {device[:-3].upper()} devices"
    with pytest.raises(AccessError, match=words):
        open_engine(device)


def test_the_default_is_the_current_device(simulated: object, monkeypatch: pytest.MonkeyPatch) -> None:
    for index in (1, 0):
        torch.accelerator.set_device_index(index)
        for device in (None, torch.accelerator.current_accelerator()):
            assert open_engine(device).device.index == index
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: None)
    with pytest.raises(AccessError, match="finds no accelerator; pass device='cpu'"):
        open_engine(None)
