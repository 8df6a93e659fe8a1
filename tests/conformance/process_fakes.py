"""Programs that misbehave as processes, independent of their answers. Usage: ``python -IS FILE HOW [NOTE]``.

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
MAIN = os.getpid()
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


def quote(refusal: dict[str, object]) -> None:
    say({**refusal, "message": str(NOTE)})


def leave(act: Callable[[], None]) -> None:
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


def stray(refusal: dict[str, object]) -> None:
    leave(lambda: time.sleep(600))
    while not NOTE.exists():
        time.sleep(0.01)
    say(refusal)


def stray_hangs(refusal: dict[str, object]) -> None:
    leave(lambda: time.sleep(600))
    time.sleep(600)


def stray_dies(refusal: dict[str, object]) -> None:
    leave(lambda: time.sleep(600))
    while not NOTE.exists():
        time.sleep(0.01)
    die(refusal)


def fill(size: int) -> None:
    filled = b"x" * size
    time.sleep(600 if filled else 0)


def stray_fills(refusal: dict[str, object]) -> None:
    leave(lambda: fill(400 << 20))
    time.sleep(600)


def need(refusal: dict[str, object]) -> None:
    """Answer after taking 160 MiB for half a second."""
    filled = b"x" * (160 << 20)
    time.sleep(0.5)
    say(refusal if filled else {})


def share(refusal: dict[str, object]) -> None:
    """Many processes over the same pages."""
    filled = b"x" * (60 << 20)
    pids = []
    for _ in range(20):
        if (pid := os.fork()) == 0:
            time.sleep(600)
        pids.append(pid)
    time.sleep(0.5)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    say(refusal if filled else {})


def bomb(refusal: dict[str, object]) -> None:
    """Processes without end, one after the other, each soon an orphan."""
    while True:
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(600)
            os._exit(0)
        os.wait()


def kill_keeper(refusal: dict[str, object]) -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(600)


def stop_keeper(refusal: dict[str, object]) -> None:
    os.kill(os.getppid(), signal.SIGSTOP)
    time.sleep(600)


ACTS: dict[str, Callable[[dict[str, object]], None]] = {
    name.replace("_", "-"): act
    for name, act in list(globals().items())
    if callable(act) and act.__module__ == __name__
}


def main() -> None:
    if HOW == "stray-once":  # by exit status
        leave(lambda: time.sleep(600))
        while not NOTE.exists():
            time.sleep(0.01)
        return
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
