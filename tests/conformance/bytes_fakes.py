"""Readers that do not check the encoding and return names as raw bytes.

``python bytes_fakes.py HOW`` speaks the protocol itself and spells names as HOW says: ``raw`` in the line, or
in ``hex``.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from known_files import holds

Row = tuple[str, str, list[int], bytes]


def content(path: str) -> tuple[list[Row], dict[str, str] | None]:
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


def answer(how: str, path: str) -> dict[str, Any]:
    rows, metadata = content(path)

    def spelled(text: str) -> Any:
        return {"hex": as_bytes(text).hex()} if how == "hex" else text

    tensors = [
        {"name": spelled(name), "dtype": dtype, "shape": shape, "nbytes": len(data)}
        | {"sha256": hashlib.sha256(data).hexdigest()}
        for name, dtype, shape, data in rows
    ]
    pairs = [[spelled(text) for text in pair] for pair in (metadata or {}).items()]
    more = {"metadata": metadata} if how != "hex" else {"metadata_items": pairs}
    return {"outcome": "accept", "tensors": tensors, **more}


def program(how: str) -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if request["cmd"] == "stop":
            return
        if request["cmd"] == "start":
            said: dict[str, Any] = {"protocol": 1, "implementation": {"name": "bytes"}, "steps": ["read"]}
        else:
            try:
                said = answer(how, request["path"])
            except (ValueError, KeyError) as err:
                said = {"outcome": "reject", "message": str(err)}
            said["seq"] = request["seq"]
        sys.stdout.buffer.write(as_bytes(json.dumps(said, ensure_ascii=False)) + b"\n")
        sys.stdout.buffer.flush()


class GivesBytes:
    """An adapter for a library that returns names as bytes."""

    def read(self, path: str) -> Any:
        for name, dtype, shape, data in content(path)[0]:
            yield as_bytes(name), dtype, shape, data


class Surrogates:
    """A reader on Python's json: names and words with lone surrogates, and numbers of any size."""

    def read(self, path: str) -> Any:
        if holds(path, "framing/no-bytes", "framing/one-tensor"):
            raise ValueError("refused: \ud800 and \udcff")
        if holds(path, "layout/two-dtypes"):
            return {"tensors": [("\udfff", "F\udc80", [10**30], b"")], "metadata": {"\ud800": "\udc80"}}
        if holds(path, "layout/hole-between-two"):
            raise NotImplementedError("\udc81")
        rows, metadata = content(path)
        out = [(name, dtype, [10**30, -(2**70)], b"") for name, dtype, *_ in rows]
        return {"tensors": out, "metadata": metadata}


if __name__ == "__main__":
    program(sys.argv[1])
