"""What a hostile header may cost the explaining path (LIM-03, LIM-09)."""

from __future__ import annotations

import tracemalloc

import pytest

from safetensors_reference import explain
from safetensors_reference.header.explain import FAULT_LIMIT

from ..support import make


@pytest.mark.parametrize("number", [b"1", b"-1.5e-3", b"0 "])
def test_a_long_array_in_an_ignored_field_costs_a_small_multiple_of_its_size(number: bytes) -> None:
    body = b",".join([number] * 200_000)
    data = make(b'{"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"x":[' + body + b"]}}")
    tracemalloc.start()
    try:
        explanation = explain(data, "official")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert explanation.valid
    assert peak < 10 * len(data)


def test_a_number_out_of_range_is_found_in_a_long_array() -> None:
    body = b"1," * 10_000 + b"1e999"
    data = make(b'{"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"x":[' + body + b"]}}")
    assert [(f.code, f.rule) for f in explain(data, "official").faults] == [("HDR_NOT_JSON", "HDR-18")]


def test_a_long_shape_means_the_same_as_a_short_one() -> None:
    shape = b"[" + b"1, " * 5_000 + b"2]"
    data = make(b'{"w":{"dtype":"U8","shape":' + shape + b',"data_offsets":[0,2]}}', b"ab")
    header = explain(data).header
    assert header is not None
    assert header.tensors["w"].shape == (1,) * 5_000 + (2,)
    bad = make(
        b'{"w":{"dtype":"U8","shape":' + shape.replace(b"2]", b"2.0]") + b',"data_offsets":[0,2]}}', b"ab"
    )
    (fault,) = explain(bad).faults
    assert (fault.code, bad[fault.start : fault.end]) == ("ENT_BAD_INTEGER", b"2.0")


def test_collecting_stops_at_a_limit_and_says_so() -> None:
    data = make(b'{"__metadata__":{"k":"' + b"\x01a" * (FAULT_LIMIT + 10) + b'"}}')
    explanation = explain(data)
    assert len(explanation.faults) == FAULT_LIMIT
    assert explanation.cut
    assert not explanation.valid
    few = explain(make(b'{"__metadata__":{"k":"' + b"\x01a" * 10 + b'"}}'))
    assert (len(few.faults), few.cut) == (10, False)
