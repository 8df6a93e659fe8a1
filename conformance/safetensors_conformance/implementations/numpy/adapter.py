"""Adapter for ``numpy.savez``, which exports the tensors as members of an archive."""

import numpy as np
from safetensors.numpy import load_file
from stc_host.library import call, marked


@marked
class Savez:
    def export(self, path: str, folder: str) -> None:
        call(np.savez, f"{folder}/model.npz", **call(load_file, path))
