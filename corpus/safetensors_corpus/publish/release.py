"""Compare two versions of the corpus, and create reproducible release files."""

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
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import jsonschema
from msgspec import Meta

from safetensors_reference.source import PathSource, read_whole

from ..document import LARGEST_MANIFEST, MANIFEST, ManifestError, faults, parsed, stored_files, unusable
from ..manifest import LARGEST_IN_MEMORY
from ..model import CaseId, Sha256
from ..model import Version as CorpusVersion
from ..typed import json_schema
from .copy import README

CHANGES = "changes.json"
SUMS = "SHA256SUMS"
CHANGES_SCHEMA = "schema/changes.schema.json"


class ReleaseError(Exception):
    """A release cannot be created. The message gives the reason."""


@dataclass(frozen=True)
class Version:
    """A version of the corpus: the JSON and the digest of ``corpus.json``."""

    raw: dict[str, Any]
    sha256: str

    @property
    def number(self) -> str:
        return str(self.raw["corpus_version"])

    def rows(self, table: str) -> dict[str, Any]:
        rows = self.raw[table]
        return dict(rows) if isinstance(rows, dict) else {row["id"]: row for row in rows}


Names = Annotated[list[Annotated[str, Meta(min_length=1)]], Meta(min_length=1)]
"""Names of fields, such as ``a.b``."""


class ReleaseId(TypedDict):
    """A version of the corpus.

    Attributes:
        sha256: Digest of corpus.json.
    """

    corpus_version: CorpusVersion
    sha256: Sha256


class Turn(TypedDict):
    """Previous and current value of a property of a case."""

    old: str
    new: str


@dataclass
class TableChanges:
    """Changes to a table.

    Attributes:
        changed: Id -> differing fields; "text" for a fault code.
    """

    added: list[str]
    removed: list[str]
    changed: dict[str, Names]


@dataclass
class Changes:
    """Published with every release; stc corpus diff --json prints the same document.

    Attributes:
        old: Previous version, or null for the first release, in which everything is new.
        about: Changed properties of the whole corpus.
        removed: Always empty in a release: case ids are permanent.
        status: Cases that were withdrawn, superseded or made active again.
        verdict: Cases whose expectation changed: accept, reject, or a choice with its options. They can
            change the results of implementations.
        input: Cases whose input bytes changed.
        changed: Case -> differing fields, except status and bytes of the input; a.b is field b in a.
    """

    schema_version: Literal[1]
    old: ReleaseId | None
    new: ReleaseId
    about: list[str]
    added: list[CaseId]
    removed: list[CaseId]
    status: dict[CaseId, Turn]
    verdict: dict[CaseId, Turn]
    input: list[CaseId]
    changed: dict[CaseId, Names]
    rules: TableChanges
    choices: TableChanges
    codes: TableChanges
    field_bugs: TableChanges

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def any(self) -> bool:
        differing = {k: v for k, v in self.to_json().items() if k not in ("schema_version", "old", "new")}
        return any(any(v.values()) if isinstance(v, dict) and "added" in v else v for v in differing.values())


def changes_schema() -> dict[str, Any]:
    title = "Changes between two versions of the safetensors conformance corpus"
    return json_schema("changes", title, Changes, closed=True)


def read_version(path: Path) -> Version:
    """Read ``corpus.json`` from its path, its folder or a release archive. Raises ManifestError."""
    place = path / MANIFEST if path.is_dir() else path
    try:
        source = PathSource(place)
        try:
            archive = source.size > 262 and source.read(257, 6) == b"ustar\0"
        finally:
            source.close()
        data = _from_archive(place) if archive else read_whole(place, LARGEST_MANIFEST)
    except OSError as err:
        raise ManifestError(str(err)) from err
    except tarfile.TarError as err:
        raise ManifestError(f"{path}: not a usable corpus ({type(err).__name__}: {err})") from err
    raw = parsed(place, data)
    fault = next(faults(raw, None), None)
    if fault is not None:
        raise unusable(place, str(fault))
    return Version(raw, hashlib.sha256(data).hexdigest())


def _from_archive(path: Path) -> bytes:
    with tarfile.open(path, "r:") as archive:
        for member in archive:
            if member.isfile() and member.name.rsplit("/", 1)[-1] == MANIFEST and member.name.count("/") <= 1:
                if member.size > LARGEST_MANIFEST:
                    raise ManifestError(f"{path}: {member.name} has {member.size:,} bytes")
                file = archive.extractfile(member)
                assert file is not None
                return file.read()
    raise ManifestError(f"{path}: the archive does not contain {MANIFEST}")


def compare(old: Version | None, new: Version) -> Changes:
    """Compare two versions. Without an old version, all cases are new."""
    cases = _table(old, new, "cases")
    out = Changes(
        schema_version=1,
        old=None if old is None else {"corpus_version": old.number, "sha256": old.sha256},
        new={"corpus_version": new.number, "sha256": new.sha256},
        about=[] if old is None else [k for k in ("corpus_version", "spec") if old.raw[k] != new.raw[k]],
        added=cases.added,
        removed=cases.removed,
        status={},
        verdict={},
        input=[],
        changed={},
        **{t: _table(old, new, t) for t in ("rules", "choices", "codes", "field_bugs")},
    )
    before, after = {} if old is None else old.rows("cases"), new.rows("cases")
    for name, fields in cases.changed.items():
        was, now = before[name], after[name]
        if was["status"] != now["status"]:
            out.status[name] = {"old": was["status"], "new": now["status"]}
        if demand(was) != demand(now):
            out.verdict[name] = {"old": demand(was), "new": demand(now)}
        if _bytes(was) != _bytes(now):
            out.input.append(name)
        reported = ("status", *(f for f in fields if f.startswith("input.") and name in out.input))
        # List a changed path or recipe last if the bytes are the same.
        if others := sorted((f for f in fields if f not in reported), key=lambda f: f.startswith("input.")):
            out.changed[name] = others
    return out


def _table(old: Version | None, new: Version, table: str) -> TableChanges:
    before = {} if old is None else old.rows(table)
    after = new.rows(table)
    return TableChanges(
        [name for name in after if name not in before],
        [name for name in before if name not in after],
        {
            name: [field or "text" for field in _fields(before[name], after[name])]
            for name in after
            if name in before and before[name] != after[name]
        },
    )


def demand(case: Mapping[str, Any]) -> str:
    """Describe the expectation of a case: ``accept``, ``reject``, or a choice with its options."""
    expect = case["expect"]
    if "choice" not in expect:
        return str(expect["outcome"])
    options = ", ".join(f"{k}: {v['outcome']}" for k, v in sorted(expect["options"].items()))
    return f"choice {expect['choice']} ({options})"


def _bytes(case: Mapping[str, Any]) -> object:
    given = case["input"]
    if given is None:
        return None
    if "directory" in given:
        return (given["open"], [(f["path"], f["sha256"], f.get("template", False)) for f in given["files"]])
    # Compare recipes with holes as a whole, because the digest of a recipe excludes its holes.
    holes = [part for part in given.get("recipe", ()) if "zeros" in part]
    return (given["sha256"], given["size"], len(holes) and given["recipe"])


def _fields(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Yield the fields that differ between two JSON values. Recurses into objects, but not into lists."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        if old != new:
            yield path
        return
    for key in sorted(old.keys() | new.keys()):
        below = f"{path}.{key}" if path else key
        if key in old and key in new:
            yield from _fields(old[key], new[key], below)
        else:
            yield below


def release_files(root: Path, license_text: bytes, old: Version | None) -> dict[str, bytes]:
    """Return the files of a release; ``old`` is the previous one. Raises ReleaseError and ManifestError."""
    new = read_version(root)
    changes = compare(old, new)
    _permitted(old, new, changes)
    try:
        members = archive_members(root, new.raw, license_text)
    except OSError as err:
        raise ReleaseError(f"{err.filename}: {err.strerror or err}") from err
    name = f"safetensors-corpus-{new.number}"
    files = {
        f"{name}.tar": tar_bytes(name, members, date_of(new.number)),
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
            f"{len(changes.removed)} case ids of {old.number if old else ''} disappeared ({names}); ids "
            "are permanent, so withdraw the cases instead"
        )
    if old is None or old.sha256 == new.sha256:
        return
    if _order(new.number) <= _order(old.number):
        raise ReleaseError(
            f"the corpus differs from {old.number}, but has version {new.number}; raise CORPUS_VERSION "
            "in safetensors_corpus/publish/build.py and run: stc corpus build"
        )


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def archive_members(root: Path, raw: dict[str, Any], license_text: bytes) -> dict[str, bytes]:
    paths = {path for case in raw["cases"] for path, _, _ in stored_files(case)}
    paths |= {f"schema/{path.name}" for path in (root / "schema").glob("*.json")}
    members = {
        path: read_whole(root / path, LARGEST_IN_MEMORY)
        for path in (MANIFEST, CHANGES_SCHEMA, *sorted(paths))
    }
    readme = README.format(version=raw["corpus_version"], cases=len(raw["cases"]), selection="complete")
    return {**members, "LICENSE": license_text, "README.txt": readme.encode()}


def date_of(version: str) -> int:
    return calendar.timegm((*_order(version)[:2], 1, 0, 0, 0))


def tar_bytes(folder: str, members: Mapping[str, bytes], date: int) -> bytes:
    """Build a reproducible ustar archive of a folder. Raises ReleaseError for an unsupported path."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT, encoding="ascii") as tar:
        for path, data in sorted(members.items()):
            info = tarfile.TarInfo(f"{folder}/{path}")
            info.size, info.mode, info.mtime = len(data), 0o644, date
            try:
                tar.addfile(info, io.BytesIO(data))
            except ValueError as err:
                raise ReleaseError(f"a plain tar archive cannot contain {path}: {err}") from err
    return out.getvalue()


def check_target(target: Path) -> None:
    """Raise NotADirectoryError if the target exists but is not a folder."""
    if target.exists() and not target.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(target))


def write_release(files: dict[str, bytes], target: Path) -> bool:
    """Write a folder atomically, or return False if it already contains these files.

    Raises ReleaseError and OSError.
    """
    check_target(target)
    if target.is_dir() and any(target.iterdir()):
        present = {p.name: p.read_bytes() if p.is_file() else b"" for p in target.iterdir()}
        if present == files:
            return False
        raise ReleaseError(f"{target} is not empty; releases are never overwritten")
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
        # Renaming is atomic, and it also replaces an empty folder.
        folder.replace(target)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return True
