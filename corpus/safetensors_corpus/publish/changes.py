"""What changed between two versions of the corpus."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from safetensors_reference.source import PathSource, read_whole

from ..document import LARGEST_MANIFEST, MANIFEST, ManifestError, faults, parsed, unusable


@dataclass(frozen=True)
class Version:
    """One version of the corpus: its JSON and the digest of ``corpus.json``."""

    raw: dict[str, Any]
    sha256: str

    @property
    def number(self) -> str:
        """The version, ``year.month`` and a number for a second release in that month."""
        return str(self.raw["corpus_version"])

    def rows(self, table: str) -> dict[str, Any]:
        """Return cases, rules, choices, field bugs or codes by id."""
        rows = self.raw[table]
        return dict(rows) if isinstance(rows, dict) else {row["id"]: row for row in rows}


@dataclass
class TableChanges:
    """Added and removed ids, and for the changed ones the fields that differ (``a.b`` inside a field)."""

    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    changed: dict[str, list[str]] = field(default_factory=dict)


@dataclass
class Changes:
    """Everything that differs; the schema ``changes.schema.json`` explains the fields."""

    schema_version: int
    old: dict[str, str] | None
    new: dict[str, str]
    about: list[str]
    added: list[str]
    removed: list[str]
    status: dict[str, dict[str, str]]
    verdict: dict[str, dict[str, str]]
    input: list[str]
    changed: dict[str, list[str]]
    rules: TableChanges
    choices: TableChanges
    codes: TableChanges
    field_bugs: TableChanges

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of ``changes.json``."""
        return asdict(self)

    @property
    def any(self) -> bool:
        """Whether anything differs."""
        differing = {k: v for k, v in self.to_json().items() if k not in ("schema_version", "old", "new")}
        return any(any(v.values()) if isinstance(v, dict) and "added" in v else v for v in differing.values())


def read_version(path: Path) -> Version:
    """Read a version from ``corpus.json``, a folder with it, or the archive of a release.

    Raises ManifestError.
    """
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
        raise ManifestError(f"{path}: no usable corpus ({type(err).__name__}: {err})") from err
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
    raise ManifestError(f"{path}: the archive holds no {MANIFEST}")


def compare(old: Version | None, new: Version) -> Changes:
    """Compare two versions. Without an old one everything is added."""
    before = {} if old is None else old.rows("cases")
    after = new.rows("cases")
    both = [name for name in after if name in before]
    out = Changes(
        schema_version=1,
        old=None if old is None else {"corpus_version": old.number, "sha256": old.sha256},
        new={"corpus_version": new.number, "sha256": new.sha256},
        about=[] if old is None else [k for k in ("corpus_version", "spec") if old.raw[k] != new.raw[k]],
        added=[name for name in after if name not in before],
        removed=[name for name in before if name not in after],
        status={},
        verdict={},
        input=[],
        changed={},
        **{t: _table(old, new, t) for t in ("rules", "choices", "codes", "field_bugs")},
    )
    for name in both:
        was, now = before[name], after[name]
        if was["status"] != now["status"]:
            out.status[name] = {"old": was["status"], "new": now["status"]}
        if demand(was) != demand(now):
            out.verdict[name] = {"old": demand(was), "new": demand(now)}
        if _bytes(was) != _bytes(now):
            out.input.append(name)
        fields = [f for f in _fields(was, now) if f != "status" and not f.startswith("input.")]
        # Another place or another recipe of the same bytes.
        fields += [f for f in _fields(was, now) if f.startswith("input.") and name not in out.input]
        if fields:
            out.changed[name] = fields
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
    """Say what a case demands: ``accept``, ``reject``, or the choice with what its options do."""
    expect = case["expect"]
    if "choice" not in expect:
        return str(expect["outcome"])
    options = ", ".join(f"{k}: {v['outcome']}" for k, v in sorted(expect["options"].items()))
    return f"choice {expect['choice']} ({options})"


def _bytes(case: Mapping[str, Any]) -> object:
    """Return what tells the bytes of an input apart from others."""
    given = case["input"]
    if given is None:
        return None
    if "directory" in given:
        return (given["open"], [(f["path"], f["sha256"], f.get("template", False)) for f in given["files"]])
    # The digest of a recipe leaves its holes out; they count for the size.
    holes = [part for part in given.get("recipe", ()) if "zeros" in part]
    return (given["sha256"], given["size"], len(holes) and given["recipe"])


def _fields(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Give the fields in which two JSON values differ; maps are followed, lists are one field."""
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
