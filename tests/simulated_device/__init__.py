"""A simulated accelerator with two devices, ``simulated:0`` and ``simulated:1``, that behave like CUDA.

``device.cpp`` contains the device. It is compiled once per test session, in seconds, and registered with
torch once per process. ``install`` makes a folder that registers it in every process with this folder in
``PYTHONPATH``, when that process imports torch.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

SOURCE = Path(__file__).with_name("device.cpp")
LIBRARY = "simulated_device.so"
TYPE = "simulated"
DEVICES = (f"{TYPE}:0", f"{TYPE}:1")


class NoCompilerError(Exception):
    """The simulated device cannot be compiled here."""


class SimulatedDevice:
    """Controls both devices. Settings apply to the whole process; ``settings`` restores them."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library: Any = library
        library.simulated_live.restype = library.simulated_peak.restype = ctypes.c_long
        library.simulated_fail_copy.argtypes = library.simulated_limit.argtypes = [ctypes.c_long]

    @property
    def live(self) -> int:
        """Allocated device memory in bytes."""
        return int(self._library.simulated_live())

    def peak(self) -> int:
        """Return the most memory in bytes that was allocated at a time since the last call."""
        return int(self._library.simulated_peak())

    @contextmanager
    def settings(
        self, default_delay: int = 0, delay: int = 0, fail_copy: int = -1, limit: int = 1 << 40
    ) -> Iterator[None]:
        """Change the behaviour of the devices.

        Args:
            default_delay: average delay of each operation of the default streams, in microseconds.
            delay: the same for all other streams.
            fail_copy: number of the copy to a device that fails, counted from 1.
            limit: size of the memory of both devices together, in bytes.
        """
        self._library.simulated_delay(default_delay, delay)
        self._library.simulated_fail_copy(fail_copy)
        self._library.simulated_limit(limit)
        try:
            yield
        finally:
            self._library.simulated_delay(0, 0)
            self._library.simulated_fail_copy(-1)
            self._library.simulated_limit(1 << 40)


def build(folder: Path) -> Path:
    """Compile the device into ``folder``, unless another process did. Raises NoCompilerError."""
    from filelock import FileLock

    library = folder / LIBRARY
    with FileLock(folder / "simulated_device.lock"):
        if not library.exists():
            compiler = shutil.which(os.environ.get("CXX", "c++"))
            if compiler is None:
                raise NoCompilerError("no C++ compiler (c++ or $CXX)")
            torch_folder = Path(torch.__file__).parent
            include = torch_folder / "include"
            options = ["-O1", "-std=c++20", "-shared", "-fPIC"]
            folders = [f"-I{include}", f"-I{include}/torch/csrc/api/include"]
            link = [f"-L{torch_folder}/lib", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{torch_folder}/lib"]
            unfinished = library.with_suffix(".unfinished")
            command = [compiler, *options, *folders, str(SOURCE), "-o", str(unfinished), *link]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                text = f"{compiler} does not compile the simulated device: {done.stderr[:2000]}"
                raise NoCompilerError(text)
            unfinished.rename(library)
    return library


def register(library: Path, name: str = TYPE) -> SimulatedDevice:
    """Register the devices with torch. This cannot be undone in this process."""
    device = SimulatedDevice(ctypes.CDLL(str(library)))
    torch.utils.rename_privateuse1_backend(name)
    module: Any = ModuleType(f"torch.{name}")
    module.is_available = module.is_initialized = lambda: True
    module.device_count = lambda: len(DEVICES)
    module.current_device = torch.accelerator.current_device_index
    module.device = _current_device
    module.set_device = torch.accelerator.set_device_index
    module.Stream = lambda device: torch.Stream(device=device)
    module.stream = lambda stream: stream
    module.current_stream = torch.accelerator.current_stream
    module.synchronize = torch.accelerator.synchronize
    module.memory_allocated = lambda _device=None: device.live
    module.max_memory_allocated = lambda _device=None: device.peak()
    module.reset_peak_memory_stats = lambda _device=None: device.peak()
    module.mem_get_info = lambda _device=None: ((1 << 40) - device.live, 1 << 40)
    module.empty_cache = lambda: None
    module._is_in_bad_fork = lambda: False
    module._lazy_init = lambda: None
    torch._register_device_module(name, module)
    return device


@contextmanager
def _current_device(device: int) -> Iterator[None]:
    before = torch.accelerator.current_device_index()
    torch.accelerator.set_device_index(device)
    try:
        yield
    finally:
        torch.accelerator.set_device_index(before)


def autoload() -> None:
    """Register the device. torch calls this function when it is imported, if ``install`` made the folder.

    ``SIMULATED_TYPE`` is another name of the devices, for libraries that accept only known names, and
    ``SIMULATED_DELAY`` is the delay of all streams but the default ones.
    """
    device = register(Path(__file__).with_name(LIBRARY), os.environ.get("SIMULATED_TYPE", TYPE))
    device._library.simulated_delay(0, int(os.environ.get("SIMULATED_DELAY", "0")))


def install(library: Path, folder: Path) -> None:
    """Make a folder for ``PYTHONPATH`` that contains the device as a backend of torch."""
    shutil.copy(library, folder / LIBRARY)
    shutil.copy(__file__, folder / "simulated_backend.py")
    info = folder / "simulated_backend-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: simulated-backend\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[torch.backends]\nsimulated = simulated_backend:autoload\n")
