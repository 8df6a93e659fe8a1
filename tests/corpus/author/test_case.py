"""Registering cases: ids, texts and what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from safetensors_corpus.author import case as registry
from safetensors_corpus.author.case import (
    ACCEPT,
    AREAS,
    Accept,
    CaseFunction,
    Reject,
    accepts,
    all_cases,
    chooses,
    reject,
    rejects,
)
from safetensors_corpus.author.file import FileBuilder


@pytest.fixture
def cases(monkeypatch: pytest.MonkeyPatch) -> dict[str, CaseFunction]:
    """An empty register in place of the real one."""
    empty: dict[str, CaseFunction] = {}
    monkeypatch.setattr(registry, "_CASES", empty)
    return empty


def function(
    name: str, doc: str | None = "A title.\n\nA text\nof two lines.", module: str = "x.framing.length"
) -> Callable[..., None]:
    """A case function as it would stand in a module of cases."""

    def body(f: FileBuilder, value: object = None) -> None:
        f.tensor(f"{value}")

    body.__name__ = name
    body.__doc__ = doc
    body.__module__ = module
    return body


def test_the_id_comes_from_area_and_name_and_the_texts_from_the_docstring(
    cases: dict[str, CaseFunction],
) -> None:
    body = function("one_thing", module="safetensors_cases.layout.size")
    assert accepts("FRM-01", importance="high")(body) is body
    case = cases["layout/one-thing"]
    assert (case.id, case.title, case.description) == ("layout/one-thing", "A title.", "A text of two lines.")
    assert (case.rules, case.choice, case.options) == (("FRM-01",), None, {"": ACCEPT})
    assert (case.importance, case.steps, case.smoke) == ("high", ("open", "read"), False)
    assert case.source == {"kind": "hand"}


def test_a_refusal_holds_its_codes_primary_first(cases: dict[str, CaseFunction]) -> None:
    rejects("FRM-03", codes="FRM_TOO_SHORT")(function("one"))
    rejects("FRM-03", codes=["OFF_HOLE", "OFF_TRAILING"])(function("two"))
    assert cases["framing/one"].options == {"": Reject(("FRM_TOO_SHORT",))}
    assert cases["framing/two"].options == {"": reject("OFF_HOLE", "OFF_TRAILING")}


def test_a_choice_holds_what_each_option_does(cases: dict[str, CaseFunction]) -> None:
    options: dict[str, Accept | Reject] = {"reject": reject("HDR_BAD_START"), "accept": ACCEPT}
    chooses("leading-whitespace", "FRM-01", options=options)(function("one"))
    case = cases["framing/one"]
    assert (case.choice, case.options, case.rules) == ("leading-whitespace", options, ("FRM-01",))


def test_one_function_makes_a_case_per_value(cases: dict[str, CaseFunction]) -> None:
    doc = "Title of $slug.\n\nThe value is $value, the price $$5, $other stays."
    accepts("FRM-01", over={"small": 1, "large": 2})(function("size", doc))
    assert list(cases) == ["framing/size-small", "framing/size-large"]
    large = cases["framing/size-large"]
    assert large.title == "Title of large."
    assert large.description == "The value is 2, the price $5, $other stays."
    f = FileBuilder()
    large.body(f, *large.arguments)
    assert [t["name"] for t in _tensors(f)] == ["2"]


def _tensors(f: FileBuilder) -> list[dict[str, Any]]:
    tensors = f.content()["tensors"]
    assert isinstance(tensors, list)
    return tensors


def test_a_public_report_is_the_source(cases: dict[str, CaseFunction]) -> None:
    accepts("FRM-01", issue="https://example.org/1")(function("one"))
    assert cases["framing/one"].source == {"kind": "report", "issue": "https://example.org/1"}


def test_members_of_a_family_have_reports_of_their_own(cases: dict[str, CaseFunction]) -> None:
    issue = {"small": "https://example.org/1"}
    accepts("FRM-01", over={"small": 1, "large": 2}, issue=issue)(function("size"))
    assert cases["framing/size-small"].source == {"kind": "report", "issue": "https://example.org/1"}
    assert cases["framing/size-large"].source == {"kind": "hand"}
    with pytest.raises(ValueError, match=r"unknown members of the family in issues: .*huge"):
        accepts("FRM-01", over={"small": 1}, issue={"huge": "https://example.org/1"})


def test_the_area_is_a_module_or_a_folder(cases: dict[str, CaseFunction]) -> None:
    accepts("FRM-01")(function("one", module="x.cases.data"))
    accepts("FRM-01")(function("two", module="x.cases.resource.header"))
    assert list(cases) == ["data/one", "resource/two"]
    with pytest.raises(KeyError, match=r"x\.cases\.elsewhere"):
        accepts("FRM-01")(function("three", module="x.cases.elsewhere"))


def test_rules_stand_in_one_string_the_main_one_first(cases: dict[str, CaseFunction]) -> None:
    accepts("FRM-02 FRM-01", over={"a": 1, "b": 2}, ahead={"b": ("DTY-01",)})(function("one"))
    assert cases["framing/one-a"].rules == ("FRM-02", "FRM-01")
    assert cases["framing/one-b"].rules == ("DTY-01", "FRM-02", "FRM-01")


def test_an_id_registered_twice_is_refused(cases: dict[str, CaseFunction]) -> None:
    accepts("FRM-01")(function("one"))
    with pytest.raises(ValueError, match=r"framing/one.*twice"):
        accepts("FRM-01")(function("one"))
    assert len(cases) == 1


@pytest.mark.parametrize("name", ["One", "one__two", "_one", "one_", "größe", "one2_"])
def test_an_id_that_is_no_slug_is_refused(cases: dict[str, CaseFunction], name: str) -> None:
    with pytest.raises(ValueError, match="lower-case"):
        accepts("FRM-01")(function(name))
    assert cases == {}


@pytest.mark.parametrize("slug", ["A", "a b", "a_b", "a/b", "../x"])
def test_a_slug_that_is_none_is_refused(cases: dict[str, CaseFunction], slug: str) -> None:
    with pytest.raises(ValueError, match="lower-case"):
        accepts("FRM-01", over={slug: 1})(function("one"))


@pytest.mark.parametrize("doc", [None, "", "   "])
def test_a_case_without_docstring_is_refused(cases: dict[str, CaseFunction], doc: str | None) -> None:
    with pytest.raises(ValueError, match="docstring is missing"):
        accepts("FRM-01")(function("one", doc))


CASES = all_cases()


def test_cases_come_in_the_order_of_the_format_and_the_same_each_time() -> None:
    keys = [(list(AREAS).index(c.id.split("/")[0]), c.id) for c in CASES]
    assert keys == sorted(keys)
    assert [c.id for c in all_cases()] == [c.id for c in CASES]


def test_there_are_enough_cases_in_every_area() -> None:
    assert len(CASES) >= 1000
    for area in AREAS:
        few = area in ("repeated", "contended")  # hundreds of requests, or several processes, each
        assert sum(c.id.startswith(area + "/") for c in CASES) >= (3 if few else 10), area


def test_ids_say_nothing_about_the_verdict() -> None:
    for case in CASES:
        assert not re.search("valid|reject|accept|bad|good|wrong|refuse|correct|malicious|attack", case.id)


def test_the_smoke_cases_tell_a_broken_adapter_from_a_broken_reader() -> None:
    """That takes a file every reader accepts and one that every reader refuses."""
    smoke = [c for c in CASES if c.smoke]
    assert {type(option).__name__ for c in smoke for option in c.options.values()} == {"Accept", "Reject"}
    assert all(c.choice is None for c in smoke)
    assert len(smoke) <= 10


def test_every_case_says_in_a_sentence_what_it_is() -> None:
    for case in CASES:
        assert case.title.endswith("."), case.id
        assert "\n" not in case.title + case.description, case.id
        assert "$" not in case.title, case.id
