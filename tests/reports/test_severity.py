"""Severity, difficulty and advice: by outcome, never by count."""

from __future__ import annotations

import re
from typing import Any

from safetensors_corpus.judging.written_folder import RULES_OF
from safetensors_reference import rule_book
from safetensors_reference.rules.cwe import CWE_NAMES
from safetensors_reports.severity import (
    ADVICE_BY_CODE,
    ADVICE_BY_END,
    ADVICE_BY_OUTCOME,
    ADVICE_BY_PROPERTY,
    ADVICE_BY_RULE,
    CONFORMANCE_ONLY,
    NO_RULE,
    OTHER_RULE,
    OUTCOMES,
    SECURITY_SEVERITY,
    SEVERITIES,
    difficulty,
    of_rule,
    outcome_class,
    recommendation,
    severity,
    weaknesses_of,
)
from safetensors_reports.text import stable

from .samples import HOLE, corpus, failing, report, run


def row(verdict: str, outcome: str = "accept", message: str = "") -> dict[str, Any]:
    return {"verdict": verdict, "outcome": outcome, "message": message, "step": "read"}


def test_severity_goes_by_outcome() -> None:
    for result, step, numbers, level in (
        (row("unsafe", "crash", "killed by SIGSEGV"), "read", (), "critical"),
        (row("unsafe", "crash", "killed by SIGBUS"), "lifecycle", (), "high"),
        (row("unsafe", "crash", "PanicException: capacity overflow"), "slice", (), "medium"),
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
        (row("unsafe", "accept") | {"step": "export"}, "export", (), "high"),
    ):
        assert severity(outcome_class(result), step, numbers) == level


def test_scales_are_in_order_and_every_outcome_has_a_weakness_with_a_name() -> None:
    steps = ("read", "index", "slice", "write", "remote", "lifecycle", "concurrent")
    assert list(map(difficulty, steps)) == [*["low"] * 2, *["medium"] * 3, *["high"] * 2]
    numbers = [SECURITY_SEVERITY[level] for level in SEVERITIES]
    assert numbers == sorted(numbers, reverse=True)
    assert numbers[0] >= 9 > numbers[1] >= 7 > numbers[2] >= 4 > numbers[3] > 0
    for outcome in OUTCOMES:
        found = weaknesses_of(outcome, row("unsafe", "crash"), ())
        assert found
        assert set(found) <= CWE_NAMES.keys(), outcome


def test_one_crash_outranks_any_number_of_wrong_accepts() -> None:
    many = [failing(c.id) for c in corpus().cases if c.rules[0] == "HDR-09"]
    crash = failing(HOLE, "unsafe", outcome="crash", message="killed by SIGSEGV", detail="")
    document = report(run(*many, crash))
    assert [f.rule for f in document.findings] == ["OFF-07", "HDR-09"]
    assert document.findings[0].case_count == 1
    assert document.findings[0].severity == "critical"


def test_weaknesses_follow_from_the_outcome_and_the_step() -> None:
    for result, of_fault, expected in (
        (row("unsafe", "hang"), (), (400,)),
        (row("unsafe", "exhausted"), (400, 789), (770, 400, 789)),
        # A process dies only from some weaknesses.
        (row("unsafe", "crash"), (436, 125), (125,)),
        (row("unsafe", "crash"), (436,), (248,)),
        # Changing files and concurrent readers are races.
        (row("unsafe", "crash") | {"step": "lifecycle"}, (), (367,)),
        (row("wrong-content") | {"step": "concurrent"}, (), (362,)),
        (row("unsafe", "accept") | {"step": "export"}, (), (22,)),
        (row("wrong-reject", "reject"), (125,), (CONFORMANCE_ONLY,)),
    ):
        assert weaknesses_of(outcome_class(result), result, of_fault) == expected


def test_an_exception_that_handlers_miss_is_no_dead_process() -> None:
    """Runs count both as crashes. Who answers with an exception lives, and one that is killed tells none."""
    panicked = row("unsafe", "crash", "PanicException: capacity overflow")
    told = row("unsafe", "crash", "capacity overflow") | {"exception": "PanicException"}
    assert [outcome_class(r) for r in (panicked, told)] == ["panic", "panic"]
    assert outcome_class(row("unsafe", "crash", "killed by SIGABRT")) == "crash"
    died = failing(HOLE, "unsafe", outcome="crash", message="killed by SIGABRT", detail="")
    alive, dead = (report(run(r)) for r in (failing(HOLE) | panicked, died))
    (finding,) = alive.findings
    raises = 'raises an exception that "except Exception" does not catch'
    assert f"{raises} (the process survives) on files" in finding.title
    assert "crashes on files" in dead.findings[0].title
    panic, crash = (document.implementations[0].causes[0] for document in (alive, dead))
    assert panic.what.startswith(f"{raises}: ")
    assert crash.what.startswith("crashes: ")
    assert finding.recommendation == panic.mend == f"{ADVICE_BY_OUTCOME['panic']} {ADVICE_BY_END['OFF']}"


def test_there_is_advice_for_every_code_of_a_file() -> None:
    areas = ("FRM", "HDR", "ENT", "DTY", "SHP", "OFF", "MET", "IDX", "WRT")
    codes = rule_book().codes.keys()
    assert {code for code in codes if code.startswith(areas)} <= ADVICE_BY_CODE.keys() <= codes
    assert ADVICE_BY_RULE.keys() <= rule_book().rules.keys()
    areas_of_rules = {rule[:3] for rule in rule_book().rules}
    assert ADVICE_BY_END.keys() <= {*rule_book().rules, *areas_of_rules}
    assert ADVICE_BY_OUTCOME.keys() <= OUTCOMES.keys()
    assert ADVICE_BY_PROPERTY.keys() <= {"valid", *RULES_OF}
    tables = (ADVICE_BY_RULE, ADVICE_BY_CODE, ADVICE_BY_OUTCOME, ADVICE_BY_END, ADVICE_BY_PROPERTY)
    texts = [text for table in tables for text in table.values()]
    assert all(text.endswith(".") and text.count(". ") == 0 for text in texts)


_EVERYWHERE = frozenset(
    {"file", "files", "tensor", "tensors", "reader", "readers", "must", "should", "that", "with", "this"}
)


def _words(text: str) -> set[str]:
    """Words of a text without their endings, and without those that any rule has."""
    return {word[:5] for word in re.findall("[a-z]{4,}", text.lower()) if word not in _EVERYWHERE}


OF_AREA = frozenset({"FRM-10", "HDR-04", "DAT-07", "WRT-15", "WRT-21", "API-12", "API-21", "API-22"})
"""Rules about something that kills no program; what does is the subject of their area."""


def test_the_advice_of_every_rule_speaks_of_that_rule() -> None:
    for rule, about in rule_book().rules.items():
        topic = _words(" ".join([about.title, about.statement, *(rule_book().codes[c] for c in about.codes)]))
        said = of_rule(rule)
        assert said not in (NO_RULE, OTHER_RULE), rule
        assert _words(said) & topic, rule
        for kind in ("memory", "crash", "strictness", "content", *(["accept"] if about.codes else [])):
            for code in about.codes or [None]:
                general = rule in OF_AREA and kind in ("memory", "crash")
                assert general or _words(recommendation(kind, code, rule)) & topic, (rule, kind)
        # Only rules on how a file comes into its place are mended by giving it another name.
        assert ("rename" in said) <= (rule in {"WRT-14", "WRT-15", "WRT-19", "IDX-21"}), rule


def test_advice_goes_by_outcome_property_code_and_rule() -> None:
    for outcome, code, rule, broken, said in (
        ("accept", "OFF_HOLE", "OFF-07", "outcome", ADVICE_BY_CODE["OFF_HOLE"]),
        # The file has another fault, too, which is not what the reader is charged with.
        ("accept", "OFF_HOLE", "HDR-09", "outcome", ADVICE_BY_CODE["HDR_DUP_KEY"]),
        ("accept", "MET_NOT_MAP", "MET-02", "outcome", ADVICE_BY_RULE["MET-02"]),
        ("accept", None, "WRT-10", "outcome", ADVICE_BY_RULE["WRT-10"]),
        ("content", None, "WRT-19", "target-unchanged", ADVICE_BY_PROPERTY["target-unchanged"]),
        ("content", "OFF_HOLE", "MET-04", "metadata", ADVICE_BY_RULE["MET-04"]),
        ("strictness", None, "WRT-02", "header-padded", ADVICE_BY_PROPERTY["header-padded"]),
        ("strictness", None, "OFF-15", "outcome", ADVICE_BY_RULE["OFF-15"]),
        *((end, "OFF_HOLE", "OFF-07", "outcome", ADVICE_BY_END["OFF"]) for end in ("memory", "crash")),
        ("crash", None, "OFF-11", "", ADVICE_BY_END["OFF-11"]),
        ("crash", None, "LIM-01", "", of_rule("LIM-01")),
        *((end, "OFF_HOLE", "OFF-07", "", ADVICE_BY_OUTCOME["resources"]) for end in ("resources", "cost")),
        *((end, "OFF_HOLE", "OFF-07", "", ADVICE_BY_OUTCOME[end])
          for end in ("late", "reject", "exception", "contradiction")),
        ("accept", "OFF_HOLE", "", "", ADVICE_BY_CODE["OFF_HOLE"]),
        ("accept", None, "", "", NO_RULE),
        ("content", None, "XXX-99", "", OTHER_RULE),
        *(("resources", None, rule, "", of_rule(rule)) for rule in ("API-16", "IDX-01")),
        ("crash", None, "", "", ADVICE_BY_OUTCOME["crash"]),
    ):  # fmt: skip
        assert recommendation(outcome, code, rule, broken) == said


def test_volatile_parts_leave_texts() -> None:
    for text, shown in (
        ("Error: /work/x/corpus/files/a.safetensors: bad", "Error: …/a.safetensors: bad"),
        ("<object at 0x7f12ab34cd56>", "<object at 0x…>"),
        ("over budget: 2,100 bytes of memory of 2,000", "over budget: more than 2,000 bytes of memory"),
        ("over budget: processor time 3.2 s of 1 s, the less", "over budget: processor time, the less"),
        ("no answer within 10 s; killed", "no answer within 10 s; killed"),
        ("bytes (sha256 2750d48397bc…, not 1c5ab659b91a…)", "bytes"),
        ("in 3.25 s", "in …"),
        ("and/or 1/2", "and/or 1/2"),
        ("two\nlines\u202e", "two\\nlines\\u202e"),
    ):
        assert stable(text) == shown
