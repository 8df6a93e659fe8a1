"""The conformance corpus of the safetensors format, as data."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

LARGEST = 256 << 20
"""Maximum size in bytes of a file that is created in memory."""
_HERE = Path(__file__).parent


@cache
def corpus() -> dict[str, Any]:
    """Return the whole manifest: version, rules, choices, codes and cases."""
    found: dict[str, Any] = json.loads((_HERE / "corpus.json").read_bytes())
    return found


def cases() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = corpus()["cases"]
    return found


def bytes_of(case: dict[str, Any]) -> bytes | None:
    """Return the input file, or None if the case has a directory or no input.

    Raises ValueError if the file is too large.
    """
    given = case["input"]
    return None if given is None or "open" in given else _made(given)


def files_of(case: dict[str, Any], root: str) -> dict[str, bytes]:
    """Return the files of a directory input as a map from paths to bytes.

    ``root`` is the absolute path of the directory to which you will write the files. Raises ValueError if a
    file is too large.
    """
    given = case["input"] or {}
    out = {file["path"]: _made(file) for file in given.get("files", ())}
    for file in given.get("files", ()):
        if file.get("template"):
            out[file["path"]] = out[file["path"]].replace(b"@ROOT@", root.encode())
    return out


@cache
def _stored() -> bytes:
    return (_HERE / "files.bin").read_bytes()


def _made(file: dict[str, Any]) -> bytes:
    if file["size"] > LARGEST:
        raise ValueError(f"a file of {file['size']:,} bytes is too large to create in memory")
    return b"".join(map(_part, file["parts"]))


def _part(part: Any) -> bytes:
    if isinstance(part, list):
        at, size, times = map(int, (*part, 1)[:3])
        return _stored()[at : at + size] * times
    if "zeros" in part:
        return bytes(part["zeros"])
    numbers = range(part.get("first", 0), part.get("first", 0) + part["count"])
    texts = (part["each"].replace("{i}", str(i)).replace("{next}", str(i + 1)) for i in numbers)
    return str(part.get("separator", "")).join(texts).encode()
