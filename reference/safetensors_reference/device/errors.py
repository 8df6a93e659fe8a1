"""Errors between a valid file and tensors on a device, and what a load refuses before anything is opened."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable

import torch

from ..arrays.torch import make, torch_dtype
from ..header.model import Row
from ..rules.dtypes import DTYPE_BITS
from ..rules.errors import AccessError, NoSuchTensorError, SafetensorsError
from ..rules.faults import shown


class DeviceError(SafetensorsError, RuntimeError):
    """A device, its memory or a way of reading failed; nothing is known against the file."""


def reason(err: BaseException) -> str:
    """Return the first line of what an error says; those of devices go on for a page."""
    lines = str(getattr(err, "strerror", None) or err).splitlines()
    return f"{type(err).__name__}: {lines[0][:200]}" if lines else type(err).__name__


def release_frames(err: BaseException, handled: BaseException | None = None) -> None:
    """Forget what the finished frames of an error and of what led to it hold.

    An error that is kept would else keep the buffer that the frames had in hand. ``handled`` is an error that
    was there before and is not ours.
    """
    seen = {id(handled)}
    todo: list[BaseException | None] = [err]
    while todo:
        item = todo.pop()
        if item is not None and id(item) not in seen:
            seen.add(id(item))
            traceback.clear_frames(item.__traceback__)
            todo += [item.__cause__, item.__context__]


def no_such_tensor(files: list[str], name: object) -> NoSuchTensorError:
    """Return the error that none of ``files`` has a tensor of that name."""
    where = files[0] if len(files) == 1 else f"{len(files)} files"
    return NoSuchTensorError(f"{where}: no tensor {shown(name)}")


def check_request(**values: object) -> None:
    """Raise AccessError on a big-endian machine, and for values that are no whole numbers from 1 on."""
    if sys.byteorder != "little":
        raise AccessError("this machine is big-endian, and tensors on a device are the file's bytes")
    for name, value in values.items():
        if value is not None and (type(value) is not int or value < 1):
            raise AccessError(f"{name} must be a number from 1 on, not {repr(value)[:80]}")


def check_rows(
    file: str, wanted: Iterable[Row], dtype: torch.dtype | None = None, all_dtypes: bool = False
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
