"""The JSON document of a run, and functions to create, validate, read and merge it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from safetensors_reference.writing.atomic import write_file

from . import machine
from .figures import Document

FORMAT = 1
NAME = "device-bench"


class DocumentError(Exception):
    """A file is not a document of this benchmark. The message contains the file and the location in it."""


def new(device: str, options: dict[str, Any]) -> Document:
    return {
        "device_bench": FORMAT,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "suite": machine.suite_version(),
        "device": device,
        "machine": machine.describe(device),
        "options": options,
        "complete": False,
        "stopped": None,
        "limits": [],
        "files": [],
    }


def schema() -> dict[str, Any]:
    """Return the JSON Schema of documents, which is in ``schema.json`` next to this module."""
    loaded: dict[str, Any] = json.loads((files(__package__) / "schema.json").read_text("utf-8"))
    return loaded


def text(document: Document) -> str:
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def save(document: Document, folder: Path, name: str) -> None:
    """Write ``<name>.json``. If the write is interrupted, the old file remains. Raises NotSavedError."""
    write_file(folder / f"{name}.json", [text(document).encode("ascii")])


def read(path: Path) -> Document:
    """Read a document. Raises DocumentError."""
    try:
        loaded = json.loads(path.read_text("utf-8"), parse_constant=_no_number)
        json.dumps(loaded, ensure_ascii=False).encode("utf-8")  # the JSON parser accepts lone surrogates
    except OSError as err:
        raise DocumentError(f"{path}: cannot be read: {err.strerror or err}") from err
    except (ValueError, RecursionError) as err:
        raise DocumentError(f"{path}: not JSON: {err}") from err
    fault = invalid(loaded)
    if fault is not None:
        raise DocumentError(f"{path}: not a document of this benchmark: {fault}")
    document: Document = loaded
    return document


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is not a JSON number")


def invalid(document: object) -> str | None:
    """Return one line that describes how a document violates its schema, or None if it is valid."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    error = best_match(Draft202012Validator(schema()).iter_errors(document))
    return None if error is None else f"{error.json_path}: {error.message[:160]}"


def merged(documents: Sequence[Document]) -> Document:
    """Merge documents of partial runs. The result has the first limits found and all files in order.

    Raises DocumentError if the parts come from different devices or machines.
    """
    first = documents[0]
    for other in documents[1:]:
        for key in ("device", "machine"):
            left, right = (_same(d[key]) for d in (first, other))
            if left != right:
                raise DocumentError(f"the documents differ in {key!r}, so they are not parts of one run")
    return {
        **first,
        "complete": all(d["complete"] for d in documents),
        "stopped": next((d["stopped"] for d in documents if d["stopped"]), None),
        "limits": next((d["limits"] for d in documents if d["limits"]), []),
        "files": [file for d in documents for file in d["files"]],
    }


def _same(value: Any) -> Any:
    """Remove values that can differ between runs on the same machine, such as the speed of an idle link."""
    if not isinstance(value, dict):
        return value
    return {k: v for k, v in value.items() if k not in {"link_generation", "link_speed", "memory_bytes"}}
