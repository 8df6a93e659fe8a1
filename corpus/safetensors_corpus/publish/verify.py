"""Checking a copy of the corpus against its manifest: nothing changed, missing or added."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema

from safetensors_reference.source import read_whole

from .. import recipe
from ..document import FILES, MANIFEST, RECIPES, faults, read_document, stored_files
from ..manifest import corpus_root
from .copy import holds_recipe, recipe_name

SCHEMA = "schema/corpus.schema.json"
LARGEST_SCHEMA = 1 << 20
"""Largest schema in bytes that is read."""


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
    return read_document(root / MANIFEST).raw


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
    broken = [Problem("schema", MANIFEST, str(fault)) for fault in faults(raw, root)]
    yield from broken
    if broken:
        # What follows opens what the manifest names, and makes what it describes.
        return
    yield from _twice(raw)
    for case in raw["cases"]:
        if case["status"] == "active":
            yield from _case(root, case, heavy)
        tick(case["id"])
    yield from _extra(root, raw)


def _schema(root: Path, raw: dict[str, Any], most: int = 20) -> Iterator[Problem]:
    # Held against our own: one that comes with a corpus could name addresses, or patterns that never end.
    ours = json.loads((corpus_root() / SCHEMA).read_bytes())
    if not (root / SCHEMA).exists():
        yield Problem("missing", SCHEMA, "the schema of the manifest is not there")
        return
    try:
        schema = json.loads(read_whole(root / SCHEMA, LARGEST_SCHEMA))
        jsonschema.Draft202012Validator.check_schema(schema)
    except (OSError, ValueError, RecursionError, jsonschema.SchemaError) as err:
        yield Problem("schema", SCHEMA, f"not a JSON Schema: {str(err).splitlines()[0]}")
        return
    try:
        for number, error in enumerate(jsonschema.Draft202012Validator(ours).iter_errors(raw)):
            if number == most:
                yield Problem("schema", MANIFEST, "more of the kind")
                return
            yield Problem("schema", MANIFEST, f"{error.json_path}: {error.message[:200]}")
    except RecursionError:
        yield Problem("schema", MANIFEST, "nested too deeply")


def _twice(raw: dict[str, Any]) -> Iterator[Problem]:
    files: dict[str, str] = {}
    for case in raw["cases"]:
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
        yield from _file(root / name, name, digest, size)


def _file(path: Path, name: str, digest: str, size: int) -> Iterator[Problem]:
    try:
        found = path.stat().st_size
        if found != size:
            yield Problem("different", name, f"{found:,} bytes, the manifest says {size:,}")
        elif hashlib.sha256(read_whole(path, size)).hexdigest() != digest:
            yield Problem("different", name, "SHA-256 is not the one of the manifest")
    except FileNotFoundError:
        yield Problem("missing", name, "not there")
    except OSError as err:
        yield Problem("missing", name, err.strerror or str(err))


def _recipe(case: dict[str, Any]) -> Iterator[Problem]:
    given = case["input"]
    total = recipe.bounded_size(given["recipe"])
    if total != given["size"]:
        more = "more than" if total > given["size"] else f"{total:,} instead of"
        yield Problem("recipe", case["id"], f"gives {more} {given['size']:,} bytes")
    elif recipe.digest(given["recipe"]) != given["sha256"]:
        yield Problem("recipe", case["id"], "SHA-256 is not the one of the manifest")


def _extra(root: Path, raw: dict[str, Any]) -> Iterator[Problem]:
    known = {path for case in raw["cases"] for path, _, _ in stored_files(case)}
    known |= {recipe_name(case["id"]) for case in raw["cases"] if "recipe" in (case["input"] or {})}
    for folder in (FILES, RECIPES):
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if not path.is_dir() and name not in known:
                yield Problem("extra", name, "the manifest does not name it")
