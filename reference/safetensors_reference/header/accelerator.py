"""Optional speed for the proving path: entries decoded and type-checked in C by msgspec.

It is never the judge: like the rest of the proving path it only says "proved" or nothing.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from typing import Any

from .model import Header, ParsedEntries, TensorInfo
from .prove import _counts_agree, _metadata_strings, affordable, tensor_size

try:
    import msgspec
except ImportError:
    msgspec = None  # type: ignore[assignment]

AVAILABLE = msgspec is not None
_METADATA_FIRST = b'{"__metadata__":'

if AVAILABLE:

    class _Entry(msgspec.Struct, forbid_unknown_fields=True, gc=False):
        dtype: str
        shape: tuple[int, ...]
        data_offsets: tuple[int, int]

    _DECODER: Any = msgspec.json.Decoder(dict[str, _Entry])


class StructEntries(ParsedEntries):
    """Entries as msgspec made them."""

    __slots__ = ()

    def __getitem__(self, name: str) -> TensorInfo:
        entry = self.raw[name]
        return TensorInfo(name, entry.dtype, entry.shape, *entry.data_offsets)

    def rows(self) -> Iterator[tuple[str, str, Any, int, int]]:
        """Yield (name, dtype, shape, begin, end)."""
        for name, entry in self.raw.items():
            yield name, entry.dtype, entry.shape, *entry.data_offsets


def prove_fast(raw: bytes, data_size: int) -> Header | None:
    """Like ``prove``; None also when msgspec is missing or the metadata is not the first member."""
    if not AVAILABLE or raw[:1] != b"{" or not affordable(raw) or not raw.rstrip(b" ").endswith(b"}"):
        return None
    collecting = gc.isenabled()
    gc.disable()
    try:
        metadata, body = _split_metadata(raw)
        top = _DECODER.decode(body)
        if "__metadata__" in top:
            return None  # not first, or twice
        strings = _metadata_strings(metadata)
        if not _counts_agree(raw, top, metadata, strings) or not _layout(top, data_size):
            return None
        return Header(len(raw), StructEntries(top), metadata, data_size)
    except (ValueError, KeyError, TypeError, RecursionError, MemoryError):
        return None
    finally:
        if collecting:
            gc.enable()


def _split_metadata(raw: bytes) -> tuple[dict[str, str] | None, bytes]:
    """Cut the metadata off the front, where writers put it; the rest then has one type."""
    if not raw.startswith(_METADATA_FIRST):
        return None, raw
    at = len(_METADATA_FIRST)
    end = raw.index(b"}", at) + 1
    # A brace inside a string ends the cut too early: the piece is then no JSON and nothing is proved.
    metadata = json.loads(raw[at:end].decode("utf-8"))
    if metadata is None:
        raise ValueError
    # What follows must be the next member or the end, so that the cut mends no missing or spare comma.
    if raw[end : end + 2] == b',"':
        return metadata, b"{" + raw[end + 1 :]
    if raw[end : end + 1] == b"}":
        return metadata, b"{" + raw[end:]
    raise ValueError


def _layout(top: dict[str, Any], data_size: int) -> bool:
    sizes: dict[tuple[str, tuple[int, ...]], int] = {}
    at = 0
    in_order = True
    for entry in top.values():
        key = (entry.dtype, entry.shape)
        size = sizes.get(key)
        if size is None:
            size = sizes[key] = tensor_size(*key)
        begin, end = entry.data_offsets
        if end - begin != size:
            return False
        if begin == at:
            at = end
        else:
            in_order = False
    if not in_order:
        at = 0
        for begin, end in sorted(entry.data_offsets for entry in top.values()):
            if begin != at:
                return False
            at = end
    return at == data_size
