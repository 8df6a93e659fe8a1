"""Publicly reported bugs in real readers and writers, from ``field_bugs.toml``.

Each case names the bugs that it shows, and each bug without a case has a reason. The manifest contains the
bugs and these references.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import msgspec

from .typed import typed

FAMILIES = {
    "framing": "Length prefix and framing",
    "json": "JSON parsing",
    "duplicate": "Repeated names and fields",
    "metadata": "Metadata",
    "dtype": "Dtypes",
    "overflow": "Arithmetic overflow",
    "offsets": "Ranges that contradict the shape or the file",
    "hole": "Bytes that belong to no tensor",
    "overlap": "Bytes that belong to several tensors",
    "trailing": "Bytes after the last tensor",
    "alignment": "Alignment",
    "values": "Wrong values",
    "crash": "Crashes and panics",
    "memory": "Memory",
    "time": "Time",
    "index": "Index that contradicts the shards",
    "traversal": "Paths that lead outside the folder",
    "writer": "Writers",
    "shared": "Tensors that share storage",
    "race": "Files that change while they are open",
    "lifetime": "Tensors that outlive their memory",
}
"""Maps each kind of mistake to its title, in the order in which a reader could make these mistakes."""
Commit = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{40}\Z")]
_SELDOM = ("option", "commits_with", "commits_without")
"""Properties that the manifest omits if they are empty."""


class FieldBug(msgspec.Struct, frozen=True):
    """A reported bug.

    Attributes:
        id: ``FB-`` followed by a number.
        project: the project that has or had the bug.
        language: programming language of the faulty code.
        references: public reports as ``owner/repository#number``, or the name of a document.
        date: date of the first report, ``YYYY-MM-DD`` or shorter.
        family: kind of mistake, one of ``FAMILIES``.
        trigger: what triggers the bug, in one line.
        versions: affected versions as a version specifier or in words; empty if they are unknown.
        fixed: the fix; empty if there is none.
        not_shown: reason why no case can show the bug; empty if a case shows it.
        option: for cases with a choice, the option that a program with the bug takes.
        commits_with: full ids of commits that have the bug, if no release identifies it.
        commits_without: commits from before the bug was introduced or after it was fixed.
    """

    id: str
    project: str
    language: str
    references: tuple[str, ...]
    date: str
    family: str
    trigger: str
    versions: str = ""
    fixed: str = ""
    not_shown: str = ""
    option: str = ""
    commits_with: tuple[Commit, ...] = ()
    commits_without: tuple[Commit, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in msgspec.structs.asdict(self).items()
            if value or name not in _SELDOM
        }


class _Entry(FieldBug, frozen=True, forbid_unknown_fields=True):
    """An entry of ``field_bugs.toml``."""


def reference_url(reference: str) -> str | None:
    """Return the URL of a public report, or None if the reference is the name of a document."""
    if reference.startswith("https://"):
        return reference
    repository, mark, number = reference.rpartition("#")
    if mark and number.isdigit() and repository.count("/") == 1:
        return f"https://github.com/{repository}/issues/{number}"
    return None


@cache
def field_bugs() -> Mapping[str, FieldBug]:
    """Load the bugs and map them by id. Raises ValueError for an invalid entry."""
    path = Path(__file__).with_name("field_bugs.toml")
    out: dict[str, FieldBug] = {}
    for raw in tomllib.loads(path.read_text(encoding="utf-8"))["bug"]:
        try:
            bug = typed(raw, _Entry)
        except ValueError as err:
            raise ValueError(f"field bug {raw.get('id')}: {err}") from err
        if bug.id in out:
            raise ValueError(f"field bug {bug.id} appears twice")
        if bug.family not in FAMILIES:
            raise ValueError(f"field bug {bug.id}: unknown family {bug.family!r}")
        out[bug.id] = bug
    return MappingProxyType(out)


def affected(bug: str) -> dict[str, str]:
    """Return the ``affects`` entry for a bug that a case shows. Raises ValueError for an unknown id."""
    entry = field_bugs().get(bug)
    if entry is None:
        raise ValueError(f"unknown field bug {bug!r}")
    return {
        "bug": bug,
        "project": entry.project,
        "reference": entry.references[0],
        "versions": entry.versions,
    }
