"""The engine against readers whose faults are known."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from proof.broken.correct import reader as small_reader
from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.worker.worker import Limits
from safetensors_corpus.features.tree import parse
from safetensors_corpus.judging.answer import Refused
from safetensors_fuzz.engines import campaign as campaign_module
from safetensors_fuzz.engines.campaign import Campaign
from safetensors_fuzz.finding import ENTRY, Finding
from safetensors_fuzz.loop import expectation
from safetensors_fuzz.loop.expectation import FileQuestion
from safetensors_fuzz.loop.recorder import Settings, Tally
from safetensors_fuzz.loop.subjects import CallSubject, Slots, Subject, WorkerSubject, folder_in_memory
from safetensors_reference import explain

from ..samples import ACCEPTS_ALL, READING

READER = small_reader.READER


def fuzzed(subject: Subject, start: Sequence[bytes] = (), **settings: Any) -> tuple[Tally, list[Finding]]:
    kept: list[Finding] = []
    chosen = Settings(**{"max_execs": 1500, "profile": "hardened", "shrink_seconds": 2.0, **settings})
    tally = Campaign([subject], chosen, keep=kept.append).run(start)
    subject.close()
    return tally, kept


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("check", "rule"),
    [("hole", "OFF-07"), ("trailing", "OFF-08"), ("name-twice", "HDR-09"), ("metadata-value", "MET-01")],
)
def test_a_check_left_out_is_found_made_small_and_told_once(check: str, rule: str) -> None:
    tally, kept = fuzzed(CallSubject("small", READER.without(check).content))
    assert [f.verdict for f in kept] == ["wrong-accept"]
    (finding,) = kept
    assert finding.rules == (rule,)
    assert finding.signature == next(iter(tally.findings))
    assert finding.replays == 3
    assert finding.size <= 130
    data = finding.files[ENTRY]
    assert {fault.rule for fault in explain(data).faults} == {rule}
    assert finding.expectation["outcome"] == "reject"
    assert finding.where is not None
    assert 0 <= finding.where[0] <= finding.where[1] <= len(data)


def test_wrong_content_names_what_differs() -> None:
    def other(data: bytes) -> Mapping[str, Any]:
        content = READER.content(data)
        for row in content["tensors"]:
            if len(row["shape"]) > 1:
                row["shape"] = row["shape"][::-1]
        return content

    _, kept = fuzzed(CallSubject("reversed", other))
    assert [(f.verdict, f.rules) for f in kept] == [("wrong-content", ("SHP-11",))]
    assert kept[0].codes == ()
    assert "shape" in next(iter(kept[0].got.values()))


def test_a_known_mistake_is_neither_reported_nor_made_small() -> None:
    calls = 0

    def reader(data: bytes) -> Mapping[str, Any]:
        nonlocal calls
        calls += 1
        return READER.without("hole").content(data)

    tally, kept = fuzzed(CallSubject("small", reader), known=lambda s: s.startswith("OFF_HOLE: accept small"))
    assert kept == []
    assert tally.known
    assert calls == tally.execs


def refusing(samples: Sequence[tuple[tuple[str, ...], bytes]]) -> Campaign:
    """Put samples, each with the faults that it is said to have, to a reader that refuses all alike."""

    def read(data: bytes) -> Mapping[str, Any]:
        raise Refused("all")

    campaign = Campaign([CallSubject("none", read)], Settings(profile="hardened", shrink_seconds=0))
    with Slots(0) as slots:
        for faults, data in samples:
            file = parse(data)
            file.faults = faults
            campaign.run_one(data, slots, file)
    return campaign


def test_a_valid_file_among_broken_ones_is_wrongly_refused() -> None:
    """It is refused in the words of broken files with the same fault, which are not looked at again."""
    valid = b"\x02" + bytes(7) + b"{}"
    for faults in (("hole",), ("hole", "trailing")):
        broken = [(faults, valid + bytes(number + 1)) for number in range(3)]
        assert not refusing(broken).tally.findings
        (finding,) = refusing([*broken, (faults, valid)]).tally.findings.values()
        assert finding.verdict == "wrong-reject"


def test_pairs_of_faults_that_all_refuse_are_seldom_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    explained: list[bytes] = []

    def opinion(data: bytes, *args: Any, **more: Any) -> FileQuestion:
        explained.append(data)
        return expectation.opinion(data, *args, **more)

    monkeypatch.setattr(campaign_module, "opinion", opinion)
    tally = refusing(
        [((f"a{n}", f"b{n}"), b"\x02" + bytes(7) + b"{}" + bytes(n + 1)) for n in range(16)]
    ).tally
    assert tally.rules == {"OFF-08": 16}
    assert len(explained) == 3


@pytest.mark.skipif(folder_in_memory() is None, reason="there is no folder in memory here")
def test_only_what_a_writer_makes_goes_to_the_disk() -> None:
    usual = tempfile.gettempdir()
    for step, folder in (
        ("slice", str(folder_in_memory())),
        ("index", str(folder_in_memory())),
        ("write", usual),
    ):
        with campaign_module.scratch(step):
            assert tempfile.gettempdir() == folder
        assert tempfile.gettempdir() == usual


def test_the_same_seed_finds_the_same() -> None:
    def once() -> list[tuple[str, bytes]]:
        reader = READER.without("hole", "trailing", "reversed").content
        _, kept = fuzzed(CallSubject("small", reader), seed=5, shrink_seconds=60.0, max_execs=800)
        return [(f.signature, f.files[ENTRY]) for f in kept]

    first = once()
    assert len(first) >= 2
    assert once() == first


def test_inputs_of_an_earlier_run_come_first() -> None:
    seen: list[bytes] = []

    def read(data: bytes) -> Mapping[str, Any]:
        seen.append(data)
        raise Refused("all")

    earlier = [b"", b"\x02" + bytes(7) + b"{}"]
    campaign = Campaign([CallSubject("none", read)], Settings(max_execs=10, shrink_seconds=0))
    campaign.run(earlier)
    assert seen[:2] == earlier
    assert campaign.tally.execs == 10


def test_a_run_for_the_first_finding_ends_with_it() -> None:
    subject = CallSubject("small", READER.without("trailing").content)
    tally, kept = fuzzed(subject, [b"\x02" + bytes(7) + b"{}!"], first=True)
    assert [f.rules for f in kept] == [("OFF-08",)]
    assert tally.execs < 1000


def test_an_answer_that_comes_once_is_no_finding_and_is_told() -> None:
    calls = 0

    def flaky(data: bytes) -> Mapping[str, Any]:
        nonlocal calls
        calls += 1
        if calls == 20:
            raise ZeroDivisionError
        return READER.content(data)

    tally, kept = fuzzed(CallSubject("flaky", flaky), max_execs=40)
    assert kept == []
    assert list(tally.unstable.values()) == [0]


def test_workers_that_die_are_findings_and_do_not_stop_the_run() -> None:
    """What follows the one that kills is the seed's; whether any of it kills too does not matter."""
    target = resolve(f"py:{READING}:DiesOnSomeSizes")
    subject = WorkerSubject(target, ["read"], Limits(10.0))
    deadly = bytes(9)
    tally, kept = fuzzed(subject, [deadly], max_execs=6, shrink_seconds=0.1)
    assert tally.execs == 6
    assert {f.verdict for f in kept} == {"unsafe"}
    assert all(f.size % 16 == 9 for f in kept)


def test_a_subject_without_the_step_is_refused() -> None:
    with pytest.raises(ValueError, match="has none of the steps open; it has read"):
        WorkerSubject(resolve(ACCEPTS_ALL), ["open"], Limits(10.0))
