"""Campaigns: nothing is found in the reference; what fakes do wrong is found, made small and kept once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.worker.worker import Limits
from safetensors_fuzz.engines.campaign import Campaign, Settings, Tally
from safetensors_fuzz.finding import Finding
from safetensors_fuzz.loop.subjects import WorkerSubject

from .support import STEPS

HERE = Path(__file__).parent / "fakes.py"


def campaign(
    names: Sequence[str],
    steps: Sequence[str],
    count: int,
    *,
    progress: Callable[[Tally], None] = lambda _: None,
    tally: Tally | None = None,
    **more: Any,
) -> tuple[Tally, list[Finding]]:
    """Run plans with the reference or with fakes of ``fakes.py``."""
    kept: list[Finding] = []
    subjects: list[WorkerSubject] = []
    try:
        for name in names:
            target = resolve(name if name == "reference" else f"py:{HERE}:{name}")
            subjects.append(WorkerSubject(target, (*steps, "read"), Limits(20)))
            subjects[-1].plain = subjects[-1].name
        chosen = Settings(**{"seed": 3, **more})
        asked = Campaign(subjects, chosen, keep=kept.append, progress=progress, tally=tally)
        return asked.plans(steps, count, None), kept
    finally:
        for subject in subjects:
            subject.close()


def test_the_reference_does_everything_right() -> None:
    tally, kept = campaign(["reference"], STEPS, 90)
    assert kept == []
    assert tally.execs == 90
    asked = [vector.split(": ") for vector in tally.outcomes]
    assert {step for step, _ in asked} == set(STEPS)
    assert {verdict for _, verdict in asked} <= {"pass", "choice", "unsupported", "not-strict"}
    assert tally.outcomes["slice: pass"] > 12


def test_a_wrong_slicer_is_found_and_made_small() -> None:
    seen: list[int] = []
    tally, kept = campaign(["InclusiveStop"], ["slice"], 25, progress=lambda t: seen.append(t.execs))
    wrong = [finding for finding in kept if finding.signature.startswith("API-05: ")]
    (found,) = [finding for finding in wrong if "wrong-content:shape" in finding.signature]
    assert found.verdict == "deviation:content"  # the written format is silent on slices
    assert (found.step, found.replays, found.rules[0], found.codes) == ("slice", 3, "API-05", ())
    assert found.action is not None
    assert len(found.action["index"]) == 1
    assert found.size < 80 <= found.size_found
    assert [line.partition(":")[0] for line in found.got.values()] == ["accept"]
    assert list(tally.findings.values()) == kept
    assert seen[-1] == tally.execs == 25
    assert json.loads(json.dumps(found.expectation)) == found.expectation


@pytest.mark.parametrize(
    ("name", "step", "count", "verdict", "subject", "rules", "cause"),
    [
        ("ReservedName", "write", 60, "wrong-accept", "WRT_BAD_NAME/WRT-06", ("WRT-06",), ""),
        ("LastWins", "index", 40, "deviation:content", "index-tensor-twice", ("IDX-11",), ""),
        ("RefusesEmpty", "slice", 80, "", "", ("SHP-04",), "the answer is right without the part"),
        ("RefusesSlices", "slice", 20, "", "", (), "not known"),
    ],
)
def test_what_a_fake_does_wrong_is_charged_to_its_rules(
    name: str, step: str, count: int, verdict: str, subject: str, rules: tuple[str, ...], cause: str
) -> None:
    _, kept = campaign([name], [step], count)
    if subject:
        assert {finding.verdict for finding in kept} == {verdict}
        kept = [f for f in kept if f.signature.partition(": ")[0] == subject]
    else:
        kept = [f for f in kept if f.expectation.get("outcome") == "accept" and "reject" in f.signature]
    assert kept
    for finding in kept:
        assert finding.rules[: len(rules)] == rules
        assert bool(finding.rules) == bool(rules)
        assert finding.cause.startswith(cause)
        assert (finding.entry in finding.files) == (step != "write")


def test_each_implementation_is_asked_the_steps_that_it_has() -> None:
    tally, _ = campaign(["reference", "LastWins"], ["slice", "index"], 10)
    answers = Counter(vector.partition(":")[0] for vector in tally.outcomes.elements())
    assert tally.execs == 10
    assert answers == {"slice": 5, "index": 10}


def test_interrupting_leaves_what_was_found() -> None:
    def stop(tally: Tally) -> None:
        if tally.execs == 5:
            raise KeyboardInterrupt

    tally = Tally()
    with pytest.raises(KeyboardInterrupt):
        campaign(["reference"], ["slice"], 1000, progress=stop, tally=tally)
    assert tally.execs == 5
    assert tally.seconds > 0
