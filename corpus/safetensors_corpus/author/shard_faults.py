"""What can be wrong with one shard of a checkpoint, for cases and for fuzzing alike."""

from __future__ import annotations

from .index import ShardBuilder

SHARD_FAULTS = {
    "length-past-end": ("FRM-04", "FRM_HEADER_PAST_EOF"),
    "no-json": ("HDR-07", "HDR_NOT_JSON"),
    "no-utf-8": ("HDR-01", "HDR_NOT_UTF8"),
    "name-twice": ("HDR-09", "HDR_DUP_KEY"),
    "dtype-unknown": ("DTY-01", "DTY_UNKNOWN"),
    "shape-negative": ("SHP-02", "ENT_BAD_INTEGER"),
    "range-of-other-size": ("OFF-05", "OFF_SIZE_MISMATCH"),
    "cut-off": ("OFF-04", "OFF_OUT_OF_BOUNDS"),
    "overlap": ("OFF-06", "OFF_OVERLAP"),
    "hole": ("OFF-07", "OFF_HOLE"),
    "bytes-behind": ("OFF-08", "OFF_TRAILING"),
    "metadata-number": ("MET-01", "MET_VALUE_NOT_STRING"),
}
"""Fault -> the rule that it breaks, and its code."""
_FIELDS: dict[str, dict[str, str | None]] = {
    "dtype-unknown": {"dtype": '"F31"'},
    "shape-negative": {"shape": "[-2]"},
    "range-of-other-size": {"shape": "[1]"},
}


def break_shard(shard: ShardBuilder, fault: str, *, first: str, last: str, length: int = 1000) -> None:
    """Give a shard that holds at least 4 bytes of data one tensor more, and a fault.

    Args:
        shard: what is broken.
        fault: a key of ``SHARD_FAULTS``.
        first: name of a tensor that is there, which ``name-twice`` gives to the new one.
        last: name of the new one otherwise.
        length: header length in bytes that ``length-past-end`` claims.
    """
    if fault == "hole":
        shard.gap(8)
    if fault == "overlap":
        shard.tensor(last, "F32", [2], b"\1\2\3\4", begin=shard.position - 4)
    else:
        shard.tensor(first if fault == "name-twice" else last, fields=_FIELDS.get(fault))
    if fault == "no-utf-8":
        shard.member(b'"\xff"', b"0")
    if fault == "metadata-number":
        shard.metadata(None, raw='{"n":1}')
    shard.length = length if fault == "length-past-end" else None
    shard.before = b"{," if fault == "no-json" else b""
    shard.cut = 4 if fault == "cut-off" else 0
    shard.trailer = b"\0" * 8 if fault == "bytes-behind" else b""
