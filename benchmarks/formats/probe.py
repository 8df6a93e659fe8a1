"""The experiments, which run for one format in its own environment.

The command is ``python -m benchmarks.formats.probe``. Its arguments are the format, the number of the way,
the experiment and an empty folder. The answer is one line of JSON. Besides the library, the experiments need
NumPy, ``ml_dtypes``, and Linux for the kernel's counters. Risky steps run in child processes, which are
forked before a library has started threads.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from .way import CLAIMED, Array, Code, Way

MUTANTS = 1000
LARGE = 256 << 20
MANY, SMALL = 1000, 20_000
SIZES = ((1, (1 << 32) + (1 << 20)), (8, (1 << 32) + (1 << 20)), (1, (1 << 31) - (1 << 20)))
"""Pairs of the number of tensors and their total size in bytes. The experiment stops after the first success.
"""
ALIGNMENT = 4096
NARROW = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
_NO_MEMORY, _ERROR = 98, 99
_SECONDS, _MEMORY = 20, 6 << 30


def _paths(path: Path) -> list[Path]:
    return sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]


def _size(path: Path) -> int:
    return sum(p.stat().st_size for p in _paths(path))


def _random(count: int, size: int) -> dict[str, Array]:
    noise = np.random.default_rng(1)
    return {f"t{n:05}": noise.integers(0, 256, size, np.uint8).view(np.float32) for n in range(count)}


def _beside(path: Path, name: str) -> Path:
    path.with_name(name).mkdir(exist_ok=True)
    return path.with_name(name) / path.name


def _apart(what: Callable[[], object], memory: int = _MEMORY, seconds: int = _SECONDS) -> int:
    """Run in a child process with limits.

    Returns the answer of the child, from 0 to 98, or a larger number if there is none.
    """
    if not (child := os.fork()):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.alarm(seconds)
        answer = _ERROR
        try:
            answer = int(what() is True)
        except MemoryError:
            answer = _NO_MEMORY
        finally:  # the library may raise any other exception
            os._exit(answer)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) % 256


def _made(what: Callable[[], object]) -> None:
    """Write a model in a child process without limits. Raises RuntimeError on failure."""
    if _apart(what, resource.RLIM_INFINITY, 120):
        raise RuntimeError("the model for this experiment could not be written")


def safe(way: Way, path: Path) -> dict[str, Any]:
    """Test whether loading runs code from the file, and test a small file that claims to contain 2 GiB."""
    marker = path.parent / "marker"
    _made(lambda: way.trap(path, Code(str(marker))))
    out: dict[str, Any] = {"loose": way.loose_call}
    for key, load in {"ran": way.load, "ran_loose": way.loose if way.loose_call else None}.items():
        marker.unlink(missing_ok=True)  # the writer may have created the file too
        if load is not None:
            _apart(partial(load, path))
            out[key] = marker.exists()
    with suppress(RuntimeError):
        claim = _beside(path, "claim")
        _made(lambda: way.claim(claim))
        answer = _apart(lambda: _claimed(way, claim), seconds=120)
        out["claim"] = {"file": _size(claim), "given": answer < 2, "taken": answer == 1}
    return {**out, **mutants(way, _beside(path, "mutants"))}


def _claimed(way: Way, path: Path) -> bool:
    """Load and read a tensor of the claimed size.

    Returns whether the peak memory grew by at least half of that size.
    """
    before = _status("VmHWM:")
    for tensor in way.load(path).values():
        _touch(way, tensor)
    return _status("VmHWM:") - before >= CLAIMED // 2


def mutants(way: Way, path: Path) -> dict[str, int]:
    """Load 1,000 truncated and bit-flipped files.

    Counts how many files return equal tensors, how many return other tensors, and how many return none.
    """
    arrays = _random(8, 64)
    wanted = {name: array.tobytes() for name, array in arrays.items()}
    _made(lambda: way.save(path, arrays))

    def load() -> bool:
        return {name: way.array(tensor).tobytes() for name, tensor in way.load(path).items()} != wanted

    if _apart(load):
        raise RuntimeError("the library does not return the tensors that it wrote")
    files = {file: file.read_bytes() for file in _paths(path)}
    ends = list(accumulate(map(len, files.values())))
    chance = random.Random(1)  # noqa: S311 - the same mutants every time
    counts: Counter[str] = Counter(same=0, others=0, none=0)
    for number in range(MUTANTS):
        place = chance.randrange(ends[-1])
        file, end = next((f, e) for f, e in zip(files, ends, strict=True) if place < e)
        data = bytearray(files[file])
        place -= end - len(data)
        if number % 4:
            data[place] ^= 1 << chance.randrange(8)
        else:
            del data[place:]
        file.write_bytes(data)
        counts[{0: "same", 1: "others"}.get(_apart(load), "none")] += 1
        file.write_bytes(files[file])
    return dict(counts)


def _status(key: str, process: int | str = "self") -> int:
    lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(key))


def _read() -> int:
    return int(Path("/proc/self/io").read_text(encoding="ascii").split()[1])


def _mapped(path: Path) -> int:
    ours, out, counts = {str(p) for p in _paths(path)}, 0, False
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            counts = words[-1] in ours
        elif counts and words[0] == "Rss:":
            out += int(words[1]) << 10
    return out


@contextmanager
def _peak() -> Iterator[Callable[[], int]]:
    ours, theirs = os.pipe()
    parent, out = os.getpid(), os.pipe()
    if not (child := os.fork()):
        os.close(theirs)
        os.set_blocking(ours, False)
        most = 0
        while True:
            most = max(most, _status("RssAnon:", parent))
            with suppress(BlockingIOError):
                os.read(ours, 1)
                os.write(out[1], most.to_bytes(8, "little"))
                os._exit(0)
            time.sleep(0.001)

    def stop() -> int:
        os.write(theirs, b".")
        most = int.from_bytes(os.read(out[0], 8), "little")
        os.waitpid(child, 0)
        return most

    yield stop


def _touch(way: Way, tensor: Any) -> int:
    return int(way.array(tensor).reshape(-1).view(np.uint8)[::4096].sum(dtype=np.int64))


def zero_copy(way: Way, path: Path) -> dict[str, Any]:
    """Measure the private memory and the copied bytes while 256 MiB are loaded from the page cache.

    Every page of the result is touched.
    """
    small = _beside(path, "small")
    _made(lambda: way.save(small, _random(4, 4096)))
    _made(lambda: way.save(path, _random(4, LARGE // 4)))
    way.load(small)
    with _peak() as stop:
        before, read = _status("RssAnon:"), _read()
        tensors = way.load(path)
        taken = _read() - read
        for tensor in tensors.values():
            _touch(way, tensor)
        kept = _status("RssAnon:") - before
        peak = stop() - before
    return {"file": _size(path), "read": taken, "kept": max(kept, 0), "peak": max(peak, kept, 0)}


def lazy(way: Way, path: Path) -> dict[str, Any]:
    """Measure how much of a file with 1,000 tensors is read for one tensor, and for all names and shapes."""
    small, wanted = _beside(path, "small"), f"t{MANY // 2:05}"
    _made(lambda: way.save(small, _random(4, 4096)))
    _made(lambda: way.save(path, _random(MANY, LARGE // MANY // 1024 * 1024)))
    way.one(small, "t00001")
    way.shapes(small)

    def reads(what: Callable[[], Any]) -> int:
        mapped, read = _mapped(path), _read()  # keep this order, because reading the counters changes them
        kept = what()
        read = _read() - read
        mapped = _mapped(path) - mapped
        del kept
        return read + mapped

    def one() -> Any:
        tensor = way.one(path, wanted)
        _touch(way, tensor)
        return tensor

    out = {"file": _size(path), "list": reads(lambda: way.shapes(path)), "one": reads(one)}
    right = _random(MANY, LARGE // MANY // 1024 * 1024)[wanted]
    assert way.array(way.one(path, wanted)).tobytes() == right.tobytes()
    assert {name: tuple(shape) for name, shape in way.shapes(path).items()}[wanted] == right.shape
    return out


def size(way: Way, path: Path) -> dict[str, Any]:
    """Test for several sizes whether a file can be written and its last tensor can be read back.

    The tensors contain 32-bit floats. If a step ends with neither tensors nor an error, there is no answer,
    because there may have been too little memory.
    """
    out: dict[str, Any] = {"tried": []}
    for pieces, total in SIZES:
        count, last = total // pieces // 4, f"t{pieces - 1}"

        def write(count: int = count, pieces: int = pieces) -> None:
            arrays = {f"t{n}": np.zeros(count, np.float32) for n in range(pieces)}
            arrays[f"t{pieces - 1}"][-1] = 77
            way.save(path, arrays)

        def read(count: int = count, last: str = last) -> bool:
            raw = way.array(way.one(path, last)).reshape(-1).view(np.uint8)
            return (len(raw), float(raw[-4:].copy().view(np.float32)[0])) != (count * 4, 77)

        answer = _apart(write, resource.RLIM_INFINITY, 400) or _apart(read, resource.RLIM_INFINITY, 400)
        if answer not in (0, 1, _ERROR):
            raise RuntimeError("this machine does not have enough memory or time")
        out["tried"].append({"tensors": pieces, "bytes": total, "came": not answer})
        if not answer:
            break
    return out


def layout(way: Way, path: Path) -> dict[str, Any]:
    """Determine how the writer places tensors: contiguity, order and alignment."""
    sizes = {"m": 3000, "z": 1000, "a": 5000, "q": 2000}
    noise, types = np.random.default_rng(2), {"m": "f4", "z": "u1", "a": "f4", "q": "u1"}
    arrays = {n: noise.integers(0, 256, count * 4, "u1").view(types[n]) for n, count in sizes.items()}

    def places(path: Path) -> dict[str, tuple[int, int]]:
        files = [file.read_bytes() for file in _paths(path)]
        found = {}
        for name, array in arrays.items():
            at = [data.find(array.tobytes()) for data in files]
            found[name] = next(((n, place) for n, place in enumerate(at) if place >= 0), (-1, -1))
        return found

    orders = {}
    for order in ("mzaq", "qamz"):
        way.save(_beside(path, order), {name: arrays[name] for name in order})
        found = places(_beside(path, order))
        orders[order] = "".join(sorted(order, key=lambda name, found=found: found[name]))
    files = len({number for number, _ in found.values()})
    out = {"orders": orders, "whole": min(found.values()) >= (0, 0), "files": files, "can_align": False}
    out["aligned"] = min(place & -place or ALIGNMENT for _, place in found.values())
    with suppress(NotImplementedError):
        way.aligned(_beside(path, "aligned"), arrays, ALIGNMENT)
        out["can_align"] = all(at % ALIGNMENT == 0 for _, at in places(_beside(path, "aligned")).values())
    return out


def flexible(way: Way, path: Path) -> dict[str, Any]:
    """Test which values other than tensors can be read back, and whether code from the file can be called."""
    came = []
    for name, value in {"text": "a text", "bytes": b"\x00\xff", "nested": {"a": {"b": "c"}}}.items():
        with suppress(Exception):
            back = way.stored(_beside(path, name), value)
            if isinstance(back, type(value)) and back == value:
                came.append(name)
    with suppress(Exception):
        square = way.stored(_beside(path, "code"), Code("", "lambda number: number * number"))
        if int(square(3)) == 9:
            came.append("code")
    return {"came": came}


def bits(way: Way, path: Path) -> dict[str, Any]:
    """Return the names under which narrow floats are read back, or why they are not.

    Every bit pattern occurs once.
    """
    out: dict[str, Any] = {}
    for name in NARROW:
        kind = np.dtype(getattr(ml_dtypes, name))
        array = np.arange(1 << 8 * kind.itemsize, dtype=f"u{kind.itemsize}").view(kind)
        try:
            way.save(_beside(path, name), {"t": array})
            tensor = way.load(_beside(path, name))["t"]
            same = way.array(tensor).tobytes() == array.tobytes()
            out[name] = {"as": way.dtype(tensor), "equal": same}
        except Exception as err:
            out[name] = {"error": type(err).__name__}
    return out


def make(way: Way, path: Path) -> dict[str, Any]:
    """Write the two files whose loading time is measured."""
    way.save(_beside(path, "large"), _random(4, LARGE // 4))
    way.save(_beside(path, "small"), _random(SMALL, 1024))
    return {}


def cost(way: Way, path: Path) -> dict[str, Any]:
    """Measure the seconds to load each of the two files and touch every page, after an uncounted load."""
    out = {}
    for name in ("large", "small"):
        for _ in range(2):
            began = time.perf_counter()
            tensors = way.load(_beside(path, name))
            for tensor in tensors.values():
                _touch(way, tensor)
            out[name] = time.perf_counter() - began
            del tensors
    return out


EXPERIMENTS: dict[str, Callable[[Way, Path], dict[str, Any]]] = {
    f.__name__: f for f in (safe, zero_copy, lazy, size, layout, flexible, bits, make, cost)
}

if __name__ == "__main__":
    _, name, number, experiment, folder = sys.argv
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # needed for a folder of 20,000 mapped files
    ways: tuple[Way, ...] = import_module(f"benchmarks.formats.adapters.{name}").WAYS
    if experiment == "ways":
        print(json.dumps({"ways": [[way.name, way.call] for way in ways]}))
    else:
        way = ways[int(number)]
        print(json.dumps(EXPERIMENTS[experiment](way, Path(folder) / way.file)))
