"""What a tested program can access: listed environment variables and, on request, a sandbox.

The sandbox uses bubblewrap (``bwrap``). The program has read-only access to the system, its own files and its
inputs. It sees no home folder, no other processes and no network. Outside the sandbox it can write to a
single folder, which contains the temporary files of the run.
"""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

import psutil

from .container import READ_ONLY_STEPS, ContainerChild
from .process import Child
from .supervision import Template
from .variables import checked_names, child_variables

if TYPE_CHECKING:
    from ..implementations.selectors import Target


RUN_FOLDER_VARIABLE = "STC_SANDBOX_FOLDER"
"""Environment variable with the folder of the run, for the harness's own processes."""
TMPFS_BYTES = 256 << 20
"""How many bytes a program can write into each of its own folders. They use memory that no limit counts."""
SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"),
    # Only public files in /etc, because others contain passwords.
    *("/etc/alternatives", "/etc/group", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"),
    *("/etc/localtime", "/etc/nsswitch.conf", "/etc/passwd", "/etc/ssl/certs", "/etc/ca-certificates"),
    *("/sys/devices/system/cpu", "/sys/devices/system/node"),
)
NETWORK = ("/etc/hosts", "/etc/resolv.conf")
SEARCH_PATHS = ("PYTHONPATH", "NODE_PATH", "CLASSPATH", "LD_LIBRARY_PATH", "JAVA_HOME", "DOTNET_ROOT")
_PACKAGE = Path(__file__).resolve().parents[1]


class SandboxError(OSError):
    """A sandbox is impossible on this machine or for this program.

    The message gives the reason and the remedy.
    """


@dataclass(frozen=True)
class Sandbox:
    """A sandbox with network access if ``net`` is true. The program can write to the outside ``folder``."""

    folder: Path
    net: bool = False

    def wrap(
        self, argv: Sequence[str], target: Target, variables: Mapping[str, str], shown: Iterable[Path]
    ) -> list[str]:
        here = Path.cwd()
        paths = [path for given in shown for path in _as_given_and_resolved(given)]
        return self.command_line(argv, [*paths, *_shown_to(argv, target, variables, here)], here)

    def command_line(self, argv: Sequence[str], shown: Iterable[Path], here: Path) -> list[str]:
        own_home = _homes()[0]
        out = ["bwrap", "--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts"]
        out += ["--unshare-cgroup-try", *([] if self.net else ["--unshare-net"])]
        out += ["--die-with-parent", "--cap-drop", "ALL", "--hostname", "sandbox"]
        for path in map(Path, (*SYSTEM, *(NETWORK if self.net else ()))):
            if path.is_symlink() and path.parent == Path("/"):
                out += ["--symlink", str(path.readlink()), str(path)]
            else:
                out += ["--ro-bind-try", str(path), str(path)]
        out += ["--proc", "/proc", "--dev", "/dev"]
        for own in dict.fromkeys(("/tmp", "/var/tmp", "/dev/shm", str(own_home))):  # noqa: S108 - inside
            out += ["--size", str(TMPFS_BYTES), "--tmpfs", own]
        out += ["--dir", str(here)]
        outermost = list(map(Path, SYSTEM))
        for path in sorted(set(shown)):
            if not any(path.is_relative_to(known) for known in outermost):
                outermost.append(path)
                out += ["--ro-bind", str(path), str(path)]
        out += ["--bind", str(self.folder), str(self.folder), "--remount-ro", "/", "--chdir", str(here)]
        out += ["--setenv", "HOME", str(own_home), "--setenv", "TMPDIR", "/tmp"]  # noqa: S108 - inside
        return [*out, "--", *argv]


class SandboxedChild(Child):
    """A child that bubblewrap runs. Bubblewrap forwards the program's output."""

    signals_as_status = True
    _program: int | None = None

    @property
    def program_pid(self) -> int:
        if self._program is None:
            try:
                leaders = psutil.Process(self.pid).children()
                programs = [program for leader in leaders for program in leader.children()]
            except psutil.Error:
                programs = []
            if not programs:
                return self.pid
            self._program = programs[0].pid
        return self._program


def _shown_to(
    argv: Sequence[str], target: Target, variables: Mapping[str, str], here: Path
) -> Iterator[Path]:
    if target.user_provided:
        if too_wide(here):
            raise SandboxError(
                f"--sandbox gives a program access to the current folder, but {here} contains your home "
                "folder or other users' temporary files; change to the folder of the program"
            )
        yield from _as_given_and_resolved(here)
    folders = [_PACKAGE]
    if target.environment is not None:
        folders.append(target.environment.folder)
    if target.kind == "host":
        folders += map(Path, (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix))
        if target.environment is None:
            folders += [Path(entry) for entry in sys.path if entry]
    for name in SEARCH_PATHS:
        folders += [Path(entry) for entry in variables.get(name, "").split(os.pathsep) if entry]
    for folder in folders:
        if folder.exists() and not too_wide(folder):
            yield from _as_given_and_resolved(folder)
    yield from paths_named_by(argv)


def too_wide(path: Path) -> bool:
    """Return whether access to a folder would include a home folder or other users' temporary files."""
    real = path.resolve()
    hidden = [*_homes(), Path(tempfile.gettempdir()).resolve().parent, Path("/tmp")]  # noqa: S108
    return any(folder.is_relative_to(real) for folder in hidden)


def ensure_run_folder() -> Path:
    """Return the folder of the run, and create it if needed. Raises SandboxError.

    From then on, this process and its children create their temporary files in this folder, because it is the
    only one that a sandboxed program can access.
    """
    if run_folder() is None:
        require_bubblewrap()
    return own_folder()


def own_folder() -> Path:
    known = run_folder()
    if known is not None:
        return known
    folder = Path(tempfile.mkdtemp(prefix="safetensors-sandbox-")).resolve()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    tempfile.tempdir = os.environ["TMPDIR"] = os.environ[RUN_FOLDER_VARIABLE] = str(folder)
    return folder


def run_folder() -> Path | None:
    named = os.environ.get(RUN_FOLDER_VARIABLE)
    return Path(named) if named and Path(named).is_dir() else None


def require_bubblewrap() -> None:
    if shutil.which("bwrap") is None:
        raise SandboxError(
            "--sandbox needs bubblewrap (Linux), but there is no program named bwrap here; install it, "
            "on Debian with: apt-get install bubblewrap; or use a container (docs/security.md)"
        )
    argv = ["bwrap", "--unshare-user", "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/"]
    argv += ["--proc", "/proc", "--dev", "/dev", "--", shutil.which("true") or "true"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as err:
        raise SandboxError(f"--sandbox: bwrap cannot be run: {err}") from err
    if done.returncode:
        said = "".join(c for c in done.stderr.strip()[-200:] if c.isprintable())
        raise SandboxError(
            f"--sandbox: bwrap cannot create a sandbox here ({said}); are unprivileged user namespaces "
            "allowed? Some systems and most containers forbid them (docs/security.md)"
        )


def _homes() -> list[Path]:
    named = [os.environ.get("HOME", ""), pwd.getpwuid(os.getuid()).pw_dir]
    found = [Path(name).resolve() for name in named if name.startswith("/") and Path(name) != Path("/")]
    return list(dict.fromkeys(found)) or [Path("/home/nobody")]


def _as_given_and_resolved(path: Path) -> Iterable[Path]:
    return (path.absolute(), path.resolve())


def paths_named_by(argv: Sequence[str]) -> Iterator[Path]:
    """Yield the program and the files that a command line names, even after ``env NAME=VALUE``."""
    words = list(argv)
    programs = words[:1]
    if Path(words[0]).name == "env":
        programs += [word for word in words[1:] if "=" not in word][:1]
    found = [Path(path) for path in map(shutil.which, programs) if path]
    for word in words[1:]:
        where = word.rpartition(":")[0] if ".py:" in word else word
        if "/" in where and Path(where).exists():
            found.append(Path(where))
    for given in found:
        for path in _as_given_and_resolved(given):
            yield path
            # An interpreter finds its library next to its own folder, and an adapter finds modules in its own
            # folder.
            root = path.parent.parent if path.parent.name == "bin" else path.parent
            if path.is_file() and not too_wide(root) and root.parent not in _homes():
                yield root


@dataclass(frozen=True)
class Confinement:
    """What a tested program can access: its environment variables, the sandbox, and extra input files."""

    env: tuple[str, ...] = ()
    sandbox: Sandbox | None = None
    shown: tuple[Path, ...] = ()

    @classmethod
    def of(cls, env: Sequence[str], *, sandbox: bool, net: bool) -> Self:
        try:
            names = checked_names(env)
        except ValueError as err:
            raise ValueError(f"--env {err}") from err
        if net and not sandbox:
            raise ValueError("--sandbox-net is an option of the sandbox; give --sandbox, too")
        return cls(names, Sandbox(ensure_run_folder(), net) if sandbox else None)

    def with_shown(self, *paths: Path) -> Self:
        return replace(self, shown=(*self.shown, *paths))

    def reachable(self, steps: Iterable[str], target: Target | None = None) -> tuple[str, ...]:
        """Return the steps that work with this confinement.

        Servers need network access; containers cannot write.
        """
        if target is not None and target.kind == "oci":
            return tuple(step for step in steps if step in READ_ONLY_STEPS)
        alone = self.sandbox is not None and not self.sandbox.net
        return tuple(step for step in steps if step != "remote" or not alone)

    def template(self, argv: Sequence[str], target: Target) -> Template | None:
        """Return a template, or None if forks are unreliable or impossible. Raises OSError."""
        forks = target.kind == "host" and target.descriptor is not None and target.descriptor.forks
        if not forks or self.sandbox is not None or sys.platform != "linux":
            return None
        return Template(argv, child_variables(self.env))

    def start(
        self, argv: Sequence[str], target: Target, memory_bytes: int, template: Template | None = None
    ) -> Child:
        variables = child_variables(self.env)
        if target.kind == "oci":
            if self.sandbox is not None:
                raise SandboxError("a container is already a sandbox: leave out --sandbox")
            return ContainerChild(argv, memory_bytes, variables, (own_folder(), *self.shown), self.env)
        if self.sandbox is None:
            return Child(argv, memory_bytes, variables, template)
        return SandboxedChild(self.sandbox.wrap(argv, target, variables, self.shown), memory_bytes, variables)
