"""Reads a header: proves it on the fast path, or explains its faults."""

from __future__ import annotations

from ..rules.book import HEADER_CAP, ProfileName
from ..source import Source, SourceLike, open_source
from .explain import Explanation, InvalidFileError, check_profile, explain_source
from .model import Header
from .prove import prove, prove_fast


def read_header(what: SourceLike, profile: ProfileName = "hardened", *, accelerate: bool = True) -> Header:
    """Return the header of a path, bytes-like object or binary file object.

    Args:
        what: the file; only its length prefix and header are read.
        profile: profile to use where readers may differ.
        accelerate: whether msgspec may be used; it does not change the result.

    Raises:
        InvalidFileError: the file breaks rules; the error contains all faults.
        UnreadableError: the file cannot be read.
        AccessError: the profile is unknown.
    """
    with open_source(what) as source:
        return header_of(source, profile, accelerate=accelerate)


def header_of(source: Source, profile: ProfileName = "hardened", *, accelerate: bool = True) -> Header:
    """Read the header of an open source in the same way as ``read_header``."""
    check_profile(profile)
    header = _proved(source, accelerate)
    if header is not None:
        return header
    explanation = explain_source(source, profile)
    if explanation.header is None:
        raise InvalidFileError(explanation)
    return explanation.header


def examine(what: SourceLike, profile: ProfileName = "hardened") -> Explanation:
    """Return the result of ``explain``, but faster for files without faults, whose ``ranges`` are empty."""
    with open_source(what) as source:
        return examine_source(source, profile)


def examine_source(source: Source, profile: ProfileName = "hardened") -> Explanation:
    check_profile(profile)
    header = _proved(source, accelerate=True)
    if header is None:
        return explain_source(source, profile)
    # A proof is valid under every profile, so there are no tolerated faults either.
    return Explanation(source.name, source.size, profile, header=header, data_start=header.data_start)


def _proved(source: Source, accelerate: bool) -> Header | None:
    # This is a separate function so that its copy of the header is released before another one is read.
    size = source.size
    if size < 8:
        return None
    length = int.from_bytes(source.read(0, 8), "little")
    if not 0 < length <= min(HEADER_CAP, size - 8):
        return None
    try:
        raw = source.read(8, length)
    except MemoryError:
        return None
    data_size = size - 8 - length
    header = prove_fast(raw, data_size) if accelerate else None
    return prove(raw, data_size) if header is None else header
