"""Descriptors of implementations: who makes it, how it is installed and called, what it claims.

Each has a folder: ``implementation.toml`` (its form is ``schemas/implementation.schema.json``), the adapters
of its entries, and ``expected_failures.toml`` where this project keeps a baseline.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import replace
from packaging.version import InvalidVersion, Version

from safetensors_corpus.typed import typed

HERE = Path(__file__).parent
DOCUMENT = "implementation.toml"

Kind = Literal["reader", "header", "validator", "scanner", "device"]
KINDS: dict[Kind, str] = {
    "reader": "hands out tensors",
    "header": "lists what a header says, without data",
    "validator": "says whether a file is valid",
    "scanner": "looks for what is dangerous in a file",
    "device": "loads onto a device alone",
}
"""Kind of implementation -> what it does. Each is judged only on what it claims.

Who writes files, or loads through an index, is known by the steps.
"""
Language = Literal["Rust", "C++", "C", "Python", "JavaScript", "TypeScript", "Go", "Java", "Swift"]
Name = Annotated[str, Meta(pattern="^[a-z0-9]+(-[a-z0-9]+)*$")]
Address = Annotated[str, Meta(extra_json_schema={"format": "uri"})]
Some = Annotated[tuple[str, ...], Meta(min_length=1)]
Filled = Annotated[str, Meta(min_length=1)]


class DescriptorError(Exception):
    """A descriptor is not usable."""


class Entry(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One way of calling an implementation.

    Attributes:
        adapter: File in the same folder and, for Python, the object in it, ``adapter.py:Load``; once loaded,
            below ``implementations/``.
        about: The call, in a few words.
        name: Behind the colon of the selector; none for the default.
        kind: Where it is another than that of the implementation.
        areas: Areas of the corpus that it claims to judge; all by default.
        requires: What this entry needs beyond the implementation itself.
        version: Version taken for this entry when none is asked for, always in an environment of its own;
            for what the version of the implementation does not have yet.
    """

    adapter: Annotated[str, Meta(pattern=r"^[a-z0-9_]+\.(py:[A-Za-z_]+|mjs)$")]
    about: str
    name: Name = ""
    kind: Kind | UnsetType = UNSET
    areas: Some = ()
    requires: Some = ()
    version: Filled = ""


class Install(Struct, frozen=True, forbid_unknown_fields=True):
    """How an implementation is installed.

    Attributes:
        manager: Program that installs it.
        version: Taken when none is asked for.
        requires: Requirements; {version} stands for the version.
        distribution: Package whose version counts; the name by default.
        oldest: Lowest version that the adapters fit; older ones lack what they call and are not run.
    """

    manager: Literal["pip", "npm"]
    version: str
    requires: Some
    distribution: str = ""
    oldest: Annotated[str, Meta(pattern=r"^[0-9]+(\.[0-9]+)*$")] = ""


class Descriptor(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``implementation.toml``: who makes an implementation, how it is installed and called, what it claims.

    Attributes:
        name: What --impl calls it.
        title: What its makers call it.
        kind: reader: hands out tensors. header: lists what a header says. validator: says whether a file is
            valid. scanner: looks for what is dangerous. device: loads onto a device alone.
        language: Of the part that parses.
        independent: False when the official library does the parsing inside.
        homepage: Where it is described.
        issues: Where its issues are.
        install: Left out for what is part of this project.
        limit_address_space: False where the library reserves far more memory than it uses.
        entry: Ways of calling it, the default first.
        note: What a user should know.
    """

    name: Name
    title: Filled
    kind: Kind
    language: Language
    independent: bool
    homepage: Address
    issues: Address
    entries: Annotated[tuple[Entry, ...], Meta(min_length=1)] = field(name="entry")
    install: Install | UnsetType = UNSET
    limit_address_space: bool = True
    note: str = ""

    @property
    def distribution(self) -> str:
        """Name of the package whose version counts."""
        return (self.install.distribution if self.install else "") or self.name

    @property
    def manager(self) -> str:
        """``pip`` or ``npm``; empty for what is part of this project."""
        return self.install.manager if self.install else ""

    @property
    def version(self) -> str:
        """Version taken when none is asked for."""
        return self.install.version if self.install else ""

    @property
    def oldest(self) -> str:
        """Lowest version that the adapters fit; empty where none is known that they do not."""
        return self.install.oldest if self.install else ""

    def entry(self, name: str) -> Entry | None:
        """Return the entry of this name, or None."""
        return next((e for e in self.entries if e.name == name), None)

    def selector(self, entry: Entry) -> str:
        """Return what ``--impl`` takes for an entry: ``mlx`` for the default, ``mlx:entry`` for another."""
        return f"{self.name}:{entry.name}" if entry.name else self.name

    def kind_of(self, entry: Entry) -> Kind:
        """Return the kind of an entry: its own, or that of the implementation."""
        return entry.kind or self.kind

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
        needed = (*(self.install.requires if self.install else ()), *entry.requires)
        return [text.replace("{version}", version) for text in needed]


def load(path: Path) -> Descriptor:
    """Load one descriptor. Raises DescriptorError."""
    where = f"{path.parent.name}/{path.name}"
    try:
        found = typed(tomllib.loads(path.read_text(encoding="utf-8")), Descriptor)
    except (OSError, ValueError, RecursionError) as err:
        raise DescriptorError(f"{where}: {err}") from err
    if not found.fits(found.version):
        raise DescriptorError(f"{where}: install.version is older than install.oldest")
    entries = (replace(entry, adapter=f"{path.parent.name}/{entry.adapter}") for entry in found.entries)
    return replace(found, entries=tuple(entries))


def described(selector: str) -> tuple[Descriptor, Entry] | None:
    """Return what a selector names, whatever its version; None for what is none of ours."""
    name, _, entry_name = selector.partition("==")[0].partition(":")
    found = descriptors().get(name)
    entry = found.entry(entry_name) if found else None
    return (found, entry) if found and entry else None


@cache
def descriptors() -> Mapping[str, Descriptor]:
    """Return all descriptors of this project by name. Raises DescriptorError."""
    found = [load(path) for path in sorted(HERE.glob(f"*/{DOCUMENT}"))]
    return MappingProxyType({d.name: d for d in found})
