"""Reading a header: proved on the fast path, or explained."""

from __future__ import annotations

import os

from ..rules.book import HEADER_CAP, ProfileName
from ..source import PathSource, Source, SourceLike, open_source
from .explain import InvalidFileError, check_profile, explain_source
from .model import Header
from .prove import prove, prove_fast


def read_header(what: SourceLike, profile: ProfileName = "hardened", *, accelerate: bool = True) -> Header:
    """Return the header of a path, bytes-like object or binary file object.

    Args:
        what: the file; only its length prefix and header are read.
        profile: whose options to take where readers legitimately differ.
        accelerate: whether msgspec may be used; the result is the same.

    Raises:
        InvalidFileError: the file breaks rules; the error holds all faults.
        UnreadableError: the file cannot be read.
        AccessError: there is no such profile.
    """
    if isinstance(what, (str, os.PathLike)):
        path = PathSource(what)
        try:
            return header_of(path, profile, accelerate=accelerate)
        finally:
            path.close()
    with open_source(what) as source:
        return header_of(source, profile, accelerate=accelerate)


def header_of(source: Source, profile: ProfileName = "hardened", *, accelerate: bool = True) -> Header:
    """Like ``read_header`` for a source that is open already."""
    check_profile(profile)
    size = source.size
    if size >= 8:
        length = int.from_bytes(source.read(0, 8), "little")
        if 0 < length <= HEADER_CAP and length <= size - 8:
            header = _proved(source, length, accelerate)
            if header is not None:
                return header
    explanation = explain_source(source, profile)
    if explanation.header is None:
        raise InvalidFileError(explanation)
    return explanation.header


def _proved(source: Source, length: int, accelerate: bool) -> Header | None:
    # In a function of its own: its copy of the header is gone when the explaining path reads another.
    try:
        raw = source.read(8, length)
    except MemoryError:
        return None
    data_size = source.size - 8 - length
    header = prove_fast(raw, data_size) if accelerate else None
    return prove(raw, data_size) if header is None else header
