"""Loads files onto a device.

All headers and arguments are checked before the device is used. Either the whole load succeeds or nothing is
returned.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from ..arrays.buffers import check_unchanged, cores
from ..arrays.numpy import PackedTensor
from ..arrays.torch import TORCH_DTYPES, TorchTensor, make, make_views, torch_dtype
from ..header.model import Header, TensorRow
from ..header.read import header_of
from ..rules.book import ProfileName
from ..rules.dtypes import DTYPE_BITS
from ..rules.errors import AccessError, NoSuchTensorError, reason
from ..source import PathSource
from ..text import quote, shown
from . import gds as by_gds
from .engine import PAGE, DeviceError, Engine, device_errors, open_engine, release_frames
from .plan import MAX_ALIGN, Plan, make_plan
from .readers import DirectReader, PlainReader, Reader
from .transfer import Target, Transfer, shared_ring

PathLike = str | os.PathLike[str]
MAX_THREADS = 12
CPU_ALIGN = 64
CPU_CHUNK = 1 << 20
"""Default chunk size in bytes on the CPU. A chunk of this size is still in the cache when it is copied."""


def load_file(
    path: PathLike,
    *,
    device: str | torch.device | None = None,
    names: Iterable[str] | None = None,
    dtype: torch.dtype | None = None,
    all_dtypes: bool = False,
    align: int | None = None,
    clone: bool = False,
    threads: int | None = None,
    chunk: int | None = None,
    direct: bool = False,
    gds: bool = False,
    cpus: Iterable[int] | None = None,
    profile: ProfileName = "hardened",
) -> dict[str, TorchTensor]:
    """Load a file onto a device.

    All tensors are views of one buffer with the data of the file, and any of these tensors keeps the whole
    buffer alive. Sub-byte tensors have the same types as in ``safetensors_reference.torch``. The current
    stream may use the tensors immediately, but other streams have to wait for it.

    Args:
        path: the file.
        device: ``"cpu"``, or an accelerator such as ``"cuda"`` or ``"cuda:1"``; by default the current
            device of the accelerator.
        names: tensors to load, by default all. Other tensors are neither read nor allocated.
        dtype: convert floating-point tensors to this type on the device; packed tensors keep their type. The
            buffer of a file is freed when its tensors are converted.
        all_dtypes: also convert integers, booleans and complex numbers.
        align: alignment of every tensor in bytes, a power of two up to 256. On the CPU, the alignment is at
            most 64 if ``dtype`` or ``clone`` copies the tensors. Tensors are always aligned to their element
            size.
        clone: give every tensor its own memory. This temporarily needs memory for a second copy of
            the file.
        threads: number of worker threads; by default one per core, but at most 12.
        chunk: maximum number of bytes that are read and copied together. The slot size of the staging ring is
            both the upper limit and the default on CUDA.
        direct: read with O_DIRECT, bypassing the page cache.
        gds: read with GPUDirect Storage through KvikIO, which ignores ``threads``, ``chunk`` and ``cpus``.
        cpus: numbers of the CPUs on which the worker threads run and allocate staging memory; by default
            those of the NUMA node of the device, if the system reports it.
        profile: profile to use where readers may differ.

    Returns:
        A mapping of names to tensors, in header order.

    Raises:
        InvalidFileError: the file breaks one or more rules.
        UnreadableError: the file cannot be read, or became shorter during the load.
        NoSuchTensorError: the file has no tensor with a requested name.
        UnsupportedDtypeError: this version of torch has no type for a tensor.
        AccessError: an argument cannot be used here, or the file changed during the load.
        DeviceError: the device or its memory failed.
    """
    settings = _LoadOptions(names, dtype, all_dtypes, align, clone, threads, chunk, direct, gds, profile)
    settings.check()
    return _load((path,), open_engine(device, cpus), settings)


def load_files(
    paths: Sequence[PathLike],
    *,
    device: str | torch.device | None = None,
    names: Iterable[str] | None = None,
    dtype: torch.dtype | None = None,
    all_dtypes: bool = False,
    align: int | None = None,
    clone: bool = False,
    threads: int | None = None,
    chunk: int | None = None,
    direct: bool = False,
    gds: bool = False,
    cpus: Iterable[int] | None = None,
    profile: ProfileName = "hardened",
) -> dict[str, TorchTensor]:
    """Load several files onto a device, such as all shards of a model. Either all files are loaded or none.

    Each file has its own buffer. Arguments and errors are the same as for ``load_file``, except that the
    tensors in ``names`` may be in any of the files. AccessError is also raised if two files have a tensor
    with the same name.
    """
    if isinstance(paths, (str, os.PathLike)):
        raise AccessError("load_files accepts a list of paths; load_file accepts one path")
    if not isinstance(paths, Iterable):
        raise AccessError(f"load_files accepts a list of paths, not {type(paths).__name__}")
    settings = _LoadOptions(names, dtype, all_dtypes, align, clone, threads, chunk, direct, gds, profile)
    settings.check()
    return _load(paths, open_engine(device, cpus), settings)


@dataclass(frozen=True)
class _LoadOptions:
    names: Iterable[str] | None
    dtype: torch.dtype | None
    all_dtypes: bool
    align: int | None
    clone: bool
    threads: int | None
    chunk: int | None
    direct: bool
    gds: bool
    profile: ProfileName

    def check(self) -> None:
        check_request(threads=self.threads, chunk=self.chunk)
        powers = [1 << n for n in range(MAX_ALIGN.bit_length())]
        if self.align is not None and (type(self.align) is not int or self.align not in powers):
            raise AccessError(f"align must be a power of two up to {MAX_ALIGN}, not {shown(self.align)}")
        if self.dtype is not None and not isinstance(self.dtype, torch.dtype):
            raise AccessError(f"dtype must be a torch dtype, not {shown(self.dtype)}")
        if self.direct and self.gds:
            raise AccessError("direct=True and gds=True cannot be used together")
        if type(torch.empty(0, device="cpu")) is not torch.Tensor:
            raise AccessError("tensors have no memory because a torch mode such as FakeTensorMode is active")


class _File(NamedTuple):
    source: PathSource
    plan: Plan


def _load(paths: Iterable[PathLike], engine: Engine, settings: _LoadOptions) -> dict[str, TorchTensor]:
    copies = settings.clone or settings.dtype is not None
    if copies and engine.device.type == "cpu" and (settings.align or 1) > CPU_ALIGN:
        text = f"align={settings.align} does not apply to the copies of clone= and dtype= on the CPU"
        raise AccessError(f"{text}, which torch aligns to {CPU_ALIGN} bytes")
    kvikio = by_gds.import_kvikio() if settings.gds else None
    handled = sys.exception()
    tensors: dict[str, TorchTensor] = {}
    with ExitStack() as stack:
        try:
            files = _open(paths, settings, stack)
            # Copies are made file by file, so that each buffer is freed before the next one is allocated.
            for group in [[file] for file in files] if copies else [files]:
                tensors.update(_load_group(group, engine, kvikio, settings))
            return tensors
        except BaseException as err:
            # The caller may keep the error, which must not keep the memory alive.
            tensors = {}
            release_frames(err, handled)
            raise


def _load_group(
    files: Sequence[_File], engine: Engine, kvikio: Any, settings: _LoadOptions
) -> dict[str, TorchTensor]:
    with ExitStack() as stack:
        sources = [] if settings.gds else [file.source for file in files]
        readers: list[Reader] = [
            stack.enter_context(DirectReader(source)) if settings.direct else PlainReader(source)
            for source in sources
        ]
        buffers = [_buffer(file, engine, settings) for file in files]
        ready(engine)
        if settings.gds:
            engine.settle()
            for file, buffer in zip(files, buffers, strict=True):
                by_gds.fill(kvikio, file.source, file.plan.segments, buffer)
        else:
            targets = [
                Target(reader, file.plan.segments, buffer)
                for file, reader, buffer in zip(files, readers, buffers, strict=True)
            ]
            transfer(targets, engine, settings.threads, settings.chunk)
        for file in files:
            check_unchanged(file.source)
        tensors: dict[str, TorchTensor] = {}
        for file, buffer in zip(files, buffers, strict=True):
            with creating_tensors(file.source.name, buffer):
                for name, tensor in make_views(file.plan.rows, buffer).items():
                    converted = _converted(tensor, settings.dtype, settings.all_dtypes)
                    tensors[name] = _cloned(converted) if settings.clone else converted
        return tensors


def _buffer(file: _File, engine: Engine, settings: _LoadOptions) -> torch.Tensor:
    # GPUDirect Storage is fast only if positions in the file and in memory have the same alignment.
    name, plan = file.source.name, file.plan
    start = plan.segments[0].file_at % PAGE if len(plan.segments) == 1 else 0
    if not settings.gds or start % max(settings.align or 1, 8):
        return allocate(name, plan.size, engine, cleared=plan.gaps > 0)
    memory = allocate(name, plan.size + 2 * PAGE, engine)
    at = -memory.data_ptr() % PAGE + start
    return memory[at : at + plan.size]


def _open(paths: Iterable[PathLike], settings: _LoadOptions, stack: ExitStack) -> list[_File]:
    if isinstance(settings.names, str):
        raise AccessError(f"names must be a list of names, not the string {quote(settings.names)}")
    try:
        names = None if settings.names is None else set(settings.names)
    except TypeError as err:
        raise AccessError(f"names must be a list of names, not {shown(settings.names)}") from err
    files: list[_File] = []
    owners: dict[str, str] = {}
    for path in paths:
        source, header = open_valid(path, settings.profile, stack)
        names_here = None if names is None else names & header.tensors.keys()
        claim(owners, source.name, header.tensors if names_here is None else names_here)
        plan = make_plan(header, names_here, settings.align or 1)
        check_rows(source.name, plan.rows, settings.dtype, settings.all_dtypes)
        files.append(_File(source, plan))
    if names is not None and len(owners) < len(names):
        raise no_such_tensor([file.source.name for file in files], min(names - owners.keys(), key=str))
    return files


def claim(owners: dict[str, str], file: str, tensors: Iterable[str]) -> None:
    for tensor in tensors:
        if tensor in owners:
            raise AccessError(f"{file}: tensor {quote(tensor)} is also in {owners[tensor]}")
        owners[tensor] = file


def open_valid(path: PathLike, profile: ProfileName, stack: ExitStack) -> tuple[PathSource, Header]:
    if not isinstance(path, (str, os.PathLike)):
        raise AccessError(f"expected a path, not {type(path).__name__}")
    source = PathSource(path)
    stack.callback(source.close)
    return source, header_of(source, profile)


def no_such_tensor(files: list[str], name: object) -> NoSuchTensorError:
    where = files[0] if len(files) == 1 else f"{len(files)} files"
    return NoSuchTensorError(f"{where}: no tensor {shown(name)}")


def check_request(**values: object) -> None:
    if sys.byteorder != "little":
        raise AccessError("loading onto a device needs a little-endian machine")
    for name, value in values.items():
        if value is not None and (type(value) is not int or value < 1):
            raise AccessError(f"{name} must be a whole number of at least 1, not {shown(value)}")


def check_rows(
    file: str, wanted: Iterable[TensorRow], dtype: torch.dtype | None = None, all_dtypes: bool = False
) -> None:
    """Check that torch can represent the tensors. Raises UnsupportedDtypeError or AccessError."""
    codes = set()
    no_bytes = torch.empty(0, dtype=torch.uint8, device="cpu")
    try:
        for name, code, shape, begin, end in wanted:
            codes.add(code)
            if begin == end:
                make(name, code, shape, no_bytes)
        for code in codes:
            if DTYPE_BITS[code] >= 8:
                torch_dtype(code)
    except AccessError as err:
        raise type(err)(f"{file}: {err}", err.code, err.rule) from err
    if dtype is not None and all_dtypes and not dtype.is_complex and "C64" in codes:
        text = f"cannot convert complex tensors to {dtype}; load only other tensors with names="
        raise AccessError(f"{file}: {text}")


def allocate(name: str, size: int, engine: Engine, cleared: bool = False) -> torch.Tensor:
    try:
        buffer = engine.allocate(size)
        if cleared and engine.device.type != "cpu":  # new CPU memory is zeroed
            buffer.zero_()
    except (torch.OutOfMemoryError, MemoryError, OSError) as err:
        text = f"{name}: {engine.device} has too little memory for {size:,} bytes ({reason(err)})"
        raise DeviceError(text, "LIM_MEMORY", "LIM-06") from err
    except RuntimeError as err:
        raise DeviceError(f"{name}: {engine.device} cannot be used ({reason(err)})") from err
    if buffer.data_ptr() % MAX_ALIGN:
        raise DeviceError(f"{name}: the memory of {engine.device} is not aligned to {MAX_ALIGN} bytes")
    return buffer


def ready(engine: Engine) -> None:
    with device_errors(f"{engine.device} cannot be used", (RuntimeError,)):
        engine.ready()


def transfer(targets: Sequence[Target], engine: Engine, threads: int | None, chunk: int | None) -> None:
    total = sum(segment.size for target in targets for segment in target.segments)
    if not total:
        return
    ring = shared_ring(engine.pinned, engine.staging)
    chunk = min(chunk or (ring.slot_bytes if engine.pinned else CPU_CHUNK), ring.slot_bytes)
    threads = threads or min(MAX_THREADS, max(2, cores()))
    Transfer(targets, engine, ring, chunk).run(min(threads, -(-total // chunk)))


@contextmanager
def creating_tensors(name: str, buffer: torch.Tensor) -> Iterator[None]:
    """Convert errors of torch in the ``with`` block to DeviceError."""
    try:
        yield
    except (RuntimeError, MemoryError) as err:
        where = f"{name}: cannot create the tensors on {buffer.device}"
        raise DeviceError(f"{where}: {reason(err)}") from err


def _converted(tensor: TorchTensor, dtype: torch.dtype | None, all_dtypes: bool) -> TorchTensor:
    """Convert a tensor unless it is packed, because the order of packed elements is undefined (DTY-11)."""
    if dtype is None or isinstance(tensor, PackedTensor) or tensor.dtype == TORCH_DTYPES.get("F4"):
        return tensor
    return tensor.to(dtype) if all_dtypes or tensor.dtype.is_floating_point else tensor


def _cloned(tensor: TorchTensor) -> TorchTensor:
    if isinstance(tensor, PackedTensor):
        return PackedTensor(tensor.dtype, tensor.shape, tensor.raw.clone())
    if not tensor.numel():
        return tensor
    # Copy the tensor as bytes, because torch cannot copy every dtype.
    return tensor.reshape(-1).view(torch.uint8).clone().view(tensor.dtype).view(tensor.shape)
