"""Untimed comparison of a loader's result with the content of the file.

The reference reader on the CPU provides the expected content. Large files are compared by the sum of each
page of 4,096 bytes, so that little data has to be copied from the device. In addition, some pages of each
tensor are compared byte by byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .files import PAGE

SAMPLES = 8
ALL = "all bytes"
SAMPLED = f"a sum of every page of {PAGE:,} bytes, and {SAMPLES} pages of each tensor byte by byte"
_SHOWN = 3


def page_sums(raw: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Return one sum per page, of wrapping 64-bit words or, for a partial last page, of bytes."""
    whole = len(raw) // PAGE * PAGE
    sums = raw[:whole].view("<i8").reshape(-1, PAGE // 8).sum(1, dtype=np.int64)
    return np.append(sums, raw[whole:].sum(dtype=np.int64)) if whole < len(raw) else sums


def save_sums(path: Path, target: Path) -> None:
    """Save the page sums of a file's tensors as a NumPy archive. Raises the same errors as the reader."""
    import torch

    from safetensors_reference.torch import load_file

    tensors: dict[str, Any] = load_file(path, mode="mmap")
    parts = [page_sums(t.reshape(-1).view(torch.uint8).numpy()) for t in tensors.values()]
    np.savez(target, sums=np.concatenate(parts), ends=np.cumsum([len(part) for part in parts]))


def check(tensors: Mapping[str, Any], path: Path, device: str, sums: Path | None) -> dict[str, Any]:
    """Compare the tensors that a loader returned with the file.

    Args:
        tensors: torch tensors by name.
        path: the file.
        device: device on which all tensors must be.
        sums: file written by ``save_sums``, or None to compare all bytes.

    Returns:
        A mapping with ``how``, the method; ``wrong``, the number of tensors that are missing, unexpected
        or different; ``first``, a description of the first wrong tensor; and ``misaligned``, the number of
        tensors whose address is not a multiple of their element size.
    """
    import torch

    from safetensors_reference.torch import load_file

    wanted: dict[str, Any] = load_file(path, mode="mmap")
    found = dict(tensors)
    faults = [f"tensor {name!r} is missing" for name in wanted if name not in found]
    faults += [f"tensor {name!r} is not in the file" for name in found if name not in wanted]
    words = _Sums(sums) if sums is not None else None
    place = torch.device(device)
    misaligned = 0
    for number, (name, want) in enumerate(wanted.items()):
        got = found.get(name)
        if got is None:
            continue
        fault = _outside(got, want, place)
        if fault is None:
            misaligned += bool(got.numel() and got.data_ptr() % got.element_size())
            fault = _content(got, want, None if words is None else words.of(number))
        if fault is not None:
            faults.append(f"tensor {name!r} {fault}")
    shown = "; ".join(faults[:_SHOWN]) + ("; …" if len(faults) > _SHOWN else "")
    how = ALL if sums is None else SAMPLED
    return {"how": how, "wrong": len(faults), "first": shown or None, "misaligned": misaligned}


class _Sums:
    def __init__(self, path: Path) -> None:
        with np.load(path) as saved:
            self._sums = saved["sums"]
            self._ends = [0, *saved["ends"].tolist()]

    def of(self, number: int) -> npt.NDArray[np.int64]:
        sums: npt.NDArray[np.int64] = self._sums[self._ends[number] : self._ends[number + 1]]
        return sums


def _outside(got: Any, want: Any, place: Any) -> str | None:
    if got.dtype != want.dtype:
        return f"has dtype {got.dtype}, not {want.dtype}"
    if got.shape != want.shape:
        return f"has shape {list(got.shape)}, not {list(want.shape)}"
    if got.device.type != place.type or (
        place.index is not None and got.device.index not in {None, place.index}
    ):
        return f"is on {got.device}, not on {place}"
    return None


def _content(got: Any, want: Any, sums: npt.NDArray[np.int64] | None) -> str | None:
    import torch

    flat, expected = (t.detach().reshape(-1).view(torch.uint8) for t in (got, want))
    size = flat.numel()
    if sums is None:
        if torch.equal(flat.cpu(), expected):
            return None
        at = int((flat.cpu() != expected).nonzero()[0])
        return f"differs from the file at byte {at:,} on"
    if flat.data_ptr() % 8 or flat.storage_offset() % 8:
        flat = flat.clone()
    whole = size // PAGE * PAGE
    pages = flat[:whole].view(torch.int64).view(-1, PAGE // 8).sum(1).cpu().numpy()
    if whole < size:
        pages = np.append(pages, int(flat[whole:].sum(dtype=torch.int64)))
    differ = np.flatnonzero(pages != sums)
    if len(differ):
        return f"differs from the file in the page at byte {int(differ[0]) * PAGE:,} on"
    for page in _sampled(-(-size // PAGE)):
        part = slice(page * PAGE, (page + 1) * PAGE)
        if not torch.equal(flat[part].cpu(), expected[part]):
            return f"differs from the file in the page at byte {page * PAGE:,} on"
    return None


def _sampled(pages: int) -> list[int]:
    return sorted({round(i) for i in np.linspace(0, pages - 1, min(pages, SAMPLES))}) if pages else []
