"""Adapter for ``zarr.save_group``."""

import zarr
from safetensors.numpy import load_file
from stc_host.library import call, marked


@marked
class SaveGroup:
    """Exports the tensors as arrays of a group."""

    def export(self, path: str, folder: str) -> None:
        call(zarr.save_group, folder, **call(load_file, path))
