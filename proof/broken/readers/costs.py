"""Broken readers for the cases about cost. They read only a little, so large inputs are cheap for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from proof.planted import Planted

LIMIT = 2048
"""Longest header in bytes that ``RefusesLongHeaders`` accepts."""


def _claimed(path: Path) -> int:
    with path.open("rb") as file:
        return int.from_bytes(file.read(8), "little")


class RefusesLongHeaders:
    """Rejects every header above a few kilobytes."""

    def read(self, path: Path) -> dict[str, Any]:
        if _claimed(path) > LIMIT:
            raise ValueError("header too long")
        return {"tensors": [], "metadata": None}


class MakesRoomFirst:
    """Allocates memory for the header before it checks that the file contains a header of that length."""

    def read(self, path: Path) -> dict[str, Any]:
        """Raise the error that the allocation would cause."""
        if _claimed(path) > path.stat().st_size:
            raise MemoryError("room for the claimed header")
        return {"tensors": [], "metadata": None}


class BelievesEverything:
    """Parses the header with a lenient parser, and checks nothing."""

    def read(self, path: Path) -> dict[str, Any]:
        data = path.read_bytes()
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")].decode("utf-8", "replace"))
        names = [name for name in header if name != "__metadata__"]
        rows = [{"name": name, "dtype": None, "shape": None} for name in names]
        return {"tensors": rows, "metadata": header.get("__metadata__")}

    def slice(self, path: Path, name: str, index: object) -> tuple[str, list[int], bytes]:  # noqa: ARG002
        data = path.open("rb")
        with data as file:
            length = int.from_bytes(file.read(8), "little")
            entry = json.loads(file.read(length))[name]
            begin, end = (offset % 2**32 for offset in entry["data_offsets"])
            file.seek(8 + length + begin)
            return entry["dtype"], entry["shape"], file.read(max(end - begin, 0))


class FindsNothing:
    """Accepts every file, and finds no tensors in it."""

    def read(self, path: Path) -> dict[str, Any]:  # noqa: ARG002 - it does not look
        return {"tensors": [], "metadata": None}


class DiesOfDepth:
    """Overflows its stack if a header is nested deeply."""

    def read(self, path: Path) -> dict[str, Any]:
        """Count the open brackets."""
        data = path.read_bytes()
        if data.count(b"[[[[") > 100 or data.count(b'{"a":') > 100:
            raise RecursionError("nested too deeply")
        raise ValueError("refused")


VARIANTS = tuple(
    Planted(f"resource/{name}", about, "resource", make)
    for name, about, make in (
        ("refuses-long-headers", "Rejects headers above two kilobytes.", RefusesLongHeaders),
        ("makes-room-first", "Allocates as much memory as the length prefix claims.", MakesRoomFirst),
        ("believes-everything", "Does not check the header.", BelievesEverything),
        ("finds-nothing", "Accepts every file, and finds no tensors in it.", FindsNothing),
        ("dies-of-depth", "Overflows its stack.", DiesOfDepth),
    )
)
