"""What a run of the atheris engine brought, and how it is read from what the targets leave behind."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from ...findings.finding import Finding


class TargetError(Exception):
    """The target cannot do what it was asked; the text is its own."""


@dataclass(frozen=True)
class Death:
    """A target that ended as no target should: a fault in this process, or in what was asked in it.

    Attributes:
        status: exit status; negative for a signal.
        data: the input that it worked on, where libFuzzer could write it.
        words: its last words.
    """

    status: int
    data: bytes | None
    words: str


@dataclass
class AtherisResult:
    """What a run did.

    Attributes:
        execs: inputs tried.
        seconds: wall time, starting included.
        findings: one of each signature, the smallest; those that lay in the output folder before are out.
        outcomes: what all answered -> how often.
        stages: how many inputs got past ``json``, past ``schema``, and were ``accepted``.
        rules: rule -> inputs that break it.
        tuples: different outcome tuples; of several processes the largest number.
        known: signature of an earlier finding -> how often it came up again.
        unstable: signature -> how often a fresh process gave the same answer again.
        deaths: targets that died.
        interrupted: ended by Ctrl-C.
    """

    execs: int = 0
    seconds: float = 0.0
    findings: tuple[Finding, ...] = ()
    outcomes: Counter[str] = field(default_factory=Counter)
    stages: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    tuples: int = 0
    known: Counter[str] = field(default_factory=Counter)
    unstable: dict[str, int] = field(default_factory=dict)
    deaths: list[Death] = field(default_factory=list)
    interrupted: bool = False


def input_of(words: str) -> bytes | None:
    """Return the input that libFuzzer says it wrote to a file."""
    _, said, rest = words.partition("Test unit written to ")
    path = Path(rest.partition("\n")[0].strip())
    return path.read_bytes() if said and path.is_file() else None


def tally_of(path: Path) -> tuple[AtherisResult, str]:
    """Return the counts that one target wrote, and its folder of inputs; nothing when it wrote none."""
    try:
        raw = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return AtherisResult(), ""
    result = AtherisResult(
        execs=raw["execs"],
        seconds=raw["seconds"],
        outcomes=Counter(raw["outcomes"]),
        stages=Counter(raw["stages"]),
        rules=Counter(raw["rules"]),
        tuples=raw["tuples"],
        known=Counter(raw["known"]),
        unstable=raw["unstable"],
    )
    return result, raw["slots"]
