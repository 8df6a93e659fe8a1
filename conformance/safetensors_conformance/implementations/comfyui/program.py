"""Adapter for ComfyUI's checkpoint loader, ``load_torch_file`` in ``comfy/utils.py``, on the CPU."""

from types import SimpleNamespace
from typing import Any

import cut_out
import torch_rows
from stc_host.library import call, marked

OPTIONS = SimpleNamespace(mmap_torch_files=False, disable_mmap=False)
"""The defaults of ``comfy/cli_args.py``."""
UTILS = cut_out.module(
    None, "comfy/utils.py", ("comfy", "PIL", "einops"), {"comfy.cli_args": {"args": OPTIONS}}
)


@marked
class LoadTorchFile:
    lacks = torch_rows.LACKS

    def read(self, path: str) -> dict[str, Any]:
        tensors, metadata = call(UTILS.load_torch_file, path, return_metadata=True)
        rows = [torch_rows.row(name, tensor) for name, tensor in tensors.items()]
        return {"tensors": rows, "metadata": metadata}
