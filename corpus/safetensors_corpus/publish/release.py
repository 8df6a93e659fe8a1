"""A release of the corpus: archive, checksums and list of changes, byte-identical on every build."""

from __future__ import annotations

import calendar
import errno
import hashlib
import io
import json
import os
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import jsonschema

from safetensors_reference.source import read_whole

from ..document import MANIFEST, stored_files
from ..manifest import LARGEST_IN_MEMORY
from .changes import Changes, Version, compare, read_version
from .copy import README

CHANGES = "changes.json"
SUMS = "SHA256SUMS"
CHANGES_SCHEMA = "schema/changes.schema.json"


class ReleaseError(Exception):
    """The release cannot be made as things are; the text says why."""


def release_files(root: Path, license_text: bytes, old: Version | None) -> dict[str, bytes]:
    """Return the files of a release by name, everything a function of its arguments.

    Args:
        root: folder of the corpus.
        license_text: what the archive holds as LICENSE.
        old: the release before, None for the first one.

    Raises ReleaseError, and ManifestError for a corpus that cannot be used.
    """
    new = read_version(root)
    changes = compare(old, new)
    _permitted(old, new, changes)
    try:
        members = archive_members(root, new.raw, license_text)
    except OSError as err:
        raise ReleaseError(f"{err.filename}: {err.strerror or err}") from err
    name = f"safetensors-corpus-{new.number}"
    files = {
        f"{name}.tar": archive(name, members, new.number),
        MANIFEST: members[MANIFEST],
        CHANGES: (json.dumps(changes.to_json(), indent=1) + "\n").encode(),
    }
    jsonschema.validate(changes.to_json(), json.loads(members[CHANGES_SCHEMA]))
    sums = [f"{hashlib.sha256(data).hexdigest()}  {file}\n" for file, data in sorted(files.items())]
    return {**files, SUMS: "".join(sums).encode()}


def _permitted(old: Version | None, new: Version, changes: Changes) -> None:
    if changes.removed:
        names = ", ".join(changes.removed[:5]) + (" …" if len(changes.removed) > 5 else "")
        raise ReleaseError(
            f"{len(changes.removed)} case ids of {old.number if old else ''} disappeared ({names}); "
            "ids are permanent, withdraw the case instead"
        )
    if old is None or old.sha256 == new.sha256:
        return
    if _order(new.number) <= _order(old.number):
        raise ReleaseError(
            f"the corpus differs from {old.number}, but calls itself {new.number}; "
            "raise CORPUS_VERSION in safetensors_corpus/publish/build.py and build"
        )


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def archive_members(root: Path, raw: dict[str, Any], license_text: bytes) -> dict[str, bytes]:
    """Return what the archive holds, path -> bytes. Raises OSError."""
    paths = {path for case in raw["cases"] for path, _, _ in stored_files(case)}
    paths |= {f"schema/{path.name}" for path in (root / "schema").glob("*.json")}
    members = {
        path: read_whole(root / path, LARGEST_IN_MEMORY)
        for path in (MANIFEST, CHANGES_SCHEMA, *sorted(paths))
    }
    readme = README.format(version=raw["corpus_version"], cases=len(raw["cases"]), selection="complete")
    return {**members, "LICENSE": license_text, "README.txt": readme.encode()}


def archive(name: str, members: dict[str, bytes], version: str) -> bytes:
    """Return a ustar archive with everything below folder ``name``, dated by the corpus version.

    Raises ReleaseError for a path that such an archive cannot hold.
    """
    year, month = _order(version)[:2]
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT, encoding="ascii") as tar:
        for path, data in sorted(members.items()):
            info = tarfile.TarInfo(f"{name}/{path}")
            info.size = len(data)
            info.mode = 0o644
            info.mtime = calendar.timegm((year, month, 1, 0, 0, 0))
            try:
                tar.addfile(info, io.BytesIO(data))
            except ValueError as err:
                raise ReleaseError(f"a plain tar archive cannot hold {path}: {err}") from err
    return out.getvalue()


def check_target(target: Path) -> None:
    """Raise NotADirectoryError for a target that is there and no folder.

    Renaming a folder over it would fail as well, but naming a folder that is gone by then.
    """
    if target.exists() and not target.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(target))


def write_release(files: dict[str, bytes], target: Path) -> bool:
    """Write the files to folder ``target`` all at once. Returns False when they are there already.

    Raises ReleaseError when the folder holds anything else, NotADirectoryError when it is none, and OSError.
    """
    check_target(target)
    if target.is_dir() and any(target.iterdir()):
        present = {p.name: p.read_bytes() if p.is_file() else b"" for p in target.iterdir()}
        if present == files:
            return False
        raise ReleaseError(f"{target} is not empty, and a release is never overwritten")
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        for name, data in files.items():
            with (folder / name).open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            (folder / name).chmod(0o644)
        folder.chmod(0o755)
        # Takes the place of an empty folder, too; everything is there or nothing.
        folder.replace(target)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return True
