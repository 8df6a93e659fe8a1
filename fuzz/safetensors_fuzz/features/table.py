"""All features of valid files."""

from __future__ import annotations

from ..grammar.draft import Draft
from .feature import Features
from .header import HEADER
from .tensors import TENSORS
from .texts import TEXTS

FILES: Features[bytes, Draft] = Features((*HEADER, *TEXTS, *TENSORS), Draft.of, Draft.render)
"""How the header is written, then its texts, then the tensors; within each what is special comes first."""


def longer(data: bytes) -> bytes:
    """Return a valid file with a header that is eight bytes longer and has the same features."""
    draft = Draft.of(data)
    if draft is None:
        raise ValueError("a file with faults")
    draft.grow()
    return draft.render()
