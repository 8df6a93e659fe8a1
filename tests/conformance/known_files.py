"""Files of the corpus recognised by their bytes, for fakes that misbehave on some: their names are neutral.

The fakes import this by its bare name: they are programs of their own, with this folder on their path.
"""

from __future__ import annotations

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
