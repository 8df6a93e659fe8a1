"""Programs that speak the worker protocol badly. Usage: ``python stdio_fakes.py HOW``."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING

from known_files import holds

if TYPE_CHECKING:
    from .quick_reader import Reference
else:
    from quick_reader import Reference

HOW = sys.argv[1]


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def answer(seq: int, step: str, path: str) -> dict[str, object]:
    reader = Reference()
    try:
        content = getattr(reader, step)(path)
        rows = [{"name": t[0], "dtype": t[1], "shape": list(t[2])} for t in content["tensors"]]
    except ValueError as err:
        return {"seq": seq, "outcome": "reject", "message": str(err)}
    return {"seq": seq, "outcome": "accept", "tensors": rows, "metadata": content["metadata"]}


def odd_answers(seq: int, good: dict[str, object]) -> list[dict[str, object]] | None:
    """Return the replacement of a good answer, None for other kinds of misbehaviour."""
    return {
        "wrong-order": [good | {"seq": seq + 1}],
        "bad-outcome": [{"seq": seq, "outcome": "perhaps"}],
        # The request behind this one is answered as well, before anybody asked.
        "forge-next": [good, good | {"seq": seq + 1, "outcome": "reject"}],
        "answers-twice": [good, good],
        "counts-only": [{"seq": seq, "outcome": "accept", "tensor_count": 987654321}],
    }.get(HOW)


def misbehave(request: dict[str, object], good: dict[str, object]) -> None:
    answers = odd_answers(int(str(request["seq"])), good)
    if answers is not None:
        for line in answers:
            say(json.dumps(line))
    elif HOW == "endless-line":
        while True:
            sys.stdout.write("x" * (1 << 20))
    elif HOW == "endless-noise":
        while True:
            say("noise " * 1000)
    elif HOW == "many-values":
        say(json.dumps(good | {"metadata": [[]] * 500_000}))
    elif HOW == "eats-memory":
        hoard = []
        while True:
            hoard.append(b"\x01" * (32 << 20))
            time.sleep(0.01)
    elif HOW == "closes-stdout":
        os.close(1)
        time.sleep(3600)
    else:
        say(json.dumps(good))


def main() -> None:
    if HOW == "no-start":
        sys.exit("fatal: configuration file not found")
    for line in sys.stdin:
        request = json.loads(line)
        if request["cmd"] == "stop":
            return
        if request["cmd"] == "start":
            if HOW == "old-protocol":
                say(json.dumps({"protocol": 0, "implementation": {"name": "old"}, "steps": ["read"]}))
            elif HOW == "bad-steps":
                say(json.dumps({"protocol": 1, "implementation": {"name": "x"}, "steps": ["load"]}))
            else:
                say("a banner that is no JSON")
                who = {"name": "stdio fake", "version": "1", "language": "Python"}
                say(json.dumps({"protocol": 1, "implementation": who, "steps": ["open", "read"]}))
            continue
        good = answer(request["seq"], request["step"], request["path"])
        if HOW == "noise":
            say("reading " + request["path"])
        if holds(request["path"]):
            misbehave(request, good)
        else:
            say(json.dumps(good))


main()
