"""Descriptors of implementations: where they come from, how they are installed or built, and what they claim.

Each implementation has a folder with ``implementation.toml`` (``schemas/implementation.schema.json``). The
folder also contains the adapters of its entries, or a program that wraps a reader built from source. If this
project keeps a baseline, the folder contains ``expected_failures.toml``. ``STC_IMPLEMENTATIONS`` lists
folders with your own descriptors.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import asdict, replace
from packaging.version import Version

from safetensors_corpus.typed import Count, read_toml, typed
from safetensors_reports.text import visible

HERE = Path(__file__).parent
DOCUMENT = "implementation.toml"
OFFICIAL = "safetensors"
"""The implementation that provides the parser for all implementations that are not independent."""
OUTSIDE = "STC_IMPLEMENTATIONS"
"""Environment variable that lists folders with your own descriptors, in the format of ``PATH``."""

Kind = Literal["reader", "header", "validator", "scanner", "device", "exporter"]
KINDS: dict[Kind, str] = {
    "reader": "returns tensors",
    "header": "lists the content of a header, without data",
    "validator": "reports whether a file is valid",
    "scanner": "looks for dangerous content in a file",
    "device": "only loads tensors onto a device",
    "exporter": "only writes tensors to files in other formats",
}
"""Maps each kind of implementation to what it does. An implementation is judged only on what it claims."""
Name = Annotated[str, Meta(pattern="^[a-z0-9]+(-[a-z0-9]+)*$")]
Language = Annotated[str, Meta(pattern="^[A-Z][A-Za-z0-9+#. -]{0,39}$")]
Address = Annotated[str, Meta(extra_json_schema={"format": "uri"})]
NonEmptyTexts = Annotated[tuple[str, ...], Meta(min_length=1)]
NonEmptyText = Annotated[str, Meta(min_length=1)]
Adapter = Annotated[str, Meta(pattern=r"^[a-z0-9_]+\.(py:[A-Za-z_]+|mjs)$")]


class DescriptorError(Exception):
    """A descriptor cannot be used."""


class Public(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The public entry point of a library, for an entry that calls a function inside the library.

    Both functions run on the same corpus files, and the numbers show how their answers differ. A test repeats
    the measurement. If the public entry point cannot be run, ``why`` replaces the numbers.

    Attributes:
        calls: The public entry point, in a few words.
        adapter: File in the same folder and, for Python, the object in it that calls the public entry point.
        requires: Packages that it needs in addition to those of the entry.
        sample: Number of files on which both were run.
        refuses: Number of files in the sample that it rejects and the entry accepts.
        accepts: Number of files in the sample that it accepts and the entry rejects.
        why: Why it cannot be run.
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
        differs = [f"rejects {self.refuses:,} more"] if self.refuses else []
        differs += [f"accepts {self.accepts:,} more"] if self.accepts else []
        if differs:
            return f"Parser only: the public {self.calls} {' and '.join(differs)} of {self.sample:,} files."
        return f"The public {self.calls} accepts and rejects the same files in a sample of {self.sample:,}."


class Entry(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One way of calling an implementation.

    Attributes:
        about: The call, in a few words.
        adapter: File in the same folder and, for Python, the object in it, such as ``adapter.py:Load``. After
            loading, the path is relative to ``implementations/``.
        program: Command line of a program that was built from the source and speaks the worker protocol. It
            replaces the adapter. {source}, {around}, {built} and {revision} mean the same as in build
            commands.
        name: Name after the colon of the selector; empty for the default entry.
        kind: Kind of the entry, if it differs from that of the implementation.
        parser: Implementation whose parser the entry runs. By default, this is its own parser, or that of the
            official library if the implementation is not independent.
        areas: Areas of the corpus that it claims to judge; by default, all areas.
        claim: What its documentation says about what it checks, and where. ``areas`` are based on this.
        requires: Packages that this entry needs in addition to the implementation itself.
        public: The public entry point, if the adapter calls something else: a private name, a function of a
            shared library, or a module cut out of its package.
        version: Version to use for this entry if none is given, for features that the version of the
            implementation does not have yet. It always gets its own environment.
        forks: True if a fork of a process that has loaded the library, but has not handled a request, answers
            in the same way as a newly started process. Complete runs of both kinds gave the same results.
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
    forks: bool = False

    @property
    def whole(self) -> Entry | None:
        """The public entry point as an entry named ``NAME:public``, which must be selected by name."""
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
        """How the public entry point's answers differ on the same files. Empty if the entry is public."""
        return self.public.said if self.public else ""


class Install(Struct, frozen=True, forbid_unknown_fields=True):
    """How an implementation is installed.

    Attributes:
        manager: Program that installs it.
        version: Version to install if none is given.
        requires: Requirements; {version} is replaced by the version.
        distribution: Package whose version is reported; by default, the name of the implementation.
        oldest: Lowest version that the adapters support. Older versions are not run, because they lack
            functions that the adapters call.
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
        kind: git: a repository. pip: a source distribution. All others: the folder of the descriptor is a
            project of that package manager and has the package as a dependency.
        address: URL of the repository (https or file), or else the name of the package. For maven, the name
            is the group and the artifact with a colon between them.
        revision: Full commit hash of a repository (40 hexadecimal digits), or else the package version.
        toolchain: Programs that are needed to build and run it.
        dependencies: Package manager that fetches the other dependencies of the build. Its manifest, in the
            folder of the descriptor or in the source, lists them.
        build: Command lines, which run one after the other without a shell and without network access.
            {source} is replaced by the folder of the source, {around} by the copy of the descriptor's folder,
            {built} by an empty folder, and {revision} by the revision. Empty for implementations that users
            build by hand, because this project never builds them.
    """

    kind: Literal["git", "pip", "cargo", "go", "maven", "npm"]
    address: Annotated[str, Meta(pattern=r"^[A-Za-z0-9@][A-Za-z0-9@:/._~%+-]*$")]
    revision: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+!-]*$")]
    toolchain: NonEmptyTexts = ()
    dependencies: Manager | UnsetType = UNSET
    build: Annotated[tuple[Command, ...], Meta(min_length=1)] = ()

    def fault(self) -> str:
        """Return what is wrong with the address or revision, or "" if the source can be fetched."""
        if self.kind != "git":
            return ""
        if not self.address.startswith(("https://", "file://")):
            return (
                "source.address: the URL of a repository must begin with https:// or file://; fetch "
                "others yourself"
            )
        return "" if is_commit(self.revision) else f"source.revision: {FULL_COMMIT}"


FULL_COMMIT = "give the full commit hash of 40 hexadecimal digits, because branches and tags move"


def is_commit(text: str) -> bool:
    return re.fullmatch("[0-9a-f]{40}", text) is not None


class Descriptor(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``implementation.toml``: the origin of an implementation, its installation or build, and its claims.

    Attributes:
        name: Name for --impl.
        title: Name that its developers use.
        kind: reader: returns tensors. header: lists the content of a header. validator: reports whether a
            file is valid. scanner: looks for dangerous content. device: only loads tensors onto a device.
        language: Programming language of the parser.
        independent: False if it uses the official library's parser.
        homepage: URL of its description.
        issues: URL of its issue tracker.
        install: How to install the packages that adapters call.
        source: Where the source of the programs comes from. Implementations that are part of this project
            have neither ``install`` nor ``source``.
        limit_address_space: False if the library reserves much more memory than it uses.
        long: True if a run takes at least a minute, for whatever reason. When all implementations are run,
            these are started first.
        entry: Ways of calling it. The first is the default.
        note: Information for users.
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
        """Return whether users must build the program of an entry because there are no build commands."""
        return not entry.adapter and not entry.program

    def default_version(self, entry: Entry) -> str:
        if entry.adapter or not self.source:
            return entry.version or self.version
        return self.source.revision

    @property
    def listed(self) -> list[str]:
        """Selectors of the entries that can run, with the versions that the descriptor lists."""
        return [
            self.selector(entry) + (f"=={self.default_version(entry)}" if self.manager else "")
            for entry in self.entries
            if not self.by_hand(entry)
        ]

    def fits(self, version: str) -> bool:
        """Return whether the adapters support a version. An unparsable version counts as supported."""
        try:
            return not self.oldest or Version(version) >= Version(self.oldest)
        except ValueError:  # also raised for numbers with too many digits
            return True

    def requirements(self, version: str, entry: Entry) -> list[str]:
        alone = any(e.public and e.public.requires and e.whole == entry for e in self.entries)
        needed = (*(self.install.requires if self.install and not alone else ()), *entry.requires)
        return [text.replace("{version}", version) for text in needed]


class LocatedDescriptor(Descriptor, frozen=True, kw_only=True):
    """A descriptor and its folder. ``outside`` is true if the folder is not part of this project."""

    folder: Path
    outside: bool

    def expected_failures(self, entry: Entry) -> Path:
        name = f"_{entry.name.replace('-', '_')}" if entry.name else ""
        return self.folder / f"expected_failures{name}.toml"


def load(path: Path, *, outside: bool = False) -> LocatedDescriptor:
    """Load a descriptor. If it is ``outside``, its adapters get absolute paths. Raises DescriptorError."""
    where = visible(str(path)) if outside else f"{path.parent.name}/{path.name}"
    try:
        found = typed(read_toml(path, MAX_BYTES), Descriptor)
    except OSError as err:  # the error message contains the file name
        raise DescriptorError(visible(str(err), 400)) from err
    except ValueError as err:
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
            return f"entry[{number}]: adapter and program are mutually exclusive"
        if entry.program and not (source and source.build):
            return f"entry[{number}].program: a program must be built from source; give source.build"
        if entry.public and bool(entry.public.why) == bool(entry.public.adapter):
            return (
                f"entry[{number}].public: give an adapter that calls it, or the reason why it cannot run here"
            )
        if found.by_hand(entry) and (source is None or source.build):
            return f"entry[{number}]: give an adapter, or a program that source.build creates"
    if source and source.build and not any(entry.program for entry in found.entries):
        return "source.build: no entry has a program"
    return ""


MAX_BYTES = 1 << 20
NAMED = re.compile(r"(?P<name>[^:=@]+)(:(?P<entry>[^=@]+))?")
"""The beginning of a selector that names a known implementation."""


def described(selector: str) -> tuple[LocatedDescriptor, Entry] | None:
    """Return the descriptor and entry that a selector names, for any version, or None."""
    match = NAMED.match(selector)
    found = descriptors().get(match["name"]) if match else None
    entry = found.entry(match["entry"] or "") if match and found else None
    return (found, entry) if found and entry else None


@cache
def descriptors() -> Mapping[str, LocatedDescriptor]:
    found = [load(path) for path in sorted(HERE.glob(f"*/{DOCUMENT}"))]
    return MappingProxyType({d.name: d for d in found})


def own_baselines() -> dict[str, Path]:
    known = [(d, e) for d in descriptors().values() for e in d.entries]
    named = {f"{d.selector(e).replace(':', '-')}.toml": d.expected_failures(e) for d, e in known}
    return {name: path for name, path in named.items() if path.is_file()}


def name_in_records(path: Path) -> str:
    """Return the name that records use for a baseline. Baselines of this project have fixed names."""
    return next((name for name, own in own_baselines().items() if own == path), path.name)


def longest_first() -> list[LocatedDescriptor]:
    """Return all descriptors, slowest first, so that running all of them finishes sooner."""
    return sorted(descriptors().values(), key=lambda found: (not found.long, found.limit_address_space))


def outside_descriptors() -> dict[str, LocatedDescriptor]:
    """Return the descriptors in the folders of ``STC_IMPLEMENTATIONS``, by name. Raises DescriptorError."""
    out: dict[str, LocatedDescriptor] = {}
    for text in filter(None, os.environ.get(OUTSIDE, "").split(os.pathsep)):
        folder = Path(text)
        if not folder.is_dir():
            raise DescriptorError(f"{OUTSIDE}: there is no folder {visible(text)}")
        for path in sorted(folder.glob(f"*/{DOCUMENT}")):
            found = load(path, outside=True)
            ours = descriptors().get(found.name)
            if found.name in out or (ours and not all(map(ours.by_hand, ours.entries))):
                raise DescriptorError(f"{visible(str(path))}: the name {found.name} is already in use")
            out[found.name] = found
    return out


def find_descriptor(name: str) -> LocatedDescriptor | None:
    """Return the descriptor with this name, or None. Raises DescriptorError."""
    ours = descriptors().get(name)
    if ours is not None and not all(map(ours.by_hand, ours.entries)):
        return ours  # even if other descriptors are broken
    return outside_descriptors().get(name) or ours
