"""Copying the corpus, or part of it, into a folder of another project."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import recipe
from .manifest import LARGEST_IN_MEMORY

MANIFEST = "corpus.json"
RECIPES = "recipes"
"""Folder of the files made of recipes, in a copy that has them."""

README = """\
Conformance corpus of the safetensors format, version {version}
{cases} cases, {selection}

corpus.json     every case: its input, its rules and what an implementation must do
schema/         JSON Schema of corpus.json, which explains every field
files/          the inputs that are stored; corpus.json gives size and SHA-256 of each
recipes/        inputs made of recipes, if they were asked for

Do not edit these files; take a newer version as a whole. Case ids are permanent, so that lists of
expected failures stay valid. To check that nothing is missing or changed, use the command of the
suite (safetensors-conformance)

    stc corpus verify .

or compare the SHA-256 of each file with the one in corpus.json.

Most files are broken on purpose. Keep them away from programs that open what they find, and let
version control treat them as binary: a line "files/** binary" in .gitattributes.

Apache-2.0.
"""


class CopyError(Exception):
    """The copy cannot be made; the text names file and reason."""


@dataclass
class Plan:
    """What a copy consists of: ``stored`` paths relative to the manifest with digests, ``made`` cases."""

    root: Path
    manifest: bytes
    readme: str
    stored: dict[str, str]
    schemas: list[str]
    made: list[dict[str, Any]]
    left_out: list[str] = field(default_factory=list)
    """Ids of the cases whose recipe file is too large to be made without being asked for."""
    digests: dict[str, str] = field(default_factory=dict)
    """Every file that may be there, those of recipes included, and its digest."""

    @property
    def steps(self) -> int:
        """Number of files to write."""
        return len(self.stored) + len(self.schemas) + len(self.made) + 2


def stored_files(case: dict[str, Any]) -> Iterator[tuple[str, str, int]]:
    """Give path relative to the manifest, SHA-256 and size of every stored file of a case."""
    given = case["input"]
    if given is None or "recipe" in given:
        return
    if "directory" not in given:
        yield given["file"], given["sha256"], given["size"]
        return
    for file in given["files"]:
        yield f"{given['directory']}/{file['path']}", file["sha256"], file["size"]


def _digests(cases: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return every file that a copy may hold for some cases, and its digest."""
    out = {path: digest for case in cases for path, digest, _ in stored_files(case)}
    recipes = [case for case in cases if "recipe" in (case["input"] or {})]
    return out | {recipe_name(case["id"]): case["input"]["sha256"] for case in recipes}


def recipe_name(case_id: str) -> str:
    """Return where a copy keeps the file made of a case's recipe."""
    return f"{RECIPES}/{case_id}.safetensors"


def make_plan(
    root: Path, chosen: set[str] | None = None, *, recipes: bool = False, large: bool = False
) -> Plan:
    """Decide what to copy from the corpus in ``root``.

    Args:
        root: folder of the corpus.
        chosen: ids of the cases to take; None takes all.
        recipes: also make the files of recipes.
        large: also those above 256 MiB.

    Raises CopyError and OSError.
    """
    data = (root / MANIFEST).read_bytes()
    raw = json.loads(data)
    rows = [c for c in raw["cases"] if chosen is None or c["id"] in chosen]
    selection = "complete"
    if chosen is not None:
        selection = f"a selection from {len(raw['cases'])}"
        data = (json.dumps({**raw, "cases": rows}, indent=1, ensure_ascii=True) + "\n").encode()
    for name in _digests(rows):
        if not safe(name):
            raise CopyError(f"{root / MANIFEST} names a file outside of its folder: {name!r}")
    made = [c for c in rows if recipes and "recipe" in (c["input"] or {})]
    return Plan(
        root,
        data,
        README.format(version=raw["corpus_version"], cases=len(rows), selection=selection),
        {path: digest for case in rows for path, digest, _ in stored_files(case)},
        sorted(f"schema/{p.name}" for p in (root / "schema").glob("*.json")),
        [c for c in made if large or c["input"]["size"] <= LARGEST_IN_MEMORY],
        [c["id"] for c in made if not large and c["input"]["size"] > LARGEST_IN_MEMORY],
        _digests(rows),
    )


def perform(plan: Plan, target: Path, tick: Callable[[str], None] = lambda _: None) -> None:
    """Carry out a plan. Raises CopyError.

    Files already there with the right content are left alone, so that a copy that was stopped goes on where
    it was. ``corpus.json`` is written when everything it names is there; the files of recipes come last.
    """
    try:
        target.mkdir(parents=True, exist_ok=True)
        # Of an older copy: while files of two versions are mixed, there is no manifest.
        older = _named_by(target)
        if not _same(target / MANIFEST, plan.manifest):
            (target / MANIFEST).unlink(missing_ok=True)
        for name, digest in older.items():
            if plan.digests.get(name) != digest:
                (target / name).unlink(missing_ok=True)
        for name, digest in plan.stored.items():
            _store(target / name, _source(plan.root / name, digest))
            tick(name)
        for name in plan.schemas:
            _store(target / name, (plan.root / name).read_bytes())
            tick(name)
        _store(target / "README.txt", plan.readme.encode())
        tick("README.txt")
        _store(target / MANIFEST, plan.manifest)
        tick(MANIFEST)
        for case in plan.made:
            _make(case, target / recipe_name(case["id"]))
            tick(recipe_name(case["id"]))
    except OSError as err:
        raise CopyError(f"{err.filename or target}: {err.strerror or err}") from err


def _named_by(target: Path) -> dict[str, str]:
    """Return the files that the manifest of an older copy names, with their digests."""
    try:
        names = _digests(json.loads((target / MANIFEST).read_bytes())["cases"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
    return {name: digest for name, digest in names.items() if safe(name)}


def safe(name: str) -> bool:
    """Whether a path of a manifest stays below its folder, on every system."""
    parts = name.split("/")
    return "" not in parts and not any(p in (".", "..") or "\\" in p or ":" in p for p in parts)


def _source(path: Path, digest: str) -> bytes:
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != digest:
        raise CopyError(f"{path} is not the file of the manifest; run: stc corpus verify")
    return data


def _same(path: Path, data: bytes) -> bool:
    return path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data


def _store(path: Path, data: bytes) -> None:
    if _same(path, data):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".part")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _make(case: dict[str, Any], path: Path) -> None:
    given = case["input"]
    if path.is_file() and holds_recipe(path, given):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".part")
    try:
        size, digest = recipe.write(given["recipe"], temporary)
        if (size, digest) != (given["size"], given["sha256"]):
            raise CopyError(f"the recipe of {case['id']} does not give the file of the manifest")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def holds_recipe(path: Path, given: dict[str, Any]) -> bool:
    """Whether a file has the size and, outside of ``zeros`` parts, the bytes of a recipe. Raises OSError.

    The holes themselves are not read: they can be a tebibyte.
    """
    if path.stat().st_size != given["size"]:
        return False
    with path.open("rb") as file:
        for part in given["recipe"]:
            if "zeros" in part:
                file.seek(part["zeros"], 1)
            elif any(file.read(len(chunk)) != chunk for chunk in recipe.chunks(part)):
                return False
    return True
