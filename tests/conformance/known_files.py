"""Files of the corpus recognised by their bytes, for fakes that misbehave on some: their names are neutral.

The fakes import this by its bare name: they are programs of their own, with this folder on their path.
"""

from __future__ import annotations

import json
import time
from functools import cache
from pathlib import Path

TRIGGER = "framing/one-tensor"
SECONDS, BYTES = 0.3, 64 << 20
"""Costs of the readers in ``budget_fakes.py``: processor time, and memory or reads."""
_FILES = Path(__file__).resolve().parents[2] / "corpus/files"


@cache
def _contents(pattern: str) -> frozenset[bytes]:
    found = frozenset(path.read_bytes() for path in _FILES.glob(f"{pattern}.safetensors"))
    assert found, pattern
    return found


def holds(path: str, *patterns: str) -> bool:
    """Return whether a file has the bytes of one of the corpus, named by area and name or a glob."""
    data = Path(path).read_bytes()
    return any(data in _contents(pattern) for pattern in patterns or (TRIGGER,))


def content(path: str) -> tuple[list[tuple[str, str, list[int], bytes]], dict[str, str] | None]:
    """Tensors and metadata of a file, in which each byte that is no UTF-8 is a lone surrogate."""
    raw = Path(path).read_bytes()
    if len(raw) < 8:
        raise ValueError("no length")
    end = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:end].decode("utf-8", "surrogateescape"))
    metadata = header.pop("__metadata__", None)
    rows = [
        (name, entry["dtype"], entry["shape"], raw[end:][slice(*entry["data_offsets"])])
        for name, entry in header.items()
    ]
    return rows, metadata


def as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def use_processor(seconds: float = SECONDS) -> None:
    """Burn processor time, however long that takes by the clock."""
    began = time.thread_time()
    while time.thread_time() - began < seconds:
        pass
