"""Measures which mutants of the strict reader the inputs of the grammar detect.

The mutants, and the reasons why no file can reveal some of them, are the same as in ``python -m
proof.mutation``. Here, the unchanged reader determines the expected answer, as it does when the fuzzer tests
an implementation.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from proof.mutation.engine import Limits, run_all
from proof.mutation.mutants import Mutant
from proof.mutation.reader import load_reader, reader_mutants, warm
from proof.mutation.result import load_reasons
from safetensors_fuzz.engines.campaign import Campaign, Settings
from safetensors_fuzz.loop.subjects import ProveSubject
from safetensors_reference import PROFILES, explain


@dataclass(frozen=True)
class FuzzProbe:
    """One input under one profile, with the answer of the unchanged reader."""

    id: str
    data: bytes
    profile: str
    answer: tuple[Any, ...]


def answer_of(explanation: Any, data: bytes) -> tuple[Any, ...]:
    """Return the relevant part of an explanation: verdict, content and fault codes."""
    header = explanation.header
    if header is None:
        return ("reject", frozenset(fault.code for fault in explanation.faults))
    start = header.data_start
    rows = sorted(
        (t.name, t.dtype, tuple(t.shape), t.nbytes, data[start + t.begin : start + t.end])
        for t in header.tensors.values()
    )
    return ("accept", rows, header.metadata)


def probes(execs: int, seed: int) -> list[FuzzProbe]:
    """Return the inputs that a run of the outcome-tuple engine keeps, under every relevant profile."""
    kept: list[bytes] = []
    settings = Settings(seed=seed, max_execs=execs, profile="hardened")
    Campaign([ProveSubject()], settings, store=kept.append).run()
    random.Random(seed).shuffle(kept)  # noqa: S311 - reproducible on purpose
    out = []
    for number, data in enumerate(kept):
        disputed = any(fault.choice for fault in explain(data).faults)
        profiles = PROFILES if disputed else PROFILES[-1:]
        out += [FuzzProbe(str(number), data, p, answer_of(explain(data, p), data)) for p in profiles]
    return out


def _loader(mutant: Mutant) -> Callable[[], Callable[[FuzzProbe], str | None]]:
    def load() -> Callable[[FuzzProbe], str | None]:
        reader = load_reader(mutant)
        return lambda probe: (
            None
            if answer_of(reader(probe.data, probe.profile), probe.data) == probe.answer
            else "another answer"
        )

    return load


def measure(
    inputs: Sequence[FuzzProbe], jobs: int = 2, tell: Callable[[int], None] = lambda _: None
) -> dict[str, Any]:
    """Run all mutants on the inputs. Returns counts, and the names of the mutants that should be detected.

    ``score`` is the share of detected mutants among those that any file could distinguish from the reader.
    """
    warm()
    reasons = load_reasons()
    statuses: dict[str, str] = {}
    for name, outcome in run_all(((m.name, _loader(m), inputs) for m in reader_mutants()), Limits(), jobs):
        statuses[name] = outcome.status
        tell(len(statuses))
    counts = Counter(statuses.values())
    survivors = [name for name, status in statuses.items() if status == "survived"]
    missed = sorted(name for name in survivors if name not in reasons or reasons[name].kind == "wanted")
    killed = counts["killed"]
    return {
        "inputs": len(inputs),
        "mutants": killed + len(survivors),
        "killed": killed,
        "equivalent": len(survivors) - len(missed),
        "missed": missed,
        "score": round(killed / (killed + len(missed)), 4) if killed else 0.0,
    }
