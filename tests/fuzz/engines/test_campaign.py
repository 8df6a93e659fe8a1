"""The engine against readers whose faults are known."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from proof.broken.correct import reader as small_reader
from safetensors_conformance.implementations.selectors import Target, resolve
from safetensors_conformance.programs.launcher import folder_in_memory
from safetensors_conformance.worker.worker import Limits
from safetensors_corpus.features.tree import parse
from safetensors_corpus.judging.answer import Refused
from safetensors_fuzz.engines import campaign as campaign_module
from safetensors_fuzz.engines import run as running
from safetensors_fuzz.engines.campaign import Campaign, Settings, Tally
from safetensors_fuzz.engines.run import FuzzConfig, Run
from safetensors_fuzz.finding import ENTRY, Finding
from safetensors_fuzz.loop import question
from safetensors_fuzz.loop.question import FileQuestion
from safetensors_fuzz.loop.subjects import (
    CallSubject,
    Slots,
    Subject,
    WorkerSubject,
    complete,
)
from safetensors_reference import explain

from ..samples import READING, fuzzed, refuse

READER = small_reader.READER
Read = Callable[[bytes], Mapping[str, Any]]
EMPTY = b"\x02" + bytes(7) + b"{}"
"""The smallest valid file."""


def found(read: Read, start: Sequence[bytes] = (), **settings: Any) -> tuple[Tally, list[Finding]]:
    settings = {"max_execs": 1500, "profile": "hardened", "shrink_seconds": 2.0, **settings}
    return fuzzed(CallSubject("small", read), start=start, **settings)


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("check", "rule"),
    [("hole", "OFF-07"), ("trailing", "OFF-08"), ("name-twice", "HDR-09"), ("metadata-value", "MET-01")],
)
def test_a_check_left_out_is_found_made_small_and_told_once(check: str, rule: str) -> None:
    tally, (finding,) = found(READER.without(check).content)
    assert (finding.verdict, finding.rules) == ("wrong-accept", (rule,))
    assert finding.signature == next(iter(tally.findings))
    assert finding.replays == 3
    assert finding.size <= 130
    data = finding.files[ENTRY]
    assert {fault.rule for fault in explain(data).faults} == {rule}
    assert finding.expectation["outcome"] == "reject"
    assert finding.where is not None
    assert 0 <= finding.where[0] <= finding.where[1] <= len(data)


def refusing(samples: Sequence[tuple[tuple[str, ...], bytes]]) -> Campaign:
    """Put samples, each with the faults that it is said to have, to a reader that refuses all alike."""
    campaign = Campaign([CallSubject("none", refuse)], Settings(profile="hardened", shrink_seconds=0))
    with Slots(0) as slots:
        for faults, data in samples:
            file = parse(data)
            file.faults = faults
            campaign.run_one(data, slots, file)
    return campaign


def test_a_valid_file_among_broken_ones_is_wrongly_refused() -> None:
    """It is refused in the words of broken files with the same fault, which are not looked at again."""
    for faults in (("hole",), ("hole", "trailing")):
        broken = [(faults, EMPTY + bytes(number + 1)) for number in range(3)]
        assert not refusing(broken).tally.findings
        (finding,) = refusing([*broken, (faults, EMPTY)]).tally.findings.values()
        assert finding.verdict == "wrong-reject"


def test_pairs_of_faults_that_all_refuse_are_seldom_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    explained: list[bytes] = []

    def opinion(data: bytes, *args: Any, **more: Any) -> FileQuestion:
        explained.append(data)
        return question.opinion(data, *args, **more)

    monkeypatch.setattr(campaign_module, "opinion", opinion)
    tally = refusing([((f"a{n}", f"b{n}"), EMPTY + bytes(n + 1)) for n in range(16)]).tally
    assert tally.rules == {"OFF-08": 16}
    assert len(explained) == 3


@pytest.mark.skipif(folder_in_memory() is None, reason="there is no folder in memory here")
def test_only_what_a_writer_makes_goes_to_the_disk() -> None:
    usual = tempfile.gettempdir()
    memory = str(folder_in_memory())
    for step, folder in (("slice", memory), ("index", memory), ("write", usual)):
        with campaign_module.scratch(step):
            assert tempfile.gettempdir() == folder
        assert tempfile.gettempdir() == usual


def test_the_same_seed_finds_the_same() -> None:
    reader = READER.without("hole", "trailing", "reversed").content
    first, second = (found(reader, seed=5, shrink_seconds=60.0, max_execs=800)[1] for _ in range(2))
    assert len(first) >= 2
    assert first == second


def test_inputs_of_an_earlier_run_come_first() -> None:
    read = Mock(side_effect=Refused("all"))
    tally, _ = found(read, [b"", EMPTY], max_execs=10, shrink_seconds=0)
    assert [call.args[0] for call in read.call_args_list[:2]] == [b"", EMPTY]
    assert tally.execs == 10


def test_a_run_for_the_first_finding_ends_with_it() -> None:
    tally, kept = found(READER.without("trailing").content, [EMPTY + b"!"], first=True)
    assert [f.rules for f in kept] == [("OFF-08",)]
    assert tally.execs < 1000


def test_an_answer_that_comes_once_is_no_finding_and_is_told() -> None:
    calls = itertools.count(1)

    def flaky(data: bytes) -> Mapping[str, Any]:
        if next(calls) == 20:
            raise ZeroDivisionError
        return READER.content(data)

    tally, kept = found(flaky, max_execs=40)
    assert kept == []
    assert list(tally.unstable.values()) == [0]


def test_workers_that_die_are_findings_and_do_not_stop_the_run() -> None:
    """What follows the one that kills is the seed's; whether any of it kills too does not matter."""
    target = resolve(f"py:{READING}:DiesOnSomeSizes")
    subject = WorkerSubject(target, ["read"], Limits(10.0))
    tally, kept = fuzzed(subject, start=[bytes(9)], max_execs=6, shrink_seconds=0.1)
    assert tally.execs == 6
    assert {f.verdict for f in kept} == {"unsafe"}
    assert all(f.size % 16 == 9 for f in kept)


TRIAGE = """
[[known]]
signature = "a known one"
reason = "of these two alone"
issue = "https://example.org/1"
review_by = 2999-01-01
between = ["reference", "safetensors:numpy"]
"""


def test_known_between_two_are_known_of_any_version_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    triage = tmp_path / "triage.toml"
    triage.write_text(TRIAGE, encoding="utf-8")
    known: list[bool] = []

    def started(target: Target, *_: Any) -> Any:
        """Make a subject without a worker, so that no environment of the version is needed."""
        names = {"name": target.selector, "plain": target.plain()}
        return SimpleNamespace(**names, steps=(), plan_steps=("slice",), close=lambda: None)

    def campaign(subjects: Any, settings: Settings, **_: Any) -> Any:
        known.append(settings.known("a known one"))
        return SimpleNamespace(plans=lambda *_: None)

    monkeypatch.setattr(running, "WorkerSubject", started)
    monkeypatch.setattr(running, "Campaign", campaign)
    for selector in ("safetensors:numpy==0.7.0", "safetensors:numpy", "safetensors"):
        config = FuzzConfig((selector,), ("slice",), max_execs=5, triage=triage)
        Run(config, lambda _: None, lambda _: None, Tally()).here([resolve(selector)])
    assert known == [True, True, False]


def test_who_has_the_same_name_as_another_is_called_by_the_selector() -> None:
    subjects = [Subject() for _ in range(3)]
    names = [("mlx", "mlx==1"), ("mlx", "mlx==2"), ("lib", "py:a:b")]
    for subject, (plain, name) in zip(subjects, names, strict=True):
        subject.plain, subject.name = plain, name
    complete(subjects, [])
    assert [subject.plain for subject in subjects] == ["mlx==1", "mlx==2", "lib"]


def test_single_files_and_other_steps_are_two_campaigns() -> None:
    asked = [("read",), ("slice", "index"), ("read", "slice"), ("prove", "write")]
    assert [FuzzConfig(("reference",), steps).families for steps in asked] == [1, 1, 2, 2]
