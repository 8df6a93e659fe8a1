"""Hosts, schemas and checks that name the steps agree with the table of the corpus."""

from __future__ import annotations

import json
from functools import reduce
from importlib import resources
from operator import getitem
from typing import Any

import pytest

from safetensors_conformance.host import python_host
from safetensors_conformance.protocol_check.checks import SAMPLES
from safetensors_corpus.steps import ONE_STEP_KINDS, STEPS


@pytest.mark.parametrize(
    ("package", "file", "place"),
    [
        ("safetensors_conformance", "protocol.schema.json", ()),
        ("safetensors_reports", "record.schema.json", ("result", "properties")),
    ],
)
def test_the_schemas_have_the_same_steps(package: str, file: str, place: tuple[str, ...]) -> None:
    text = resources.files(package).joinpath("schemas", file).read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    part = reduce(getitem, place, schema["$defs"])
    assert part["step"]["enum"] == list(STEPS)


def test_the_python_host_calls_the_methods_of_the_table() -> None:
    assert {name: step.method for name, step in STEPS.items()} == python_host._METHODS


def test_the_protocol_is_checked_with_a_case_of_every_kind_of_one_step() -> None:
    assert set(SAMPLES) == set(ONE_STEP_KINDS)
