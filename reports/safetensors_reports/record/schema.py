"""The published JSON Schema of run records, and what is wrong with a line by it."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from .text import visible


def record_schema() -> dict[str, Any]:
    """Return the schema of one line of a run record (``schemas/record.schema.json``)."""
    text = (files(__package__) / "schemas" / "record.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def line_error(kind: str, row: dict[str, Any]) -> str | None:
    """Return in one escaped line what is wrong with a line of the given kind, None for nothing."""
    error = best_match(_validator(kind).iter_errors(row))
    if error is None:
        return None
    where = "".join(f"[{part!r}]" for part in error.absolute_path)
    return f"{kind}{visible(where, 100)}: {visible(error.message, 160)}"


@cache
def _validator(kind: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/$defs/{kind}", "$defs": record_schema()["$defs"]})
