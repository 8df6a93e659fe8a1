"""Sandboxes for tested programs, made by bubblewrap (``bwrap``).

A program can read the system, its own files and its inputs, but cannot write to them. It cannot access home
folders, other processes or the network. The only folder outside the sandbox that it can write to contains the
temporary files of the run.
"""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

RUN_FOLDER_VARIABLE = "STC_SANDBOX_FOLDER"
"""Environment variable with the folder of the run, for the harness's own processes."""
TMPFS_BYTES = 256 << 20
"""How many bytes a program can write into each of its own folders. No limit includes their memory."""
SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"),
    # Only public files in /etc, because others contain passwords.
    *("/etc/alternatives", "/etc/group", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"),
    *("/etc/localtime", "/etc/nsswitch.conf", "/etc/passwd", "/etc/ssl/certs", "/etc/ca-certificates"),
    *("/sys/devices/system/cpu", "/sys/devices/system/node"),
)
NETWORK = ("/etc/hosts", "/etc/resolv.conf")


class SandboxError(OSError):
    """No sandbox is possible here, or for this program. The message gives the reason and the remedy."""


@dataclass(frozen=True)
class Sandbox:
    """A sandbox, with network access if ``net`` is true, in which a program can write to ``folder``."""

    folder: Path
    net: bool = False

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


def too_wide(path: Path) -> bool:
    """Return whether access to a folder would include a home folder or other users' temporary files."""
    real = path.resolve()
    hidden = [*_homes(), Path(tempfile.gettempdir()).resolve().parent, Path("/tmp")]  # noqa: S108
    return any(folder.is_relative_to(real) for folder in hidden)


def ensure_run_folder() -> Path:
    """Return the folder of the run, the only one that sandboxed programs can access. Raises SandboxError."""
    if _run_folder() is None:
        require_bubblewrap()
    return own_folder()


def own_folder() -> Path:
    known = _run_folder()
    if known is not None:
        return known
    folder = Path(tempfile.mkdtemp(prefix="safetensors-sandbox-")).resolve()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    tempfile.tempdir = os.environ["TMPDIR"] = os.environ[RUN_FOLDER_VARIABLE] = str(folder)
    return folder


def _run_folder() -> Path | None:
    named = os.environ.get(RUN_FOLDER_VARIABLE)
    return Path(named) if named and Path(named).is_dir() else None


def require_bubblewrap() -> None:
    if shutil.which("bwrap") is None:
        raise SandboxError(
            "--sandbox needs bubblewrap (Linux), but the program bwrap was not found; install it (on "
            "Debian: apt-get install bubblewrap) or use a container (docs/security.md)"
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


def as_given_and_resolved(path: Path) -> Iterable[Path]:
    return (path.absolute(), path.resolve())


def paths_named_by(argv: Sequence[str]) -> Iterator[Path]:
    """Yield the program and the files that a command line names, even if it begins with ``env``."""
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
        for path in as_given_and_resolved(given):
            yield path
            # Interpreters find their library next to their folder, and adapters find modules in theirs.
            root = path.parent.parent if path.parent.name == "bin" else path.parent
            if path.is_file() and not too_wide(root) and root.parent not in _homes():
                yield root
