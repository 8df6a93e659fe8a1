"""Files to replace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from .support import OLD


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    path.write_bytes(OLD)
    return path


@pytest.fixture
def public() -> Iterator[Path]:
    """An old file that everybody may write, in a directory that everybody may write."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "model.safetensors")
        path.write_bytes(OLD)
        path.chmod(0o666)
        path.parent.chmod(0o777)
        yield path
