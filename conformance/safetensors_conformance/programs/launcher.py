"""Start programs with harmless variables, so that no process outlives its program or the harness.

Programs inherit only the environment variables that are known to be harmless, and no tokens. Their small
files are in memory where this is possible. Ctrl-C, SIGTERM and SIGHUP end a run but keep its results so far.

On Linux, a keeper process (``host/keeper.py``) sits between the harness and each program. It kills
everything that the program started, in any session or process group, even if the harness itself is killed. On
other systems, a program has no keeper: the harness kills its process group and the descendants it has seen.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Self, TypeAlias

import psutil

from .sandbox import Sandbox, ensure_run_folder

FOR_TESTED = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ", "LANG", "LANGUAGE", "LC_*"),
    *("TMPDIR", "TEMP", "TMP", "SYSTEMROOT"),
    # Locations of interpreters and libraries.
    *("LD_LIBRARY_PATH", "LD_PRELOAD", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH"),
    *("DYLD_INSERT_LIBRARIES", "PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV", "PYENV_ROOT", "PYENV_VERSION"),
    *("NODE_PATH", "JAVA_HOME", "CLASSPATH", "DOTNET_ROOT", "GOROOT", "CARGO_HOME", "RUSTUP_HOME"),
    # Python settings.
    *("PYTHONDONTWRITEBYTECODE", "PYTHONFAULTHANDLER", "PYTHONHASHSEED", "PYTHONIOENCODING"),
    *("PYTHONMALLOC", "PYTHONNOUSERSITE", "PYTHONUNBUFFERED", "PYTHONUTF8", "PYTHONWARNINGS"),
    # Memory checkers and crash reports.
    *("ASAN_OPTIONS", "LSAN_OPTIONS", "MSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"),
    *("ASAN_SYMBOLIZER_PATH", "GLIBC_TUNABLES", "MALLOC_PERTURB_", "MALLOC_ARENA_MAX", "RUST_BACKTRACE"),
    # Thread counts and devices.
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"),
    *("CUDA_*", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"),
    *("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "JAX_PLATFORMS"),
)
"""Names of variables, and patterns for names, that are passed to a tested program if they are set."""
FOR_BUILDS = (
    *FOR_TESTED,
    *("CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "PKG_CONFIG_PATH", "RUSTUP_TOOLCHAIN"),
    "MACOSX_DEPLOYMENT_TARGET",
)
"""The same for builds from source, without the variables for fetching."""
FOR_INSTALLERS = (
    *FOR_BUILDS,
    # Package index and proxies. A URL may contain the password of a private index.
    *("PIP_*", "UV_*", "NPM_CONFIG_*", "npm_config_*", "GOPROXY", "GOSUMDB"),
    *("XDG_CACHE_HOME", "XDG_CONFIG_HOME"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO"),
    "NODE_EXTRA_CA_CERTS",
)
"""The same for pip, uv, npm and git, which run code from the packages that they build."""
_SCRIPT = Path(__file__).parents[1] / "host" / "keeper.py"
_NEEDED = ("LD_LIBRARY_PATH", "PATH")
"""Variables that the interpreter of the supervisor needs to start. Any tested program can read them."""
START_SECONDS = 60.0
GONE_SECONDS = 8.0


def child_variables(named: Iterable[str] = (), own: Mapping[str, str] | None = None) -> dict[str, str]:
    # Without this variable, results of Python readers that iterate over a set of names would vary.
    return {"PYTHONHASHSEED": "0", **_chosen((*FOR_TESTED, *named)), **(own or {})}


def checked_names(names: Iterable[str]) -> tuple[str, ...]:
    distinct = tuple(dict.fromkeys(names))
    for name in distinct:
        if "=" in name or not name:
            raise ValueError(
                f"{name.partition('=')[0]!r}: give only the name of a variable that is set, without a value"
            )
        if name not in os.environ:
            raise ValueError(f"{name}: this variable is not set; set it for this command")
    return distinct


def installer_variables() -> dict[str, str]:
    return _chosen(FOR_INSTALLERS)


def build_variables() -> dict[str, str]:
    return _chosen(FOR_BUILDS)


def _chosen(patterns: Iterable[str]) -> dict[str, str]:
    names = {pattern for pattern in patterns if "*" not in pattern}
    wild = [pattern for pattern in patterns if "*" in pattern]
    return {
        name: value
        for name, value in os.environ.items()
        if name in names or any(fnmatchcase(name, pattern) for pattern in wild)
    }


@dataclass(frozen=True)
class Confinement:
    """What a tested program can access: its environment variables, its sandbox, and extra input files."""

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
            raise ValueError("--sandbox-net applies only to a sandbox; give --sandbox, too")
        return cls(names, Sandbox(ensure_run_folder(), net) if sandbox else None)

    def with_shown(self, *paths: Path) -> Self:
        return replace(self, shown=(*self.shown, *paths))


MEMORY_FOLDER = "/dev/shm"  # noqa: S108
_ROOM = 1 << 30
"""Minimum free space in bytes of a folder in memory. Containers often have only 64 MiB there."""


def folder_in_memory() -> str | None:
    """Return a folder in memory for small files, or None to use the default folder.

    On a disk, creating a file near files that were just removed takes up to a millisecond. None is returned
    if the user or a sandbox chose the folder for temporary files, and on systems where a program cannot read
    files in memory with O_DIRECT (Linux before 6.6).
    """
    if sys.platform != "linux" or tempfile.gettempdir() != "/tmp":  # noqa: S108
        return None
    try:
        os.close(os.open(MEMORY_FOLDER, os.O_TMPFILE | os.O_RDWR | os.O_DIRECT, 0o600))
        free = os.statvfs(MEMORY_FOLDER)
    except OSError:
        return None
    return MEMORY_FOLDER if free.f_bavail * free.f_frsize >= _ROOM else None


def start(argv: Sequence[str], env: Mapping[str, str]) -> StartedProgram:
    """Start a program with pipes in its own session. Raises the same OSError as ``Popen``."""
    if sys.platform == "linux":
        for _ in range(3):  # a program that kills the supervisor also destroys the requests of other programs
            with contextlib.suppress(_NoSupervisorError):
                return _supervised(partial(_supervisor.ask, argv, env), *_pipes())
    return PlainProcess(argv, env)


_Three: TypeAlias = tuple[int, int, int]
"""Descriptors of a standard input, output and error."""


def _pipes() -> tuple[_Three, _Three]:
    (in_r, in_w), (out_r, out_w), (err_r, err_w) = os.pipe(), os.pipe(), os.pipe()
    return (in_r, out_w, err_w), (in_w, out_r, err_r)


def _supervised(ask: Callable[[Sequence[int]], None], theirs: _Three, ours: _Three) -> SupervisedProcess:
    """Start a program with a keeper. ``ask`` sends the request with the descriptors for the program."""
    with contextlib.ExitStack() as sent, contextlib.ExitStack() as failed:
        sent.callback(_close, *theirs)
        failed.callback(_close, *ours)
        keeper, far = socket.socketpair()
        failed.callback(keeper.close)
        with far:
            ask([*theirs, far.fileno()])
        program = SupervisedProcess(keeper, ours)
        failed.pop_all()
        return program


def _close(*fds: int) -> None:
    for fd in set(fds):
        with contextlib.suppress(OSError):
            os.close(fd)


def _request(link: socket.socket, argv: Sequence[str], env: Mapping[str, str], fds: Sequence[int]) -> None:
    """Send a request to start a program, in the format of ``host/keeper.py``. Raises OSError."""
    try:
        cwd: str | None = os.getcwd()  # noqa: PTH109 - a text goes over the wire
    except OSError:
        cwd = None
    text = json.dumps({"argv": list(argv), "env": dict(env), "cwd": cwd}).encode()
    socket.send_fds(link, [len(text).to_bytes(4, "little")], list(fds))
    link.sendall(text)


class _NoSupervisorError(Exception):
    """The supervisor cannot be started here, or it died before it answered."""


class _Supervisor:
    """The only supervisor of this process. It is started on first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._popen: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def ask(self, argv: Sequence[str], env: Mapping[str, str], fds: Sequence[int]) -> None:
        with self._lock:
            try:
                _request(self._running(), argv, env, fds)
            except OSError as err:  # a program may have killed the supervisor
                self._forget()
                raise _NoSupervisorError from err

    def _running(self) -> socket.socket:
        if self._owner != os.getpid():  # this process is a fork of the one that started it
            self._socket = self._popen = None
        if self._socket is None:
            ours, theirs = socket.socketpair()
            with theirs:
                self._popen = subprocess.Popen(
                    [sys.executable, "-IS", "-X", "utf8", str(_SCRIPT), str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                    env={name: os.environ[name] for name in _NEEDED if name in os.environ},
                )
            self._socket, self._owner = ours, os.getpid()
        return self._socket

    def _forget(self) -> None:
        if self._owner != os.getpid():
            return
        if self._socket is not None:
            self._socket.close()
        if self._popen is not None:
            self._popen.kill()
            self._popen.wait()
        self._socket = self._popen = None

    def close(self) -> None:
        with self._lock:
            self._forget()


_supervisor = _Supervisor()
atexit.register(_supervisor.close)


class SupervisedProcess:
    """A program with a keeper, and our ends of its pipes."""

    def __init__(self, keeper: socket.socket, ours: _Three) -> None:
        """Wait for the start. Raises OSError, or _NoSupervisorError if no supervisor answers."""
        self.stdin, self.stdout, self.stderr = ours
        self.status: int | None = None
        self.spent: float | None = None
        self._socket = keeper
        self._text = bytearray()
        self._gone = self._lost = False
        self._descendants: set[psutil.Process] = set()
        started = self._hear(START_SECONDS)
        if started is None:
            raise _NoSupervisorError
        if "pid" not in started:
            raise OSError(started["errno"], started["strerror"], started["filename"])
        self.pid = int(started["pid"])
        self._keeper: psutil.Process | None = None
        with contextlib.suppress(psutil.Error):
            self._keeper = psutil.Process(int(started["keeper"]))

    def _hear(self, seconds: float | None) -> dict[str, Any] | None:
        until = None if seconds is None else time.monotonic() + seconds
        while b"\n" not in self._text:
            left = None if until is None else max(until - time.monotonic(), 0)
            if not select.select([self._socket], [], [], left)[0]:
                return None
            try:
                chunk = self._socket.recv(1 << 12)
            except OSError:
                chunk = b""
            if not chunk:
                self._lose()
                return None
            self._text += chunk
        line, _, rest = bytes(self._text).partition(b"\n")
        self._text = bytearray(rest)
        message: dict[str, Any] = json.loads(line)
        if "status" in message:
            self.status, self.spent = message["status"], message["spent"]
        self._gone |= message.get("gone", False)
        return message

    def _lose(self) -> None:
        """Record that the keeper died, probably killed by the program. The kernel then kills the program."""
        self._lost = True
        if self.status is None:
            self.status = -signal.SIGKILL

    def family(self) -> list[psutil.Process]:
        """Return all processes of the program that can be found."""
        try:
            family = [] if self._keeper is None else self._keeper.children(recursive=True)
        except psutil.Error:
            return []
        self._descendants.update(family)
        return family

    def wait(self, seconds: float | None) -> int | None:
        until = None if seconds is None else time.monotonic() + seconds
        while self.status is None:
            left = None if until is None else max(until - time.monotonic(), 0)
            if self._hear(left) is None and not left:
                break
        return self.status

    def kill_all(self) -> None:
        if self._socket.fileno() < 0:
            return
        if not self._gone:
            with contextlib.suppress(OSError):
                self._socket.send(b"k")
        until = time.monotonic() + GONE_SECONDS
        while not self._gone and not self._lost and time.monotonic() < until:
            self._hear(max(until - time.monotonic(), 0))
        if not self._gone:
            # The program stopped or killed its keeper, so kill all of its known processes.
            for process in [*self.family(), *self._descendants, *([self._keeper] if self._keeper else [])]:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            self._lose()
        self._socket.close()


class Template:
    """A Python host that only forks (``host/keeper.py``), on Linux only. Forks inherit ``env``."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        self._link, theirs = socket.socketpair()
        null = os.open(os.devnull, os.O_RDWR)
        self._host: SupervisedProcess | None = None
        try:
            with contextlib.suppress(_NoSupervisorError):
                ask = partial(_supervisor.ask, [*argv, "template"], env)
                self._host = _supervised(ask, (theirs.detach(), null, null), (-1, -1, -1))
        except OSError:
            self._link.close()
            raise

    def start(self, argv: Sequence[str], env: Mapping[str, str]) -> StartedProgram:
        if self._host is not None and self._host.status is None:
            try:
                return _supervised(partial(_request, self._link, argv, env), *_pipes())
            except (OSError, _NoSupervisorError):
                self.close()
        return start(argv, env)

    def close(self) -> None:
        self._link.close()
        if self._host is not None:
            self._host.kill_all()
        self._host = None


class PlainProcess:
    """A program without a keeper, with the same interface."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        pipe = subprocess.PIPE
        self._popen = subprocess.Popen(
            list(argv), stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True, env=dict(env)
        )
        self.pid = self._popen.pid
        streams = (self._popen.stdin, self._popen.stdout, self._popen.stderr)
        # Duplicate the descriptors, because Popen closes its own streams.
        self.stdin, self.stdout, self.stderr = (os.dup(s.fileno()) for s in streams if s is not None)
        for stream in streams:
            assert stream is not None
            stream.close()
        self.status: int | None = None
        self.spent: float | None = None
        self._process: psutil.Process | None = None
        self._descendants: set[psutil.Process] = set()

    def family(self) -> list[psutil.Process]:
        try:
            if self._process is None:
                self._process = psutil.Process(self.pid)
            children = self._process.children(recursive=True)
        except psutil.Error:
            return []
        self._descendants.update(children)
        return [self._process, *children]

    def wait(self, seconds: float | None) -> int | None:
        """Wait for the end of the program with ``wait4``, the only call that reports its resource usage."""
        until = None if seconds is None else time.monotonic() + seconds
        pause = 0.0005
        while self.status is None:
            try:
                pid, status, usage = os.wait4(self.pid, 0 if until is None else os.WNOHANG)
            except ChildProcessError:  # another waiter received the status
                self.status = self._popen.returncode = 0
                break
            if pid:
                self.status = self._popen.returncode = os.waitstatus_to_exitcode(status)
                self.spent = usage.ru_utime + usage.ru_stime
            elif until is not None and time.monotonic() >= until:
                break
            else:
                time.sleep(pause)
                pause = min(2 * pause, 0.05)
        return self.status

    def kill_all(self) -> None:
        """Kill the process group, and the known descendants outside of it."""
        if self.status is None:
            self.family()  # find the descendants while this is still possible
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self.wait(None)
        for descendant in self._descendants:
            with contextlib.suppress(psutil.Error):
                descendant.kill()
        self._descendants.clear()


StartedProgram: TypeAlias = SupervisedProcess | PlainProcess


# Signals that end a run

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """Handles these signals during a ``with`` block in the main thread.

    The first signal sets ``stop`` and kills the tested programs. It raises no exception, so no line of a
    record is cut off. A second signal ends this process immediately.
    """

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.status: int | None = None
        self._before: list[tuple[signal.Signals, object]] = []

    def __enter__(self) -> Self:
        self._before = _replaced(_SIGNALS, self._handle)
        return self

    def __exit__(self, *exc: object) -> None:
        _restore(self._before)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        again, self.status = self.status is not None, 128 + number
        self.stop.set()
        end_children()
        if again:
            atexit._run_exitfuncs()  # noqa: SLF001 - temporary folders are removed there
            os._exit(self.status)


@contextlib.contextmanager
def ending_as_interrupted() -> Iterator[None]:
    """Make SIGTERM and SIGHUP raise KeyboardInterrupt in the main thread, like Ctrl-C."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = _replaced(_SIGNALS[1:], interrupt)
    try:
        yield
    finally:
        _restore(before)


def end_children() -> None:
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                child.kill()


def _replaced(numbers: tuple[signal.Signals, ...], handler: object) -> list[tuple[signal.Signals, object]]:
    if threading.current_thread() is not threading.main_thread():
        return []
    numbers = tuple(n for n in numbers if signal.getsignal(n) not in (signal.SIG_IGN, None))
    return [(number, signal.signal(number, handler)) for number in numbers]  # type: ignore[arg-type]


def _restore(before: list[tuple[signal.Signals, object]]) -> None:
    for number, handler in before:
        signal.signal(number, handler)  # type: ignore[arg-type]
