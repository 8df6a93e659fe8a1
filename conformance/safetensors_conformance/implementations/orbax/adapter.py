"""Adapter of Orbax's v1 ``load`` with the layout of safetensors files."""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import given
import jax
import numpy as np
import orbax.checkpoint.experimental.v1 as ocp
from stc_host.library import call, marked, opened

jax.config.update("jax_enable_x64", True)


@marked
class Layout:
    """Loads every tensor of a file."""

    name = "orbax"
    version = version("orbax-checkpoint")
    language = "Python"
    lacks = (
        "dtype-c64",
        "dtype-f4",
        "dtype-f6-e2m3",
        "dtype-f6-e3m2",
        "dtype-f8-e4m3fnuz",
        "dtype-f8-e5m2fnuz",
        "dtype-f8-e8m0",
    )

    def read(self, path: str) -> list[tuple[str, Any, Any, bytes]]:
        """Load the file."""
        layout = ocp.options.CheckpointLayout.SAFETENSORS
        with opened(ocp.Context, checkpoint_layout=layout):
            loaded = call(ocp.load, path)
        return [(name, *part(array)) for name, array in loaded.items()]


def part(value: Any) -> tuple[Any, Any, bytes]:
    """Return dtype code, shape and bytes of an array."""
    array = np.asarray(value)
    return given.code(array.dtype), array.shape, array.tobytes()
