"""Reads and writes files with torch, using the function names of the official ``safetensors.torch``.

If tensors share memory, as tied weights do, ``save_model`` stores only one of them (WRT-16).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

import torch

from .arrays.buffers import Mode
from .arrays.open import TensorFile
from .arrays.torch import Device, LoadedTensor, TorchFramework, make_views
from .header.model import rows
from .rules.book import ProfileName
from .rules.errors import SafetensorsError, UnsupportedDtypeError, WriteError
from .source import SourceLike
from .text import quote, quote_some
from .writing.torch import check, memory_regions, save, save_file, shared_groups
from .writing.writer import tensor_error, tensor_errors

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["TorchFramework", "load", "load_file", "load_model", "save", "save_file", "save_model"]


def load(data: Buffer, profile: ProfileName = "hardened") -> dict[str, LoadedTensor]:
    """Load every tensor from the bytes of a file. Raises the same errors as ``load_file``."""
    return load_file(data, profile=profile)


def load_file(
    what: SourceLike, device: Device = "cpu", *, mode: Mode = "copy", profile: ProfileName = "hardened"
) -> dict[str, LoadedTensor]:
    """Load every tensor of a file.

    Args:
        what: a path, an object with the buffer protocol or a seekable binary file object.
        device: device of the tensors. To load onto CUDA faster, use ``safetensors_reference.device``.
        mode: ``copy`` reads into new memory; ``mmap`` returns views of the mapped file.
        profile: profile to use where readers may differ.

    Returns:
        A mapping of names to tensors, in header order. All tensors share one storage without overlapping.

    Raises:
        InvalidFileError: the file breaks one or more rules.
        UnreadableError: the file cannot be read, or became shorter during the load.
        UnsupportedDtypeError: the installed torch has no type for a tensor; ``safe_open`` can read the
            other tensors.
        AccessError: the device is missing or has too little memory.
    """
    framework = TorchFramework(device)
    with TensorFile(what, framework, mode, profile) as file:
        return make_views(rows(file.header.tensors), framework.put(file.data()))


class StateMismatchError(SafetensorsError, RuntimeError):
    """Raised if a model and a file have different tensors.

    Attributes:
        missing: names that only the model has.
        unexpected: names that only the file has.
    """

    code = "API_NO_SUCH_TENSOR"
    rule = "API-02"

    def __init__(self, message: str, missing: list[str], unexpected: list[str]) -> None:
        super().__init__(message)
        self.missing = missing
        self.unexpected = unexpected


def save_model(
    model: torch.nn.Module,
    path: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
    force_contiguous: bool = True,
) -> None:
    """Save the state of ``model``. If tensors share memory, only one of them is stored.

    The stored tensor must cover all of the shared memory. If several tensors do, the one with the
    alphabetically first name is stored. The metadata maps each omitted name to the stored name, unless the
    caller's metadata already contains that key.

    Args:
        model: the model whose ``state_dict`` is saved.
        path: target file, which is replaced atomically.
        metadata: mapping of strings to strings.
        force_contiguous: if False, non-contiguous tensors are rejected; otherwise they are written in
            row-major order.

    Raises:
        WriteError: as in ``save_file``. The code is WRT_SHARED_STORAGE if tensors share memory and none of
            them covers all of it.
        NotSavedError: the file cannot be written.
    """
    state: dict[str, torch.Tensor] = dict(model.state_dict())
    for name, tensor in state.items():
        check(name, tensor)
    notes: dict[str, str] = {}
    for kept, dropped in list(_aliases(state)):
        if kept is None:
            text = f"these tensors share memory, but none of them covers all of it: {quote_some(dropped)}"
            raise WriteError(text, "WRT_SHARED_STORAGE", "WRT-16")
        for name in dropped:
            notes[name] = kept
            del state[name]
    if not force_contiguous:
        for name, tensor in state.items():
            with tensor_errors(name):
                contiguous = tensor.is_contiguous()
            if not contiguous:
                raise tensor_error(name, "the tensor is not contiguous", "WRT_NOT_CONTIGUOUS", "WRT-07")
    if notes and (metadata is None or isinstance(metadata, Mapping)):
        metadata = {**notes, **(metadata or {})}
    save_file(state, path, metadata)


def load_model(
    model: torch.nn.Module,
    path: str | os.PathLike[str],
    strict: bool = True,
    device: Device = "cpu",
) -> tuple[list[str], list[str]]:
    """Load a file into ``model``. For tied tensors, the file may contain any one of their names.

    Args:
        model: the model, which is changed in place; its tensors keep their device and dtype.
        path: the file.
        strict: whether to raise an error if a name is only in the model or only in the file.
        device: device of the file's tensors before they are copied to the model.

    Returns:
        A tuple (missing, unexpected) of two sorted lists: the names that only the model has, and the names
        that only the file has. A name is not missing if its memory was loaded under another name. If the file
        contains a second name for the same memory, that name is unexpected.

    Raises:
        StateMismatchError: names differ and ``strict`` is set. Tensors with matching names have been loaded
            anyway.
        InvalidFileError, UnreadableError, UnsupportedDtypeError: the file cannot be loaded.
        RuntimeError: a tensor has a different shape in the model (torch's own error).
    """
    loaded = load_file(path, device)
    for name, tensor in loaded.items():
        if not isinstance(tensor, torch.Tensor):
            raise UnsupportedDtypeError(f"tensor {quote(name)}: torch has no type for its packed elements")
    state: dict[str, torch.Tensor] = dict(model.state_dict())
    aliases = list(_aliases({name: t for name, t in state.items() if _in_memory(name, t)}, loaded))
    result = model.load_state_dict(loaded, strict=False)
    missing, unexpected = set(result.missing_keys), set(result.unexpected_keys)
    for kept, dropped in aliases:
        for name in dropped if kept is not None else ():
            if name in missing:
                missing.remove(name)
            else:
                unexpected.add(name)
    names = sorted(missing), sorted(unexpected)
    if strict and any(names):
        labels = ("missing from the file", "unexpected in the file")
        parts = [f"{label}: {quote_some(part)}" for label, part in zip(labels, names, strict=True) if part]
        text = f"{type(model).__name__} and the file have different tensors"
        raise StateMismatchError("; ".join([text, *parts]), *names)
    return names


def _aliases(
    state: Mapping[str, torch.Tensor], preferred: Collection[str] = ()
) -> Iterator[tuple[str | None, list[str]]]:
    """Yield (name that covers all of the memory or None, other names) for tensors that share memory."""
    for group in shared_groups(memory_regions(state)):
        begin, end = min(p.address for p in group), max(p.end for p in group)
        whole = [
            p.name
            for p in group
            if p.dense
            and (p.address, p.end) == (begin, end)
            and state[p.name].numel() * p.itemsize == end - begin
        ]
        kept = min(whole, key=lambda name: (name not in preferred, name), default=None)
        yield kept, sorted(p.name for p in group if p.name != kept)


def _in_memory(name: str, tensor: object) -> bool:
    try:
        check(name, tensor)
    except WriteError:
        return False
    return True
