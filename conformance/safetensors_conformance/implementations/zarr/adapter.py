"""Adapter for ``zarr.save_group``, which exports the tensors as arrays of a group."""

import zarr
from safetensors.numpy import load_file
from stc_host.library import call, marked


@marked
class SaveGroup:
    def export(self, path: str, folder: str) -> None:
        call(zarr.save_group, folder, **call(load_file, path))
