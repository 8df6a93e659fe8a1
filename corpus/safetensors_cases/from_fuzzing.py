"""Cases that fuzzing found. Their data is in ``found.toml``. They are registered like hand-written cases.

For each case, ``found.toml`` contains the bytes of the file and everything that a reader must report about
it. Expectations are never copied from the output of a reader.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from safetensors_corpus import recipe
from safetensors_corpus.author.case import ACCEPT, AREAS, CaseFunction, Importance, Reject, register
from safetensors_corpus.author.file import FileBuilder
from safetensors_reference.rules.book import rule_book

FILE = Path(__file__).with_name("found.toml")
_REQUIRED = {"id": str, "title": str, "rules": list, "level": str, "importance": str, "steps": list}
_REQUIRED |= {"bytes": list, "source": dict}
_OPTIONAL = {"codes": list, "metadata": dict, "tensor": list, "choice": str, "options": dict}
_TENSOR = {"name": str, "dtype": str, "shape": list, "data": list}
_LEVELS = ("must", "should", "may")
_IMPORTANCES = ("low", "medium", "high", "critical")


def found_cases(text: str) -> list[CaseFunction]:
    """Return the cases in a ``found.toml`` file. Raises ValueError with the id of an invalid case."""
    out = []
    for number, row in enumerate(tomllib.loads(text).get("case", []), 1):
        try:
            out.append(case_of(row))
        except ValueError as err:
            raise ValueError(f"found.toml: case {row.get('id', number)!r}: {err}") from err
    return out


def case_of(row: Mapping[str, Any]) -> CaseFunction:
    _check(row, _REQUIRED, _OPTIONAL)
    area = row["id"].partition("/")[0]
    if AREAS.get(area) != "read":
        raise ValueError(f"area {area!r} does not contain cases that read files")
    for key, words in (("level", _LEVELS), ("importance", _IMPORTANCES)):
        if row[key] not in words:
            raise ValueError(f"{key} is {row[key]!r}, which is not one of {', '.join(words)}")
    if not set(row["steps"]) <= {"open", "read"} or not row["steps"]:
        raise ValueError("the only permitted steps are open and read")
    if unknown := [rule for rule in row["rules"] if rule not in rule_book().rules]:
        raise ValueError(f"there is no rule {unknown[0]!r}")
    for tensor in row.get("tensor", ()):
        _check(tensor, _TENSOR, {})
        recipe.size(tensor["data"])
    recipe.size(row["bytes"])
    if ("choice" in row) != ("options" in row) or ("choice" in row and "codes" in row):
        raise ValueError("needs either codes, or a choice with its options")
    codes_of = row.get("options", {"": row.get("codes", [])})
    source = row["source"]
    return CaseFunction(
        id=row["id"],
        title=row["title"],
        description=f"A fuzzing run ({source['engine']}) found this file with {source['found_on']}.",
        rules=tuple(row["rules"]),
        choice=row.get("choice"),
        options={option: Reject(tuple(codes)) if codes else ACCEPT for option, codes in codes_of.items()},
        body=_build,
        arguments=(row,),
        level=row["level"],
        importance=cast(Importance, row["importance"]),
        steps=tuple(row["steps"]),
        source={"kind": "fuzz", **({"issue": source["issue"]} if "issue" in source else {})},
    )


def _check(row: Mapping[str, Any], required: Mapping[str, type], optional: Mapping[str, type]) -> None:
    types = {**required, **optional}
    for key, value in row.items():
        if key not in types:
            raise ValueError(f"unknown key {key!r}")
        if not isinstance(value, types[key]):
            raise ValueError(f"{key} is not a {types[key].__name__}")
    missing = [key for key in required if key not in row]
    if "source" in required and not missing:
        missing = [f"source.{key}" for key in ("engine", "seed", "found_on") if key not in row["source"]]
    if missing:
        raise ValueError(f"{', '.join(missing)}: missing")


def _build(f: FileBuilder, row: Mapping[str, Any]) -> None:
    """Pass the file and its content to the builder, which must not add any bytes."""
    f.prefix = recipe.expand(row["bytes"])
    f.header = b""
    for tensor in row.get("tensor", ()):
        # The key is never written, so any ASCII key will do.
        name, data = tensor["name"], recipe.expand(tensor["data"])
        f.tensor(name, tensor["dtype"], tensor["shape"], data, key=json.dumps(name))
    if "metadata" in row:
        f.metadata(row["metadata"])
    f.cut = 8 + f.position


for _case in found_cases(FILE.read_text(encoding="utf-8")):
    register(_case)
