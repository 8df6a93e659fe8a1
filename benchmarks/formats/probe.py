"""The experiments, run for one format in its own environment: ``python -m benchmarks.formats.probe``.

Arguments are format, number of the way, experiment and an empty folder; a line of JSON is the answer. The
experiments need NumPy and ``ml_dtypes`` beside the library, and Linux for what the kernel counts.
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
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from .way import Array, Code, Way

MUTANTS = 1000
LARGE = 256 << 20
MANY, EACH = 1000, 256 << 10
SMALL = 20_000
SIZES = tuple(1 << power for power in (33, 32, 31, 30))
ALIGNMENT = 4096
NARROW = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
_SECONDS = 20
_MEMORY = 6 << 30


def _paths(path: Path) -> list[Path]:
    """Return the files of a model."""
    return sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]


def _size(path: Path) -> int:
    return sum(p.stat().st_size for p in _paths(path))


def _random(count: int, size: int, way: Way) -> dict[str, Array]:
    """Return so many arrays of so many bytes of noise; one where a file holds one."""
    noise, total = np.random.default_rng(1), 1 if way.single else count
    return {f"t{n:05}": noise.integers(0, 256, size, np.uint8).view(np.float32) for n in range(total)}


def _apart(what: Callable[[], int], limit: int = _MEMORY) -> int:
    """Run in a child under limits of time and memory; return its answer, 0 to 99, or -1 where it gave none."""
    if not (child := os.fork()):
        with open(os.devnull, "w") as nothing:
            os.dup2(nothing.fileno(), 1)
            os.dup2(nothing.fileno(), 2)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.alarm(_SECONDS)
        answer = 99
        with suppress(BaseException):  # what the library raises is the answer 99
            answer = what()
        os._exit(answer)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), -1)


def code(way: Way, path: Path) -> dict[str, Any]:
    """Whether loading runs code of the file, also with an option that is advised against."""
    marker = path.parent / "marker"
    way.trap(path, Code(str(marker)))
    out: dict[str, Any] = {}
    for key, load in {"ran": way.load, "ran_loose": way.loose if way.loose_call else None}.items():
        marker.unlink(missing_ok=True)  # what wrote the file may have left it too
        if load is not None:
            _apart(lambda load=load: bool(load(path)))
            out[key] = marker.exists()
    return out


def claim(way: Way, path: Path) -> dict[str, Any]:
    """Whether a small file makes a load take the memory that it claims. Limits keep it from taking more."""
    try:
        way.claim(path)
    except NotImplementedError:
        return {}

    def load() -> int:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with suppress(Exception):
            held = [way.array(tensor).max(initial=0) for tensor in way.load(path).values()]
            del held
        return int((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 20 >= 1024)

    return {"file": _size(path), "taken": _apart(load) != 0}


def mutants(way: Way, path: Path) -> dict[str, Any]:
    """What 1,000 truncated and bit-flipped files give: no tensors, the same tensors, or others."""
    arrays = _random(8, 64, way)
    way.save(path, arrays)
    way.load(path)
    wanted = [array.tobytes() for array in arrays.values()]
    files = {file: file.read_bytes() for file in _paths(path)}
    ends = list(accumulate(map(len, files.values())))
    chance = random.Random(1)

    def load() -> int:
        found = way.load(path)
        same = list(found) == list(arrays) or way.single or set(found) == set(arrays)
        return int(
            not same or [way.array(found[n]).tobytes() for n in (found if way.single else arrays)] != wanted
        )

    counts: Counter[str] = Counter()
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
        answer = _apart(load)
        counts[{0: "same", 1: "others", 99: "error"}.get(answer, "held_back")] += 1
        file.write_bytes(files[file])
    return dict(counts)


def _status(key: str, file: str = "status") -> int:
    with open(f"/proc/self/{file}", encoding="ascii") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith(key))


def _read() -> int:
    """Return the bytes that this process has got from reading calls."""
    with open("/proc/self/io", encoding="ascii") as lines:
        return int(next(lines).split()[1])


def _mapped(path: Path) -> int:
    """Return the bytes of a model's files that are mapped and present in this process."""
    ours, out, counts = {str(p) for p in _paths(path)}, 0, False
    with open("/proc/self/smaps", encoding="utf-8") as lines:
        for line in lines:
            words = line.split()
            if not words[0].endswith(":"):
                counts = words[-1] in ours
            elif counts and words[0] == "Rss:":
                out += int(words[1]) << 10
    return out


@contextmanager
def _peak() -> Iterator[Callable[[], int]]:
    """Watch the private memory of this process from a child; what is given returns its peak."""
    ours, theirs = os.pipe()
    parent, out = os.getpid(), os.pipe()
    if not (child := os.fork()):
        os.close(theirs)
        os.set_blocking(ours, False)
        most = 0
        while True:
            with open(f"/proc/{parent}/status", encoding="ascii") as lines:
                most = max(most, next(int(w.split()[1]) << 10 for w in lines if w.startswith("RssAnon:")))
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
    """Read a byte of every page."""
    return int(way.array(tensor).reshape(-1).view(np.uint8)[::4096].sum(dtype=np.int64))


def zero_copy(way: Way, path: Path) -> dict[str, Any]:
    """Private memory and bytes copied by loading 256 MiB from the page cache, every page touched."""
    small = path.with_name("small")
    small.mkdir()
    way.save(small / way.file, _random(4, 4096, way))
    way.load(small / way.file)
    _apart(lambda: int(way.save(path, _random(4, LARGE // (1 if way.single else 4), way)) is None), 1 << 40)
    with _peak() as stop:
        before, read = _status("RssAnon:"), _read()
        tensors = way.load(path)
        taken = _read() - read
        for tensor in tensors.values():
            _touch(way, tensor)
        kept = _status("RssAnon:") - before
        peak = stop() - before
    return {"file": _size(path), "read": taken, "kept": max(kept, 0), "peak": max(peak, kept, 0)}


def _reads(path: Path, what: Callable[[], Any]) -> dict[str, int]:
    before = _read()
    kept = what()
    out = {"read": _read() - before, "mapped": _mapped(path)}
    del kept
    return out


def lazy(way: Way, path: Path) -> dict[str, Any]:
    """Bytes of a file with 1,000 tensors that one of them takes, and that their names and shapes take."""
    if way.single:
        return {}
    small = path.with_name("small")
    small.mkdir()
    way.save(small / way.file, few := _random(4, 4096, way))
    way.one(small / way.file, "t00001")
    way.shapes(small / way.file)
    del few
    _apart(lambda: int(way.save(path, _random(MANY, EACH, way)) is None), 1 << 40)
    wanted = f"t{MANY // 2:05}"

    def listed() -> Any:
        found = way.shapes(path)
        assert len(found) == MANY
        return found

    def one() -> Any:
        tensor = way.one(path, wanted)
        _touch(way, tensor)
        return tensor

    out = {"file": _size(path), "list": _reads(path, listed), "one": _reads(path, one)}
    right = list(_random(MANY, EACH, way).values())[MANY // 2]
    assert way.array(way.one(path, wanted)).tobytes() == right.tobytes()
    return out


def size(way: Way, path: Path) -> dict[str, Any]:
    """The largest of some sizes that a tensor can have, in a file that is written and read back."""
    resource.setrlimit(resource.RLIMIT_DATA, (12 << 30, 12 << 30))
    limit = None
    for count in SIZES:
        array: Array | None = np.zeros(count, np.uint8)  # takes no memory before it is written to
        assert array is not None
        array[-1] = 77
        try:
            way.save(path, {"t": array})
            array = None
            found = way.array(way.one(path, "t")).reshape(-1).view(np.uint8)
            assert (len(found), found[-1]) == (count, 77)
        except Exception as err:
            limit = [count, f"{type(err).__name__}: {err}"[:200]]
        else:
            return {"largest": count, "file": _size(path), "failed": limit}
    return {"largest": 0, "failed": limit}


def layout(way: Way, path: Path) -> dict[str, Any]:
    """Where the writer puts tensors: in one piece, in which order, at which multiples."""
    if way.single:
        return {}
    sizes = {"m": 3000, "z": 1000, "a": 5000, "q": 2000}
    noise = np.random.default_rng(2)
    whole = {name: noise.integers(0, 256, count * 4, np.uint8) for name, count in sizes.items()}
    types = {"m": np.float32, "z": np.uint8, "a": np.float32, "q": np.uint8}
    arrays = {name: raw.view(types[name]) for name, raw in whole.items()}

    def places(named: dict[str, Array]) -> dict[str, int]:
        data = b"".join(file.read_bytes() for file in _paths(path))
        return {name: data.find(array.tobytes()) for name, array in named.items()}

    out: dict[str, Any] = {"kept": 0}
    found = {}
    for order in (["m", "z", "a", "q"], ["q", "a", "m", "z"]):
        way.save(path, {name: arrays[name] for name in order})
        found = places(arrays)
        written = sorted(order, key=lambda name: found[name])
        out["kept"] += written == order
        out["order"] = "".join(written)
        out["reader"] = list(way.shapes(path)) == order
    out["whole"] = min(found.values()) >= 0
    out["aligned"] = min(place & -place or ALIGNMENT for place in found.values())
    try:
        way.aligned(path, arrays, ALIGNMENT)
        out["can_align"] = all(place % ALIGNMENT == 0 for place in places(arrays).values())
    except NotImplementedError:
        out["can_align"] = None
    return out


def flexible(way: Way, path: Path) -> dict[str, Any]:
    """What comes back of values that are no tensors, and whether code that the file brings can be called."""
    values = {
        "text": "a text",
        "bytes": b"\x00\xff",
        "number": 3.5,
        "numbers": [1, 2],
        "nested": {"a": {"b": "c"}},
    }
    came = []
    for name, value in values.items():
        with suppress(Exception):
            back = way.extra(path.with_name(name), value)
            if isinstance(back, type(value)) and back == value:
                came.append(name)
    with suppress(Exception):
        square = way.extra(path.with_name("code"), Code("", "lambda number: number * number"))
        if int(square(3)) == 9:  # noqa: PLR2004
            came.append("code")
    return {"came": came}


def bits(way: Way, path: Path) -> dict[str, Any]:
    """Under which name narrow floats come back, or why they do not; every pattern of bits once."""
    out: dict[str, Any] = {}
    for name in NARROW:
        kind = np.dtype(getattr(ml_dtypes, name))
        array = np.arange(1 << 8 * kind.itemsize, dtype=f"u{kind.itemsize}").view(kind)
        try:
            way.save(path.with_name(name), {"t": array})
            tensor = next(iter(way.load(path.with_name(name)).values()))
            same = way.array(tensor).tobytes() == array.tobytes()
            out[name] = {"as": way.dtype(tensor), "equal": same}
        except Exception as err:
            out[name] = {"error": type(err).__name__}
    return out


def make(way: Way, path: Path) -> dict[str, Any]:
    """Write the files of the two costs beside ``path``."""
    for name, count, each in (("large", 4, LARGE // 4), ("small", SMALL, 1024)):
        path.with_name(name).mkdir()
        way.save(path.with_name(name) / way.file, _random(count, each, way))
    return {}


def cost(way: Way, path: Path) -> dict[str, Any]:
    """Seconds of loading each of the two, every page touched, after a load that is not counted."""
    out = {}
    for name in ("large", "small"):
        for _ in range(2):
            began = time.perf_counter()
            tensors = way.load(path.with_name(name) / way.file)
            for tensor in tensors.values():
                _touch(way, tensor)
            out[name] = time.perf_counter() - began
            del tensors
    return out


EXPERIMENTS: dict[str, Callable[[Way, Path], dict[str, Any]]] = {
    f.__name__: f for f in (code, claim, mutants, zero_copy, lazy, size, layout, flexible, bits, make, cost)
}

if __name__ == "__main__":
    _, name, number, experiment, folder = sys.argv
    way: Way = import_module(f"benchmarks.formats.adapters.{name}").WAYS[int(number)]
    print(json.dumps(EXPERIMENTS[experiment](way, Path(folder) / way.file)))
