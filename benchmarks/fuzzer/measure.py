"""Measures which planted bugs each engine finds, and after how many inputs.

The main figures are numbers of executions, which are the same on any machine. Seconds are secondary.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import Any, Literal, get_args

from proof.held_out import HELD_OUT, PARTS
from proof.planted import Planted, Probe
from safetensors_corpus.features.tree import File, parse
from safetensors_corpus.judging.answer import Refused
from safetensors_fuzz.engines.campaign import Campaign, Settings
from safetensors_fuzz.grammar.grammar import valid_file
from safetensors_fuzz.loop.subjects import CallSubject, Slots, content, quick_header
from safetensors_reference import explain
from safetensors_reference.rules.book import ProfileName
from safetensors_reference.rules.faults import REPORTED_RULES


def _profile(rule: str) -> ProfileName:
    """Return a profile under which a file can break this rule without breaking any other.

    Numbers out of range and deeply nested values break no other rule only if they are in unknown fields. The
    profile must therefore ignore unknown fields.
    """
    return "official" if rule in ("HDR-16", "HDR-18") else "hardened"


@dataclass(frozen=True)
class _Without:
    """The strict reader without the check of one rule."""

    rule: str
    probe: Probe

    def content(self, data: bytes) -> dict[str, Any]:
        header = quick_header(data)
        if header is None:
            found = explain(data, _profile(self.rule))
            self.probe.reached |= bool(found.faults)
            self.probe.triggered |= any(f.rule == self.rule for f in found.faults)
            left = [f for f in found.faults if f.rule != self.rule]
            if left:
                raise Refused(left[0].code)
            header = found.header
        if header is None:
            return {"tensors": [], "metadata": None}  # the content of an invalid file is not compared
        return content(data, header)


def easy() -> tuple[Planted, ...]:
    return tuple(
        Planted(
            f"without-{rule.lower()}",
            f"does not check {rule}",
            "read",
            partial(_Without, rule),
            (rule,),
            _profile(rule),
        )
        for rule in REPORTED_RULES
    )


SetName = Literal["easy", "held-out"]
SETS: tuple[SetName, ...] = get_args(SetName)
EngineName = Literal["outcome", "no-feedback", "bytes"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)
LIMITS: dict[SetName, int] = {"easy": 5_000, "held-out": 200_000}
"""Maximum number of inputs for each set."""


@dataclass(frozen=True)
class Outcome:
    """Result of one engine on one planted bug.

    Attributes:
        reached: number of the input on which the code with the bug first ran; 0 if it never ran.
        triggered: number of the input that first met the bug's condition; 0 if none did.
        detected: number of the input with the first wrong answer that was detected; 0 if none was.
        execs: number of inputs that were run.
        seconds: wall time.
    """

    bug: str
    engine: str
    seed: int
    reached: int
    triggered: int
    detected: int
    execs: int
    seconds: float


def planted(name: SetName, part: str | None = None) -> tuple[Planted, ...]:
    """Return the readers of a set, or of one part of the held-out set."""
    if name == "easy":
        return easy()
    return PARTS[part] if part else HELD_OUT


def measure(bug: Planted, engine: EngineName, seed: int, most: int) -> Outcome:
    """Run an engine on one planted bug until it is detected or a number of inputs is reached."""
    marks = {"reached": 0, "triggered": 0}
    count = 0

    def read(data: bytes) -> dict[str, Any]:
        nonlocal count
        count += 1
        probe = Probe()
        try:
            return bug.content(data, probe)
        finally:
            for mark in marks:
                if not marks[mark] and getattr(probe, mark):
                    marks[mark] = count

    settings = Settings(
        seed=seed,
        max_execs=most,
        profile=bug.profile,
        shrink_seconds=0,
        engine=engine,
        first=True,
        feedback=engine != "no-feedback",
    )
    campaign = Campaign([CallSubject(bug.name, read)], settings)
    began = time.monotonic()
    if engine == "bytes":
        run_bytes(campaign)
    else:
        campaign.run()
    tally = campaign.tally
    # Replaying a finding can set a mark later than the input that revealed it.
    detected = min((finding.execs for finding in tally.findings.values()), default=0)
    if detected:
        marks = {mark: min(value, detected) for mark, value in marks.items()}
    seconds = round(time.monotonic() - began, 3)
    return Outcome(
        bug.name, engine, seed, marks["reached"], marks["triggered"], detected, tally.execs, seconds
    )


def _one(row: tuple[SetName, str | None, int, EngineName, int, int]) -> Outcome:
    name, part, place, engine, seed, most = row
    return measure(planted(name, part)[place], engine, seed, most)


def run_bench(
    name: SetName,
    engines: Sequence[EngineName],
    seeds: Iterable[int],
    *,
    part: str | None = None,
    most: int | None = None,
    jobs: int = 1,
    progress: Callable[[Outcome], None] = lambda _: None,
) -> list[Outcome]:
    """Measure engines on a set, or on a part of it, with ``jobs`` processes.

    ``progress`` is called with each outcome.
    """
    limit = most or LIMITS[name]
    rows = [
        (name, part, place, engine, seed, limit)
        for seed in seeds
        for engine in engines
        for place in range(len(planted(name, part)))
    ]
    out: list[Outcome] = []
    with ProcessPoolExecutor(max_workers=jobs) as pool:
        try:
            for outcome in pool.map(_one, rows):
                out.append(outcome)
                progress(outcome)
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
    return out


def summary(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Return a row for each engine and seed: bugs reached, triggered and detected, and executions needed."""
    rows = []
    keys = dict.fromkeys((o.engine, o.seed) for o in outcomes)
    for engine, seed in keys:
        own = [o for o in outcomes if (o.engine, o.seed) == (engine, seed)]
        found = sorted(o.detected for o in own if o.detected)
        rows.append(
            {
                "engine": engine,
                "seed": seed,
                "bugs": len(own),
                "reached": sum(o.reached > 0 for o in own),
                "triggered": sum(o.triggered > 0 for o in own),
                "detected": len(found),
                "median_execs": int(median(found)) if found else 0,
                "worst_execs": found[-1] if found else 0,
                "seconds": round(sum(o.seconds for o in own), 1),
            }
        )
    return rows


def as_rows(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    return [asdict(outcome) for outcome in outcomes]


SEEDS = 16


def run_bytes(campaign: Campaign) -> None:
    """Change up to four bytes of a valid file at a time until the settings stop the run."""
    settings = campaign.settings
    rng = random.Random(settings.seed)  # noqa: S311 - reproducible on purpose
    bases = [valid_file(rng).render() for _ in range(SEEDS)]
    with Slots(3) as slots:
        for _ in range(settings.max_execs or 0):
            data = bytearray(rng.choice(bases))
            for _ in range(rng.randint(1, 4)):
                at = rng.randrange(len(data))
                match rng.randrange(3):
                    case 0:
                        data[at] = rng.randrange(256)
                    case 1:
                        data[at:at] = rng.randbytes(1)
                    case _ if len(data) > 1:
                        del data[at]
            campaign.run_one(bytes(data), slots, _opaque(bytes(data)))
            if settings.first and campaign.tally.findings:
                return


def _opaque(data: bytes) -> File:
    file = parse(data)
    file.faults = ("bytes",)
    return file
