"""Adapters for safetensors-streaming with paths and URLs: ``load_file`` and its own ``safe_open``."""

from typing import Any

import lacking
import safetensors_streaming
import torch_rows
from stc_host.library import call, marked, opened


class Streaming:
    lacks = lacking.all_but(("BOOL", "U8", "I8", "I16", "I32", "I64", "F16", "BF16", "F32", "F64"))


@marked
class File(Streaming):
    def read(self, path: str) -> list[tuple[str, Any, Any, bytes]]:
        return [torch_rows.row(name, t) for name, t in call(safetensors_streaming.load_file, path).items()]

    remote = read


@marked
class SafeOpen(Streaming):
    def read(self, path: str) -> dict[str, Any]:
        with opened(safetensors_streaming.safe_open, path) as file:
            rows = [torch_rows.row(name, call(file.get_tensor, name)) for name in call(file.keys)]
            return {"tensors": rows, "metadata": call(file.metadata)}

    remote = read
