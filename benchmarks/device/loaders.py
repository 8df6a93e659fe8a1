"""The loaders in the comparison, called as their documentation recommends.

A loader must return all tensors, and they must remain valid after all files are closed. The measured time
includes any copies that this requires. Each factory runs in the process of its loader.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from .machine import suite_version

Load = Callable[[str], dict[str, Any]]
REFERENCE = "reference"
MIB = 1 << 20
SWEEP_THREADS = (4, 8, 12, 16)
SWEEP_MIB = (2, 8, 16)


class NotHere(Exception):  # noqa: N818 - an answer, not an error
    """A loader does not work on this machine. The message says why."""


@dataclass(frozen=True)
class Loader:
    """A method of loading a file.

    Attributes:
        name: short name, unique in a run.
        title: the call, with the settings that matter.
        make: takes the device and ``settings``, and returns the function to measure. Raises NotHere or
            ImportError.
        package: distribution whose version is reported, or None.
        owns: why the tensors remain valid.
        twin: whether it loads the ``torch.save`` twin of the file.
        settings: passed to ``make``.
    """

    name: str
    title: str
    make: Callable[..., Load]
    package: str | None = None
    owns: str = "own memory"
    twin: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)


def _reference(device: str, threads: int | None = None, chunk: int | None = None) -> Load:
    from safetensors_reference.device import configure, load_file
    from safetensors_reference.device.transfer import SLOT_BYTES, SLOTS

    if threads is not None and chunk is not None:
        configure(max(SLOTS, 2 * threads), max(SLOT_BYTES, chunk))
    return lambda path: dict(load_file(path, device=device, threads=threads, chunk=chunk))


def _official(device: str, backend: str = "mmap") -> Load:
    from safetensors.torch import load_file

    return lambda path: dict(load_file(path, device=device, backend=backend))


def _then_to(device: str) -> Load:
    from safetensors.torch import load_file

    return lambda path: {name: tensor.to(device) for name, tensor in load_file(path).items()}


def _prefetch(device: str, threads: int) -> Load:
    from safetensors import __version__, safe_open

    if not hasattr(safe_open, "prefetch"):
        text = f"safetensors {__version__} does not support prefetch, but 0.9 does; use --path prefetch=DIR"
        raise NotHere(text)
    _cuda_only(device)

    def load(path: str) -> dict[str, Any]:
        with (
            safe_open(path, framework="pt", device=device) as file,
            file.prefetch(device=device, threads=threads) as tensors,
        ):
            return dict(tensors)

    return load


def _fastsafetensors(device: str, block: int | None = None) -> Load:
    fast = importlib.import_module("fastsafetensors")
    options = {} if block is None else {"max_copy_block_size": block}

    def load(path: str) -> dict[str, Any]:
        loader = fast.SafeTensorsFileLoader(fast.SingleGroup(), device, nogds=True)
        try:
            loader.add_filenames({0: [path]})
            buffer = loader.copy_files_to_device(**options)
            try:
                return {name: buffer.get_tensor(name) for name in loader.get_keys()}
            finally:
                buffer.close()
        finally:
            loader.close()

    return load


def _instanttensor(device: str) -> Load:
    _cuda_only(device)
    instant = importlib.import_module("instanttensor")

    def load(path: str) -> dict[str, Any]:
        with instant.safe_open(path, framework="pt", device=device) as file:
            return dict(file.tensors())

    return load


def _runai(device: str) -> Load:
    # Without this setting, each load would print a line during the measurement.
    os.environ.setdefault("RUNAI_STREAMER_LOG_LEVEL", "ERROR")
    runai = importlib.import_module("runai_model_streamer")

    def load(path: str) -> dict[str, Any]:
        with runai.SafetensorsStreamer() as streamer:
            streamer.stream_file(path, device=device)
            return dict(streamer.get_tensors())

    return load


def _torch_load(device: str, mmap: bool = False) -> Load:
    import torch

    return lambda path: dict(torch.load(path, map_location=device, mmap=mmap, weights_only=True))


def _added(device: str, target: str) -> Load:
    module, _, function = target.partition(":")
    call = getattr(importlib.import_module(module), function, None)
    if call is None:
        raise NotHere(f"module {module} has no function {function!r}")
    return lambda path: dict(call(path, device))


def _cuda_only(device: str) -> None:
    if not device.startswith("cuda"):
        raise NotHere("this loader supports only CUDA devices")


WARM = {"FASTSAFETENSORS_ODIRECT": "0", "INSTANTTENSOR_BACKEND": "BUFFERED"}
"""Environment for loads from the page cache. On a disk, these two loaders would bypass the cache by default.
"""

_ST, _FAST = "safetensors", "fastsafetensors"
LOADERS = (
    Loader(REFERENCE, "safetensors_reference.device.load_file", _reference, owns="views of one buffer"),
    Loader("safetensors", "safetensors load_file(device=...)", _official, _ST),
    Loader("safetensors-pread", 'safetensors load_file(device=..., backend="pread")', _official, _ST,
           settings={"backend": "pread"}),
    Loader("safetensors-then-to", "safetensors load_file(), then .to(device)", _then_to, _ST),
    Loader("prefetch-8", "safetensors 0.9 prefetch, 8 threads (default)", _prefetch, _ST,
           "views that share a buffer", settings={"threads": 8}),
    Loader("prefetch-16", "safetensors 0.9 prefetch, 16 threads", _prefetch, _ST,
           "views that share a buffer", settings={"threads": 16}),
    Loader("fastsafetensors", "SafeTensorsFileLoader(nogds=True)", _fastsafetensors, _FAST,
           "views that share a buffer"),
    Loader("fastsafetensors-64m", "SafeTensorsFileLoader(nogds=True), blocks of 64 MiB", _fastsafetensors,
           _FAST, "views that share a buffer", settings={"block": 64 * MIB}),
    Loader("instanttensor", "InstantTensor safe_open(copy=True)", _instanttensor, "instanttensor",
           "cloned by the loader, within the measured time"),
    Loader("runai", "Run:ai SafetensorsStreamer(device=...)", _runai, "runai-model-streamer"),
    Loader("torch-load", "torch.load of a torch.save twin", _torch_load, "torch", twin=True),
    Loader("torch-load-mmap", "torch.load(mmap=True) of a torch.save twin", _torch_load, "torch", twin=True,
           settings={"mmap": True}),
)  # fmt: skip


def added(name: str, target: str) -> Loader:
    return Loader(
        name, target, _added, target.partition(":")[0].partition(".")[0], settings={"target": target}
    )


def sweep() -> tuple[Loader, ...]:
    return tuple(
        Loader(
            f"{REFERENCE}-{threads}x{mib}m",
            f"the reference with {threads} threads and chunks of {mib} MiB",
            _reference,
            owns="views of one buffer",
            settings={"threads": threads, "chunk": mib * MIB},
        )
        for threads in SWEEP_THREADS
        for mib in SWEEP_MIB
    )


def named(name: str, target: str | None) -> Loader:
    """Return the loader with this name. ``target`` is the target of an added loader. Raises KeyError."""
    if target is not None:
        return added(name, target)
    return {loader.name: loader for loader in (*LOADERS, *sweep())}[name]


def is_reference(name: str) -> bool:
    return name == REFERENCE or name.startswith(f"{REFERENCE}-")


def package_version(loader: Loader) -> str | None:
    if is_reference(loader.name):
        return suite_version()
    if loader.package is None:
        return None
    module = importlib.import_module(loader.package.replace("-", "_"))
    told = getattr(module, "__version__", None)
    if isinstance(told, str):
        return told
    try:
        return version(loader.package)
    except PackageNotFoundError:
        return None
