"""The manifest as consumers see it: ``corpus.json`` loaded into typed values."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

SCHEMA_VERSION = 1


class ManifestError(Exception):
    """The corpus cannot be used: missing, unreadable, of another schema version, or a file differs."""


@dataclass(frozen=True)
class Expectation:
    """What one option of a case demands: ``outcome`` accept with ``content``, or reject with ``codes``."""

    outcome: str
    content: dict[str, Any] | None
    codes: tuple[str, ...]

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> Expectation:
        """Build from the manifest's JSON."""
        return cls(raw["outcome"], raw.get("content"), tuple(raw.get("codes", ())))


@dataclass(frozen=True)
class Case:
    """One input with one purpose.

    ``expect`` holds the expectation of a case without a choice; ``options`` those of a case of ``choice``.
    Exactly one of the two is filled.
    """

    id: str
    title: str
    description: str
    rules: tuple[str, ...]
    level: str
    importance: str
    features: tuple[str, ...]
    steps: tuple[str, ...]
    path: Path
    sha256: str
    size: int
    choice: str | None
    expect: Expectation | None
    options: dict[str, Expectation]
    smoke: bool
    affects: tuple[str, ...]
    source: dict[str, Any]

    @property
    def area(self) -> str:
        """The part of the id before the slash."""
        return self.id.split("/", 1)[0]

    def read_input(self) -> bytes:
        """Return the file's bytes. Raises ManifestError when they are not the ones of the manifest."""
        try:
            data = self.path.read_bytes()
        except OSError as err:
            raise ManifestError(f"corpus file of {self.id}: {err}; run: stc corpus build") from err
        if hashlib.sha256(data).hexdigest() != self.sha256:
            raise ManifestError(
                f"corpus file {self.path} is not the one of the manifest; run: stc corpus build"
            )
        return data


@dataclass(frozen=True)
class Manifest:
    """The whole corpus."""

    version: str
    root: Path
    digest: str
    cases: tuple[Case, ...]

    @cached_property
    def by_id(self) -> dict[str, Case]:
        """Cases by id."""
        return {case.id: case for case in self.cases}


def corpus_root() -> Path:
    """Folder that holds ``corpus.json``: package data in a wheel, the repository's ``corpus/`` otherwise."""
    package = Path(__file__).resolve().parent
    packaged = package / "data"
    return packaged if (packaged / "corpus.json").exists() else package.parent


def load_manifest(path: Path | None = None) -> Manifest:
    """Load a manifest (default: the one that belongs to this package). Raises ManifestError."""
    path = corpus_root() / "corpus.json" if path is None else Path(path)
    if path.is_dir():
        path = path / "corpus.json"
    try:
        text = path.read_bytes()
    except OSError as err:
        raise ManifestError(f"corpus {path}: {err.strerror or err}; build it with: stc corpus build") from err
    try:
        raw = json.loads(text)
        if raw["schema_version"] != SCHEMA_VERSION:
            raise ManifestError(
                f"corpus {path}: schema version {raw['schema_version']}, this program reads {SCHEMA_VERSION}"
            )
        cases = tuple(_case(row, path.parent) for row in raw["cases"] if row["status"] == "active")
        version = raw["corpus_version"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:
        detail = f"{type(err).__name__}: {err}"
        raise ManifestError(
            f"corpus {path}: not a usable manifest ({detail}); run: stc corpus build"
        ) from err
    return Manifest(version, path.parent, hashlib.sha256(text).hexdigest(), cases)


def _case(row: dict[str, Any], root: Path) -> Case:
    expect = row["expect"]
    options = {k: Expectation.from_json(v) for k, v in expect.get("options", {}).items()}
    return Case(
        id=row["id"],
        title=row["title"],
        description=row["description"],
        rules=tuple(row["rules"]),
        level=row["level"],
        importance=row["importance"],
        features=tuple(row["features"]),
        steps=tuple(row["steps"]),
        path=root / row["input"]["file"],
        sha256=row["input"]["sha256"],
        size=row["input"]["size"],
        choice=expect.get("choice"),
        expect=None if options else Expectation.from_json(expect),
        options=options,
        smoke=row["smoke"],
        affects=tuple(row["affects"]),
        source=row["source"],
    )
