"""Loading files onto a device: the doors, and the order in which things are done.

Nothing of the device is touched before every header is validated and everything asked for is known to be
there. From then on it is all or nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

import torch

from ..arrays.numpy import PackedTensor
from ..arrays.torch import TORCH_DTYPES, TorchTensor, make, make_views, torch_dtype
from ..buffers import check_unchanged
from ..header.model import Header, TensorRow
from ..header.read import header_of
from ..rules.book import ProfileName
from ..rules.dtypes import DTYPE_BITS
from ..rules.errors import AccessError, NoSuchTensorError, reason
from ..rules.faults import quote, shown
from ..source import PathSource
from . import gds as by_gds
from .engine import DeviceError, Engine, open_engine, release_frames
from .plan import MAX_ALIGN, Plan, make_plan
from .readers import DirectReader, PlainReader, Reader
from .transfer import Target, Transfer, shared_ring

PathLike = str | os.PathLike[str]
MAX_THREADS = 12
"""Threads by default, where there are as many cores."""
CPU_ALIGN = 64
"""Alignment in bytes of what torch allocates on the CPU."""
CPU_CHUNK = 1 << 20
"""Bytes of a chunk on the CPU by default: what is copied out of a slot is then still in the cache."""


def load_file(
    path: PathLike,
    *,
    device: str | torch.device = "cuda:0",
    names: Iterable[str] | None = None,
    dtype: torch.dtype | None = None,
    all_dtypes: bool = False,
    align: int | None = None,
    clone: bool = False,
    threads: int | None = None,
    chunk: int | None = None,
    direct: bool = False,
    gds: bool = False,
    profile: ProfileName = "hardened",
) -> dict[str, TorchTensor]:
    """Load a file onto a device.

    All tensors are views of one buffer as large as the file's data, so one that is kept keeps the memory of
    all. Sub-byte tensors come as in ``safetensors_reference.torch``. The tensors may be used at once on the
    stream that was current; work on other streams has to wait for it.

    Args:
        path: the file.
        device: ``"cpu"``, ``"cuda"`` or ``"cuda:N"``.
        names: the tensors to load, all by default. Nothing else is read or takes room.
        dtype: convert floating tensors to this type on the device; packed ones stay as they are. The buffer
            and the converted tensors exist at the same time.
        all_dtypes: convert integers, booleans and complex numbers too.
        align: alignment of every tensor in bytes, a power of two up to 256, or 64 for copies (``dtype``,
            ``clone``) on the CPU; at least that of its elements.
        clone: give every tensor memory of its own; for a while that takes twice the room.
        threads: worker threads; by default as many as there are cores, at most 12.
        chunk: most bytes read and copied at a time; at most a slot of the staging ring, which is the default
            for CUDA.
        direct: read with O_DIRECT, past the page cache.
        gds: read with GPUDirect Storage through KvikIO; ``threads`` and ``chunk`` then mean nothing.
        profile: whose options to take where readers legitimately differ.

    Returns:
        name -> tensor, in header order.

    Raises:
        InvalidFileError: the file breaks rules.
        UnreadableError: it cannot be read, or became shorter meanwhile.
        NoSuchTensorError: it has no tensor of a name asked for.
        UnsupportedDtypeError: a tensor's dtype has no type in this torch.
        AccessError: an argument is not usable here, or the file was modified meanwhile.
        DeviceError: the device or its memory failed.
    """
    settings = _LoadOptions(names, dtype, all_dtypes, align, clone, threads, chunk, direct, gds, profile)
    return _load((path,), device, settings)


def load_files(
    paths: Sequence[PathLike],
    *,
    device: str | torch.device = "cuda:0",
    names: Iterable[str] | None = None,
    dtype: torch.dtype | None = None,
    all_dtypes: bool = False,
    align: int | None = None,
    clone: bool = False,
    threads: int | None = None,
    chunk: int | None = None,
    direct: bool = False,
    gds: bool = False,
    profile: ProfileName = "hardened",
) -> dict[str, TorchTensor]:
    """Load several files, for instance all shards of a model, onto a device: all of them or none.

    Each file has a buffer of its own. Arguments and errors are those of ``load_file``; ``names`` holds for
    all files together. AccessError is raised too when two files have a tensor of the same name.
    """
    if isinstance(paths, (str, os.PathLike)):
        raise AccessError("load_files takes a list of paths; load_file takes one")
    if not isinstance(paths, Iterable):
        raise AccessError(f"load_files takes a list of paths, not {type(paths).__name__}")
    settings = _LoadOptions(names, dtype, all_dtypes, align, clone, threads, chunk, direct, gds, profile)
    return _load(paths, device, settings)


@dataclass(frozen=True)
class _LoadOptions:
    """The keyword arguments of a load."""

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

    def wanted(self) -> set[str] | None:
        """Return the names asked for, None for all. Raises AccessError when they are no list of names."""
        if self.names is None:
            return None
        if isinstance(self.names, str):
            raise AccessError(f"names must be a list of names, not the text {quote(self.names)}")
        try:
            return set(self.names)
        except TypeError as err:
            raise AccessError(f"names must be a list of names, not {shown(self.names)}") from err

    def check(self) -> None:
        check_request(threads=self.threads, chunk=self.chunk)
        powers = [1 << n for n in range(MAX_ALIGN.bit_length())]
        if self.align is not None and (type(self.align) is not int or self.align not in powers):
            raise AccessError(f"align must be a power of two up to {MAX_ALIGN}, not {shown(self.align)}")
        if self.dtype is not None and not isinstance(self.dtype, torch.dtype):
            raise AccessError(f"dtype must be a type of torch, not {shown(self.dtype)}")
        if self.direct and self.gds:
            raise AccessError("direct=True and gds=True are two ways of reading; choose one")


class _File(NamedTuple):
    source: PathSource
    plan: Plan


def _load(
    paths: Iterable[PathLike], device: str | torch.device, settings: _LoadOptions
) -> dict[str, TorchTensor]:
    settings.check()
    engine = open_engine(device)
    copies = settings.clone or settings.dtype is not None
    if copies and engine.device.type == "cpu" and (settings.align or 1) > CPU_ALIGN:
        text = f"align={settings.align} does not hold for the copies of clone= and dtype= on the CPU"
        raise AccessError(f"{text}, which torch aligns to {CPU_ALIGN} bytes")
    kvikio = by_gds.import_kvikio() if settings.gds else None
    handled = sys.exception()
    buffers: list[torch.Tensor] = []
    with ExitStack() as stack:
        try:
            files = _open(paths, settings, stack)
            readers = [] if settings.gds else [_reader(file, settings, stack) for file in files]
            buffers.extend(allocate(file.source.name, file.plan.size, engine) for file in files)
            ready(engine)
            if settings.gds:
                engine.settle()
                for file, buffer in zip(files, buffers, strict=True):
                    by_gds.fill(kvikio, file.source, file.plan.segments, buffer)
            else:
                # No local name holds the targets: an error that is kept keeps this frame, and their buffers.
                transfer(_targets(files, readers, buffers), engine, settings.threads, settings.chunk)
            for file in files:
                check_unchanged(file.source)
            return _tensors(files, buffers, settings)
        except BaseException as err:
            # An error that is kept must not keep the memory.
            buffers.clear()
            release_frames(err, handled)
            raise


def _open(paths: Iterable[PathLike], settings: _LoadOptions, stack: ExitStack) -> list[_File]:
    """Open all files, validate their headers and plan their buffers; refuse what torch cannot hold."""
    names = settings.wanted()
    files: list[_File] = []
    owners: dict[str, str] = {}
    for path in paths:
        source, header = open_valid(path, settings.profile, stack)
        here = None if names is None else names & header.tensors.keys()
        claim(owners, source.name, header.tensors if here is None else here)
        plan = make_plan(header, here, settings.align or 1)
        check_rows(source.name, plan.rows, settings.dtype, settings.all_dtypes)
        files.append(_File(source, plan))
    if names is not None and len(owners) < len(names):
        raise no_such_tensor([file.source.name for file in files], min(names - owners.keys(), key=str))
    return files


def claim(owners: dict[str, str], file: str, tensors: Iterable[str]) -> None:
    """Note which file has each tensor. Raises AccessError for one that another file has, too."""
    for tensor in tensors:
        if tensor in owners:
            raise AccessError(f"{file}: tensor {quote(tensor)} is in {owners[tensor]} too")
        owners[tensor] = file


def open_valid(path: PathLike, profile: ProfileName, stack: ExitStack) -> tuple[PathSource, Header]:
    """Open a file for as long as ``stack`` lasts, and validate its header."""
    if not isinstance(path, (str, os.PathLike)):
        raise AccessError(f"a device loads from paths, not from {type(path).__name__}")
    source = PathSource(path)
    stack.callback(source.close)
    return source, header_of(source, profile)


def no_such_tensor(files: list[str], name: object) -> NoSuchTensorError:
    where = files[0] if len(files) == 1 else f"{len(files)} files"
    return NoSuchTensorError(f"{where}: no tensor {shown(name)}")


def check_request(**values: object) -> None:
    """Raise AccessError on a big-endian machine, and for values that are no whole numbers from 1 on."""
    if sys.byteorder != "little":
        raise AccessError("this machine is big-endian, and tensors on a device are the file's bytes")
    for name, value in values.items():
        if value is not None and (type(value) is not int or value < 1):
            raise AccessError(f"{name} must be a number from 1 on, not {shown(value)}")


def check_rows(
    file: str, wanted: Iterable[TensorRow], dtype: torch.dtype | None = None, all_dtypes: bool = False
) -> None:
    """Raise what would be raised for rows that torch cannot hold, before any memory is asked for.

    Raises UnsupportedDtypeError for a dtype that this torch lacks, and AccessError for the shape of an empty
    tensor, which may be beyond what torch counts to, or for complex numbers that should become real ones.
    """
    codes = set()
    nothing = torch.empty(0, dtype=torch.uint8, device="cpu")
    try:
        for name, code, shape, begin, end in wanted:
            codes.add(code)
            if begin == end:
                make(name, code, shape, nothing)
        for code in codes:
            if DTYPE_BITS[code] >= 8:
                torch_dtype(code)
    except AccessError as err:
        raise type(err)(f"{file}: {err}", err.code, err.rule) from err
    if dtype is not None and all_dtypes and not dtype.is_complex and "C64" in codes:
        raise AccessError(f"{file}: tensors of complex numbers do not become {dtype}; load them with names=")


def _reader(file: _File, settings: _LoadOptions, stack: ExitStack) -> Reader:
    reader: Reader = DirectReader(file.source) if settings.direct else PlainReader(file.source)
    stack.callback(reader.close)
    return reader


def allocate(name: str, size: int, engine: Engine) -> torch.Tensor:
    """Return memory of the device for ``size`` bytes of what ``name`` says. Raises DeviceError."""
    try:
        buffer = engine.allocate(size)
    except (torch.OutOfMemoryError, MemoryError, OSError) as err:
        text = f"{name}: {engine.device} has no room for {size:,} bytes ({reason(err)})"
        raise DeviceError(text, "LIM_MEMORY", "LIM-06") from err
    except RuntimeError as err:
        raise DeviceError(f"{name}: {engine.device} cannot be used ({reason(err)})") from err
    if buffer.data_ptr() % MAX_ALIGN:
        raise DeviceError(f"{name}: the memory of {engine.device} is not aligned to {MAX_ALIGN} bytes")
    return buffer


def ready(engine: Engine) -> None:
    """Call ``engine.ready`` when all memory for a transfer is allocated. Raises DeviceError."""
    try:
        engine.ready()
    except RuntimeError as err:
        raise DeviceError(f"{engine.device} takes no work ({reason(err)})") from err


def transfer(
    targets: Sequence[Target], engine: Engine, threads: int | None = None, chunk: int | None = None
) -> None:
    """Fill all targets; threads and chunk as in ``load_file``. Raises as ``Transfer.run`` does."""
    total = sum(segment.size for target in targets for segment in target.segments)
    if not total:
        return
    ring = shared_ring(engine.pinned, engine.staging)
    chunk = min(chunk or (ring.slot_bytes if engine.pinned else CPU_CHUNK), ring.slot_bytes)
    threads = threads or min(MAX_THREADS, max(2, _cores()))
    Transfer(targets, engine, ring, chunk).run(min(threads, -(-total // chunk)))


def _targets(
    files: Sequence[_File], readers: Sequence[Reader], buffers: Sequence[torch.Tensor]
) -> list[Target]:
    return [
        Target(reader, file.plan.segments, buffer)
        for file, reader, buffer in zip(files, readers, buffers, strict=True)
    ]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _tensors(
    files: Sequence[_File], buffers: Sequence[torch.Tensor], settings: _LoadOptions
) -> dict[str, TorchTensor]:
    out: dict[str, TorchTensor] = {}
    for file, buffer in zip(files, buffers, strict=True):
        try:
            tensors = make_views(file.plan.rows, buffer)
            if settings.dtype is not None or settings.clone:
                for name, tensor in tensors.items():
                    tensors[name] = _asked_for(tensor, settings)
        except (RuntimeError, MemoryError) as err:
            where = f"{file.source.name}: after reading, on {buffer.device}"
            raise DeviceError(f"{where}: {reason(err)}") from err
        out.update(tensors)
    return out


def _asked_for(tensor: TorchTensor, settings: _LoadOptions) -> TorchTensor:
    if settings.dtype is not None:
        tensor = _converted(tensor, settings.dtype, settings.all_dtypes)
    return _cloned(tensor) if settings.clone else tensor


def _converted(tensor: TorchTensor, dtype: torch.dtype, all_dtypes: bool) -> TorchTensor:
    """Return ``tensor`` as ``dtype`` if it is floating or all are to be converted, else as it is.

    Packed elements are never converted: torch does not say which half of a byte comes first (DTY-11).
    """
    if isinstance(tensor, PackedTensor) or tensor.dtype == TORCH_DTYPES.get("F4"):
        return tensor
    return tensor.to(dtype) if all_dtypes or tensor.dtype.is_floating_point else tensor


def _cloned(tensor: TorchTensor) -> TorchTensor:
    if isinstance(tensor, PackedTensor):
        return PackedTensor(tensor.dtype, tensor.shape, tensor.raw.clone())
    if not tensor.numel():
        return tensor
    # As bytes, for torch cannot copy every dtype.
    return tensor.reshape(-1).view(torch.uint8).clone().view(tensor.dtype).view(tensor.shape)
