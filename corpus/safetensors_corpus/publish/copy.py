"""Copy the corpus or a selection into another project, and verify such copies."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import jsonschema

from safetensors_reference.source import read_whole
from safetensors_reference.text import plural

from .. import recipe
from ..document import (
    FILES,
    MANIFEST,
    RECIPES,
    ManifestError,
    checked,
    faults,
    read_document,
    rendered,
    stored_files,
)
from ..manifest import LARGEST_IN_MEMORY, read_stored
from ..packed import corpus_root

SCHEMA = "schema/corpus.schema.json"
LARGEST_SCHEMA = 1 << 20
"""Maximum size of a schema in bytes."""

README = (
    "Conformance corpus of the safetensors format, version {version}\n"
    "{cases}, {selection}\n"
    "\n"
    "corpus.json     all cases with their inputs, their rules and the expected outcomes\n"
    "schema/         JSON Schema of corpus.json, which explains every field\n"
    "files/          stored inputs; corpus.json contains their sizes and SHA-256 digests\n"
    "recipes/        inputs that --recipes created from recipes\n"
    "\n"
    "Do not edit these files; replace all of them to update. Case ids are permanent, so lists of\n"
    "expected failures remain valid. To check whether files are missing or changed, run the command of\n"
    "the suite (safetensors-conformance)\n"
    "\n"
    "    stc corpus verify .\n"
    "\n"
    "or compare the SHA-256 of each file with the one in corpus.json.\n"
    "\n"
    "Most files are broken on purpose. Keep them away from programs that open files automatically, and\n"
    'mark them as binary for version control: add "files/** binary" to .gitattributes.\n'
    "\n"
    "Apache-2.0.\n"
)


class CopyError(ManifestError):
    """A copy failed. The message names the file and the reason."""


@dataclass
class CopyPlan:
    """The contents of a copy; ``stored`` and ``digests`` map relative paths to digests.

    ``digests`` contains every file that may exist, including recipe files. ``left_out`` contains the ids of
    the cases whose recipe file is too large.
    """

    root: Path
    manifest: bytes
    readme: str
    stored: dict[str, str]
    schemas: list[str]
    made: list[dict[str, Any]]
    left_out: list[str] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        return len(self.stored) + len(self.schemas) + len(self.made) + 2


def _digests(cases: Iterable[dict[str, Any]]) -> dict[str, str]:
    out = {path: digest for case in cases for path, digest, _ in stored_files(case)}
    recipes = [case for case in cases if "recipe" in (case["input"] or {})]
    return out | {recipe_name(case["id"]): case["input"]["sha256"] for case in recipes}


def recipe_name(case_id: str) -> str:
    return f"{RECIPES}/{case_id}.safetensors"


def plan_copy(
    root: Path, chosen: set[str] | None = None, *, recipes: bool = False, large: bool = False
) -> CopyPlan:
    """Plan a copy of the ``chosen`` cases or, by default, of all cases. Raises ManifestError and OSError.

    ``recipes`` also expands recipes, and ``large`` includes the recipes of files above 256 MiB.
    """
    document = checked(read_document(root / MANIFEST))
    data, raw = document.text, document.raw
    rows = [c for c in raw["cases"] if chosen is None or c["id"] in chosen]
    selection = "complete"
    if chosen is not None:
        selection = f"a selection from {len(raw['cases'])}"
        data = rendered({**raw, "cases": rows})
    made = [c for c in rows if recipes and "recipe" in (c["input"] or {})]
    return CopyPlan(
        root,
        data,
        README.format(version=raw["corpus_version"], cases=plural(len(rows), "case"), selection=selection),
        {path: digest for case in rows for path, digest, _ in stored_files(case)},
        sorted(f"schema/{p.name}" for p in (root / "schema").glob("*.json")),
        [c for c in made if large or c["input"]["size"] <= LARGEST_IN_MEMORY],
        [c["id"] for c in made if not large and c["input"]["size"] > LARGEST_IN_MEMORY],
        _digests(rows),
    )


def execute(plan: CopyPlan, target: Path, tick: Callable[[str], None] = lambda _: None) -> None:
    """Execute a plan. Raises ManifestError.

    Skips files that already have the right content, so an interrupted copy can be resumed. Writes
    ``corpus.json`` after the files that it names, and recipe files last.
    """
    try:
        target.mkdir(parents=True, exist_ok=True)
        # Remove an older manifest first, so that no manifest ever describes a mixture of two versions.
        try:
            # Validate the old manifest, because the files that it names will be removed.
            older = _digests(checked(read_document(target / MANIFEST)).raw["cases"])
        except ManifestError:
            older = {}
        if not _same(target / MANIFEST, plan.manifest):
            (target / MANIFEST).unlink(missing_ok=True)
        for name, digest in older.items():
            if plan.digests.get(name) != digest:
                _place(target, name).unlink(missing_ok=True)
        for name, digest in plan.stored.items():
            _store(_place(target, name), read_stored(plan.root / name, LARGEST_IN_MEMORY, digest))
            tick(name)
        for name in plan.schemas:
            _store(_place(target, name), read_whole(plan.root / name, LARGEST_IN_MEMORY))
            tick(name)
        _store(target / "README.txt", plan.readme.encode())
        tick("README.txt")
        _store(target / MANIFEST, plan.manifest)
        tick(MANIFEST)
        for case in plan.made:
            _make(case, _place(target, recipe_name(case["id"])))
            tick(recipe_name(case["id"]))
    except OSError as err:
        raise CopyError(f"{err.filename or target}: {err.strerror or err}") from err


def _place(target: Path, name: str) -> Path:
    path = target / name
    if not path.parent.resolve().is_relative_to(target.resolve()):
        raise CopyError(f"{path}: a link leads out of {target}")
    return path


def _same(path: Path, data: bytes) -> bool:
    there = path.is_file() and not path.is_symlink()
    return there and path.stat().st_size == len(data) and path.read_bytes() == data


def _store(path: Path, data: bytes) -> None:
    if not _same(path, data):
        with _replacement(path) as file:
            file.write(data)


@contextmanager
def _replacement(path: Path) -> Iterator[BinaryIO]:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".part")
    temporary.unlink(missing_ok=True)  # never write through an existing link
    try:
        with temporary.open("xb") as file:
            yield file
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _make(case: dict[str, Any], path: Path) -> None:
    given = case["input"]
    if path.is_file() and matches_recipe(path, given):
        return
    with _replacement(path) as file:
        if recipe.write(given["recipe"], file) != (given["size"], given["sha256"]):
            raise CopyError(f"the recipe of {case['id']} does not produce the file of the manifest")


def matches_recipe(path: Path, given: dict[str, Any]) -> bool:
    """Compare a file with a recipe without reading the holes. Raises OSError."""
    if path.stat().st_size != given["size"]:
        return False
    with path.open("rb") as file:
        for part in given["recipe"]:
            if "zeros" in part:
                file.seek(part["zeros"], 1)
            elif any(file.read(len(chunk)) != chunk for chunk in recipe.chunks(part)):
                return False
    return True


@dataclass(frozen=True)
class Problem:
    """A problem with a copy; ``kind`` is schema, missing, different, extra or recipe."""

    kind: str
    where: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind:<10} {self.where}: {self.detail}"


def problems(
    root: Path, raw: dict[str, Any], *, heavy: bool = False, tick: Callable[[str], None] = lambda _: None
) -> Iterator[Problem]:
    """Yield the problems found in a corpus.

    Args:
        root: the folder of the corpus.
        raw: its manifest.
        heavy: True to check the recipes of heavy cases too.
        tick: function that is called with each case id.
    """
    broken = list(_schema_problems(root, raw))
    broken = broken or [Problem("schema", MANIFEST, str(fault)) for fault in faults(raw, root)]
    yield from broken
    if broken:
        return  # the other checks rely on a valid manifest and open the files that it names
    paths: dict[str, str] = {}
    for path, _, _ in chain.from_iterable(map(stored_files, raw["cases"])):
        # Some systems do not distinguish such names.
        if paths.setdefault(path.lower(), path) != path:
            yield Problem("schema", MANIFEST, f"{path} and {paths[path.lower()]} differ only in case")
    for case in raw["cases"]:
        if case["status"] == "active":
            yield from _case_problems(root, case, heavy)
        tick(case["id"])
    expected = _digests(raw["cases"]).keys()
    for folder in (FILES, RECIPES):
        for file in sorted((root / folder).rglob("*")):
            name = file.relative_to(root).as_posix()
            if not file.is_dir() and name not in expected:
                yield Problem("extra", name, "it is not listed in the manifest")


def _schema_problems(root: Path, raw: dict[str, Any], most: int = 20) -> Iterator[Problem]:
    # Use our own schema, because the copy's schema could contain URLs or patterns that never finish matching.
    ours = json.loads((corpus_root() / SCHEMA).read_bytes())
    if not (root / SCHEMA).exists():
        yield Problem("missing", SCHEMA, "the schema of the manifest does not exist")
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
                yield Problem("schema", MANIFEST, "more errors of this kind")
                return
            yield Problem("schema", MANIFEST, f"{error.json_path}: {error.message[:200]}")
    except RecursionError:
        yield Problem("schema", MANIFEST, "nested too deeply")


def _case_problems(root: Path, case: dict[str, Any], heavy: bool) -> Iterator[Problem]:
    given = case["input"] or {}
    if "recipe" in given:
        if heavy or not case["heavy"]:
            yield from _recipe_problems(case["id"], given)
        made = root / recipe_name(case["id"])
        if made.is_file() and not matches_recipe(made, given):
            yield Problem("different", recipe_name(case["id"]), "differs from its recipe")
    for file in given.get("files", ()):
        if file.get("recipe") and (heavy or not case["heavy"]):
            yield from _recipe_problems(case["id"], file)
    for name, digest, size in stored_files(case):
        yield from _file_problems(root / name, name, digest, size)


def _file_problems(path: Path, name: str, digest: str, size: int) -> Iterator[Problem]:
    try:
        actual = path.stat().st_size
        if actual != size:
            yield Problem("different", name, f"it has {actual:,} bytes, but the manifest says {size:,}")
        elif hashlib.sha256(read_whole(path, size)).hexdigest() != digest:
            yield Problem("different", name, "SHA-256 differs from the manifest")
    except FileNotFoundError:
        yield Problem("missing", name, "does not exist")
    except OSError as err:
        yield Problem("missing", name, err.strerror or str(err))


def _recipe_problems(case_id: str, given: dict[str, Any]) -> Iterator[Problem]:
    total = recipe.bounded_size(given["recipe"])
    if total != given["size"]:
        amount = "more than" if total > given["size"] else f"{total:,} instead of"
        yield Problem("recipe", case_id, f"produces {amount} {given['size']:,} bytes")
    elif recipe.digest(given["recipe"]) != given["sha256"]:
        yield Problem("recipe", case_id, "SHA-256 differs from the manifest")
