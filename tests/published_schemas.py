"""The published JSON Schemas of the package reports, and what is wrong with a document by its schema."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from safetensors_reports.text import visible


@cache
def schema(name: str) -> dict[str, Any]:
    """Return a published schema by name, such as ``report``. It is shared: do not change it."""
    path = files("safetensors_reports") / "schemas" / f"{name}.schema.json"
    loaded: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return loaded


@cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(schema(name))


def schema_error(name: str, document: Any) -> str | None:
    """Return in one escaped line what is wrong with a document by a published schema, None for nothing."""
    error = best_match(_validator(name).iter_errors(document))
    return None if error is None else f"{visible(error.json_path, 100)}: {visible(error.message, 200)}"
