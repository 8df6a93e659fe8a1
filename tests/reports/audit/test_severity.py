"""Severity, difficulty and advice: by outcome, never by count."""

from __future__ import annotations

from typing import Any

import pytest

from safetensors_reference import rule_book
from safetensors_reference.rules.cwe import CWE_NAMES
from safetensors_reference.rules.pages import AREAS
from safetensors_reports.audit.severity import (
    CONFORMANCE_ONLY,
    OUTCOMES,
    SECURITY_SEVERITY,
    SEVERITIES,
    difficulty,
    outcome_class,
    severity,
    weaknesses_of,
)
from safetensors_reports.recommendations import OF_AREA, OF_CODE, OF_OUTCOME, recommendation
from safetensors_reports.text import slug, stable

from ..samples import HOLE, corpus, failing, report, run


def row(verdict: str, outcome: str = "accept", message: str = "") -> dict[str, Any]:
    return {"verdict": verdict, "outcome": outcome, "message": message, "step": "read"}


@pytest.mark.parametrize(
    ("result", "step", "numbers", "level"),
    [
        (row("unsafe", "crash", "killed by SIGSEGV"), "read", (), "critical"),
        (row("unsafe", "crash", "killed by SIGBUS"), "lifecycle", (), "high"),
        (row("unsafe", "crash", "PanicException: capacity overflow"), "slice", (), "high"),
        (row("unsafe", "hang"), "read", (), "high"),
        (row("unsafe", "exhausted"), "read", (), "high"),
        (row("unsafe", "accept"), "read", (), "high"),
        (row("wrong-content"), "read", (), "high"),
        (row("wrong-content"), "write", (), "medium"),
        (row("wrong-accept"), "read", (694, 436), "medium"),
        (row("wrong-accept"), "read", (1285, 125), "medium"),
        (row("wrong-accept"), "read", (1287,), "low"),
        (row("late-reject"), "read", (436,), "low"),
        (row("wrong-reject", "reject"), "read", (436,), "low"),
        (row("not-strict"), "read", (436,), "informational"),
    ],
)
def test_severity_goes_by_outcome(
    result: dict[str, Any], step: str, numbers: tuple[int, ...], level: str
) -> None:
    assert severity(outcome_class(result), step, numbers) == level


def test_one_crash_outranks_any_number_of_wrong_accepts() -> None:
    many = [failing(c.id) for c in corpus().cases if c.rules[0] == "HDR-09"]
    crash = failing(HOLE, "unsafe", outcome="crash", message="killed by SIGSEGV", detail="")
    document = report(run(*many, crash))
    assert [f.rule for f in document.findings] == ["OFF-07", "HDR-09"]
    assert document.findings[0].case_count == 1
    assert document.findings[0].severity == "critical"


def test_difficulty_is_another_scale() -> None:
    assert [difficulty(s) for s in ("read", "index", "slice", "write", "remote", "lifecycle")] == [
        "low",
        "low",
        "medium",
        "medium",
        "medium",
        "high",
    ]


def test_resources_have_their_own_weaknesses() -> None:
    assert weaknesses_of("resources", row("unsafe", "hang"), ()) == (400,)
    assert weaknesses_of("resources", row("unsafe", "exhausted"), (400, 789)) == (770, 400, 789)


def test_a_crash_has_only_weaknesses_by_which_a_process_can_die() -> None:
    assert weaknesses_of("crash", row("unsafe", "crash"), (436, 125)) == (125,)
    assert weaknesses_of("crash", row("unsafe", "crash"), (436,)) == (248,)


def test_what_a_changing_file_does_is_a_race() -> None:
    assert weaknesses_of("crash", row("unsafe", "crash") | {"step": "lifecycle"}, ()) == (367,)


def test_what_readers_do_to_each_other_is_a_race_too() -> None:
    assert weaknesses_of("content", row("wrong-content", "accept") | {"step": "concurrent"}, ()) == (362,)
    assert difficulty("concurrent") == "high"


def test_what_harms_nobody_is_told_apart() -> None:
    assert weaknesses_of("reject", row("wrong-reject", "reject"), (125,)) == (CONFORMANCE_ONLY,)


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_every_outcome_has_a_weakness_with_a_name(outcome: str) -> None:
    numbers = weaknesses_of(outcome, row("unsafe", "crash"), ())
    assert numbers
    assert set(numbers) <= CWE_NAMES.keys()


def test_the_numbers_for_services_fall_with_severity_and_stay_in_their_band() -> None:
    numbers = [SECURITY_SEVERITY[level] for level in SEVERITIES]
    assert numbers == sorted(numbers, reverse=True)
    assert numbers[0] >= 9 > numbers[1] >= 7 > numbers[2] >= 4 > numbers[3] > 0


def test_there_is_advice_for_every_area_and_every_code_of_a_file() -> None:
    assert OF_AREA.keys() == AREAS.keys()
    areas = ("FRM", "HDR", "ENT", "DTY", "SHP", "OFF", "MET", "IDX", "WRT")
    assert {c for c in rule_book().codes if c.startswith(areas)} <= OF_CODE.keys() <= rule_book().codes.keys()
    assert OF_OUTCOME.keys() <= OUTCOMES.keys()
    texts = [*OF_AREA.values(), *OF_CODE.values(), *OF_OUTCOME.values()]
    assert all(text.endswith(".") and text.count(". ") == 0 for text in texts)
    assert recommendation("accept", "OFF_HOLE", "OFF-07") == OF_CODE["OFF_HOLE"]
    assert recommendation("content", None, "OFF-07") == OF_AREA["OFF"]
    assert recommendation("crash", "OFF_HOLE", "OFF-07") == OF_OUTCOME["crash"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Error: /work/x/corpus/files/a.safetensors: bad", "Error: …/a.safetensors: bad"),
        ("<object at 0x7f12ab34cd56>", "<object at 0x…>"),
        ("over budget: 2,100 bytes of memory of 2,000", "over budget: more than 2,000 bytes of memory"),
        ("over budget: processor time 3.2 s of 1 s, the less", "over budget: processor time, the less"),
        ("no answer within 10 s; killed", "no answer within 10 s; killed"),
        ("bytes (sha256 2750d48397bc…, not 1c5ab659b91a…)", "bytes"),
        ("in 3.25 s", "in …"),
        ("and/or 1/2", "and/or 1/2"),
        ("two\nlines\u202e", "two\\nlines\\u202e"),
    ],
)
def test_volatile_parts_leave_texts(text: str, shown: str) -> None:
    assert stable(text) == shown


def test_slugs() -> None:
    assert slug("py:a.b:C 1.0 OFF-07 wrong-accept") == "py-a-b-c-1-0-off-07-wrong-accept"
