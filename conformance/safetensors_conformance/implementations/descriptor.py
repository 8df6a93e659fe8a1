"""Descriptors of implementations: who makes it, how it is installed and called, what it claims.

Each has a folder: ``implementation.toml`` (its form is ``schemas/implementation.schema.json``), the adapters
of its entries, and ``expected_failures.toml`` where this project keeps a baseline.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jsonschema
from packaging.version import InvalidVersion, Version

HERE = Path(__file__).parent
DOCUMENT = "implementation.toml"

KINDS = {
    "reader": "hands out tensors",
    "header": "lists what a header says, without data",
    "validator": "says whether a file is valid",
    "scanner": "looks for what is dangerous in a file",
}
"""Kind of implementation -> what it does. Each is judged only on what it claims."""


class DescriptorError(Exception):
    """A descriptor is not usable."""


@dataclass(frozen=True)
class Entry:
    """One way of calling an implementation.

    Attributes:
        name: behind the colon of the selector; empty for the default.
        adapter: file below ``implementations/`` and object in it, ``mlx/adapter.py:Load``.
        about: the call, in a few words.
        areas: areas of the corpus that it claims to judge; empty for all.
        requires: what it needs installed beyond the implementation itself.
        version: the version that has it, where that is not the one of the implementation.
    """

    name: str
    adapter: str
    about: str
    areas: tuple[str, ...]
    requires: tuple[str, ...]
    version: str = ""


@dataclass(frozen=True)
class Descriptor:
    """One implementation.

    Attributes:
        name: what ``--impl`` calls it.
        title: what its makers call it.
        kind: a key of ``KINDS``.
        language: of the part that parses.
        independent: False when the parsing is done by the official library inside.
        homepage: URL.
        issues: URL of the issue tracker.
        distribution: name of the package whose version counts.
        manager: ``pip`` or ``npm``; empty for what is part of this project.
        version: version taken when none is asked for.
        oldest: lowest version that the adapters fit; empty where none is known that they do not.
        requires: requirements to install, ``{version}`` standing for the version.
        limit_address_space: False where the library reserves far more memory than it uses.
        entries: ways of calling it, the default first.
        note: what a user should know.
    """

    name: str
    title: str
    kind: str
    language: str
    independent: bool
    homepage: str
    issues: str
    distribution: str
    manager: str
    version: str
    oldest: str
    requires: tuple[str, ...]
    limit_address_space: bool
    entries: tuple[Entry, ...]
    note: str

    def entry(self, name: str) -> Entry | None:
        """Return the entry of this name, or None."""
        return next((e for e in self.entries if e.name == name), None)

    def selector(self, entry: Entry) -> str:
        """Return what ``--impl`` takes for an entry: ``mlx`` for the default, ``mlx:entry`` for another."""
        return f"{self.name}:{entry.name}" if entry.name else self.name

    def expected_failures(self, entry: Entry) -> Path:
        """Return where this project keeps the baseline of an entry, which is not there for each."""
        name = f"_{entry.name.replace('-', '_')}" if entry.name else ""
        return HERE / self.name.replace("-", "_") / f"expected_failures{name}.toml"

    def fits(self, version: str) -> bool:
        """Say whether the adapters fit a version; what cannot be put in order is not known to be too old."""
        try:
            return not self.oldest or Version(version) >= Version(self.oldest)
        except InvalidVersion:
            return True

    def requirements(self, version: str, entry: Entry) -> list[str]:
        """Return what one version and entry needs installed."""
        return [text.replace("{version}", version) for text in (*self.requires, *entry.requires)]


def load(path: Path) -> Descriptor:
    """Load one descriptor. Raises DescriptorError."""
    where = f"{path.parent.name}/{path.name}"
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as err:
        raise DescriptorError(f"{where}: {err}") from err
    for error in jsonschema.Draft202012Validator(schema()).iter_errors(raw):
        raise DescriptorError(f"{where} at {error.json_path}: {error.message}")
    install = raw.get("install", {})
    found = Descriptor(
        name=raw["name"],
        title=raw["title"],
        kind=raw["kind"],
        language=raw["language"],
        independent=raw["independent"],
        homepage=raw["homepage"],
        issues=raw["issues"],
        distribution=install.get("distribution", raw["name"]),
        manager=install.get("manager", ""),
        version=install.get("version", ""),
        oldest=install.get("oldest", ""),
        requires=tuple(install.get("requires", ())),
        limit_address_space=raw.get("limit_address_space", True),
        entries=tuple(
            Entry(
                e.get("name", ""),
                f"{path.parent.name}/{e['adapter']}",
                e["about"],
                tuple(e.get("areas", ())),
                tuple(e.get("requires", ())),
                e.get("version", ""),
            )
            for e in raw["entry"]
        ),
        note=raw.get("note", ""),
    )
    if not found.fits(found.version):
        raise DescriptorError(f"{where}: install.version is older than install.oldest")
    return found


@cache
def schema() -> Mapping[str, Any]:
    """Return the JSON Schema of a descriptor."""
    text = (HERE.parent / "schemas" / "implementation.schema.json").read_text(encoding="utf-8")
    return MappingProxyType(json.loads(text))


@cache
def descriptors() -> Mapping[str, Descriptor]:
    """Return all descriptors of this project by name. Raises DescriptorError."""
    found = [load(path) for path in sorted(HERE.glob(f"*/{DOCUMENT}"))]
    return MappingProxyType({d.name: d for d in found})
