"""Runs as histories compare them: neither costs nor what an adapter owes are failures of a release."""

from __future__ import annotations

import pytest

from safetensors_corpus.judging.verdicts import kind_of
from safetensors_reports.audit.inputs import AuditError
from safetensors_reports.history.comparable import comparable_run
from safetensors_reports.page.publish import MAX_LOST, history
from safetensors_reports.record.run import Row, RunRecord

from ..samples import HOLE, TWICE, corpus, failing, run

BASIC = next(c for c in corpus().cases if c.smoke and not c.heavy and c.expect and c.expect.content)
MISSING = {"outcome": "reject", "exception": "AttributeError", "message": "'f' object has no attribute 'get'"}
REFUSES = {"outcome": "reject", "exception": "ValueError", "message": "no more than 3 tensors"}


def old(*rows: Row, name: str = "lib") -> RunRecord:
    return run(*rows, name=name, version="0.1")


def verdicts(record: RunRecord) -> list[str]:
    return [kind_of(row["verdict"]) for row in record.results]


def test_a_run_without_such_answers_is_itself() -> None:
    record = old(failing(BASIC.id, "pass"), failing(HOLE), failing(TWICE, "wrong-reject", **REFUSES))
    assert comparable_run(record, corpus(), ()) is record
    own = old(failing(HOLE, "wrong-reject", **MISSING), name="reference")
    assert comparable_run(own, corpus(), ()) is own


def test_what_an_adapter_misses_is_an_error_of_the_harness() -> None:
    record = old(failing(BASIC.id, "pass"), failing(HOLE, "wrong-reject", **MISSING), failing(TWICE))
    before = [dict(row) for row in record.results]
    made = comparable_run(record, corpus(), ())
    assert verdicts(made) == ["pass", "harness-error", "wrong-accept"]
    assert record.results == before


def test_what_meets_the_basic_files_too_is_no_answer() -> None:
    record = old(failing(BASIC.id, "wrong-reject", **REFUSES), failing(HOLE, "wrong-reject", **REFUSES))
    record.choices.append({"choice": "leading-whitespace", "verdict": "choice:reject"})
    record.results[1]["choice"] = "leading-whitespace"
    made = comparable_run(record, corpus(), ())
    assert verdicts(made) == ["harness-error", "harness-error"]
    assert made.choices == []


def test_a_crash_over_the_basic_files_is_held_back_like_every_other() -> None:
    record = old(failing(BASIC.id, "unsafe", outcome="crash"), failing(HOLE, "unsafe", outcome="crash"))
    assert comparable_run(record, corpus(), ()) is record
    (line,) = history([record], corpus())
    assert (line.counts, line.lost, line.asked) == ({}, 0, 2)


def test_a_run_of_the_adapter_alone_makes_no_history() -> None:
    good = [failing(c.id, "pass") for c in corpus().cases[: round(1 / MAX_LOST)]]
    few = old(*good, failing(HOLE, "wrong-reject", **MISSING))
    (line,) = history([few], corpus())
    assert line.counts == {"harness-error": 1}
    with pytest.raises(AuditError, match=r"lib 0\.1: 1 of 3 cases have no result"):
        history([old(*good[:2], failing(HOLE, "wrong-reject", **MISSING))], corpus())


def cost(verdict: str) -> Row:
    return {
        "verdict": verdict,
        "rule": "LIM-08",
        "basis": "ours",
        "property": "cost",
        "detail": "33 MB of 20",
    }


def test_what_is_left_to_chance_is_left_out_and_other_failures_stay() -> None:
    accepts = {
        "verdict": "wrong-accept",
        "rule": "OFF-07",
        "basis": "text",
        "property": "outcome",
        "detail": "",
    }
    record = old(
        failing(HOLE, "wrong-accept", failures=[accepts, cost("deviation:cost")]),
        failing(TWICE, "deviation:cost", failures=[cost("deviation:cost")]),
        failing(BASIC.id, "unsafe", failures=[cost("unsafe")], outcome="exhausted"),
        failing(TWICE, "wrong-accept", failures=[accepts], step="concurrent"),
    )
    assert verdicts(comparable_run(record, corpus(), ())) == ["wrong-accept", "pass", "pass", "pass"]
    own = old(*record.results, name="reference")
    assert verdicts(comparable_run(own, corpus(), ())) == ["wrong-accept", "pass", "unsafe", "pass"]
    (line,) = history([record], corpus())
    assert line.counts == {"wrong-accept": 1}
    assert [(row.rule, row.cases) for row in line.failures] == [("OFF-07", 1)]
