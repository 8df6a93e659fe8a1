"""Write report files into folders that other programs may be using."""

from __future__ import annotations

import secrets
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Write a complete file under a temporary name, and rename it to ``path``.

    A symbolic link at ``path`` is replaced by the file. Raises OSError if writing fails.
    """
    part = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with part.open("x", encoding="utf-8") as file:
            file.write(text)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
