"""Cases: what is not registered, what all have in common, and the tables of their steps and kinds."""

from __future__ import annotations

import re
from typing import Any

import pytest

from safetensors_corpus import in_process
from safetensors_corpus.actions import ACTIONS
from safetensors_corpus.author import case as registry
from safetensors_corpus.author.case import AREAS, accepts, all_cases
from safetensors_corpus.publish.build import BUILDERS
from safetensors_corpus.steps import CASE_STEPS, KINDS, ONE_STEP_KINDS, STEPS


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        *(({"name": name}, "lower-case") for name in ("One", "one__two", "_one", "one_", "größe", "one2_")),
        *(({"over": {slug: 1}}, "lower-case") for slug in ("A", "a b", "a_b", "a/b", "../x")),
        *(({"doc": doc}, "docstring is missing") for doc in (None, "", "   ")),
        ({"module": "x.elsewhere"}, r"x\.elsewhere"),
        (
            {"over": {"a": 1}, "issue": {"huge": "https://example.org/1"}},
            r"unknown members .* issues: .*huge",
        ),
        ({"name": "twice"}, r"framing/twice.*twice"),
    ],
)
def test_what_is_not_registered(monkeypatch: pytest.MonkeyPatch, changes: Any, words: str) -> None:
    name, doc = changes.pop("name", "one"), changes.pop("doc", "A title.")
    module = changes.pop("module", "x.framing.length")
    monkeypatch.setattr(registry, "_CASES", {"framing/twice": None})

    def body(f: object, value: object = None) -> None:
        """Build nothing."""

    body.__name__, body.__doc__, body.__module__ = name, doc, module
    with pytest.raises((ValueError, KeyError), match=words):
        accepts("FRM-01", **changes)(body)
    assert len(registry._CASES) == 1


CASES = all_cases()


def test_the_smoke_cases_tell_a_broken_adapter_from_a_broken_reader() -> None:
    """That takes a file every reader accepts and one that every reader refuses."""
    smoke = [c for c in CASES if c.smoke]
    assert {type(option).__name__ for c in smoke for option in c.options.values()} == {"Accept", "Reject"}
    assert all(c.choice is None for c in smoke)
    assert len(smoke) <= 10


def test_ids_say_nothing_about_the_verdict_and_titles_are_sentences() -> None:
    for case in CASES:
        assert not re.search("valid|reject|accept|bad|good|wrong|refuse|correct|malicious|attack", case.id)
        assert case.title.endswith("."), case.id
        assert "\n" not in case.title + case.description, case.id
        assert "$" not in case.title, case.id


def test_everything_that_names_steps_and_kinds_agrees_with_their_tables() -> None:
    assert all(kind.name == name and set(kind.steps) <= STEPS.keys() for name, kind in KINDS.items())
    assert set(CASE_STEPS) == STEPS.keys() - {"device"}
    assert {name for name, step in STEPS.items() if step.not_asked} == set(ONE_STEP_KINDS)
    assert set(AREAS.values()) == BUILDERS.keys() == in_process._ACTIONS.keys() == KINDS.keys()
    assert {name for name, kind in KINDS.items() if kind.acts} == ACTIONS.keys()
