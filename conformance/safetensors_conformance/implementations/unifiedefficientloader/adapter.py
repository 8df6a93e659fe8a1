"""Adapter for ``UnifiedSafetensorsLoader`` in its low-memory mode, in which it parses the header itself."""

from typing import Any

import lacking
import torch_rows
from stc_host.library import Held, call, marked, opened
from unifiedefficientloader import UnifiedSafetensorsLoader


@marked
class LowMemory:
    lacks = (*torch_rows.LACKS, *lacking.dtypes("F8_E4M3FNUZ", "F8_E5M2FNUZ"))

    def open(self, path: str) -> dict[str, Any]:
        with opened(UnifiedSafetensorsLoader, path, low_memory=True) as file:
            rows = [self._listed(file, name) for name in call(file.keys)]
            return {"tensors": rows, "metadata": call(file.metadata)}

    def read(self, path: str) -> dict[str, Any]:
        with opened(UnifiedSafetensorsLoader, path, low_memory=True) as file:
            rows = [torch_rows.row(name, call(file.get_tensor, name)) for name in call(file.keys)]
            return {"tensors": rows, "metadata": call(file.metadata)}

    @staticmethod
    def _listed(file: Any, name: str) -> tuple[str, Any, Any]:
        return name, *torch_rows.kind(call(file.get_dtype, name), call(file.get_shape, name))

    def hold(self, path: str) -> Held:
        file = call(UnifiedSafetensorsLoader, path, low_memory=True)
        return Held(lambda name: torch_rows.part(call(file.get_tensor, name)), lambda: call(file.close))

    share = hold
