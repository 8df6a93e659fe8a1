"""A program that speaks the worker protocol and misbehaves in one way: ``python fake_program.py HOW [WORD]``.

It is right about every file but the trigger, which it recognises by its bytes or its path. There it does what
the function or the entry of a table with the name HOW says. It refuses paths of files that do not exist. With
``exit HOW [NOTE] PATH`` it runs once for each file and tells its verdict by the exit status. Functions import
the modules that only they need, so that the program starts at once.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
MAIN = os.getpid()
WORD = sys.argv[2] if len(sys.argv) > 2 else os.devnull
NOTE = Path(WORD)
"""File in which the program leaves word."""
Answer = dict[str, Any]
asked = 0


def say(message: Answer) -> None:
    write(json.dumps(message).encode() + b"\n")


def write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def right_answer(request: Answer) -> Answer:
    if not os.path.exists(request["path"]):
        return {"seq": request["seq"], "outcome": "reject", "message": "no"}
    from quick_reader import Reference

    try:
        content = getattr(Reference(), request["step"])(request["path"])
    except ValueError as err:
        return {"seq": request["seq"], "outcome": "reject", "message": str(err)}
    rows = [{"name": row[0], "dtype": row[1], "shape": list(row[2])} for row in content["tensors"]]
    return {"seq": request["seq"], "outcome": "accept", "tensors": rows, "metadata": content["metadata"]}


# Output without end


def lines() -> None:
    """Write faster than anybody can take lines apart."""
    while True:
        os.write(1, b"\n" * (1 << 16))


def slow_lines() -> None:
    while True:
        os.write(1, b"\n")
        time.sleep(0.001)


def hungry_lines() -> None:
    hoard = []
    while True:
        os.write(1, b"\n")
        hoard.append(b"\x01" * (1 << 20))
        time.sleep(0.01)


def endless_bytes() -> None:
    while True:
        os.write(1, b"x" * 4096)
        time.sleep(0.001)


def stderr() -> None:
    while True:
        os.write(2, b"a line\n" * 1000)


ENDLESS: dict[str, Callable[[], None]] = {
    "lines": lines,
    "slow-lines": slow_lines,
    "hungry-lines": hungry_lines,
    "bytes": endless_bytes,
    "stderr": stderr,
}


def flood(_: Answer) -> None:
    """Write without end and read nothing any more."""
    while True:
        os.write(1, b"x" * (1 << 16))


def flood_after(right: Answer) -> None:
    say(right)
    flood(right)


def endless_noise(_: Answer) -> None:
    while True:
        write(b"noise " * 1000 + b"\n")


def drip(_: Answer) -> None:
    """A byte of the answer from time to time, and one on standard error."""
    while True:
        os.write(1, b" ")
        os.write(2, b".")
        time.sleep(0.05)


# Ends


def hoard(_: Answer) -> None:
    """Read nothing any more and say nothing."""
    time.sleep(600)


def half(right: Answer) -> None:
    os.write(1, json.dumps(right).encode()[:-4])
    time.sleep(600)


def deaf(right: Answer) -> None:
    say(right)
    os.close(0)
    time.sleep(600)


def closes_stdout(_: Answer) -> None:
    os.close(1)
    time.sleep(3600)


def die(_: Answer) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def die_after(right: Answer) -> None:
    say(right)
    die(right)


def die_second(right: Answer) -> None:
    if asked > 1:
        die(right)
    say(right)


def die_once(right: Answer) -> None:
    once(die, right)


def die_after_once(right: Answer) -> None:
    once(die_after, right)


def once(act: Callable[[Answer], None], right: Answer) -> None:
    if NOTE.exists():
        say(right)
    else:
        NOTE.touch()
        act(right)


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


def leave_one() -> None:
    leave(lambda: time.sleep(600))
    while not NOTE.exists():
        time.sleep(0.01)


def stray(right: Answer) -> None:
    leave_one()
    say(right)


def stray_hangs(_: Answer) -> None:
    leave_one()
    time.sleep(600)


def stray_dies(right: Answer) -> None:
    leave_one()
    die(right)


def stray_fills(_: Answer) -> None:
    leave(fill)
    time.sleep(600)


def fill() -> None:
    filled = b"x" * (400 << 20)
    time.sleep(600 if filled else 0)


def bomb(_: Answer) -> None:
    """Processes without end, one after the other, each soon an orphan."""
    while True:
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(600)
            os._exit(0)
        os.wait()


def kill_keeper(_: Answer) -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(600)


def stop_keeper(_: Answer) -> None:
    os.kill(os.getppid(), signal.SIGSTOP)
    time.sleep(600)


# Memory


def need(right: Answer) -> None:
    """Answer after taking 160 MiB for half a second."""
    filled = b"x" * (160 << 20)
    time.sleep(0.5)
    say(right if filled else {})


def share(right: Answer) -> None:
    """Many processes over the same pages."""
    filled = b"x" * (60 << 20)
    pids = []
    for _number in range(20):
        if (pid := os.fork()) == 0:
            time.sleep(600)
        pids.append(pid)
    time.sleep(0.5)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    say(right if filled else {})


def fills(right: Answer) -> None:
    bytearray(b"\x01") * (8 << 30)
    say(right)


def talks_and_fills(_: Answer) -> None:
    """Never leave the harness a quiet moment, and take memory all the while."""
    kept = []
    while True:
        kept.append(b"\x01" * (8 << 20))
        for _number in range(20):
            os.write(2, b"more\n")
            time.sleep(0.0005)


def reserves(right: Answer) -> None:
    mmap.mmap(-1, 8 << 30)  # pages are handed out as they are touched
    say(right)


# Other answers


def quote(right: Answer) -> None:
    say({**right, "message": WORD})


def long(right: Answer) -> None:
    say({"seq": right["seq"], "outcome": "reject", "message": "x" * int(WORD)})


def rows(right: Answer) -> None:
    say({**right, "metadata": None, "tensors": [{"name": f"t{number}"} for number in range(int(WORD))]})


def many_values(right: Answer) -> None:
    say({**right, "metadata": [[]] * 500_000})


NESTED = b"[" * 900 + b"]" * 900
LINES: dict[str, tuple[bytes, ...]] = {
    "good": (b"GOOD",),
    "noise": (b"GOOD",),
    "wrong-order": (b"NEXT",),
    # The next request is answered as well, before anybody asked.
    "ahead": (b"GOOD", b"NEXT"),
    "forge-next": (b"GOOD", b'{"seq": SEQ1, "outcome": "reject"}'),
    "twice": (b"GOOD", b"GOOD"),
    "no-utf-8": (b'{"seq": SEQ, "outcome": "reject", "message": "caf\xe9"}',),
    "no-json": (b'{"seq": SEQ, "outcome": "reject", "message": "\\d"}',),
    "deep-metadata": (b'{ACCEPT: [], "metadata": {"a": ' + NESTED + b"}}",),
    "odd-types": (
        b'{ACCEPT: [{"name": "w", "shape": {"a": []}, "dtype": [1], "nbytes": "8"}], "metadata": [[]]}',
    ),
}
"""Lines in place of an answer."""


def spelled(line: bytes, right: Answer) -> bytes:
    following = {**right, "seq": right["seq"] + 1}
    for place, text in (
        (b"ACCEPT", '"seq": SEQ, "outcome": "accept", "tensors"'),
        (b"SEQ1", str(following["seq"])),
        (b"SEQ", str(right["seq"])),
        (b"GOOD", json.dumps(right)),
        (b"NEXT", json.dumps(following)),
    ):
        line = line.replace(place, text.encode())
    return line


STARTS: dict[str, Answer] = {"old-protocol": {"protocol": 0}, "bad-steps": {"steps": ["load"]}}
ONE_STEP = ("long", "rows", "fills", "talks-and-fills")
"""Acts that take so long that one step is enough."""


def misbehave(how: str, right: Answer) -> None:
    if how in LINES:
        for line in LINES[how]:
            write(spelled(line, right) + b"\n")
    else:
        globals()[how.replace("-", "_")](right)


def is_trigger(path: str) -> bool:
    if not os.path.exists(path):
        return "trigger" in path
    from known_files import holds

    return bool(holds(path))


def converse(how: str) -> None:
    global asked  # noqa: PLW0603
    if how == "no-start":
        sys.exit("fatal: configuration file not found")
    for line in sys.stdin:
        request = json.loads(line)
        if request["cmd"] == "stop":
            return
        if how == "device":
            answer_for_device(request)
            continue
        if request["cmd"] == "start":
            write(b"a banner that is no JSON\n")
            steps = ["read"] if how in ONE_STEP or how in ENDLESS else ["open", "read"]
            who = {"name": "fake program", "version": "1", "language": "Python"}
            say({"protocol": 1, "implementation": who, "steps": steps, **STARTS.get(how, {})})
            continue
        asked += 1
        if how in ENDLESS:
            ENDLESS[how]()
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


def by_status(how: str, path: str) -> int:
    if how in ENDLESS:
        ENDLESS[how]()
    if how == "stray-once":
        leave_one()
        return 0
    if is_trigger(path):
        if how == "hang":
            time.sleep(3600)
        if how == "abort":
            os.abort()
        if how.startswith("status-"):
            return int(how.removeprefix("status-"))
    from safetensors_reference import explain

    return 0 if explain(path).valid else 1


if __name__ == "__main__":
    sys.path.append(HERE)
    if sys.argv[1] == "exit":
        NOTE = Path(sys.argv[-2])
        sys.exit(by_status(sys.argv[2], sys.argv[-1]))
    converse(sys.argv[1])
