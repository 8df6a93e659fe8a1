"""The loop with the real reference and with readers that behave badly."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from safetensors_conformance.selectors import resolve
from safetensors_conformance.worker import Limits, StartError
from safetensors_fuzz.loop import Tally, fuzz
from safetensors_reference import explain

from ..reference.support import ABCD, W, entry, make

BASES = (
    make(f'{{"w":{W}}}', ABCD),
    make(f'{{"__metadata__":{{"k":"v"}},"a":{entry("F32", "[1]")},"b":{entry("U8", "[0]", "[4,4]")}}}', ABCD),
)
FAKES = Path(__file__).parent / "fakes.py"


def fake(name: str) -> str:
    return f"py:{FAKES}:{name}"


def run(*selectors: str, **changes: Any) -> Tally:
    tally = Tally()
    settings: dict[str, Any] = {
        "seed": 1,
        "max_execs": 50,
        "seconds": None,
        "limits": Limits(10.0),
        "folder": None,
        "progress": lambda _: None,
    }
    fuzz([resolve(s) for s in selectors or ("reference",)], BASES, tally=tally, **settings | changes)
    return tally


def test_the_reference_agrees_with_itself() -> None:
    tally = run()
    assert tally.execs == 50
    assert tally.seconds > 0
    assert set(tally.outcomes) <= {"accept", "reject"}
    assert sum(tally.outcomes.values()) == 50
    assert tally.findings == {}


def test_the_same_seed_gives_the_same_run_and_other_seeds_others() -> None:
    first, again, *others = (run(seed=seed).outcomes for seed in (5, 5, 6, 7, 8))
    assert first == again
    assert any(other != first for other in others)


def test_progress_is_told_after_every_input() -> None:
    seen: list[int] = []
    run(max_execs=5, progress=lambda tally: seen.append(tally.execs))
    assert seen == [1, 2, 3, 4, 5]


def test_the_time_ends_a_run() -> None:
    tally = run(max_execs=10**9, seconds=0.5)
    assert 0 < tally.execs < 10**6
    assert tally.seconds >= 0.5


def test_a_disagreement_is_kept_with_the_input_that_shows_it(tmp_path: Path) -> None:
    selector = fake("AcceptsAll")
    tally = run("reference", selector, folder=tmp_path)
    assert "reject / accept" in tally.outcomes
    assert tally.findings
    for signature, finding in tally.findings.items():
        assert finding["signature"] == signature
        place = tmp_path / finding["sha256"][:12]
        data = (place / "input.safetensors").read_bytes()
        assert hashlib.sha256(data).hexdigest() == finding["sha256"]
        assert len(data) == finding["size"]
        assert json.loads((place / "finding.json").read_text()) == finding
        assert set(finding["results"]) == {"reference", selector}
        if "reference reject" in signature:
            explanation = explain(data, "official")
            assert not explanation.valid
            assert any(f.code in signature for f in explanation.faults)


def test_one_finding_is_kept_for_each_kind_of_disagreement() -> None:
    tally = run("reference", fake("AcceptsAll"), max_execs=150)
    digests = [f["sha256"] for f in tally.findings.values()]
    assert len(digests) == len(set(digests))
    assert len(digests) < tally.outcomes["reject / accept"]


def test_a_finding_can_be_found_again_by_its_seed_and_number() -> None:
    first = run("reference", fake("AcceptsAll"), seed=3, max_execs=20)
    again = run("reference", fake("AcceptsAll"), seed=3, max_execs=20)
    assert [(s, f["sha256"], f["exec"]) for s, f in first.findings.items()] == [
        (s, f["sha256"], f["exec"]) for s, f in again.findings.items()
    ]


def test_two_readers_that_accept_must_say_the_same() -> None:
    tally = run("reference", fake("OtherMetadata"), max_execs=150)
    assert set(tally.outcomes) == {"accept / accept", "reject / reject"}
    assert any(signature.startswith("content:") for signature in tally.findings)


def test_a_crash_is_a_finding_and_the_run_goes_on() -> None:
    selector = fake("DiesOnSomeSizes")
    tally = run(selector, max_execs=100)
    assert tally.execs == 100
    assert tally.outcomes["crash"] > 0
    assert sum(tally.outcomes.values()) == 100
    assert any(s.startswith(f"{selector}: crash") for s in tally.findings)


def test_without_a_folder_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("reference", fake("AcceptsAll"), max_execs=10).findings
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_does_not_start_is_an_error() -> None:
    with pytest.raises(StartError, match="no_such_module"):
        run("py:no_such_module:Reader")
