"""Answers that are the adapter's, told from refusals of the library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from safetensors_reports.history.comparable import adapter_misfits
from safetensors_reports.history.trend import CaseInfo, VersionRun, trend

if TYPE_CHECKING:
    from ..conftest import Make

BASIC = "framing/one-tensor"
VIEW = "AssertionError: can't bitcast mismatched dtype itemsizes"


def refusal(
    make: type[Make], case: str, message: str, verdict: str = "wrong-reject", **more: Any
) -> dict[str, Any]:
    """A result whose message begins with the type of the exception, as the host writes it."""
    kind = message.partition(":")[0]
    return make.result(case, verdict, outcome="reject", exception=kind, message=message, **more)


@pytest.mark.parametrize(
    "message",
    [
        "AttributeError: 'Tensor' object has no attribute 'bitcast'",
        "AttributeError: module 'lib' has no attribute 'load_metadata'",
        "AttributeError: type object 'DType' has no attribute 'F4'",
        "ImportError: cannot import name 'safe_load_metadata' from 'lib'",
        "ModuleNotFoundError: No module named 'lib.state'",
        "TypeError: load() got an unexpected keyword argument 'device'",
        "TypeError: save() takes 2 positional arguments but 3 were given",
        "TypeError: save() missing 1 required positional argument: 'metadata'",
        "TypeError: safetensors.parse is not a function",
        "ReferenceError: parse is not defined",
    ],
)
@pytest.mark.parametrize("verdict", ["wrong-reject", "late-reject", "choice:error", "pass"])
def test_what_is_not_there_is_no_answer(make: type[Make], message: str, verdict: str) -> None:
    assert adapter_misfits([refusal(make, "a", message, verdict)], []) == {"a": message}


@pytest.mark.parametrize(
    "message",
    [
        "AttributeError: 'list' object has no attribute 'items'",
        "AttributeError: 'NoneType' object has no attribute 'get'",
        "AttributeError: module 'numpy' has no attribute 'bool'",
        "TypeError: argument 'slices': failed to extract enum Slice ('Slice | Slices')",
        "TypeError: 'NoneType' object is not subscriptable",
        "KeyError: 'data_offsets'",
        "SafetensorError: InvalidHeaderDeserialization",
    ],
)
def test_a_refusal_of_the_library_is_one(make: type[Make], message: str) -> None:
    assert not adapter_misfits([refusal(make, "a", message)], [make.result(BASIC)])


def test_what_meets_a_basic_file_too_is_no_answer(make: type[Make]) -> None:
    control = [refusal(make, BASIC, VIEW)]
    rows = [
        refusal(make, "a", VIEW),
        refusal(make, "b", VIEW, "late-reject"),
        refusal(make, "c", VIEW, "choice:error", step="lifecycle"),
        refusal(make, "d", "ValueError: size mismatched"),
        make.result("e", "wrong-accept"),
        make.result("f"),
    ]
    assert adapter_misfits(rows, control).keys() == {"a", "b", "c"}


def test_numbers_in_a_message_do_not_tell_answers_apart(make: type[Make]) -> None:
    control = [refusal(make, BASIC, "ValueError: 8 bytes do not fit")]
    assert adapter_misfits([refusal(make, "a", "ValueError: 24 bytes do not fit")], control)


def test_answers_without_an_exception_count_for_their_step_alone(make: type[Make]) -> None:
    control = [refusal(make, "lifecycle/one-tensor-first", VIEW, step="lifecycle")]
    same = make.result("a", "choice:error", outcome="reject", step="lifecycle")
    other = make.result("b", "wrong-reject", outcome="reject", step="read")
    assert adapter_misfits([same, other], control).keys() == {"a"}


def test_wrong_content_of_a_basic_file_spoils_that_of_others(make: type[Make]) -> None:
    control = [make.result(BASIC, "wrong-content", detail="dtype")]
    rows = [make.result("a", "wrong-content"), make.result("b", "wrong-accept"), make.result("c")]
    assert adapter_misfits(rows, control).keys() == {"a"}


def test_a_basic_file_written_wrongly_is_the_writers_doing(make: type[Make]) -> None:
    control = [make.result("writer/two", "wrong-content", step="write")]
    assert not adapter_misfits([make.result("writer/a", "wrong-content", step="write")], control)


def test_what_a_version_lacks_stays_unsupported(make: type[Make]) -> None:
    message = "AttributeError: module 'numpy' has no attribute 'bfloat16'"
    assert not adapter_misfits([refusal(make, "a", message, "unsupported")], [])


def test_a_trend_does_not_count_them_as_fixed(make: type[Make]) -> None:
    rows = [refusal(make, "a", VIEW), make.result("b", "wrong-accept"), make.result("c")]
    old = VersionRun("0.8.0", make.run(*rows), misfits=adapter_misfits(rows, [refusal(make, BASIC, VIEW)]))
    new = VersionRun("0.9.0", make.run(make.result("a"), make.result("b"), make.result("c")))
    (passage,) = trend("lib", "s", "c", [old, new], {"a": CaseInfo("a")}).passages
    assert {c.case: (c.turn, c.before) for c in passage.changes} == {
        "a": ("unknown", "harness-error"),
        "b": ("fixed", "wrong-accept"),
    }
    assert next(c.detail for c in passage.changes if c.case == "a") == VIEW
    assert old.counts == {"harness-error": 1, "wrong-accept": 1, "pass": 1}
