"""Files of reports, written where programs of others may be at work."""

from __future__ import annotations

import secrets
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Write a file anew, as a whole. Raises OSError.

    A link that somebody has put at its name is replaced, and what it leads to stays as it is.
    """
    part = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with part.open("x", encoding="utf-8") as file:
            file.write(text)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
