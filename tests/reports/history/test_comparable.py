"""Runs as histories compare them, without random failures and failures of the adapter."""

from __future__ import annotations

from typing import Any

import pytest

from safetensors_corpus.judging.verdicts import kind_of
from safetensors_reports.audit.inputs import AuditError
from safetensors_reports.history.comparable import adapter_misfits, comparable_run
from safetensors_reports.history.trend import VersionRun
from safetensors_reports.page.publish import MAX_LOST, history
from safetensors_reports.record.run import Row, RunRecord

from ..samples import HOLE, TWICE, Make, corpus, failing, run

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


def test_what_an_adapter_misses_or_basic_files_meet_too_is_an_error_of_the_harness() -> None:
    record = old(failing(BASIC.id, "pass"), failing(HOLE, "wrong-reject", **MISSING), failing(TWICE))
    before = [dict(row) for row in record.results]
    assert verdicts(comparable_run(record, corpus(), ())) == ["pass", "harness-error", "wrong-accept"]
    assert record.results == before
    record = old(failing(BASIC.id, "wrong-reject", **REFUSES), failing(HOLE, "wrong-reject", **REFUSES))
    record.choices.append({"choice": "leading-whitespace", "verdict": "choice:reject"})
    record.results[1]["choice"] = "leading-whitespace"
    made = comparable_run(record, corpus(), ())
    assert (verdicts(made), made.choices) == (["harness-error"] * 2, [])


def test_a_crash_over_the_basic_files_is_held_back_like_every_other() -> None:
    record = old(failing(BASIC.id, "unsafe", outcome="crash"), failing(HOLE, "unsafe", outcome="crash"))
    assert comparable_run(record, corpus(), ()) is record
    (line,) = history([record], corpus())
    assert (line.counts, line.asked) == ({}, 2)


def test_a_run_of_the_adapter_alone_makes_no_history() -> None:
    good = [failing(c.id, "pass") for c in corpus().cases[: round(1 / MAX_LOST)]]
    few = old(*good, failing(HOLE, "wrong-reject", **MISSING))
    (line,) = history([few], corpus())
    assert line.counts == {"harness-error": 1}
    with pytest.raises(AuditError, match=r"lib 0\.1: 1 of 3 cases have no result"):
        history([old(*good[:2], failing(HOLE, "wrong-reject", **MISSING))], corpus())


def cost(verdict: str) -> Row:
    return {"verdict": verdict, "rule": "LIM-08", "basis": "ours", "property": "cost", "detail": ""}


def test_what_is_left_to_chance_is_left_out_and_other_failures_stay() -> None:
    accepts = {**cost("wrong-accept"), "rule": "OFF-07", "basis": "text", "property": "outcome"}
    record = old(
        failing(HOLE, "wrong-accept", failures=[accepts, cost("deviation:cost")]),
        failing(TWICE, "deviation:cost", failures=[cost("deviation:cost")]),
        failing(BASIC.id, "unsafe", failures=[cost("unsafe")], outcome="exhausted"),
        failing(TWICE, "wrong-accept", failures=[accepts], step="concurrent"),
        failing("contended/new-file-2", "wrong-accept", failures=[accepts], step="write"),
    )
    assert verdicts(comparable_run(record, corpus(), ())) == ["wrong-accept", *["pass"] * 4]
    own = old(*record.results, name="reference")
    assert verdicts(comparable_run(own, corpus(), ())) == ["wrong-accept", "pass", "unsafe", "pass", "pass"]
    (line,) = history([record], corpus())
    assert line.counts == {"wrong-accept": 1}
    assert [(row.rule, row.cases) for row in line.failures] == [("OFF-07", 1)]


VIEW = "AssertionError: can't bitcast mismatched dtype itemsizes"


def refusal(case: str, message: str, verdict: str = "wrong-reject", **more: Any) -> dict[str, Any]:
    """Return a rejection with a message that begins with the type of the exception, as the host writes it."""
    kind = message.partition(":")[0]
    return Make.result(case, verdict, outcome="reject", exception=kind, message=message, **more)


def test_what_is_not_there_is_no_answer_and_a_refusal_of_the_library_is_one() -> None:
    for missing, message in (
        (True, "AttributeError: 'Tensor' object has no attribute 'bitcast'"),
        (True, "AttributeError: module 'lib' has no attribute 'load_metadata'"),
        (True, "AttributeError: type object 'DType' has no attribute 'F4'"),
        (True, "ImportError: cannot import name 'safe_load_metadata' from 'lib'"),
        (True, "ModuleNotFoundError: No module named 'lib.state'"),
        (True, "TypeError: load() got an unexpected keyword argument 'device'"),
        (True, "TypeError: save() takes 2 positional arguments but 3 were given"),
        (True, "TypeError: save() missing 1 required positional argument: 'metadata'"),
        (True, "TypeError: safetensors.parse is not a function"),
        (True, "ReferenceError: parse is not defined"),
        (False, "AttributeError: 'list' object has no attribute 'items'"),
        (False, "AttributeError: 'NoneType' object has no attribute 'get'"),
        (False, "AttributeError: module 'numpy' has no attribute 'bool'"),
        (False, "TypeError: argument 'slices': failed to extract enum Slice ('Slice | Slices')"),
        (False, "TypeError: 'NoneType' object is not subscriptable"),
        (False, "KeyError: 'data_offsets'"),
        (False, "SafetensorError: InvalidHeaderDeserialization"),
    ):
        expected = {"a": message} if missing else {}
        for verdict in ("wrong-reject", "late-reject", "choice:error", "pass"):
            assert adapter_misfits([refusal("a", message, verdict)], [Make.result(BASIC.id)]) == expected


BYTES = "ValueError: {} bytes do not fit"
LIFECYCLE = {"outcome": "reject", "step": "lifecycle"}
MISREAD = Make.result(BASIC.id, "wrong-content", detail="dtype")


def test_an_answer_that_basic_files_get_too_is_no_answer() -> None:
    for control, row, misfit in (
        (refusal(BASIC.id, VIEW), refusal("a", VIEW), True),
        (refusal(BASIC.id, VIEW), refusal("a", VIEW, "late-reject"), True),
        (refusal(BASIC.id, VIEW), refusal("a", VIEW, "choice:error", step="lifecycle"), True),
        (refusal(BASIC.id, VIEW), refusal("a", "ValueError: size mismatched"), False),
        (refusal(BASIC.id, VIEW), Make.result("a", "wrong-accept"), False),
        (refusal(BASIC.id, VIEW), Make.result("a"), False),
        # Numbers in messages do not matter.
        (refusal(BASIC.id, BYTES.format(8)), refusal("a", BYTES.format(24)), True),
        # Without an exception, the step matters.
        (refusal("b", VIEW, step="lifecycle"), Make.result("a", "choice:error", **LIFECYCLE), True),
        (refusal("b", VIEW, step="lifecycle"), Make.result("a", "wrong-reject", outcome="reject"), False),
        (MISREAD, Make.result("a", "wrong-content"), True),
        (MISREAD, Make.result("a", "wrong-accept"), False),
        (MISREAD, Make.result("a"), False),
        # A basic file that was written wrongly is the fault of the writer.
        (MISREAD | {"step": "write"}, Make.result("a", "wrong-content", step="write"), False),
        (Make.result(BASIC.id), refusal("a", "ImportError: no bfloat16", "unsupported"), False),
    ):
        assert bool(adapter_misfits([row], [control])) is misfit


def test_a_trend_does_not_count_them_as_fixed() -> None:
    rows = [refusal("a", VIEW)]
    version = VersionRun.of("0.8.0", Make.run(*rows), adapter_misfits(rows, [refusal(BASIC.id, VIEW)]))
    assert (version.verdicts, version.details) == ({"a": "harness-error"}, {"a": VIEW})
