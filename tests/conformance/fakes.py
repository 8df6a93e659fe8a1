"""Readers that misbehave in one way each, loaded by name: ``py:fakes.py:Hangs``.

Most of them are a right reader with an act at one file, which they recognise by its bytes, so that the other
cases of the same run show whether the harness survived. They run in the real worker through the real host.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from known_files import as_bytes, content, holds

if TYPE_CHECKING:
    from .quick_reader import Reading, Reference
else:
    from quick_reader import Reading, Reference

Act = Callable[[str], Any]
"""What a reader does with the path of a file."""
BOTH, READ = ("open", "read"), ("read",)


def instead(act: Act, steps: tuple[str, ...] = BOTH, of: tuple[str, ...] = ()) -> type[Reference]:
    """Make a reader that answers the trigger, or the files ``of`` these names, with the result of an act."""

    def answering(step: str) -> Callable[[Reference, str], Any]:
        right = getattr(Reference, step)

        def method(self: Reference, path: str) -> Any:
            return act(path) if holds(path, *of) else right(self, path)

        return method

    return type("Fake", (Reference,), {"name": "fake", "version": "1.0"} | {s: answering(s) for s in steps})


def before(act: Act) -> type[Reference]:
    """Make a reader that acts, then reads as if nothing had happened, if it still can."""

    def read(path: str) -> Any:
        act(path)
        return Reference().read(path)

    return instead(read, READ)


def behind(act: Act) -> type[Reference]:
    """Make a reader that reads, then acts, then answers."""

    def read(path: str) -> Any:
        content = Reference().read(path)
        act(path)
        return content

    return instead(read, READ)


# Ends


def ignore_signals(_: str) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    while True:
        pass


def crash(_: str) -> None:
    sys.stderr.write("about to crash\n")
    sys.stderr.flush()
    ctypes.string_at(0)


def overflow_the_stack(_: str) -> None:
    # Newer Pythons stop all recursion through their own functions in time.
    ctypes.CDLL(None).regcomp(ctypes.create_string_buffer(1024), b"(" * 1_000_000, 1)


def map_what_is_cut_off(_: str) -> None:
    import tempfile

    with tempfile.TemporaryFile() as file:
        file.write(bytes(1 << 16))
        file.flush()
        view = mmap.mmap(file.fileno(), 1 << 16)
        file.truncate(0)
        bytes(view)


def eat_memory(_: str) -> None:
    hoard = []
    while True:
        hoard.append(bytearray(64 << 20))


def panic(_: str) -> None:
    raise type("PanicException", (BaseException,), {})("called `Option::unwrap()` on a `None` value")


def fork_and_die(_: str) -> None:
    """The child keeps the pipes open."""
    if os.fork() == 0:
        time.sleep(60)
    os._exit(4)


def slowly(path: str) -> Any:
    time.sleep(0.9)
    return Reference().read(path)


def lie(path: str) -> Any:
    header = Reference().open(path)
    return {**header, "tensors": [(n, d, s, bytes(8)) for n, d, s in header["tensors"]]}


Hangs = instead(lambda _: time.sleep(3600))
HangsIgnoringSignals = instead(ignore_signals)
Slow = instead(slowly)
StopsItself = before(lambda _: os.kill(os.getpid(), signal.SIGSTOP))
Crashes = instead(crash)
DiesOfNoBytes = instead(crash, of=("framing/no-bytes",))
Exits = instead(lambda _: os._exit(0))
ExitsByException = before(lambda _: sys.exit(3))
OverflowsTheStack = before(overflow_the_stack)
MapsWhatIsCutOff = before(map_what_is_cut_off)
ForksAndDies = before(fork_and_die)
EatsMemory = instead(eat_memory)
AllocatesMuch = before(lambda _: bytearray(8 << 30))
Panics = instead(panic)
ReturnsNonsense = instead(lambda _: 42)
SlipsUp = instead(lambda _: undefined_name)  # type: ignore[name-defined]  # noqa: F821
LiesAboutContent = instead(lie)

# Other effects on the process


def flood_stderr(_: str) -> None:
    while True:
        os.write(2, b"error " * 1000)


def flood_from_a_thread(path: str) -> None:
    threading.Thread(target=flood_stderr, args=(path,), daemon=True).start()


def leave_threads(_: str) -> None:
    """Threads that never end keep a Python process from ending."""
    for _number in range(3):
        threading.Thread(target=time.sleep, args=(600,)).start()


def change_the_clock(_: str) -> None:
    for name in ("time", "monotonic", "perf_counter", "process_time"):
        setattr(time, name, lambda: 1e12)


ForksAndBothAnswer = before(lambda _: os.fork())
FloodsStderr = before(flood_stderr)
FloodsStderrFromAThread = before(flood_from_a_thread)
LeavesThreads = before(leave_threads)
ChangesTheClock = before(change_the_clock)
ClosesStderr = before(lambda _: os.close(2))
ClosesEverything = before(lambda _: os.closerange(0, 64))
ChangesFolder = before(lambda _: os.chdir("/"))
LowersFileLimit = before(lambda _: resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4)))

# Effects on the input and its folder


def write_into(path: str) -> None:
    """Change a file behind the reader's back: same size, other data, the old time of change."""
    found = os.stat(path)
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\xff")
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


def replace_by(put: Act) -> type[Reference]:
    def act(path: str) -> None:
        os.unlink(path)
        put(path)

    return behind(act)


def empty_all(path: str) -> None:
    for other in Path(path).parent.iterdir():
        other.write_bytes(b"")


def move_the_folder(path: str) -> None:
    folder = Path(path).parent
    folder.rename(folder.with_name(folder.name + "-moved"))
    shutil.rmtree(folder.with_name(folder.name + "-moved"))


def dig(path: str) -> None:
    """Nest folders too deeply for recursion, and make one unreadable."""
    old = os.getcwd()
    os.chdir(os.path.dirname(path))
    os.symlink("/", "link")
    os.mkdir("closed")
    open("closed/file", "w").close()
    os.chmod("closed", 0)
    for _ in range(1500):
        os.mkdir("deep")
        os.chdir("deep")
    os.chdir(old)


Deletes = behind(os.unlink)
WritesIntoTheFile = behind(write_into)
PutsAFifo = replace_by(os.mkfifo)
LinksToZeros = replace_by(lambda path: os.symlink("/dev/zero", path))
PutsAFolder = replace_by(os.mkdir)
SpoilsAllInputs = behind(empty_all)
MovesTheFolder = behind(move_the_folder)


class DigsDeep(before(dig)):  # type: ignore[misc]
    def hold(self, path: str) -> Any:
        dig(path)
        return super().hold(path)


class TellsWhatIsBeside(Reference):
    """Reports the names of its input and the files next to it as metadata."""

    def open(self, path: str) -> Any:
        beside = " ".join(sorted(os.listdir(os.path.dirname(path))))
        return {"tensors": [], "metadata": {"name": os.path.basename(path), "beside": beside}}

    read = open

    def slice(self, path: str, tensor: str, index: Any) -> Any:
        raise ValueError


class ComplainsOfTheFile(Reference):
    """Refuses every file, with its path, its name and its folder in the message."""

    def open(self, path: str, *_: object) -> Any:
        print("opening", path)
        stem = os.path.basename(path).removesuffix(".safetensors")
        raise ValueError(f"cannot read {path} ({stem} in {os.path.dirname(path)!r})")

    read = hold = slice = open


# Effects on the folder of the report, which a variable names


def spoil_report(act: Callable[[Path], object]) -> type[Reference]:
    """Make a reader that does something once to each record in the folder of the report."""

    class Spoils(Reference):
        done = False

        def read(self, path: str) -> Any:
            folder, until = Path(os.environ["REPORT_FOLDER"]), time.monotonic() + 0.3
            while not self.done and time.monotonic() < until:
                for record in list(folder.glob("*.jsonl")):  # under pytest it is begun behind the first case
                    self.done = True
                    act(record)
                time.sleep(0.01)
            return super().read(path)

    return Spoils


def move_report(record: Path) -> None:
    record.parent.rename(record.parent.with_name("moved"))
    record.parent.symlink_to("elsewhere")


MovesTheReport = spoil_report(move_report)
RemovesTheRecord = spoil_report(Path.unlink)
ReplacesTheRecord = spoil_report(lambda record: os.replace(shutil.copy(record, f"{record}.new"), record))
ChangesTheRecord = spoil_report(lambda record: record.write_bytes(b"[" + record.read_bytes()[1:]))
LinksTheSummary = spoil_report(lambda record: record.with_name("summary.md").symlink_to("../victim"))

# Other content


def reading(change: Callable[[Any], Any], **more: Any) -> type[Reference]:
    """Make a reader that changes what it has read."""

    class Changes(Reference):
        name = "fake"
        version = "1.0"

        def read(self, path: str) -> Any:
            return change(super().read(path))

    return type("Changes", (Changes,), more)


def refuse_f32(content: Any) -> Any:
    if any(row[1] == "F32" for row in content["tensors"]):
        raise ValueError("F32 is not known here")
    return content


LosesMetadata = reading(lambda content: {**content, "metadata": {}})
NeedsNotF32 = reading(refuse_f32, lacks=("dtype-f32",))


def hand_out(memory: Callable[[int], bytes]) -> type[Reference]:
    """Make a reader that allocates room for the data and forgets to read it."""

    def changed(content: Any) -> Any:
        rows = [(name, dtype, shape, memory(len(data))) for name, dtype, shape, data in content["tensors"]]
        return {**content, "tensors": rows}

    return reading(changed)


def fresh(size: int) -> bytes:
    malloc = ctypes.CDLL(None).malloc
    malloc.restype = ctypes.c_void_p
    malloc.argtypes = [ctypes.c_size_t]
    return ctypes.string_at(malloc(size), size)


HandsOutFreshMemory = hand_out(fresh)
HandsOutRandomBytes = hand_out(os.urandom)
HandsOutZeros = hand_out(bytes)

# Readers with a memory, and readers that treat all files alike


class StuckAtFirst(Reference):
    """Hangs after another file, but is quick alone."""

    name = "fake"
    behind = False

    def open(self, path: str) -> Any:
        if holds(path) and self.behind:
            time.sleep(3600)
        self.behind = True
        return super().open(path)


class LeaksDescriptors(Reference):
    def __init__(self) -> None:
        super().__init__()
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    def read(self, path: str) -> Any:
        content = super().read(path)
        if holds(path):
            with suppress(OSError):
                while True:
                    os.open(path, os.O_RDONLY)
        return content


class GivesTheSameForEver(Reference):
    kept: Any = None

    def read(self, path: str) -> Any:
        content = self.kept or super().read(path)
        if holds(path):
            self.kept = content
        return content


class Flaps(Reference):
    """Takes another option of one choice on every second file."""

    count = 0

    def read(self, path: str) -> Any:
        if holds(path, "header/leading-*"):
            self.count += 1
            self.profile("official" if self.count % 2 else "hardened")
        try:
            return super().read(path)
        finally:
            self.profile("hardened")


class Noisy(Reference):
    """Prints on standard output, through Python and past it; the answers are right."""

    name = "fake"
    version = "1.0"

    def open(self, path: str) -> Any:
        print("opening", path)
        return super().open(path)

    def read(self, path: str) -> Any:
        print('{"seq": 1, "outcome": "accept", "tensors": []}', flush=True)
        os.write(1, b"raw noise\n")
        return super().read(path)


Small = type("Small", (Reading,), {"name": "small", "version": "1"})


class AlwaysAccepts:
    """Accepts every file and says that it is empty."""

    def open(self, path: str) -> Any:
        return {"tensors": [], "metadata": None}

    read = open


class AlwaysRejects:
    def read(self, path: str) -> Any:
        raise ValueError("no")


RefusesAll = type("RefusesAll", (AlwaysRejects,), {"open": AlwaysRejects.read})
AlwaysHangs = type("AlwaysHangs", (), {"read": lambda *_: time.sleep(3600)})
AlwaysDies = type("AlwaysDies", (), {"read": lambda *_: os._exit(5)})
NoSteps = type("NoSteps", (), {})


class OldApi(AlwaysAccepts):
    """Accepts any arguments, but lacks the function with which the adapter reads elements."""

    def read(self, path: str) -> Any:
        if holds(path, "layout/empty-tensor-inside-*"):
            return self.open(path)
        raise AssertionError("cannot view elements as bytes")


class Lazy(Reading):
    """Opens every file, and rejects invalid ones only in read."""

    def open(self, path: str) -> Any:
        with suppress(ValueError):
            return super().open(path)
        return []


# Readers on Python's json, which check no encoding


class GivesBytes:
    """An adapter for a library that returns names as bytes."""

    def read(self, path: str) -> Any:
        for name, dtype, shape, data in content(path)[0]:
            yield as_bytes(name), dtype, shape, data


class Surrogates:
    """Names and words with lone surrogates, and numbers of any size."""

    def read(self, path: str) -> Any:
        if holds(path, "framing/no-bytes", "framing/one-tensor"):
            raise ValueError("refused: \ud800 and \udcff")
        if holds(path, "layout/two-dtypes"):
            return {"tensors": [("\udfff", "F\udc80", [10**30], b"")], "metadata": {"\ud800": "\udc80"}}
        if holds(path, "layout/hole-between-two"):
            raise NotImplementedError("\udc81")
        rows, metadata = content(path)
        out = [(name, dtype, [10**30, -(2**70)], b"") for name, dtype, *_ in rows]
        return {"tensors": out, "metadata": metadata}
