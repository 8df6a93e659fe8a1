"""Compact form of the corpus for packages, with all bytes deduplicated in one file.

``corpus.json`` is the manifest without descriptions, sources and reported bugs, and with inputs in another
form. Each file is ``{"size": S, "parts": [...]}`` with consecutive parts:

``[AT, N]``
    N bytes at position AT of ``files.bin``
``[AT, N, TIMES]``
    these bytes repeated TIMES times
``{"each": "t{i}:0", "count": N, "first": F, "separator": ","}``
    as in recipes
``{"zeros": N}``
    N zero bytes

``input`` is such a file, ``{"open": PATH, "files": [...]}`` with a ``path`` for each file, or null. A string
that JSON cannot represent is ``{"hex": ...}`` with its bytes in UTF-8.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import recipe
from ..document import MANIFEST, checked, read_document
from ..manifest import LARGEST_IN_MEMORY, read_stored

FORMAT = 1
"""Version of the format. It increases with each change that breaks readers of the previous format."""
KEPT = ("kind", "title", "rules", "level", "features", "steps", "action", "budget")
"""Fields that are copied unchanged. Empty fields are omitted."""


class Pool:
    """The deduplicated bytes."""

    def __init__(self) -> None:
        self.data = bytearray()
        self._places: dict[bytes, int] = {}

    def place(self, data: bytes) -> list[int]:
        """Return the position of the bytes as ``[AT, N]``, and append the bytes if they are new."""
        if data not in self._places:
            self._places[data] = len(self.data)
            self.data += data
        return [self._places[data], len(data)]


@dataclass(frozen=True)
class PackageData:
    """The version ``number``, the active ``cases`` and the two files of a package."""

    number: str
    cases: list[dict[str, Any]]
    manifest: bytes
    files: bytes


def package_data(root: Path) -> PackageData:
    """Convert the corpus in a folder. Raises ManifestError and OSError."""
    document = checked(read_document(root / MANIFEST))
    raw, pool = document.raw, Pool()
    cases = []
    for row in raw["cases"]:
        if row["status"] == "active":
            fields = {"id": row["id"], **{key: row[key] for key in KEPT if row.get(key)}}
            fields |= {mark: True for mark in ("smoke", "heavy") if row[mark]}
            cases.append({**fields, "input": _input(row, root, pool), "expect": _expect(row["expect"])})
    head = {
        "format": FORMAT,
        "corpus_version": raw["corpus_version"],
        "corpus_sha256": document.digest,
        "files_sha256": hashlib.sha256(pool.data).hexdigest(),
        "rules": {row["id"]: row["statement"] for row in raw["rules"]},
        "codes": raw["codes"],
        "choices": {row["id"]: {k: v for k, v in row.items() if k != "id"} for row in raw["choices"]},
    }
    lines = ",\n".join(map(_line, cases))
    manifest = f'{_line(head)[:-1]},\n"cases":[\n{lines}\n]}}\n'.encode()
    return PackageData(str(raw["corpus_version"]), cases, manifest, bytes(pool.data))


def _line(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _input(row: Mapping[str, Any], root: Path, pool: Pool) -> dict[str, Any] | None:
    given = row["input"]
    if given is None:
        return None
    if "directory" not in given:
        path = None if "recipe" in given else root / given["file"]
        return _file(given, path, pool)
    files = []
    for file in given["files"]:
        made = _file(file, root / given["directory"] / file["path"], pool)
        template = {"template": True} if file.get("template") else {}
        files.append({"path": file["path"], **made, **template})
    return {"open": given["open"], "files": files}


def _file(given: Mapping[str, Any], path: Path | None, pool: Pool) -> dict[str, Any]:
    if given.get("recipe"):
        return {"size": given["size"], "parts": [_part(part, pool) for part in given["recipe"]]}
    assert path is not None
    data = read_stored(path, LARGEST_IN_MEMORY, given["sha256"])
    return {"size": len(data), "parts": [pool.place(data)] if data else []}


def _part(part: Mapping[str, Any], pool: Pool) -> list[int] | dict[str, Any]:
    if "each" in part or "zeros" in part:
        return dict(part)
    if "repeat" in part:
        return [*pool.place(recipe.literal(part["repeat"])), part["count"]]
    return pool.place(recipe.literal(part))


def _expect(expect: Mapping[str, Any]) -> dict[str, Any]:
    if "options" in expect:
        return {**expect, "options": {name: _expect(one) for name, one in expect["options"].items()}}
    content = expect.get("content")
    if content is None or "tensors" not in content:
        return dict(expect)
    tensors = [{**row, "name": _text(recipe.text_of(row["name"]))} for row in content["tensors"]]
    metadata = content["metadata"]
    if metadata is not None:
        metadata = recipe.spelled_map(recipe.map_of(metadata), _text)
    return {**expect, "content": {"tensors": tensors, "metadata": metadata}}


def _text(text: str) -> str | dict[str, str]:
    raw = text.encode("utf-8", "surrogatepass")
    return text if raw.decode("utf-8", "replace") == text else {"hex": raw.hex()}
