"""Readers that return memory instead of the file's content."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .quick_reader import Reference
else:
    from quick_reader import Reference


class HandsOutFreshMemory(Reference):
    """Allocates room for the data and forgets to read it."""

    name = "hostile"

    def read(self, path: str) -> Any:
        content = super().read(path)
        return {**content, "tensors": [self.unread(*row) for row in content["tensors"]]}

    def unread(self, name: str, dtype: str, shape: Any, data: Any) -> Any:
        malloc = ctypes.CDLL(None).malloc
        malloc.restype = ctypes.c_void_p
        malloc.argtypes = [ctypes.c_size_t]
        size = len(memoryview(data).cast("B"))
        return name, dtype, shape, ctypes.string_at(malloc(size), size)


class HandsOutRandomBytes(HandsOutFreshMemory):
    def unread(self, name: str, dtype: str, shape: Any, data: Any) -> Any:
        return name, dtype, shape, os.urandom(len(memoryview(data).cast("B")))


class HandsOutZeros(HandsOutFreshMemory):
    def unread(self, name: str, dtype: str, shape: Any, data: Any) -> Any:
        return name, dtype, shape, bytes(len(memoryview(data).cast("B")))
