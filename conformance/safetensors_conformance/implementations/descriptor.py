"""Descriptors of implementations: origin, installation or build, entry points, claims.

Each has a folder with ``implementation.toml`` (``schemas/implementation.schema.json``), the adapters of its
entries or a program around a reader built from source, and ``expected_failures.toml`` if this project keeps a
baseline. ``STC_IMPLEMENTATIONS`` names folders with your own.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import asdict, replace
from packaging.version import Version

from safetensors_corpus.typed import Count, typed
from safetensors_reference.source import read_whole
from safetensors_reports.text import visible

HERE = Path(__file__).parent
DOCUMENT = "implementation.toml"
OFFICIAL = "safetensors"
"""The implementation that provides the parser of all that are not independent."""
OUTSIDE = "STC_IMPLEMENTATIONS"
"""Variable with folders of your own descriptors, in the form of ``PATH``."""

Kind = Literal["reader", "header", "validator", "scanner", "device"]
KINDS: dict[Kind, str] = {
    "reader": "hands out tensors",
    "header": "lists what a header says, without data",
    "validator": "says whether a file is valid",
    "scanner": "looks for what is dangerous in a file",
    "device": "loads onto a device alone",
}
"""Kind of implementation -> what it does. Each is judged only on its claims; steps show whether it writes
files or loads through an index."""
Language = Literal[
    "Ada",
    "C",
    "C#",
    "C++",
    "Clojure",
    "Common Lisp",
    "Crystal",
    "D",
    "Dart",
    "Elixir",
    "Erlang",
    "F#",
    "Fortran",
    "Go",
    "Haskell",
    "Java",
    "JavaScript",
    "Julia",
    "Kotlin",
    "Lua",
    "Mojo",
    "Nim",
    "OCaml",
    "Perl",
    "PHP",
    "Python",
    "R",
    "Racket",
    "Ruby",
    "Rust",
    "Scala",
    "Scheme",
    "Standard ML",
    "Swift",
    "TypeScript",
    "Zig",
]
Name = Annotated[str, Meta(pattern="^[a-z0-9]+(-[a-z0-9]+)*$")]
Address = Annotated[str, Meta(extra_json_schema={"format": "uri"})]
NonEmptyTexts = Annotated[tuple[str, ...], Meta(min_length=1)]
NonEmptyText = Annotated[str, Meta(min_length=1)]
Adapter = Annotated[str, Meta(pattern=r"^[a-z0-9_]+\.(py:[A-Za-z_]+|mjs)$")]


class DescriptorError(Exception):
    """A descriptor is not usable."""


class Public(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The public entry point of a library, for an entry that calls something inside of it.

    Both are asked about the same files of the corpus, and the numbers are what that gave; a test measures
    them again. Where it cannot be asked, ``why`` takes their place.

    Attributes:
        calls: The public entry point, in a few words.
        adapter: File in the same folder and, for Python, the object in it that calls it whole.
        requires: What is installed for it, where that is more than what the entry needs.
        sample: Files that both were asked about.
        refuses: Files of the sample that it refuses and the entry accepts.
        accepts: Files of the sample that it accepts and the entry refuses.
        why: Why it cannot be asked.
    """

    calls: NonEmptyText
    adapter: Adapter = ""
    requires: NonEmptyTexts = ()
    sample: Count = 0
    refuses: Count = 0
    accepts: Count = 0
    why: str = ""

    @property
    def said(self) -> str:
        if self.why:
            return f"Parser only: not compared with the public {self.calls}, which {self.why}."
        differs = [f"refuses {self.refuses:,} more"] if self.refuses else []
        differs += [f"accepts {self.accepts:,} more"] if self.accepts else []
        if differs:
            return f"Parser only: the public {self.calls} {' and '.join(differs)} of {self.sample:,} files."
        return f"The public {self.calls} accepts and refuses the same of {self.sample:,} files."


class Entry(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One way of calling an implementation.

    Attributes:
        about: The call, in a few words.
        adapter: File in the same folder and, for Python, the object in it, ``adapter.py:Load``; once loaded,
            below ``implementations/``.
        program: Command line of what was built from the source, in place of an adapter; it speaks the worker
            protocol. {source}, {around}, {built} and {revision} stand for what they do in build commands.
        name: Behind the colon of the selector; none for the default.
        kind: Where it is another than that of the implementation.
        parser: Implementation whose parser it runs, where that is neither its own nor, for one that is not
            independent, the official library's.
        areas: Areas of the corpus that it claims to judge; all by default.
        claim: What its documentation says of what it looks at, and where: what ``areas`` rest on.
        requires: What this entry needs beyond the implementation itself.
        public: The public entry point, where the adapter calls something else: a private name, a function of
            a shared library, a module cut out of its package.
        version: Version taken for this entry when none is asked for, always in an environment of its own;
            for what the version of the implementation does not have yet.
    """

    about: str
    adapter: Adapter = ""
    program: NonEmptyTexts = ()
    name: Name = ""
    kind: Kind | UnsetType = UNSET
    parser: Name = ""
    areas: NonEmptyTexts = ()
    claim: NonEmptyText = ""
    requires: NonEmptyTexts = ()
    version: NonEmptyText = ""
    public: Public | UnsetType = UNSET

    @property
    def whole(self) -> Entry | None:
        """The public entry point as an entry, ``NAME:public``, that only its name selects."""
        if not self.public or not self.public.adapter:
            return None
        return Entry(
            about=self.public.calls,
            adapter=self.public.adapter,
            name=f"{self.name}-public".lstrip("-"),
            kind=self.kind,
            areas=self.areas,
            requires=self.public.requires or self.requires,
            version=self.version,
        )

    @property
    def scope(self) -> str:
        """How the public entry point differs on the same files; empty if the entry is public itself."""
        return self.public.said if self.public else ""


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
    requires: NonEmptyTexts
    distribution: str = ""
    oldest: Annotated[str, Meta(pattern=r"^[0-9]+(\.[0-9]+)*$")] = ""


Manager = Literal["cargo", "go", "maven", "npm"]
Command = Annotated[tuple[NonEmptyText, ...], Meta(min_length=1)]


class Source(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Where the source of an implementation comes from, and how it is built.

    Attributes:
        kind: git: a repository. pip: a source distribution. Others: the folder of the descriptor is a project
            of that manager, which gets the package as a dependency.
        address: Of the repository, https or file; otherwise the name of the package (of maven: group and
            artifact with a colon between).
        revision: Full commit of a repository, 40 hexadecimal digits; otherwise the version of the package.
        toolchain: Programs that are needed to build and run it.
        dependencies: Who fetches what the build needs besides: named by its manifest in the folder of the
            descriptor, or in the source.
        build: Command lines, run in turn without a shell and without network. {source} stands for the folder
            of the source, {around} for the copy of the descriptor's folder, {built} for an empty folder and
            {revision} for the revision. None for what is built by hand, and never by this project.
    """

    kind: Literal["git", "pip", "cargo", "go", "maven", "npm"]
    address: Annotated[str, Meta(pattern=r"^[A-Za-z0-9@][A-Za-z0-9@:/._~%+-]*$")]
    revision: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+!-]*$")]
    toolchain: NonEmptyTexts = ()
    dependencies: Manager | UnsetType = UNSET
    build: Annotated[tuple[Command, ...], Meta(min_length=1)] = ()

    def fault(self) -> str:
        """Return what is wrong with address or revision, nothing if they can be fetched."""
        if self.kind != "git":
            return ""
        if not self.address.startswith(("https://", "file://")):
            return (
                "source.address: a repository is named by https:// or file://; for others fetch it yourself"
            )
        return "" if is_commit(self.revision) else f"source.revision: {FULL_COMMIT}"


FULL_COMMIT = "give the full commit, 40 hexadecimal digits; branches and tags move"


def is_commit(text: str) -> bool:
    return re.fullmatch("[0-9a-f]{40}", text) is not None


class Descriptor(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``implementation.toml``: who makes an implementation, how it is installed or built, what it claims.

    Attributes:
        name: What --impl calls it.
        title: What its makers call it.
        kind: reader: hands out tensors. header: lists what a header says. validator: says whether a file is
            valid. scanner: looks for what is dangerous. device: loads onto a device alone.
        language: Of the part that parses.
        independent: False when the official library does the parsing inside.
        homepage: Where it is described.
        issues: Where its issues are.
        install: How packages are installed that adapters call.
        source: Where the source comes from that programs are built from. Neither for what is part of this
            project.
        limit_address_space: False where the library reserves far more memory than it uses.
        forks: True where the forks of a process that has loaded the library, and was asked nothing, answer as
            processes that were started: seen in whole runs of both, whose results are the same.
        long: True where a run takes a minute or more, for whatever reason: runs of all begin with it.
        entry: Ways of calling it, the default first.
        note: What a user should know.
    """

    name: Name
    title: NonEmptyText
    kind: Kind
    language: Language
    independent: bool
    homepage: Address
    issues: Address
    entries: Annotated[tuple[Entry, ...], Meta(min_length=1)] = field(name="entry")
    install: Install | UnsetType = UNSET
    source: Source | UnsetType = UNSET
    limit_address_space: bool = True
    forks: bool = False
    long: bool = False
    note: str = ""

    @property
    def distribution(self) -> str:
        return (self.install.distribution if self.install else "") or self.name

    @property
    def manager(self) -> str:
        return self.install.manager if self.install else ""

    @property
    def version(self) -> str:
        return self.install.version if self.install else ""

    @property
    def oldest(self) -> str:
        return self.install.oldest if self.install else ""

    def entry(self, name: str) -> Entry | None:
        named = (*self.entries, *filter(None, (e.whole for e in self.entries)))
        return next((e for e in named if e.name == name), None)

    def selector(self, entry: Entry) -> str:
        return f"{self.name}:{entry.name}" if entry.name else self.name

    def kind_of(self, entry: Entry) -> Kind:
        return entry.kind or self.kind

    def parser_of(self, entry: Entry) -> str:
        return entry.parser or (self.name if self.independent else OFFICIAL)

    def by_hand(self, entry: Entry) -> bool:
        """Return whether an entry has neither adapter nor build here, so that the user provides it."""
        return not entry.adapter and not entry.program

    def default_version(self, entry: Entry) -> str:
        if entry.adapter or not self.source:
            return entry.version or self.version
        return self.source.revision

    @property
    def listed(self) -> list[str]:
        """Selectors of the runnable entries, with the versions that the descriptor lists.

        Another version that happens to be installed does not take their place.
        """
        return [
            self.selector(entry) + (f"=={self.default_version(entry)}" if self.manager else "")
            for entry in self.entries
            if not self.by_hand(entry)
        ]

    def fits(self, version: str) -> bool:
        """Return whether the adapters support a version; unordered versions count as supported."""
        try:
            return not self.oldest or Version(version) >= Version(self.oldest)
        except ValueError:  # also for numbers with too many digits
            return True

    def requirements(self, version: str, entry: Entry) -> list[str]:
        alone = any(e.public and e.public.requires and e.whole == entry for e in self.entries)
        needed = (*(self.install.requires if self.install and not alone else ()), *entry.requires)
        return [text.replace("{version}", version) for text in needed]


class LocatedDescriptor(Descriptor, frozen=True, kw_only=True):
    """A descriptor and its folder; ``outside`` if that is not part of this project."""

    folder: Path
    outside: bool

    def expected_failures(self, entry: Entry) -> Path:
        name = f"_{entry.name.replace('-', '_')}" if entry.name else ""
        return self.folder / f"expected_failures{name}.toml"


def load(path: Path, *, outside: bool = False) -> LocatedDescriptor:
    """Load one descriptor. Raises DescriptorError.

    Adapters of an ``outside`` descriptor have absolute paths.
    """
    where = visible(str(path)) if outside else f"{path.parent.name}/{path.name}"
    try:
        found = typed(tomllib.loads(read_whole(path, MAX_BYTES).decode()), Descriptor)
    except OSError as err:  # the error names the file
        raise DescriptorError(visible(str(err), 400)) from err
    except (ValueError, RecursionError) as err:
        raise DescriptorError(f"{where}: {err}") from err
    if not found.fits(found.version):
        raise DescriptorError(f"{where}: install.version is older than install.oldest")
    if fault := _fault(found):
        raise DescriptorError(f"{where}: {fault}")
    folder = path.parent.absolute()
    place = str(folder) if outside else folder.name
    entries = (_placed(e, place) for e in found.entries)
    values = asdict(replace(found, entries=tuple(entries)))
    return LocatedDescriptor(**values, folder=folder, outside=outside)


def _placed(entry: Entry, place: str) -> Entry:
    if entry.public and entry.public.adapter:
        entry = replace(entry, public=replace(entry.public, adapter=f"{place}/{entry.public.adapter}"))
    return replace(entry, adapter=entry.adapter and f"{place}/{entry.adapter}")


def _fault(found: Descriptor) -> str:
    source = found.source or None
    if source and (fault := source.fault()):
        return fault
    for number, entry in enumerate(found.entries):
        if entry.adapter and entry.program:
            return f"entry[{number}]: adapter and program exclude each other"
        if entry.program and not (source and source.build):
            return f"entry[{number}].program: is built from source; give source.build"
        if entry.public and bool(entry.public.why) == bool(entry.public.adapter):
            return f"entry[{number}].public: give an adapter that calls it, or why it cannot run here"
        if found.by_hand(entry) and (source is None or source.build):
            return f"entry[{number}]: give an adapter, or a program that source.build makes"
    if source and source.build and not any(entry.program for entry in found.entries):
        return "source.build: no entry has a program"
    return ""


MAX_BYTES = 1 << 20
NAMED = re.compile(r"(?P<name>[^:=@]+)(:(?P<entry>[^=@]+))?")
"""The beginning of a selector of a known implementation."""


def described(selector: str) -> tuple[LocatedDescriptor, Entry] | None:
    """Return the descriptor and entry that a selector names, whatever its version, or None."""
    match = NAMED.match(selector)
    found = descriptors().get(match["name"]) if match else None
    entry = found.entry(match["entry"] or "") if match and found else None
    return (found, entry) if found and entry else None


@cache
def descriptors() -> Mapping[str, LocatedDescriptor]:
    found = [load(path) for path in sorted(HERE.glob(f"*/{DOCUMENT}"))]
    return MappingProxyType({d.name: d for d in found})


def longest_first() -> list[LocatedDescriptor]:
    """Return all descriptors of this project in the order that ends a run of all soonest.

    Those marked ``long`` come first, then large frameworks, so that the last one does not run alone for long.
    """
    return sorted(
        descriptors().values(),
        key=lambda found: (not found.long, found.limit_address_space and not found.forks),
    )


def outside_descriptors() -> dict[str, LocatedDescriptor]:
    """Return the descriptors in the folders of ``STC_IMPLEMENTATIONS``, by name. Raises DescriptorError.

    A descriptor may define a build for an entry that this project leaves to users; other names of this
    project are reserved.
    """
    out: dict[str, LocatedDescriptor] = {}
    for text in filter(None, os.environ.get(OUTSIDE, "").split(os.pathsep)):
        folder = Path(text)
        if not folder.is_dir():
            raise DescriptorError(f"{OUTSIDE}: there is no folder {visible(text)}")
        for path in sorted(folder.glob(f"*/{DOCUMENT}")):
            found = load(path, outside=True)
            ours = descriptors().get(found.name)
            if found.name in out or (ours and not all(map(ours.by_hand, ours.entries))):
                raise DescriptorError(f"{visible(str(path))}: the name {found.name} is taken already")
            out[found.name] = found
    return out


def find_descriptor(name: str) -> LocatedDescriptor | None:
    """Return the descriptor of a name, your own before one of this project. Raises DescriptorError."""
    ours = descriptors().get(name)
    if ours is not None and not all(map(ours.by_hand, ours.entries)):
        return ours  # even if others are broken
    return outside_descriptors().get(name) or ours
