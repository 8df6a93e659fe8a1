"""Adapter for Orbax's v1 ``load`` with the layout for safetensors files."""

import os
from typing import Any

import lacking

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import given
import jax
import numpy as np
import orbax.checkpoint.experimental.v1 as ocp
from stc_host.library import call, marked, opened

jax.config.update("jax_enable_x64", True)


@marked
class Layout:
    lacks = lacking.dtypes("C64", "F4", "F6_E2M3", "F6_E3M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F8_E8M0")

    def read(self, path: str) -> list[tuple[str, Any, Any, bytes]]:
        layout = ocp.options.CheckpointLayout.SAFETENSORS
        with opened(ocp.Context, checkpoint_layout=layout):
            loaded = call(ocp.load, path)
        return [(name, *given.part(np.asarray(array))) for name, array in loaded.items()]
