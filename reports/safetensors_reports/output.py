"""Writing of report files into folders that other programs may use."""

from __future__ import annotations

import secrets
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Write a whole file by renaming a new one, also over a symbolic link. Raises OSError."""
    part = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with part.open("x", encoding="utf-8") as file:
            file.write(text)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
