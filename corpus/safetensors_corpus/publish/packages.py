"""Create packages of the corpus for cargo, npm, Go and Python that are ready to publish.

Their code is in ``corpus/packages/``, where ``{{placeholders}}`` mark values that depend on the version.

Packages contain the corpus in a compact form, with all bytes deduplicated in one file. Their ``corpus.json``
is the manifest without descriptions, sources and reported bugs. It describes inputs in a different form. Each
file is ``{"size": S, "parts": [...]}`` with consecutive parts:

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

import base64
import gzip
import hashlib
import io
import json
import re
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import recipe
from ..document import MANIFEST, checked, read_document
from ..manifest import LARGEST_IN_MEMORY, read_stored
from .release import ReleaseError, date_of, tar_bytes

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


NAME = "safetensors-corpus-data"
LARGEST_PACKAGE = 2 << 20
"""Maximum compressed size of a package in bytes."""
GO_MODULE = f"safetensors-conformance.example/{NAME}"
"""Default Go module path. It is not a real address."""
_MODULE = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+")
TEMPLATES = "packages"


@dataclass(frozen=True)
class Package:
    """A package file and its registry."""

    name: str
    registry: str
    data: bytes


def packages(root: Path, license_text: bytes, go_module: str = GO_MODULE) -> list[Package]:
    """Return all packages of a corpus and its templates. Raises ReleaseError and ManifestError."""
    if not _MODULE.fullmatch(go_module):
        raise ReleaseError(f"{go_module!r} is not a Go module path such as {GO_MODULE}")
    if not (root / TEMPLATES / "README.md").is_file():
        raise ReleaseError(f"{root / TEMPLATES} does not exist; packages can be built only from a checkout")
    corpus = package_data(root)
    year, month, number = (*map(int, corpus.number.split(".")), 0)[:3]
    date = date_of(corpus.number)
    version, go_version = f"{year}.{month}.{number}", f"0.{year}{month:02}.{number}"
    words = {
        "version": version,
        "corpus_version": corpus.number,
        "go_version": go_version,
        "go_module": go_module,
        **_counts(corpus),
    }
    data = {"corpus.json": corpus.manifest, "files.bin": corpus.files, "LICENSE": license_text}

    def members(registry: str) -> dict[str, bytes]:
        return {**data, **_filled(root / TEMPLATES, registry, words)}

    out = [
        Package(f"{NAME}-{version}.crate", "crates.io", _tar_gz(f"{NAME}-{version}", members("cargo"), date)),
        Package(f"{NAME}-{version}.tgz", "npm", _tar_gz("package", members("npm"), date)),
        Package(
            f"{NAME}-go-v{go_version}.zip", "Go", _zip(f"{go_module}@v{go_version}/", members("go"), date)
        ),
        _wheel(members("pypi"), version, date),
    ]
    for package in out:
        if (size := len(package.data)) > LARGEST_PACKAGE:
            raise ReleaseError(f"{package.name} has {size:,} bytes, but the maximum is {LARGEST_PACKAGE:,}")
    return out


def _counts(corpus: PackageData) -> dict[str, str]:
    inputs = [case["input"] for case in corpus.cases if case["input"] is not None]
    files = [file for given in inputs for file in given.get("files", [given])]
    made = [file for file in files if len(file["parts"]) != 1 or len(file["parts"][0]) != 2]
    return {
        "cases": f"{len(corpus.cases):,}",
        "made": f"{sum(file['size'] > 0 for file in made):,}",
        "huge": str(sum(file["size"] > LARGEST_IN_MEMORY for file in files)),
    }


def _filled(folder: Path, registry: str, words: Mapping[str, str]) -> dict[str, bytes]:
    texts = {
        path.relative_to(folder / registry).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted((folder / registry).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    usage = texts.pop("USAGE.md").strip()
    texts["README.md"] = (folder / "README.md").read_text(encoding="utf-8").replace("{{usage}}", usage)
    for word, value in words.items():
        texts = {path: text.replace("{{" + word + "}}", value) for path, text in texts.items()}
    return {path: text.encode() for path, text in texts.items()}


def _tar_gz(folder: str, members: Mapping[str, bytes], date: int) -> bytes:
    return gzip.compress(tar_bytes(folder, members, date), 9, mtime=date)


def _zip(prefix: str, members: Mapping[str, bytes], date: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path, data in sorted(members.items()):
            info = zipfile.ZipInfo(prefix + path, (*time.gmtime(date)[:3], 0, 0, 0))
            info.external_attr = 0o644 << 16
            archive.writestr(info, data, zipfile.ZIP_DEFLATED, 9)
    return out.getvalue()


def _wheel(members: dict[str, bytes], version: str, date: int) -> Package:
    """Build the wheel, with the data in the package and the licence and readme in the metadata."""
    package = NAME.replace("-", "_")
    info = f"{package}-{version}.dist-info"
    readme, license_text = members.pop("README.md"), members.pop("LICENSE")
    head = [
        "Metadata-Version: 2.4",
        f"Name: {NAME}",
        f"Version: {version}",
        "Summary: The conformance corpus of the safetensors format, as data for tests",
        "License-Expression: Apache-2.0",
        "License-File: LICENSE",
        "Requires-Python: >=3.9",
        "Description-Content-Type: text/markdown",
    ]
    files = {path: data for path, data in members.items() if path.startswith(f"{package}/")}
    files |= {f"{package}/{path}": members[path] for path in ("corpus.json", "files.bin")}
    files[f"{info}/METADATA"] = "\n".join([*head, "", ""]).encode() + readme
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: stc\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{info}/licenses/LICENSE"] = license_text
    record = "".join(f"{path},{_hash(data)},{len(data)}\n" for path, data in sorted(files.items()))
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    return Package(f"{package}-{version}-py3-none-any.whl", "PyPI", _zip("", files, date))


def _hash(data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
    return f"sha256={digest.decode()}"
