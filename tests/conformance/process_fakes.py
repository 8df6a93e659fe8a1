"""Programs that misbehave as processes, whatever they answer. Usage: ``python -IS FILE HOW [NOTE]``.

Standard library only, so that they start at once. Each refuses every file, and does what its name says when
it is asked for a path with ``trigger`` in it. ``NOTE`` is a file in which they leave word.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

HOW = sys.argv[1]
NOTE = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(os.devnull)
START = {"protocol": 1, "implementation": {"name": HOW}, "steps": ["read"]}
asked = 0


def say(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def flood(refusal: dict[str, object]) -> None:
    """Write without end and read nothing any more."""
    while True:
        os.write(1, b"x" * (1 << 16))


def flood_after(refusal: dict[str, object]) -> None:
    say(refusal)
    flood(refusal)


def hoard(refusal: dict[str, object]) -> None:
    """Read nothing any more and say nothing."""
    time.sleep(600)


def deaf(refusal: dict[str, object]) -> None:
    say(refusal)
    os.close(0)
    time.sleep(600)


def die_after(refusal: dict[str, object]) -> None:
    say(refusal)
    os.kill(os.getpid(), signal.SIGSEGV)


def die_after_once(refusal: dict[str, object]) -> None:
    if NOTE.exists():
        say(refusal)
    else:
        NOTE.touch()
        die_after(refusal)


def die_once(refusal: dict[str, object]) -> None:
    if NOTE.exists():
        say(refusal)
    else:
        NOTE.touch()
        os.kill(os.getpid(), signal.SIGSEGV)


def die(refusal: dict[str, object]) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def die_second(refusal: dict[str, object]) -> None:
    if asked > 1:
        die(refusal)
    say(refusal)


def drip(refusal: dict[str, object]) -> None:
    """A byte of the answer from time to time, and one on standard error."""
    while True:
        os.write(1, b" ")
        os.write(2, b".")
        time.sleep(0.05)


def half(refusal: dict[str, object]) -> None:
    os.write(1, json.dumps(refusal).encode()[:-4])
    time.sleep(600)


ACTS: dict[str, Callable[[dict[str, object]], None]] = {
    name.replace("_", "-"): act
    for name, act in list(globals().items())
    if callable(act) and act.__module__ == __name__
}


def main() -> None:
    global asked  # noqa: PLW0603
    for line in sys.stdin:
        request = json.loads(line)
        if request["cmd"] == "stop":
            return
        if request["cmd"] == "start":
            say(START)
            continue
        asked += 1
        refusal = {"seq": request["seq"], "outcome": "reject", "message": "no"}
        if "trigger" in request["path"]:
            ACTS[HOW](refusal)
        else:
            say(refusal)


main()
