"""A program whose output always tries to leave its line: escapes, bidi controls, workflow commands.

Usage: ``python loud_fake.py HOW``.
"""

from __future__ import annotations

import json
import sys

HOW = sys.argv[1]
CONTROL = "\x1b[2J\x1b]0;title\x07\u202eabc\x85\x9b31m"
COMMANDS = "::warning::one\r\n::error file=a::two\n##[group]three"
TEXT = f"{CONTROL}\u2028{COMMANDS}\ud800"


def say(answer: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def die() -> None:
    sys.stderr.buffer.write(TEXT.encode("utf-8", "surrogatepass") + b"\n")
    sys.stderr.flush()
    sys.exit(3)


def start() -> dict[str, object]:
    if HOW == "dies-at-start":
        die()
    if HOW == "refuses-to-start":
        return {"error": {"message": TEXT}}
    who = {"name": TEXT, "version": TEXT, "language": TEXT}
    return {"protocol": 1, "implementation": who, "steps": ["read"], "lacks": [TEXT[:50]]}


def answer() -> dict[str, object]:
    if HOW == "dies":
        die()
    if HOW == "noise":
        sys.stdout.write(TEXT.replace("\ud800", "") + "\n")
    row = {"name": TEXT, "dtype": TEXT, "shape": TEXT, "nbytes": TEXT, "sha256": TEXT}
    answers: dict[str, dict[str, object]] = {
        "refuses": {"outcome": "reject", "message": TEXT, "exception": TEXT, "documented": False},
        "tensors": {"outcome": "accept", "tensors": [row], "metadata": {TEXT: TEXT}},
        "mistake": {"outcome": "harness-error", "message": TEXT},
        "outcome": {"outcome": TEXT},
    }
    return answers.get(HOW, {"outcome": "accept", "tensors": []})


for line in sys.stdin:
    request = json.loads(line)
    if request["cmd"] == "stop":
        break
    say(start() if request["cmd"] == "start" else {"seq": request["seq"], **answer()})
