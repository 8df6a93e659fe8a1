"""Adapter for the header parser ``quantbenchx.profile_safetensors``."""

from typing import Any

from quantbenchx import profile_safetensors
from stc_host.library import UNTOLD, call, marked

CODES = {"f32": "F32", "f16": "F16", "bf16": "BF16"}
"""Dtypes that the library reports by name. It reports all others as quantization kinds or as unknown."""


@marked
class Profile:
    def open(self, path: str) -> dict[str, Any]:
        profile = call(profile_safetensors, path)
        rows = [(t.name, CODES.get(t.dtype.value, UNTOLD), t.shape) for t in profile.tensors]
        return {"tensors": rows, "metadata": profile.metadata}
