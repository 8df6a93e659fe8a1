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

ASKED = """
read                            | framing/one-tensor                         | read
read                            | resource/claimed-header-2p40               | read
read                            | resource/filled-with-more-tensors-100mb    | read
read                            | resource/large-dimension-of-nothing-before | read
read                            | resource/opened-only-2p31                  |
read                            | resource/opened-only-2p40                  |
read                            | resource/tensor-behind-2p31                |
read                            | slice/integer-first                        |
open read slice                 | framing/one-tensor                         | open read
open read slice                 | resource/claimed-header-2p40               | open
open read slice                 | resource/filled-with-more-tensors-100mb    | open
open read slice                 | resource/large-dimension-of-nothing-before | open read
open read slice                 | resource/opened-only-2p31                  | open
open read slice                 | resource/tensor-behind-2p40                | slice
open read slice                 | slice/integer-first                        | slice
read of header                  | framing/one-tensor                         |
read of header                  | header/before-object-line-separator        | read
read of dtype                   | surroundings/number-lasttensor-blanks      | read
read of dtype                   | surroundings/ff-alone-behind               |
read of dtype shape             | dtype/one-byte-less-f32                    |
read of dtype shape             | shape/wraps-32-bits-to-0-from-2p16-and-2p16 |
read of dtype shape             | shape/negative-1                           | read
read of dtype shape layout      | dtype/one-byte-less-f32                    | read
read of dtype shape layout      | shape/wraps-32-bits-to-0-from-2p16-and-2p16 | read
index of index header           | index/broken-shard-hole                    |
index of index layout           | index/broken-shard-hole                    | index
index of index                  | index/broken-shard-hole                    | index
read write of writer            | surroundings/ff-alone-behind               |
"""
"""Steps and areas of an implementation, a case, and the steps of the case that are run."""


@pytest.mark.parametrize("line", ASKED.strip().splitlines())
def test_a_case_is_asked_of_who_has_its_step_and_claims_what_it_needs(line: str) -> None:
    who, case_id, asked = (part.strip() for part in line.split("|"))
    steps, _, areas = who.partition(" of ")
    reader = Implementation("r", "1", "Python", tuple(steps.split()), areas=frozenset(areas.split()))
    assert sorted(reader.steps_of(cases(case_id)[0])) == asked.split()


def test_a_writer_is_asked_for_all_that_it_can_write_and_no_area_that_is_not_claimed_is_asked_about() -> None:
    writer = Implementation("w", "1", "Python", ("write",), areas=frozenset({"writer"}))
    written = [case for case in committed().cases if case.kind == "write" and not case.heavy]
    assert {case.rules[0][:3] for case in written} > {"WRT", "DTY", "SHP"}
    assert all(writer.steps_of(case) == ["write"] for case in written)
    areas = frozenset({"header", "shape", "index"})
    lister = Implementation("l", "1", "Python", ("open", "index"), areas=areas)
    asked = [case for case in committed().cases if lister.steps_of(case)]
    families = {c.rules[0][:3] for c in asked if c.expect is None or c.expect.outcome == "reject"}
    assert {"HDR", "SHP", "IDX"} <= families
    assert families.isdisjoint({"FRM", "ENT", "DTY", "OFF", "MET", "DAT"})


def test_host_schema_and_check_of_the_protocol_have_the_same_steps() -> None:
    assert json.loads(SCHEMA.read_bytes())["$defs"]["step"]["enum"] == list(STEPS)
    assert {name: step.method for name, step in STEPS.items()} == python_host._METHODS
    assert set(SAMPLES) == set(ONE_STEP_KINDS)
