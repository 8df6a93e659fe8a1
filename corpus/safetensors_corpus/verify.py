"""Checking a copy of the corpus against its manifest: nothing changed, missing or added."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema

from . import recipe
from .copying import MANIFEST, RECIPES, holds_recipe, recipe_name, safe, stored_files
from .manifest import SCHEMA_VERSION, ManifestError, corpus_root

SCHEMA = "schema/corpus.schema.json"


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong. ``what``: schema, missing, different, extra or recipe."""

    what: str
    where: str
    detail: str

    def __str__(self) -> str:
        return f"{self.what:<10} {self.where}: {self.detail}"


def read_manifest(root: Path) -> dict[str, Any]:
    """Return the manifest in ``root`` as JSON. Raises ManifestError when it cannot be used at all."""
    path = root / MANIFEST
    try:
        raw = json.loads(path.read_bytes())
    except OSError as err:
        raise ManifestError(f"{path}: {err.strerror or err}") from err
    except (ValueError, RecursionError) as err:
        raise ManifestError(f"{path} is not JSON: {err}") from err
    version = raw.get("schema_version") if isinstance(raw, dict) else None
    if version != SCHEMA_VERSION:
        raise ManifestError(f"{path}: schema version {version}, this program reads {SCHEMA_VERSION}")
    assert isinstance(raw, dict)
    return raw


def problems(
    root: Path, raw: dict[str, Any], *, heavy: bool = False, tick: Callable[[str], None] = lambda _: None
) -> Iterator[Problem]:
    """Give what is wrong with the corpus in ``root``; ``tick`` is called with the id of each case done.

    Args:
        root: folder of the corpus.
        raw: its manifest.
        heavy: also make and digest the recipes of heavy cases.
        tick: told of progress.
    """
    broken = list(_schema(root, raw))
    yield from broken
    if broken:
        # What follows relies on the form of the manifest.
        return
    yield from _twice(raw)
    for case in raw["cases"]:
        if case["status"] == "active":
            yield from _case(root, case, heavy)
        tick(case["id"])
    yield from _extra(root, raw)


def _schema(root: Path, raw: dict[str, Any], most: int = 20) -> Iterator[Problem]:
    path = root / SCHEMA
    if not path.exists():
        yield Problem("missing", SCHEMA, "the schema of the manifest is not there")
        path = corpus_root() / SCHEMA
    try:
        schema = json.loads(path.read_bytes())
        jsonschema.Draft202012Validator.check_schema(schema)
    except (OSError, ValueError, RecursionError, jsonschema.SchemaError) as err:
        yield Problem("schema", SCHEMA, f"not a JSON Schema: {str(err).splitlines()[0]}")
        return
    for number, error in enumerate(jsonschema.Draft202012Validator(schema).iter_errors(raw)):
        if number == most:
            yield Problem("schema", MANIFEST, "more of the kind")
            return
        yield Problem("schema", MANIFEST, f"{error.json_path}: {error.message[:200]}")


def _twice(raw: dict[str, Any]) -> Iterator[Problem]:
    seen: set[str] = set()
    files: dict[str, str] = {}
    for case in raw["cases"]:
        if case["id"] in seen:
            yield Problem("schema", MANIFEST, f"case {case['id']} stands twice")
        seen.add(case["id"])
        for path, _, _ in stored_files(case):
            # Two names that differ in case alone are one file on some systems.
            if files.setdefault(path.lower(), path) != path:
                yield Problem("schema", MANIFEST, f"{path} and {files[path.lower()]} differ in case alone")


def _case(root: Path, case: dict[str, Any], heavy: bool) -> Iterator[Problem]:
    given = case["input"] or {}
    if "recipe" in given:
        if heavy or not case["heavy"]:
            yield from _recipe(case)
        made = root / recipe_name(case["id"])
        if made.is_file() and not holds_recipe(made, given):
            yield Problem("different", recipe_name(case["id"]), "not what the recipe gives")
    for name, digest, size in stored_files(case):
        if not safe(name):
            yield Problem(
                "schema", MANIFEST, f"case {case['id']} names a file outside of the folder: {name!r}"
            )
            continue
        yield from _file(root / name, name, digest, size)


def _file(path: Path, name: str, digest: str, size: int) -> Iterator[Problem]:
    try:
        found = path.stat().st_size
        if found != size:
            yield Problem("different", name, f"{found:,} bytes, the manifest says {size:,}")
        elif hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            yield Problem("different", name, "SHA-256 is not the one of the manifest")
    except FileNotFoundError:
        yield Problem("missing", name, "not there")
    except OSError as err:
        yield Problem("missing", name, err.strerror or str(err))


def _recipe(case: dict[str, Any]) -> Iterator[Problem]:
    given = case["input"]
    total = 0
    hasher = hashlib.sha256()
    for part in given["recipe"]:
        total += part.get("zeros", 0)
        for chunk in recipe.chunks(part):
            hasher.update(chunk)
            total += len(chunk)
            if total > given["size"]:
                break
    if total != given["size"]:
        more = "more than" if total > given["size"] else f"{total:,} instead of"
        yield Problem("recipe", case["id"], f"gives {more} {given['size']:,} bytes")
    elif hasher.hexdigest() != given["sha256"]:
        yield Problem("recipe", case["id"], "SHA-256 is not the one of the manifest")


def _extra(root: Path, raw: dict[str, Any]) -> Iterator[Problem]:
    known = {path for case in raw["cases"] for path, _, _ in stored_files(case)}
    known |= {recipe_name(case["id"]) for case in raw["cases"] if "recipe" in (case["input"] or {})}
    for folder in ("files", RECIPES):
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if not path.is_dir() and name not in known:
                yield Problem("extra", name, "the manifest does not name it")
