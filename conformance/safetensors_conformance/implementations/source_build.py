"""Fetch and check the source of implementations, and build them without network access.

Each build has its own folder among the environments, which contains:

=============  =====================================================================================
``source``     the fetched source without history; absent for cargo, go, maven and npm
``around``     a copy of the descriptor's folder, with the program that wraps the reader
``built``      an initially empty folder for the results of the build
=============  =====================================================================================

A build runs untrusted code, so it has no network access and, in bubblewrap, no access to the user's files.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import json

from safetensors_reports.text import visible

from ..programs.launcher import build_variables, installer_variables
from ..programs.sandbox import Sandbox, SandboxError, paths_named_by, require_bubblewrap
from .commands import InstallError, missing_programs, run
from .descriptor import DOCUMENT, LocatedDescriptor, Source

LOCAL = "local"
"""Revision of a build from the user's own checkout."""
PARTS = ("source", "around", "built")
_SETTINGS = ("java-*", "maven*", "mono", "R")
"""Toolchain settings under ``/etc``. They contain no secrets."""


@dataclass(frozen=True)
class Manager:
    """How a package manager fetches dependencies into ``{cache}``. ``prints`` is the file for its output."""

    manifest: str
    fetch: tuple[str, ...]
    add: tuple[str, ...] = ()
    fetching: Mapping[str, str] = field(default_factory=dict)
    building: Mapping[str, str] = field(default_factory=dict)
    prints: str = ""


_GO = {"GOMODCACHE": "{cache}/modules", "GOFLAGS": "-modcacherw", "GOTOOLCHAIN": "local"}
_NPM = ("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund")
_MAVEN = {"MAVEN_OPTS": "-Dmaven.repo.local={cache} -Drevision={revision}"}
MANAGERS = {
    "cargo": Manager(
        "Cargo.toml",
        ("cargo", "vendor", "--quiet", "{cache}/vendor"),
        ("cargo", "add", "--quiet", "{address}@={revision}"),
        building={"CARGO_HOME": "{cache}/home", "CARGO_NET_OFFLINE": "true"},
        prints=".cargo/config.toml",
    ),
    "go": Manager(
        "go.mod",
        ("go", "mod", "download"),
        ("go", "get", "{address}@{revision}"),
        _GO,
        _GO | {"GOCACHE": "{cache}/objects", "GOPROXY": "off"},
    ),
    "maven": Manager(
        "pom.xml", ("mvn", "-B", "-q", "dependency:go-offline"), fetching=_MAVEN, building=_MAVEN
    ),
    "npm": Manager("package.json", _NPM, (*_NPM, "--save-exact", "{address}@{revision}")),
}
_GIT = {
    # Ignore settings of the user and the system, and forbid password helpers and other transports.
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "https:file",
    "GIT_LFS_SKIP_SMUDGE": "1",
}


@dataclass(frozen=True)
class Build:
    """One build of an entry in its own ``folder``. ``revision`` is a commit, a version, or ``local``."""

    descriptor: LocatedDescriptor
    source: Source
    revision: str
    folder: Path

    @property
    def name(self) -> str:
        return f"{self.descriptor.name} {self.revision}"

    @property
    def needs(self) -> tuple[str, ...]:
        """Inputs of the build: the descriptor's source, revision, commands and files."""
        if not self.source.build:
            return ()
        digest = hashlib.sha256(json.encode(self.source))
        for path in sorted(self.descriptor.folder.rglob("*")):
            if not path.is_file() or path.name == DOCUMENT or "__pycache__" in path.parts:
                continue
            name = path.relative_to(self.descriptor.folder)
            digest.update(f"\0{name}\0".encode("utf-8", "surrogateescape"))
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        return (self.source.kind, self.source.address, self.revision, digest.hexdigest())

    def filled(self, argv: Sequence[str], **more: str) -> tuple[str, ...]:
        parts = {part: str(self.folder / part) for part in PARTS} | {"revision": self.revision} | more
        if self.source.kind in MANAGERS:
            parts["source"] = parts["around"]
        words = list(argv)
        for name, value in parts.items():
            words = [word.replace(f"{{{name}}}", value) for word in words]
        return tuple(words)

    def check(self, checkout: Path | None, *, network: bool) -> None:
        """Check that a build is possible here, before anything is fetched. Raises InstallError."""
        name, kind = self.descriptor.name, self.source.kind
        if self.revision == LOCAL and checkout is None:
            raise InstallError(f"{name} has not been built yet; run: stc impl sync {name} --source DIR")
        if checkout is not None and kind in MANAGERS:
            raise InstallError(
                f"{kind} fetches {name} and needs a version; run: stc impl sync {name}@VERSION"
            )
        if not self.source.build:
            raise InstallError(
                f"{name} must be built by hand, because there are no build commands for it. Build "
                f"{self.source.revision} of {self.source.address}, then give the program: --impl "
                f"{name}=cmd:PROGRAM; or add build commands in your own descriptor "
                "(docs/add-an-implementation.md)"
            )
        git = ["git"] if kind == "git" and self.revision != LOCAL else []
        managers = [self._manager.fetch[0]] if self._manager else []
        if gone := missing_programs([*git, *managers, *self.source.toolchain]):
            raise InstallError(f"{name} cannot be built: {gone}")
        if not network:
            _without_network()

    @property
    def _manager(self) -> Manager | None:
        return MANAGERS.get(self.source.kind) or MANAGERS.get(self.source.dependencies or "")

    def make(self, on_line: Callable[[str], None], checkout: Path | None, *, network: bool) -> None:
        """Fetch and build in a new folder. If this raises InstallError, the folder is not removed."""
        self.folder.mkdir(parents=True)
        (self.folder / "built").mkdir()
        _copy(self.descriptor.folder, self.folder / "around", DOCUMENT)
        (self.folder / "cache").mkdir()
        if checkout is not None:
            _copy(checkout, self.folder / "source")
        elif self.source.kind == "git":
            self._clone(on_line)
        elif self.source.kind == "pip":
            self._unpack(on_line)
        variables = build_variables()
        if self._manager:
            variables |= self._dependencies(self._manager, on_line)
        wrap: CommandWrapper = (lambda argv, _: list(argv)) if network else _without_network()
        for command in self.source.build:
            what = f"{self.name} cannot be built: {visible(' '.join(command))}"
            run(wrap(self.filled(command), self), variables, what, on_line, folder=self.place)
        for entry in self.descriptor.entries:
            if entry.program and shutil.which(self.filled(entry.program)[0]) is None:
                raise InstallError(
                    f"{self.name} cannot be used: the build did not create {visible(entry.program[0])}"
                )

    @property
    def place(self) -> Path:
        source = self.folder / "source"
        return source if source.is_dir() else self.folder / "around"

    def _clone(self, on_line: Callable[[str], None]) -> None:
        """Fetch one commit without its history or submodules."""
        source = self.folder / "source"
        git = ("git", "-C", str(source), "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
        slow = ("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60")
        wanted = ("--", self.source.address, self.revision)
        source.mkdir()
        for command in (
            (*git, "init", "--quiet", "--template="),
            (*git, *slow, "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", *wanted),
            (*git, "checkout", "--quiet", "--detach", self.revision),
        ):
            what = f"{self.name} cannot be fetched from {visible(self.source.address)}"
            run(command, installer_variables() | _GIT, what, on_line, folder=source)
        shutil.rmtree(source / ".git")
        _check_tree(source)

    def _unpack(self, on_line: Callable[[str], None]) -> None:
        cache, source = self.folder / "cache", self.folder / "source"
        what = f"{self.name} cannot be fetched"
        pip = [sys.executable, "-P", "-m", "pip", "download", "--no-input", "--disable-pip-version-check"]
        pip += ["--progress-bar", "off", "--no-deps", "--no-binary=:all:", f"--dest={cache}"]
        pip.append(f"{self.source.address}=={self.revision}")
        run(pip, installer_variables(), what, on_line, folder=self.folder)
        (archive,) = cache.iterdir()
        try:
            with tarfile.open(archive) as file:
                file.extractall(cache / "unpacked", filter="data")
            (top,) = (cache / "unpacked").iterdir()
        except (tarfile.TarError, TypeError, ValueError) as err:
            raise InstallError(f"{what}: {visible(archive.name)}: {visible(str(err))}") from err
        top.rename(source)
        _check_tree(source)

    def _dependencies(self, manager: Manager, on_line: Callable[[str], None]) -> dict[str, str]:
        places = [self.folder / "around", self.folder / "source"]
        place = next((p for p in places if (p / manager.manifest).is_file()), None)
        if place is None:
            raise InstallError(f"{self.name} cannot be built: it does not contain {manager.manifest}")
        placeholders = {"cache": str(self.folder / "cache"), "address": self.source.address}
        variables = installer_variables() | self._variables(manager.fetching, placeholders)
        what = f"{self.name}: the dependencies cannot be fetched"
        add = [manager.add] if manager.add and self.source.kind in MANAGERS else []
        for command in (*add, manager.fetch):
            lines = run(self.filled(command, **placeholders), variables, what, on_line, folder=place)
        if manager.prints:
            path = self.folder / manager.prints
            path.parent.mkdir()
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return self._variables(manager.building, placeholders)

    def _variables(self, of: Mapping[str, str], placeholders: Mapping[str, str]) -> dict[str, str]:
        return dict(zip(of, self.filled(list(of.values()), **placeholders), strict=True))

    def shown(self, argv: Sequence[str]) -> Iterator[Path]:
        """Yield the toolchain's paths. A build may read these, the system and its own folder."""
        for program in (argv[0], *self.source.toolchain):
            yield from paths_named_by([program])
        for pattern in _SETTINGS:
            yield from Path("/etc").glob(pattern)
        rustup = Path(os.environ.get("RUSTUP_HOME") or Path.home() / ".rustup")
        if rustup.is_dir():
            yield rustup.resolve()


CommandWrapper = Callable[[Sequence[str], Build], list[str]]


def _without_network() -> CommandWrapper:
    """Return a way to cut a command off from the network on this machine. Raises InstallError."""
    try:
        require_bubblewrap()
    except SandboxError:
        pass
    else:
        return lambda argv, build: Sandbox(build.folder).command_line(argv, build.shown(argv), build.place)
    try:
        if subprocess.run(_UNSHARE, capture_output=True, timeout=20, check=False).returncode == 0:
            return lambda argv, _: [*_UNSHARE[:-1], *argv]
    except (OSError, subprocess.TimeoutExpired):
        pass
    raise InstallError(
        "network access cannot be disabled for builds on this machine: neither bwrap (bubblewrap) nor "
        "unshare works; to build with network access: stc impl sync --build-with-network"
    )


_UNSHARE = ["unshare", "--user", "--map-root-user", "--net", "--", "true"]


def _copy(folder: Path, to: Path, *left_out: str) -> None:
    """Copy a folder without its history. The original stays unchanged. Raises InstallError."""
    _check_tree(folder)
    ignored = shutil.ignore_patterns(".git", "__pycache__", *left_out)
    try:
        shutil.copytree(folder, to, symlinks=True, ignore=ignored)
    except (OSError, shutil.Error) as err:
        raise InstallError(f"{visible(str(folder))} cannot be copied: {visible(str(err), 400)}") from err


def _check_tree(folder: Path) -> None:
    """Check that a source contains only files, folders, and links that stay inside. Raises InstallError."""
    root = folder.resolve()
    for place, folders, files in os.walk(folder):
        if ".git" in folders:
            folders.remove(".git")
        for name in (*folders, *files):
            path = Path(place, name)
            found = path.lstat().st_mode
            shown = visible(str(path.relative_to(folder)))
            if stat.S_ISLNK(found):
                try:
                    stays = not path.readlink().is_absolute() and path.resolve().is_relative_to(root)
                except (OSError, RuntimeError):  # a link to itself
                    stays = False
                if not stays:
                    raise InstallError(f"the source contains a link that points outside: {shown}")
            elif not (stat.S_ISREG(found) or stat.S_ISDIR(found)):
                raise InstallError(
                    f"the source contains an entry that is neither a file nor a folder: {shown}"
                )
