"""The public function ``onnx_safetensors.load_file``, for comparison with the adapter."""

from __future__ import annotations

import onnx_ir as ir
import onnx_safetensors
from stc_host.library import call, marked


@marked
class LoadFile:
    """Calls ``load_file`` with a model that has no tensors."""

    def open(self, path: str) -> list[tuple[str, str, list[int]]]:
        call(onnx_safetensors.load_file, ir.Model(ir.Graph([], [], nodes=[], name="g"), ir_version=10), path)
        return []
