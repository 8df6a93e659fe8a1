"""Loads onto a simulated accelerator: order, lifetime, faults and memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from safetensors_reference.device import DeviceError, free_staging, load_file, load_files, transfer
from safetensors_reference.device import engine as engine_module
from safetensors_reference.device import load as load_module
from safetensors_reference.device.transfer import Ring

from ...simulated_device import DEVICES, SimulatedDevice
from ..support import raw_bytes
from .support import data_of, file_of, write

FILE = file_of([(f"t{i:02}", "U8", [9_000 + i]) for i in range(40)])
SIZE = len(data_of(FILE))
SLOW = 30_000
"""Delay in microseconds that makes a stream later than this process, even on a busy machine."""


@pytest.fixture(autouse=True)
def ring(monkeypatch: pytest.MonkeyPatch, simulated: SimulatedDevice) -> Ring:
    """A small ring, so that slots are reused while their copies are pending."""
    small = Ring(4, 1 << 16, engine_module.AcceleratorEngine(torch.device(DEVICES[0])).staging)
    monkeypatch.setattr(load_module, "shared_ring", lambda _pinned, _make: small)
    return small


def right(tensors: Any, file: bytes = FILE) -> bool:
    return b"".join(map(raw_bytes, tensors.values())) == data_of(file)


def filled(device: str, value: int) -> torch.Tensor:
    """Queue a write to new memory that has the size of the buffer of FILE."""
    memory = torch.empty(SIZE, dtype=torch.uint8, device=device)
    return memory.copy_(torch.full((SIZE,), value, dtype=torch.uint8).pin_memory(), non_blocking=True)


def used_at_once(simulated: SimulatedDevice, path: Path, device: str) -> bool:
    """The caller copies the tensors on its stream as soon as they are returned."""
    memory = filled(device, 9)  # otherwise, the buffer may already contain the right bytes
    torch.accelerator.synchronize(device)
    del memory
    with simulated.settings(delay=SLOW):
        tensors: dict[str, Any] = load_file(path, device=device)
        copies = {name: tensor.clone() for name, tensor in tensors.items()}
    return right(copies)


def reused_memory(simulated: SimulatedDevice, path: Path, device: str) -> bool:
    """The buffer is memory that the caller freed while its stream still writes to it."""
    with simulated.settings(default_delay=5 * SLOW):
        memory = filled(device, 9)
        del memory
        tensors = load_file(path, device=device)
    return right(tensors)


def failed_load(simulated: SimulatedDevice, path: Path, device: str) -> bool:
    """A copy fails, the caller keeps the error, and gets the memory of the failed load."""
    before = simulated.live
    words = r"could not be copied to simulated:\d \(RuntimeError: simulated device error"
    with simulated.settings(delay=SLOW, fail_copy=5):
        with pytest.raises(DeviceError, match=words) as kept:
            load_file(path, device=device, chunk=9000, threads=1)
        live = simulated.live
        memory = filled(device, 7)
        torch.accelerator.synchronize(device)
    assert str(path) in str(kept.value)
    del kept  # its traceback refers to this frame
    return live == before and bool((memory.cpu() == 7).all())


def busy_default_stream(simulated: SimulatedDevice, path: Path, device: str) -> bool:
    """The default streams of both devices are late, and each still uses slots of the ring."""
    with simulated.settings(delay=SLOW, default_delay=SLOW):
        tensors = [load_file(path, device=each, threads=2) for each in (*DEVICES, device)]
    return all(map(right, tensors))


def out_of_memory(simulated: SimulatedDevice, path: Path, device: str) -> bool:
    """The second file does not fit, and the caller keeps the error."""
    second = write(path.parent, file_of([("x", "U8", [SIZE])]), "second.safetensors")
    before = simulated.live
    with simulated.settings(limit=before + SIZE + 4096):
        try:
            load_files([path, second], device=device)
        except DeviceError as err:
            return err.code == "LIM_MEMORY" and simulated.live == before
        except RuntimeError:
            return False
    return False


def gaps(simulated: SimulatedDevice, path: Path, device: str) -> bool:
    """The buffer of a file with gaps has no bytes of an earlier file, neither with nor without O_DIRECT."""
    earlier = write(path.parent, file_of([("s", "U8", [64 * 400])]), "earlier.safetensors")
    aligned = write(path.parent, file_of([(f"t{i}", "U8", [40]) for i in range(400)]), "gaps.safetensors")
    for direct in (False, True):
        load_file(earlier, device=device, direct=direct)
        kept = load_file(aligned, device=device, align=64, direct=direct)["t0"]
        assert isinstance(kept, torch.Tensor)
        whole = torch.empty(0, dtype=torch.uint8, device=device)
        storage = kept.untyped_storage()
        whole = whole.set_(storage, 0, (storage.nbytes(),), (1,)).cpu()
        if any(whole[64 * i + 40 : 64 * (i + 1)].any() for i in range(399)):
            return False
    return True


Scenario = Callable[[SimulatedDevice, Path, str], bool]
SCENARIOS: list[Scenario] = [
    used_at_once,
    reused_memory,
    failed_load,
    busy_default_stream,
    out_of_memory,
    gaps,
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_nothing_goes_wrong(
    scenario: Scenario, device: str, simulated: SimulatedDevice, ring: Ring, tmp_path: Path
) -> None:
    path = write(tmp_path, FILE)
    before = simulated.live
    assert scenario(simulated, path, device)
    assert right(load_file(path, device=device)), "the next load works"
    torch.accelerator.synchronize(device)
    assert simulated.live == before, "all memory is freed"
    assert ring.free == ring.made


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("options", [{"dtype": torch.float16}, {"clone": True}])
def test_buffers_are_freed_file_by_file(
    device: str, options: Any, simulated: SimulatedDevice, tmp_path: Path
) -> None:
    paths = [write(tmp_path, file_of([(f"t{i}", "BF16", [100_000])]), str(i)) for i in range(8)]
    before = simulated.live
    simulated.peak()
    tensors = load_files(paths, device=device, **options)
    assert len(tensors) == 8
    assert (simulated.peak() - before) / (8 * 200_000) <= 1.2


def test_staging_memory_can_be_freed(
    simulated: SimulatedDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, FILE)
    monkeypatch.setattr(load_module, "shared_ring", transfer.shared_ring)
    with simulated.settings(delay=SLOW):
        assert right(load_file(path, device=DEVICES[0]))
        assert transfer._rings[True].made > 0
        free_staging()
        assert transfer._rings[True].made == 0
        assert right(load_file(path, device=DEVICES[0]))
