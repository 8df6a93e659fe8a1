"""A small safetensors reader like those in many projects. It is careless on purpose."""

from __future__ import annotations

import json
from typing import Any


def load(path: str) -> tuple[dict[str, Any], bytes]:
    """Return the header and the data buffer."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        return header, file.read()
