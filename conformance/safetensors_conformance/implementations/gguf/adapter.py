"""Adapter for ``gguf.utility.SafetensorsLocal``, which llama.cpp uses to convert models.

It parses the header itself and maps each tensor into memory.
"""

from pathlib import Path
from typing import Any

from gguf.utility import SafetensorsLocal
from stc_host.library import Held, call, item, marked


@marked
class Local:
    def open(self, path: str) -> list[tuple[str, Any, Any]]:
        tensors = call(SafetensorsLocal, Path(path)).tensors
        return [(name, t.dtype, t.shape) for name, t in tensors.items()]

    def read(self, path: str) -> list[tuple[str, Any, Any, bytes]]:
        tensors = call(SafetensorsLocal, Path(path)).tensors
        return [(name, t.dtype, t.shape, call(t.mmap_bytes).tobytes()) for name, t in tensors.items()]

    def hold(self, path: str) -> Held:
        tensors = call(SafetensorsLocal, Path(path)).tensors

        def tensor(name: str) -> tuple[Any, Any, Any]:
            found = item(tensors, name)
            return found.dtype, found.shape, call(found.mmap_bytes)

        def close() -> None:
            raise NotImplementedError("SafetensorsLocal has no close()")

        return Held(tensor, close)

    share = hold
