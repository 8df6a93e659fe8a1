"""The engines: the devices that exist, the alignment of their memory, and the CPUs near them."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from safetensors_reference.device import engine, load_file
from safetensors_reference.device.engine import (
    PAGE,
    AcceleratorEngine,
    CpuEngine,
    checked_cpus,
    cpus_near,
    open_engine,
    parse_list,
)
from safetensors_reference.device.plan import MAX_ALIGN
from safetensors_reference.rules.errors import AccessError

from ..support import raw_bytes
from .support import WORDS, data_of, file_of, write


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
def test_memory_of_the_cpu_is_aligned_and_copies_change_nothing_beside_them(size: int) -> None:
    cpu = CpuEngine()
    target, staged = cpu.allocate(size), cpu.staging(size)
    for value, memory in enumerate((target, staged)):
        assert (memory.dtype, tuple(memory.shape)) == (torch.uint8, (size,))
        assert memory.data_ptr() % max(MAX_ALIGN, PAGE) == 0
        memory.fill_(value)
    begin, end = size // 5, size - size // 3
    assert cpu.lane().copy(target[begin:end], staged[: end - begin]) is None
    assert target.tolist() == [0] * begin + [1] * (end - begin) + [0] * (size - end)


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


# ---- CPUs near a device, with a fake sysfs, and the threads of a load on them ----

HERE = sorted(os.sched_getaffinity(0))
DEVICE = "simulated:1"


@pytest.fixture
def sysfs(simulated: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system with two nodes, in which only the first CPU of this process is near the device."""
    monkeypatch.setattr(engine, "SYSFS", tmp_path)
    place = SimpleNamespace(pci_domain_id=1, pci_bus_id=0x3B, pci_device_id=0)
    module: Any = torch.get_device_module(DEVICE)
    monkeypatch.setattr(module, "get_device_properties", lambda _index: place, raising=False)
    folder = tmp_path / "bus/pci/devices/0001:3b:00.0"
    folder.mkdir(parents=True)
    (folder / "numa_node").write_text("1\n")
    (tmp_path / "devices/system/node/node1").mkdir(parents=True)
    (tmp_path / "devices/system/node/node1/cpulist").write_text(f"{HERE[0]},1000-1003\n")
    return tmp_path


def test_the_cpus_of_the_node_of_the_device(sysfs: Path) -> None:
    assert cpus_near(torch.device(DEVICE)) == frozenset(HERE[:1])
    (sysfs / "devices/system/node/node1/cpulist").write_text("1000-1003\n")
    assert cpus_near(torch.device(DEVICE)) is None, "none of them is usable"


@pytest.mark.parametrize("node", ["-1", "", "x", "7", None])
def test_a_system_that_does_not_know_the_node(node: str | None, sysfs: Path) -> None:
    file = sysfs / "bus/pci/devices/0001:3b:00.0/numa_node"
    file.unlink() if node is None else file.write_text(node)
    assert cpus_near(torch.device(DEVICE)) is None


def test_lists(simulated: object) -> None:
    lists = {"0-3,8\n": {0, 1, 2, 3, 8}, "": set(), "5": {5}, "1-2,4-4": {1, 2, 4}}
    assert {text: parse_list(text) for text in lists} == lists
    assert cpus_near(torch.device(DEVICE)) is None, "this device has no address"


def test_workers_run_near_the_device_or_where_the_caller_wants(
    sysfs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[set[int]] = []
    real = os.sched_setaffinity

    def spy(pid: int, cpus: Any) -> None:
        real(pid, cpus)
        seen.append(os.sched_getaffinity(0))

    monkeypatch.setattr(os, "sched_setaffinity", spy)
    path = write(sysfs, file_of(WORDS))
    for device, cpus, wanted in (
        (DEVICE, None, {HERE[0]}),
        (DEVICE, HERE[-1:], {HERE[-1]}),
        ("cpu", HERE[:1], {HERE[0]}),
        ("cpu", None, None),
    ):
        seen.clear()
        tensors = load_file(path, device=device, cpus=cpus, threads=2, chunk=700)
        assert b"".join(map(raw_bytes, tensors.values())) == data_of(path.read_bytes())
        assert seen == ([wanted] * 2 if wanted else [])
    assert sorted(os.sched_getaffinity(0)) == HERE, "the calling thread is not moved"


@pytest.mark.parametrize("cpus", [[0.0], [], [100_000], ["0"], 5, [None], [False], [0, True]])
def test_cpus_that_cannot_be_used_are_refused(cpus: Any) -> None:
    with pytest.raises(AccessError, match="cpus must be numbers of CPUs that this process may use"):
        checked_cpus(cpus)
