"""The steps of a case that an implementation has to run, and those that hosts and schemas name."""

from __future__ import annotations

import json
from functools import reduce
from importlib import resources
from operator import getitem
from typing import Any

import pytest

from safetensors_conformance.host import python_host
from safetensors_conformance.outcome import Implementation
from safetensors_conformance.protocol_check.checks import SAMPLES
from safetensors_corpus.steps import ONE_STEP_KINDS, STEPS

from .support import cases, committed

READER = Implementation("r", "1", "Python", ("read",))
OPENER = Implementation("o", "1", "Python", ("open", "read", "slice"))


@pytest.mark.parametrize(
    ("case_id", "reader", "opener"),
    [
        ("framing/one-tensor", ["read"], ["open", "read"]),
        ("resource/claimed-header-2p40", ["read"], ["open"]),
        ("resource/filled-with-more-tensors-100mb", ["read"], ["open"]),
        ("resource/large-dimension-of-nothing-before", ["read"], ["open", "read"]),
        ("resource/opened-only-2p31", [], ["open"]),
        ("resource/opened-only-2p40", [], ["open"]),
        ("resource/tensor-behind-2p31", [], ["slice"]),
        ("resource/tensor-behind-2p40", [], ["slice"]),
        ("slice/integer-first", [], ["slice"]),
    ],
)
def test_reading_stands_in_for_opening_only_where_the_file_is_small(
    case_id: str, reader: list[str], opener: list[str]
) -> None:
    (case,) = cases(case_id)
    assert READER.steps_of(case) == reader
    assert sorted(OPENER.steps_of(case)) == sorted(opener)


def test_what_is_not_claimed_is_not_asked() -> None:
    judge = Implementation("j", "1", "Python", ("read",), areas=frozenset({"header"}))
    other, own = cases("framing/one-tensor", "header/before-object-line-separator")
    assert judge.steps_of(other) == []
    assert judge.steps_of(own) == ["read"]


def test_valid_files_that_combine_much_are_asked_of_everyone() -> None:
    judge = Implementation("j", "1", "Python", ("read",), areas=frozenset({"dtype"}))
    valid, broken = cases("surroundings/number-lasttensor-blanks", "surroundings/ff-alone-behind")
    assert valid.rules[0] == "FRM-11"
    assert judge.steps_of(valid) == ["read"]
    assert judge.steps_of(broken) == []


def test_sizes_and_ranges_are_asked_of_who_claims_the_layout_only() -> None:
    lister = Implementation("l", "1", "Python", ("read",), areas=frozenset({"dtype", "shape"}))
    checker = Implementation("c", "1", "Python", ("read",), areas=frozenset({"dtype", "shape", "layout"}))
    ids = ("dtype/one-byte-less-f32", "shape/wraps-32-bits-to-0-from-2p16-and-2p16")
    for case in cases(*ids):
        assert lister.steps_of(case) == []
        assert checker.steps_of(case) == ["read"]
    (form,) = cases("shape/negative-1")
    assert lister.steps_of(form) == ["read"]
    (broken,) = cases("index/broken-shard-hole")
    for areas, asked in (({"index", "header"}, []), ({"index", "layout"}, ["index"]), ({"index"}, ["index"])):
        loader = Implementation("i", "1", "Python", ("index",), areas=frozenset(areas))
        assert loader.steps_of(broken) == asked


def test_a_writer_is_asked_about_every_file_that_it_can_write() -> None:
    writer = Implementation("w", "1", "Python", ("write",), areas=frozenset({"writer"}))
    written = [case for case in committed().cases if case.kind == "write" and not case.heavy]
    assert {case.rules[0][:3] for case in written} > {"WRT", "DTY", "SHP"}
    assert all(writer.steps_of(case) == ["write"] for case in written)
    both = Implementation("b", "1", "Python", ("read", "write"), areas=frozenset({"writer"}))
    (broken,) = cases("surroundings/ff-alone-behind")
    assert both.steps_of(broken) == []


def test_no_case_is_asked_whose_rule_is_of_an_area_that_is_not_claimed() -> None:
    lister = Implementation(
        "l", "1", "Python", ("open", "index"), areas=frozenset({"header", "shape", "index"})
    )
    asked = [case for case in committed().cases if lister.steps_of(case)]
    families = {c.rules[0][:3] for c in asked if c.expect is None or c.expect.outcome == "reject"}
    assert {"HDR", "SHP", "IDX"} <= families
    assert families.isdisjoint({"FRM", "ENT", "DTY", "OFF", "MET", "DAT"})


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
