"""Cases of one choice belong together: the same options, told apart, and answered alike by one reader."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from safetensors_corpus import Case, Manifest
from safetensors_corpus.manifest import Expectation
from safetensors_reference import rule_book
from safetensors_reference.rules.book import Choice

BOOK = rule_book()
ASKED = {choice.id: choice for choice in BOOK.choices.values() if not choice.settled}
SETTLED = [choice for choice in BOOK.choices.values() if choice.settled]
ONE_CASE = {
    "big-endian-view": "forms of views and element types have choices of their own; here they only meet",
    "index-bom": "a mark can stand in one place only",
    "index-empty-map": "there is one empty map",
    "index-flat-map": "there is one way to leave out the member",
    "tensor-like-metadata": "one form of entry has strings only; what differs from it is refused or plain",
}
"""Choices for which one case says everything, and why."""


def of_choice(manifest: Manifest, choice: str) -> list[Case]:
    """All cases of a choice, heavy ones too."""
    return [case for case in manifest.cases if case.choice == choice]


def test_a_choice_has_several_cases_or_says_why_one_is_enough(manifest: Manifest) -> None:
    for choice in ASKED:
        cases = of_choice(manifest, choice)
        assert cases, choice
        assert (len(cases) == 1) == (choice in ONE_CASE), [case.id for case in cases]
    assert set(ONE_CASE) <= set(ASKED)


@pytest.mark.parametrize("choice", SETTLED, ids=lambda choice: choice.id)
def test_a_settled_choice_is_shown_by_ordinary_cases_of_its_rules(manifest: Manifest, choice: Choice) -> None:
    assert not of_choice(manifest, choice.id)
    for rule in choice.settled:
        shown = [case for case in manifest.cases if rule in case.rules and case.expect is not None]
        assert shown, f"{choice.id}: no case of {rule} demands anything"


def observable(expectation: Expectation) -> tuple[Any, ...]:
    """What of an expectation can be seen in an answer: codes do not count."""
    return expectation.outcome, repr(expectation.content), expectation.properties


def test_every_option_of_a_case_can_be_told_from_another(manifest: Manifest) -> None:
    for case in manifest.cases:
        seen = {option: observable(expectation) for option, expectation in case.options.items()}
        for option, answer in seen.items():
            differs = any(answer != other for other in seen.values())
            assert differs, f"{case.id}: {option} looks like all other options"


def test_two_options_of_a_choice_are_told_apart_by_some_case(manifest: Manifest) -> None:
    for choice in ASKED.values():
        cases = of_choice(manifest, choice.id)
        for one, two in combinations(choice.options, 2):
            differing = [c for c in cases if observable(c.options[one]) != observable(c.options[two])]
            assert differing, f"{choice.id}: nothing tells {one} from {two}"


def test_only_the_type_of_the_error_can_be_wrong_in_a_case_about_foreign_errors(manifest: Manifest) -> None:
    """API-14 is charged for a refusal by an undocumented type, so each clean answer must be permitted."""
    cases = of_choice(manifest, "foreign-errors")
    assert {case.kind for case in cases} == {"slice", "index"}
    for case in cases:
        assert case.rules[0] == "API-14"
        assert {e.outcome for e in case.options.values()} == {"accept", "reject"}
