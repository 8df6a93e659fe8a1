"""A simulated accelerator with two devices, ``simulated:0`` and ``simulated:1``, that behave like CUDA.

``device.cpp`` contains the device. It is compiled once per test session, in seconds, and registered with
torch once per process.
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
from filelock import FileLock

SOURCE = Path(__file__).with_name("device.cpp")
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
    library = folder / "simulated_device.so"
    with FileLock(folder / "simulated_device.lock"):
        if not library.exists():
            compiler = shutil.which(os.environ.get("CXX", "c++"))
            if compiler is None:
                raise NoCompilerError("no C++ compiler (c++ or $CXX)")
            torch_folder = Path(torch.__file__).parent
            include = torch_folder / "include"
            options = [
                "-O1",
                "-std=c++20",
                "-shared",
                "-fPIC",
                f"-I{include}",
                f"-I{include}/torch/csrc/api/include",
            ]
            link = [f"-L{torch_folder}/lib", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{torch_folder}/lib"]
            unfinished = library.with_suffix(".unfinished")
            done = subprocess.run(
                [compiler, *options, str(SOURCE), "-o", str(unfinished), *link],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise NoCompilerError(
                    f"{compiler} does not compile the simulated device: {done.stderr[:2000]}"
                )
            unfinished.rename(library)
    return library


def register(library: Path) -> SimulatedDevice:
    """Register the devices with torch. This cannot be undone in this process."""
    loaded = ctypes.CDLL(str(library))
    torch.utils.rename_privateuse1_backend(TYPE)
    module: Any = ModuleType(f"torch.{TYPE}")
    module.is_available = module.is_initialized = lambda: True
    module.device_count = lambda: len(DEVICES)
    module.current_device = torch.accelerator.current_device_index
    module._is_in_bad_fork = lambda: False
    module._lazy_init = lambda: None
    torch._register_device_module(TYPE, module)
    return SimulatedDevice(loaded)
