"""Everything that names the steps and kinds and cannot read them from the table agrees with it."""

from __future__ import annotations

from safetensors_corpus import in_process
from safetensors_corpus.actions import ACTIONS
from safetensors_corpus.author.case import AREAS
from safetensors_corpus.publish.build import BUILDERS
from safetensors_corpus.steps import CASE_STEPS, KINDS, ONE_STEP_KINDS, STEPS


def test_kinds_take_steps_of_the_table() -> None:
    assert all(kind.name == name and set(kind.steps) <= STEPS.keys() for name, kind in KINDS.items())
    assert set(CASE_STEPS) == STEPS.keys() - {"device"}
    assert {name for name, step in STEPS.items() if step.not_asked} == set(ONE_STEP_KINDS)


def test_every_kind_has_an_area_a_builder_and_a_performance() -> None:
    assert set(AREAS.values()) == BUILDERS.keys() == in_process._ACTIONS.keys() == KINDS.keys()
    assert {name for name, kind in KINDS.items() if kind.acts} == ACTIONS.keys()
