"""A reader with one planted behaviour that speaks the worker protocol.

    python proof/readers/planted.py BEHAVIOUR

A behaviour shows only for some files. The digest of a file determines whether it is one of them, so names and
the order of cases do not matter. All messages are the same, because the classification by the harness must
not depend on wording.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import resource
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Answer = dict[str, Any]

MIB = 1 << 20
FOREVER = 600
BITS = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F64": 64, "I64": 64, "U64": 64, "C64": 64}
BITS |= dict.fromkeys(("F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F8_E8M0", "BOOL", "U8", "I8"), 8)
BITS |= dict.fromkeys(("F16", "BF16", "I16", "U16"), 16) | dict.fromkeys(("F32", "I32", "U32"), 32)
FIELDS = {"dtype", "shape", "data_offsets"}


class RefusedError(Exception):
    """The file is rejected."""


def loose(data: bytes, step: str, beyond: bytes = b"") -> Answer:
    """Return the content without any checks. ``beyond`` replaces missing bytes past the end of the file."""
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    buffer = data[8 + length :]
    metadata = header.pop("__metadata__", None)
    rows = []
    for name, entry in header.items():
        row = {"name": name, "dtype": entry["dtype"], "shape": entry["shape"]}
        if step == "read":
            begin, end = entry["data_offsets"]
            content = buffer[begin:end]
            if beyond and 0 <= begin <= end <= begin + MIB:
                content += beyond * (end - begin - len(content))
            row |= {"nbytes": end - begin, "sha256": hashlib.sha256(content).hexdigest()}
        rows.append(row)
    return {"outcome": "accept", "tensors": rows, "metadata": metadata}


def strict(data: bytes, step: str) -> Answer:
    """Return the content of a file, or raise RefusedError if a short check finds that it is invalid."""
    (length,) = struct.unpack("<Q", data[:8])
    if not 2 <= length <= min(len(data) - 8, 100_000_000) or data[8:9] != b"{":
        raise RefusedError
    header = json.loads(data[8 : 8 + length].decode("utf-8"), object_pairs_hook=_without_repeats)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise RefusedError
    position = 0
    for begin, end in sorted(_range(entry) for entry in header.values()):
        if begin != position:
            raise RefusedError
        position = end
    if position != len(data) - 8 - length:
        raise RefusedError
    return loose(data, step)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise RefusedError
    return dict(pairs)


def _range(entry: dict[str, Any]) -> tuple[int, int]:
    shape, (begin, end) = entry["shape"], entry["data_offsets"]
    if set(entry) != FIELDS or any(type(number) is not int or number < 0 for number in (*shape, begin, end)):
        raise RefusedError
    if begin > end or math.prod(shape) * BITS[entry["dtype"]] != (end - begin) * 8:
        raise RefusedError
    return begin, end


def nothing(_path: str) -> None:
    pass


def abort(_path: str) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.abort()


def hang(_path: str) -> None:
    time.sleep(FOREVER)


def fill_memory(_path: str) -> None:
    """Allocate one GiB and keep it, so that a monitor can see it."""
    held = bytearray()
    for _ in range(128):
        held += b"\xff" * (8 * MIB)
    time.sleep(FOREVER)


def change_input(path: str) -> None:
    """Append a byte, and restore the modification time.

    If the size also stayed the same, detection would depend on the clock of the file system.
    """
    file = Path(path)
    before = file.stat()
    file.chmod(0o644)
    file.write_bytes(file.read_bytes() + b"\xff")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def leave_child(_path: str) -> None:
    """Leave a child process in its own session that keeps the pipes open."""
    if os.fork() == 0:
        os.setsid()
        time.sleep(FOREVER)
        os._exit(0)


def make_noise(_path: str) -> None:
    """Print lines that are not answers: text, other JSON, and bytes that are not UTF-8."""
    sys.stdout.buffer.write(b'loading ...\n\n[1, 2]\n{"progress": 0.5}\n\xff\xfe\n')
    sys.stdout.buffer.flush()
    print("a warning", file=sys.stderr, flush=True)


def be_slow(_path: str) -> None:
    """Take longer than the harness expects but less than it allows."""
    time.sleep(3)


def late(data: bytes, step: str) -> Answer:
    """Accept at open the files that are rejected at read."""
    return (loose if step == "open" else strict)(data, step)


def heap(data: bytes, step: str) -> Answer:
    """Return invented bytes for ranges past the end of the file, and for some valid files."""
    answer = loose(data, step, beyond=b"\xaa")
    if step == "read" and chosen(data, 10):
        for row in answer["tensors"]:
            row["sha256"] = hashlib.sha256(b"\xaa" * min(row["nbytes"], MIB)).hexdigest()
    return answer


@dataclass
class Order:
    """Reject all files after certain files have been read."""

    spoilt: bool = False

    def __call__(self, data: bytes, step: str) -> Answer:
        if self.spoilt:
            raise RefusedError
        self.spoilt = step == "read" and chosen(data, 20)
        return strict(data, step)


@dataclass
class Behaviour:
    """An action that happens when some files are read, and the function that computes the answer."""

    act: Callable[[str], None] = nothing
    one_in: int = 1
    answer: Callable[[bytes, str], Answer] = field(default=strict)


BEHAVIOURS = {
    "abort": Behaviour(abort, 20),
    "hang": Behaviour(hang, 150),
    "memory": Behaviour(fill_memory, 150),
    "late": Behaviour(answer=late),
    "heap": Behaviour(answer=heap),
    "change": Behaviour(change_input, 10),
    "fork": Behaviour(leave_child, 10),
    "noise": Behaviour(make_noise),
    "order": Behaviour(answer=Order()),
    "slow": Behaviour(be_slow, 150),
    "careless": Behaviour(answer=loose),
}


def chosen(data: bytes, one_in: int) -> bool:
    return int.from_bytes(hashlib.sha256(data).digest()[:4], "big") % one_in == 0


def run(behaviour: Behaviour, step: str, path: str) -> Answer:
    if step not in ("open", "read"):
        return {"outcome": "unsupported"}
    data = Path(path).read_bytes()
    if step == "read" and chosen(data, behaviour.one_in):
        behaviour.act(path)
    try:
        return behaviour.answer(data, step)
    except Exception:
        return {"outcome": "reject", "message": "refused"}


def main(name: str) -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if request["cmd"] == "stop":
            break
        if request["cmd"] == "start":
            who = {"name": f"planted {name}", "version": "1.0", "language": "Python"}
            answer: Answer = {"protocol": 1, "implementation": who, "steps": ["open", "read"]}
        else:
            answer = {"seq": request["seq"], **run(BEHAVIOURS[name], request["step"], request["path"])}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
