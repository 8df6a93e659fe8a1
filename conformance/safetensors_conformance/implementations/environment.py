"""Separate environments for real implementations, which are created once and then reused.

They are in the user's cache folder. An environment is complete when its marker file exists. An interrupted
installation is resumed later.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock
from rich.console import Console
from rich.markup import escape

from safetensors_corpus.packed import cache_root
from safetensors_reports.text import visible

from ..programs.files import remove as remove_folder
from ..programs.launcher import installer_variables
from .commands import CommandFailedError, InstallError, run
from .descriptor import DescriptorError, Entry, LocatedDescriptor
from .source_build import Build

MARKER = "complete.json"
_NO_PACKAGE = re.compile(
    r"No matching distribution found for|E404|ETARGET|No matching version found for"
    r"|there is no version of|was not found in the package registry|has no wheels with a matching"
)
"""What pip, npm and uv print about a package or version that does not exist."""
_ERROR = re.compile(r"(?i)\s*(npm )?err|.*\bBecause\b")
_PIP = (sys.executable, "-P", "-m", "pip")
_SETTINGS = re.compile(r"\.\S*(index|links|constraint|cert|host|proxy|binary|hash|pre)\S*=")
"""Settings of pip that control what it installs and from where. uv does not read them."""


class NoSuchVersionError(InstallError):
    """The requested version does not exist, or is not available for this platform and interpreter."""


def cache_folder() -> Path:
    """Return the folder of all environments. Raises DescriptorError if the user has no home folder."""
    try:
        root = cache_root()
    except OSError as err:
        raise DescriptorError(f"{err.strerror}; set STC_CACHE to a folder for environments") from err
    return root if os.environ.get("STC_CACHE") else root / "environments"


@dataclass(frozen=True)
class Environment:
    """The environment of one version. ``build`` is set if the implementation is built from source."""

    descriptor: LocatedDescriptor
    version: str
    requires: tuple[str, ...]
    folder: Path
    build: Build | None = None

    @property
    def ready(self) -> bool:
        try:
            known = json.loads((self.folder / MARKER).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        return bool(known.get("requires") == list(self.requires))

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"


def environment(descriptor: LocatedDescriptor, entry: Entry, version: str = "") -> Environment:
    """Return the environment for a version, or for the default version, whether it exists or not."""
    version = version or descriptor.default_version(entry)
    if not entry.adapter:
        assert descriptor.source
        folder = cache_folder() / f"{descriptor.name}-source-{version}"
        build = Build(descriptor, descriptor.source, version, folder)
        return Environment(descriptor, version, build.needs, folder, build)
    name = f"{descriptor.name}-{version}" + (f"-{entry.name}" if entry.requires else "")
    if descriptor.manager == "pip":
        name += f"-py{sys.version_info[0]}.{sys.version_info[1]}"
    requires = tuple(descriptor.requirements(version, entry))
    return Environment(descriptor, version, requires, cache_folder() / name)


def make(
    env: Environment,
    on_line: Callable[[str], None] = lambda _: None,
    *,
    checkout: Path | None = None,
    network: bool = False,
) -> None:
    """Create the environment unless it is complete. ``checkout`` is a source to copy. Raises InstallError."""
    try:
        _keep_private(env.folder.parent)
        if env.ready:
            return
        if env.build is not None:
            env.build.check(checkout, network=network)
        with FileLock(f"{env.folder}.lock"):
            if env.ready:
                return
            if env.build is None:
                _install(env, on_line)
                return
            remove_folder(env.folder)
            try:
                env.build.make(on_line, checkout, network=network)
                _mark(env)
            except BaseException:  # a failed or interrupted build leaves no folder behind
                remove_folder(env.folder)
                raise
    except OSError as err:
        raise InstallError(f"{env.folder}: {err.strerror or err}; set STC_CACHE to another folder") from err


def _keep_private(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = folder.stat()
    if found.st_uid != os.getuid():
        raise InstallError(
            f"{folder} belongs to another user (UID {found.st_uid}), who could put programs there "
            "that you would run; set STC_CACHE to a folder that you own"
        )
    if found.st_mode & 0o077:
        folder.chmod(0o700)


def remove(env: Environment) -> bool:
    there = env.folder.exists()
    remove_folder(env.folder)
    Path(f"{env.folder}.lock").unlink(missing_ok=True)
    return there


def _install(env: Environment, on_line: Callable[[str], None]) -> None:
    fresh = not env.folder.exists()
    if env.descriptor.manager == "npm":
        if shutil.which("npm") is None:
            raise InstallError(f"{env.descriptor.name} needs Node.js with npm, which is not installed")
        env.folder.mkdir(parents=True, exist_ok=True)
        install = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"]
        install += ["--prefix", str(env.folder)]
    else:
        create, install = installer_commands(env.folder, env.python)
        if not env.python.exists():
            on_line("creating a virtual environment")
            _run(create, env, on_line)
    try:
        _run([*install, *env.requires], env, on_line)
    except NoSuchVersionError:  # other installations can be resumed later
        if fresh:
            shutil.rmtree(env.folder, ignore_errors=True)
        raise
    _mark(env)


def installer_commands(folder: Path, python: Path) -> tuple[list[str], list[str]]:
    """Return a command that creates the environment, and one to which requirements can be appended.

    Both resume an interrupted installation. uv is not used if pip's settings specify package sources.
    """
    uv = shutil.which("uv")
    if uv is None or _SETTINGS.search(_pip_settings()):
        create = [sys.executable, "-P", "-m", "venv", "--without-pip", str(folder)]
        quiet = ("--no-input", "--disable-pip-version-check", "--progress-bar", "off")
        return create, [*_PIP, "--python", str(python), "install", *quiet]
    # uv reads settings from the folder that it runs in, so do not run it in the current folder.
    program = (uv, f"--directory={folder.parent}")
    create = [*program, "venv", "--no-project", "--allow-existing", f"--python={sys.executable}", str(folder)]
    # Like pip, consider the packages of all indexes and compile modules. Do not share files with a cache.
    like_pip = ("--index-strategy=unsafe-best-match", "--compile-bytecode", "--link-mode=copy")
    return create, [*program, "pip", "install", "--no-progress", *like_pip, f"--python={python}"]


def _pip_settings() -> str:
    command = [*_PIP, "config", "list"]
    variables = installer_variables()
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False).stdout


def _mark(env: Environment) -> None:
    text = json.dumps({"requires": env.requires, "version": env.version})
    with tempfile.NamedTemporaryFile("w", dir=env.folder, delete=False, encoding="utf-8") as file:
        file.write(text)
    Path(file.name).replace(env.folder / MARKER)


def _run(command: list[str], env: Environment, on_line: Callable[[str], None]) -> None:
    name = f"{env.descriptor.name} {env.version}"
    what = f"{name} cannot be installed"
    try:
        # Building a package runs its code.
        run(command, installer_variables(), what, on_line, folder=Path(), merged=True)
    except CommandFailedError as err:
        errors = [line for line in err.lines if _ERROR.match(line)]
        said = errors or [line for line in err.lines if line.strip()] or ["the installer printed nothing"]
        last = visible(said[-1].strip(), 300)
        if _NO_PACKAGE.search("\n".join(err.lines)):
            why = "there is no such version for this platform and interpreter"
            raise NoSuchVersionError(f"{name} is not available: {why} ({last})") from err
        raise InstallError(f"{what}: {last}") from err


def prepare(env: Environment, *, checkout: Path | None = None, network: bool = False) -> None:
    """Create an environment and show progress, or check that a complete one belongs to this user."""
    if env.ready:
        make(env)
        return
    if env.build is not None:
        env.build.check(checkout, network=network)
    console = Console(stderr=True)
    title = f"{'installing' if env.build is None else 'building'} {env.descriptor.name} {env.version}"
    if not console.is_terminal:
        console.print(f"{title} into {env.folder}", highlight=False, markup=False, soft_wrap=True)
        make(env, checkout=checkout, network=network)
        return
    with console.status(title) as status:

        def on_line(line: str) -> None:
            status.update(escape(f"{title}: {line[:100]}"))

        make(env, on_line, checkout=checkout, network=network)
