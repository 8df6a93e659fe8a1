"""``safetensors_to_sqlite``, to be compared with the adapter."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from reminis import safetensors_to_sqlite
from stc_host.library import call, marked


@marked
class Sqlite:
    """Converts a file; the database is thrown away."""

    version = "public"

    def read(self, path: str) -> list[tuple[Any, ...]]:
        """Convert a file, or what an index names."""
        with tempfile.TemporaryDirectory() as folder:
            call(safetensors_to_sqlite, path, str(Path(folder) / "model.db"), verbose=False)
        return []

    index = read
