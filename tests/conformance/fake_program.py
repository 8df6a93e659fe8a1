"""A program that speaks the worker protocol and misbehaves in one way: ``python fake_program.py HOW [WORD]``.

It is right about every file but the trigger, which it recognises by its bytes or its path. There it does what
the entries of a table with the name HOW say. It refuses paths of files that do not exist. With ``exit HOW
[NOTE] PATH`` it runs once for each file and tells its verdict by the exit status. An isolated program starts
at once and knows no files.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
if not sys.flags.isolated:
    from known_files import as_bytes, content, holds, use_processor

    if sys.argv[1] != "exit":
        from quick_reader import Reference

MAIN = os.getpid()
WORD = sys.argv[2] if len(sys.argv) > 2 else os.devnull
NOTE = Path(WORD)
"""File in which the program leaves word."""
Answer = dict[str, Any]
Act = Callable[[Answer], object]
"""What is done with the right answer."""
asked = 0


def say(message: Answer) -> None:
    write(json.dumps(message).encode() + b"\n")


def write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def right_answer(request: Answer) -> Answer:
    answer = {"seq": request["seq"], "outcome": "reject", "message": "no"}
    if not os.path.exists(request["path"]):
        return answer
    try:
        content = getattr(Reference(), request["step"])(request["path"])
    except ValueError as err:
        return {**answer, "message": str(err)}
    rows = [{"name": row[0], "dtype": row[1], "shape": list(row[2])} for row in content["tensors"]]
    return {"seq": request["seq"], "outcome": "accept", "tensors": rows, "metadata": content["metadata"]}


# Output without end


def endless(write_some: Act, pause: float = 0) -> tuple[Act]:
    def act(right: Answer) -> None:
        while True:
            write_some(right)
            time.sleep(pause)

    return (act,)


def drip(_: Answer) -> None:
    os.write(1, b" ")
    os.write(2, b".")


def talk_and_fill(_: Answer) -> None:
    """Never leave the harness a quiet moment, and take memory all the while."""
    kept.append(b"\x01" * (4 << 20))
    for _number in range(5):
        os.write(2, b"more\n")
        time.sleep(0.0005)


# Ends


def hang(_: Answer | None = None) -> None:
    time.sleep(3600)


def die(_: Answer) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def die_if_second(right: Answer) -> None:
    if asked > 1:
        die(right)


def close(fd: int) -> Act:
    return lambda _: os.close(fd)


def to_keeper(number: int) -> Act:
    return lambda _: os.kill(os.getppid(), number)


def once(*acts: Act) -> tuple[Act]:
    def act(right: Answer) -> None:
        first = not NOTE.exists()
        NOTE.touch()
        for each in acts if first else (say,):
            each(right)

    return (act,)


# Other processes


def leave(act: Callable[[], object]) -> None:
    """Run a function in an orphaned process of another session, and record its id."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            part = NOTE.with_suffix(".part")
            part.write_text(f"{os.getpid()} {MAIN}", encoding="ascii")
            part.rename(NOTE)
            act()
        os._exit(0)
    os.wait()


def leave_one(_: Answer | None = None) -> None:
    leave(hang)
    while not NOTE.exists():
        time.sleep(0.01)


def fork_an_orphan(_: Answer) -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            hang()
        os._exit(0)
    os.wait()


# Memory


kept: list[bytes] = []


def take(size: int) -> Act:
    return lambda _: kept.append(b"x" * size)


def nap(_: Answer) -> None:
    time.sleep(0.5)


def fill(_: Answer) -> None:
    def taken() -> None:
        take(400 << 20)({})
        hang()

    leave(taken)


def share(_: Answer) -> None:
    """Many processes over the same pages, for half a second."""
    take(60 << 20)({})
    pids = []
    for _number in range(20):
        if (pid := os.fork()) == 0:
            hang()
        pids.append(pid)
    time.sleep(0.5)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def burn(_: Answer) -> None:
    use_processor()


def say_next(right: Answer) -> None:
    say({**right, "seq": right["seq"] + 1})


def say_with(message: bytes) -> Act:
    text = b'{"seq": %d, "outcome": "reject", "message": "%s"}\n'
    return lambda right: write(text % (right["seq"], message))


def tensors(right: Answer) -> list[Answer]:
    return [{"name": f"t{number}"} for number in range(int(WORD))]


ACTS: dict[str, tuple[Act, ...]] = {
    "lines": endless(lambda _: os.write(1, b"\n" * (1 << 16))),
    "stderr": endless(lambda _: os.write(2, b"a line\n" * 1000)),
    "flood": endless(lambda _: os.write(1, b"x" * (1 << 16))),
    "flood-after": (say, *endless(lambda _: os.write(1, b"x" * (1 << 16)))),
    "endless-noise": endless(lambda _: write(b"noise " * 1000 + b"\n")),
    "drip": endless(drip, 0.05),
    "hang": (hang,),
    "half": (lambda right: os.write(1, json.dumps(right).encode()[:-4]), hang),
    "deaf": (say, close(0), hang),
    "closes-stdout": (close(1), hang),
    "die": (die,),
    "die-after": (say, die),
    "die-second": (die_if_second, say),
    "die-once": once(die),
    "die-after-once": once(say, die),
    "stray": (leave_one, say),
    "stray-hangs": (leave_one, hang),
    "stray-dies": (leave_one, die),
    "stray-fills": (fill, hang),
    "bomb": endless(fork_an_orphan),
    "kill-keeper": (to_keeper(signal.SIGKILL), hang),
    "stop-keeper": (to_keeper(signal.SIGSTOP), hang),
    "need": (take(160 << 20), nap, say),
    "share": (share, say),
    "fills": (take(8 << 30), say),
    "talks-and-fills": endless(talk_and_fill),
    "reserves": (lambda _: mmap.mmap(-1, 8 << 30), say),  # pages are handed out as they are touched
    "good": (say,),
    "noise": (say,),
    "wrong-order": (say_next,),
    "ahead": (say, say_next),  # the next request is answered as well, before anybody asked
    "forge-next": (say, lambda right: say({"seq": right["seq"] + 1, "outcome": "reject"})),
    "twice": (say, say),
    "no-utf-8": (say_with(b"caf\xe9"),),
    "no-json": (say_with(b"\\d"),),
    "burns": (burn, say),
    "lies": (burn, lambda right: say({**right, "cpu_ms": 0.001, "wall_ms": 0.001})),
    "quote": (lambda right: say({**right, "message": WORD}),),
    "long": (lambda right: say({"seq": right["seq"], "outcome": "reject", "message": "x" * int(WORD)}),),
    "rows": (lambda right: say({**right, "metadata": None, "tensors": tensors(right)}),),
    "many-values": (lambda right: say({**right, "metadata": [[]] * 500_000}),),
}
"""What is done in place of an answer, one after the other."""
ONE_STEP = ("long", "rows", "fills", "talks-and-fills")
"""Acts that take so long that one step is enough."""


def misbehave(how: str, right: Answer) -> None:
    for act in ACTS.get(how, ()):
        act(right)


def is_trigger(path: str) -> bool:
    return bool(holds(path)) if os.path.exists(path) else "trigger" in path


def converse(how: str) -> None:
    global asked  # noqa: PLW0603
    if how == "no-start":
        sys.exit("fatal: configuration file not found")
    for line in sys.stdin:
        request = json.loads(line)
        if request["cmd"] == "stop":
            return
        if how in WHOLLY:
            WHOLLY[how](request)
        elif request["cmd"] == "start":
            write(b"a banner that is no JSON\n")
            steps = ["read"] if how in ONE_STEP else ["open", "read"]
            who = {"name": "fake program", "version": "1", "language": "Python"}
            say({"protocol": 1, "implementation": who, "steps": steps})
        else:
            asked += 1
            if how == "noise":
                write(f"reading {request['path']}\n".encode())
            right = right_answer(request)
            if is_trigger(request["path"]):
                misbehave(how, right)
            else:
                say(right)


def answer_for_device(request: Answer) -> None:
    """Answer every file with the second argument, with the name of the device as version."""
    device = request.get("device", "none")
    who = {"name": "program", "version": device, "language": "C"}
    if request["cmd"] != "start":
        say({"seq": request["seq"], **json.loads(WORD)})
    elif device in ("cpu", "none"):
        say({"protocol": 1, "implementation": who, "steps": ["device"]})
    else:
        say({"error": {"message": f"no {device} here"}})


CONTROL = "\x1b[2J\x1b]0;title\x07\u202eabc\x85\x9b31m"
LOUD = f"{CONTROL}\u2028::warning::one\r\n::error file=a::two\n##[group]three\ud800"
"""Text that tries to leave its line: escapes, bidi controls, workflow commands."""


def die_loudly() -> None:
    os.write(2, LOUD.encode("utf-8", "surrogatepass") + b"\n")
    sys.exit(3)


def answer_loudly(request: Answer) -> None:
    """Answer with loud text in the way of the second argument."""
    if request["cmd"] == "start":
        if WORD == "dies-at-start":
            die_loudly()
        who = {"name": LOUD, "version": LOUD, "language": LOUD}
        started = {"protocol": 1, "implementation": who, "steps": ["read"], "lacks": [LOUD[:50]]}
        say({"error": {"message": LOUD}} if WORD == "refuses-to-start" else started)
        return
    if WORD == "dies":
        die_loudly()
    if WORD == "noise":
        write(LOUD.replace("\ud800", "").encode() + b"\n")
    row = dict.fromkeys(("name", "dtype", "shape", "nbytes", "sha256"), LOUD)
    answers: dict[str, Answer] = {
        "refuses": {"outcome": "reject", "message": LOUD, "exception": LOUD, "documented": False},
        "tensors": {"outcome": "accept", "tensors": [row], "metadata": {LOUD: LOUD}},
        "mistake": {"outcome": "harness-error", "message": LOUD},
        "outcome": {"outcome": LOUD},
    }
    say({"seq": request["seq"], **answers.get(WORD, {"outcome": "accept", "tensors": []})})


def answer_in_bytes(request: Answer, in_hex: bool = False) -> None:
    """Check no encoding, and spell names as raw bytes or in hex."""

    def spell(text: str) -> Any:
        return {"hex": as_bytes(text).hex()} if in_hex else text

    def read(path: str) -> Answer:
        tensors, metadata = content(path)
        more = [
            {"name": spell(name), "dtype": dtype, "shape": shape, "nbytes": len(data)}
            | {"sha256": hashlib.sha256(data).hexdigest()}
            for name, dtype, shape, data in tensors
        ]
        pairs = [[spell(text) for text in pair] for pair in (metadata or {}).items()]
        about = {"metadata_items": pairs} if in_hex else {"metadata": metadata}
        return {"seq": request["seq"], "outcome": "accept", "tensors": more, **about}

    if request["cmd"] == "start":
        said: Answer = {"protocol": 1, "implementation": {"name": "bytes"}, "steps": ["read"]}
    else:
        try:
            said = read(request["path"])
        except (ValueError, KeyError) as err:
            said = {"seq": request["seq"], "outcome": "reject", "message": str(err)}
    write(as_bytes(json.dumps(said, ensure_ascii=False)) + b"\n")


def answer_in_hex(request: Answer) -> None:
    answer_in_bytes(request, in_hex=True)


WHOLLY: dict[str, Callable[[Answer], None]] = {
    "device": answer_for_device,
    "loud": answer_loudly,
    "raw": answer_in_bytes,
    "hex": answer_in_hex,
}
"""Programs that answer every request in their own way."""


def by_status(how: str, path: str) -> int:
    if how == "stray-once":
        leave_one()
        return 0
    if is_trigger(path):
        if how == "abort":
            os.abort()
        if how.startswith("status-"):
            return int(how.removeprefix("status-"))
        misbehave(how, {})
    from safetensors_reference import explain

    return 0 if explain(path).valid else 1


if __name__ == "__main__":
    if sys.argv[1] == "exit":
        NOTE = Path(sys.argv[-2])
        sys.exit(by_status(sys.argv[2], sys.argv[-1]))
    converse(sys.argv[1])
