"""The steps of a case that an implementation has to run, and those that hosts and schemas name."""

from __future__ import annotations

import json

import pytest

from safetensors_conformance.host import python_host
from safetensors_conformance.outcome import Implementation
from safetensors_conformance.protocol_check.checks import SAMPLES
from safetensors_conformance.protocol_check.conversation import SCHEMA
from safetensors_corpus.steps import ONE_STEP_KINDS, STEPS

from .support import cases, committed

READER = Implementation("r", "1", "Python", ("read",))
OPENER = Implementation("o", "1", "Python", ("open", "read", "slice"))


def claims(*areas: str, steps: tuple[str, ...] = ("read",)) -> Implementation:
    return Implementation("c", "1", "Python", steps, areas=frozenset(areas))


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


LISTER, CHECKER = claims("dtype", "shape"), claims("dtype", "shape", "layout")
BROKEN_SHARD = "index/broken-shard-hole"


@pytest.mark.parametrize(
    ("who", "case_id", "steps"),
    [
        (claims("header"), "framing/one-tensor", []),
        (claims("header"), "header/before-object-line-separator", ["read"]),
        # Valid files that combine much are for everyone.
        (claims("dtype"), "surroundings/number-lasttensor-blanks", ["read"]),
        (claims("dtype"), "surroundings/ff-alone-behind", []),
        (claims("writer", steps=("read", "write")), "surroundings/ff-alone-behind", []),
        # Sizes and ranges are for those that claim the layout.
        *(
            (LISTER, x, [])
            for x in ("dtype/one-byte-less-f32", "shape/wraps-32-bits-to-0-from-2p16-and-2p16")
        ),
        *((CHECKER, x, ["read"]) for x in ("dtype/one-byte-less-f32", "shape/negative-1")),
        (CHECKER, "shape/wraps-32-bits-to-0-from-2p16-and-2p16", ["read"]),
        (LISTER, "shape/negative-1", ["read"]),
        (claims("index", "header", steps=("index",)), BROKEN_SHARD, []),
        (claims("index", "layout", steps=("index",)), BROKEN_SHARD, ["index"]),
        (claims("index", steps=("index",)), BROKEN_SHARD, ["index"]),
    ],
)
def test_what_is_not_claimed_is_not_asked(who: Implementation, case_id: str, steps: list[str]) -> None:
    assert who.steps_of(*cases(case_id)) == steps


def test_a_writer_is_asked_about_every_file_that_it_can_write() -> None:
    written = [case for case in committed().cases if case.kind == "write" and not case.heavy]
    assert {case.rules[0][:3] for case in written} > {"WRT", "DTY", "SHP"}
    assert all(claims("writer", steps=("write",)).steps_of(case) == ["write"] for case in written)


def test_no_case_is_asked_whose_rule_is_of_an_area_that_is_not_claimed() -> None:
    lister = claims("header", "shape", "index", steps=("open", "index"))
    asked = [case for case in committed().cases if lister.steps_of(case)]
    families = {c.rules[0][:3] for c in asked if c.expect is None or c.expect.outcome == "reject"}
    assert {"HDR", "SHP", "IDX"} <= families
    assert families.isdisjoint({"FRM", "ENT", "DTY", "OFF", "MET", "DAT"})


def test_host_schema_and_check_of_the_protocol_have_the_same_steps() -> None:
    assert json.loads(SCHEMA.read_bytes())["$defs"]["step"]["enum"] == list(STEPS)
    assert {name: step.method for name, step in STEPS.items()} == python_host._METHODS
    assert set(SAMPLES) == set(ONE_STEP_KINDS)
