"""Adapter for Reminis' tensor reader, for files that Reminis can convert to a database."""

import tempfile
from pathlib import Path
from typing import Any

import lacking
from reminis import safetensors_to_sqlite
from reminis.safetensors_io import SAFETENSORS_DTYPES, load_tensors
from stc_host.library import call, marked


@marked
class Io:
    lacks = lacking.all_but(SAFETENSORS_DTYPES)

    def read(self, path: str) -> list[tuple[str, Any, Any, bytes]]:
        with tempfile.TemporaryDirectory() as folder:
            call(safetensors_to_sqlite, path, str(Path(folder) / "model.db"), verbose=False)
        return [(name, *part) for name, part in call(load_tensors, path).items()]

    index = read
