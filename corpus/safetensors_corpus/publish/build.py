"""Build the corpus: call the case functions, and render the files and the manifest."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema

from safetensors_reference.rules.book import rule_book

from .. import recipe
from ..author.actions import (
    ConcurrentBuilder,
    ExportBuilder,
    LifecycleBuilder,
    PlacedBuilder,
    RemoteBuilder,
    RepeatedBuilder,
    SliceBuilder,
)
from ..author.case import Accept, CaseFunction, Reject, all_cases
from ..author.file import HEAVY, Builder, FileBuilder, RecipeBuilder
from ..author.index import IndexBuilder
from ..author.write import ContendedBuilder, ShardedBuilder, WriteBuilder
from ..document import CHECKSUM, MANIFEST, SCHEMA_VERSION, rendered, sha256sum
from ..field_bugs import affected, field_bugs
from ..packed import corpus_root

CORPUS_VERSION = "2026.11.6"
SPEC = {
    "name": "safetensors README, Format section",
    "repository": "https://github.com/huggingface/safetensors",
    "revision": "24b0b28",
    "date": "2026-05-12",
}
BUILDERS: dict[str, Callable[[], Builder]] = {
    "read": FileBuilder,
    "slice": SliceBuilder,
    "write": WriteBuilder,
    "index": IndexBuilder,
    "sharded": ShardedBuilder,
    "export": ExportBuilder,
    "lifecycle": LifecycleBuilder,
    "remote": RemoteBuilder,
    "resource": RecipeBuilder,
    "concurrent": ConcurrentBuilder,
    "placed": PlacedBuilder,
    "repeated": RepeatedBuilder,
    "contended": ContendedBuilder,
}
"""Maps each kind of case to its builder."""


@dataclass(frozen=True)
class BuiltCorpus:
    """The corpus in memory. ``files`` maps relative paths to bytes and includes the manifest."""

    files: dict[str, bytes]
    cases: int


def schema() -> dict[str, Any]:
    packaged = corpus_root() / "schema" / "corpus.schema.json"
    loaded: dict[str, Any] = json.loads(packaged.read_text(encoding="utf-8"))
    return loaded


def build() -> BuiltCorpus:
    """Build the corpus. Raises ValueError for a case that contradicts the rule book or the schema."""
    out: dict[str, bytes] = {}
    rows = []
    for case in all_cases():
        try:
            if case.kind not in BUILDERS:
                raise ValueError(f"cases of kind {case.kind!r} have no builder in publish/build.py")
            builder = BUILDERS[case.kind]()
            case.body(builder, *case.arguments)
            stored, files = builder.stored(case.id)
            rows.append(_row(case, builder, stored, files))
        except ValueError as err:
            raise ValueError(f"case {case.id}: {err}") from err
        out.update(files)
    book = rule_book()
    manifest = {
        "$schema": "schema/corpus.schema.json",
        "schema_version": SCHEMA_VERSION,
        "corpus_version": CORPUS_VERSION,
        "spec": SPEC,
        "rules": [{name: getattr(rule, name) for name in _RULE_FIELDS} for rule in book.rules.values()],
        "choices": [
            {name: getattr(choice, name) for name in _CHOICE_FIELDS}
            | {"settled": list(choice.settled), "points": list(choice.points)}
            for choice in book.choices.values()
        ],
        "codes": book.codes,
        "field_bugs": [bug.to_json() for bug in field_bugs().values()],
        "cases": rows,
    }
    for error in jsonschema.Draft202012Validator(schema()).iter_errors(manifest):
        raise ValueError(f"the manifest violates its schema at {error.json_path}: {error.message[:200]}")
    out[MANIFEST] = rendered(manifest)
    out[CHECKSUM] = sha256sum(hashlib.sha256(out[MANIFEST]).hexdigest())
    return BuiltCorpus(out, len(rows))


_RULE_FIELDS = ("id", "level", "basis", "title", "statement")
_CHOICE_FIELDS = ("id", "title", "rule", "description", "options", "positions", "required", "limit")


ESCAPE = "escape-in-key"
"""Feature of cases in which a key contains an escape, although the cases are not about escapes."""
_ESCAPED_KEY = re.compile(rb'"[^"\\]*\\(?:[^"\\]|\\.)*"\s*:', re.DOTALL)
_ABOUT_ESCAPES = ("HDR-14", "HDR-15")


def _row(
    case: CaseFunction, builder: Builder, stored: dict[str, Any] | None, files: Mapping[str, bytes]
) -> dict[str, Any]:
    book = rule_book()
    rules = case.rules
    if case.choice is not None:
        choice = book.choices.get(case.choice)
        if choice is None:
            raise ValueError(f"unknown choice {case.choice!r}")
        if set(case.options) != set(choice.options):
            raise ValueError(f"options must be exactly {sorted(choice.options)}")
        rules = tuple(dict.fromkeys((choice.rule, *rules)))
        _check_rules(rules)
        expect: dict[str, Any] = {
            "choice": case.choice,
            "options": {k: _expect(v, builder, k) for k, v in case.options.items()},
        }
        level = case.level or ("must" if choice.required else "may")
    else:
        expect = _expect(case.options[""], builder, None)
        _check_rules(rules)
        level = case.level or book.rules[rules[0]].level
    headers = (data[8 : 8 + int.from_bytes(data[:8], "little")] for data in files.values())
    about_files = case.kind == "read" and rules[0] not in _ABOUT_ESCAPES
    incidental = about_files and any(_ESCAPED_KEY.search(header) for header in headers)
    row: dict[str, Any] = {
        "id": case.id,
        "kind": case.kind,
        "title": case.title,
        "description": case.description,
        "rules": list(rules),
        "level": level,
        "importance": case.importance,
        "features": sorted([*builder.features(), *([ESCAPE] if incidental else [])]),
        "steps": list(case.steps),
        "heavy": case.heavy or (stored or {}).get("size", 0) > HEAVY,
        "input": stored,
        "action": builder.action(),
        "budget": builder.budget or None,
        "expect": expect,
        "smoke": case.smoke,
        "source": dict(case.source),
        "affects": [affected(bug) for bug in case.bugs],
        "status": "active",
    }
    # Omit unused fields instead of writing null a thousand times.
    return {k: v for k, v in row.items() if v is not None or k == "input"}


def _check_rules(rules: tuple[str, ...]) -> None:
    unknown = [r for r in rules if r not in rule_book().rules]
    if unknown or not rules:
        raise ValueError(f"unknown or missing rules {unknown}")


def _expect(demand: Accept | Reject, builder: Builder, option: str | None) -> dict[str, Any]:
    required = builder.demanded(option)
    properties = {"properties": required} if required else {}
    if isinstance(demand, Accept):
        content = builder.content(option)
        if "tensors" in content:
            content["tensors"] = [{**row, "name": recipe.spelled(row["name"])} for row in content["tensors"]]
            if content["metadata"] is not None:
                content["metadata"] = recipe.spelled_map(content["metadata"])
        return {"outcome": "accept", "content": content, **properties}
    codes = demand.codes
    unknown = [c for c in codes if c not in rule_book().codes]
    if unknown or not codes:
        raise ValueError(f"unknown or missing fault codes {unknown}")
    return {"outcome": "reject", "codes": list(codes), **properties}


def lost_ids(built: BuiltCorpus, root: Path) -> list[str]:
    """Return the ids that the manifest in ``root`` contains and the new manifest does not."""
    try:
        old = json.loads((root / "corpus.json").read_bytes())
        before = {row["id"] for row in old["cases"]}
    except (OSError, ValueError, KeyError, TypeError):
        return []
    after = {row["id"] for row in json.loads(built.files["corpus.json"])["cases"]}
    return sorted(before - after)


def write(built: BuiltCorpus, root: Path) -> tuple[int, int]:
    """Write changed files and remove stale ones. Returns the number of written files and of removed files."""
    written = 0
    for name, data in built.files.items():
        target = root / name
        if target.exists() and target.read_bytes() == data:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(target.name + ".part")
        temporary.write_bytes(data)
        temporary.replace(target)
        written += 1
    stale = _stale(built.files, root)
    for path in stale:
        path.unlink()
    return written, len(stale)


def differences(built: BuiltCorpus, root: Path) -> list[str]:
    """Return one line for each missing, stale or different file in ``root``."""
    out = []
    for name, data in built.files.items():
        target = root / name
        if not target.exists():
            out.append(f"missing    {name}")
        elif target.read_bytes() != data:
            out.append(f"different  {name}")
    out.extend(f"stale      {path.relative_to(root)}" for path in _stale(built.files, root))
    return out


def _stale(built: Mapping[str, bytes], root: Path) -> list[Path]:
    present = sorted(p for p in (root / "files").rglob("*") if p.is_file())
    return [p for p in present if p.relative_to(root).as_posix() not in built]
