"""Adapter for ``numpy.savez``."""

import numpy as np
from safetensors.numpy import load_file
from stc_host.library import call, marked


@marked
class Savez:
    """Exports the tensors as members of an archive."""

    def export(self, path: str, folder: str) -> None:
        call(np.savez, f"{folder}/model.npz", **call(load_file, path))
