"""The recorded result of one item, and the differences between two such documents."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

FORMAT = 1
_WIDTH = 60


class UnusableError(Exception):
    """A recorded document is missing or cannot be read."""


@dataclass(frozen=True)
class Document:
    """The recorded result of one item. Only its entries are compared. Notes are shown if they differ."""

    entries: Mapping[str, Any]
    notes: Mapping[str, str] = field(default_factory=dict)

    def write(self, path: Path, item: str, commit: str) -> None:
        """Write one entry per line, so that other tools can also compare the files."""
        entries = ",\n".join(f"{_json(key)}: {_json(self.entries[key])}" for key in sorted(self.entries))
        head = _json({"format": FORMAT, "item": item, "commit": commit, "notes": self.notes})
        path.write_text(f'{head[:-1]}, "entries": {{\n{entries}\n}}}}\n', encoding="utf-8")


def load(path: Path) -> Document:
    """Load a recorded document. Raises UnusableError."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise UnusableError(
                f"recorded in format {content['format']}, but the current format is {FORMAT}; record it again"
            )
        return Document(content["entries"], content["notes"])
    except FileNotFoundError:
        raise UnusableError("not recorded") from None
    except (OSError, ValueError, KeyError, TypeError) as err:
        raise UnusableError(f"the record cannot be read: {err}") from err


def plain(document: Document) -> Document:
    """Return the document as it would be loaded from a file: tuples become lists, and keys become strings."""
    return Document(json.loads(_json(document.entries)), json.loads(_json(document.notes)))


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return a line for each entry that was removed, added or changed."""
    lines = []
    for key in sorted({*before, *after}):
        if key not in after:
            lines.append(f"{key}: gone")
        elif key not in before:
            lines.append(f"{key}: new")
        elif before[key] != after[key]:
            lines.append(f"{key}: {_change(before[key], after[key])}")
    return lines


def without(value: Any, names: Collection[str]) -> Any:
    """Return a JSON value without the members that have these names, at any depth."""
    if isinstance(value, dict):
        return {key: without(member, names) for key, member in value.items() if key not in names}
    if isinstance(value, list):
        return [without(member, names) for member in value]
    return value


def _change(before: Any, after: Any) -> str:
    if isinstance(before, dict) and isinstance(after, dict):
        parts = [
            f"{key} {_short(before.get(key))} -> {_short(after.get(key))}"
            for key in sorted({*before, *after})
            if before.get(key) != after.get(key) or (key in before) != (key in after)
        ]
        return ", ".join(parts)
    return f"{_short(before)} -> {_short(after)}"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else _json(value)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
