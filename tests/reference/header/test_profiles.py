"""Profiles: the official one answers as the official library does.

The corpus shows for each choice that a profile takes the option of choices.toml.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import pytest
from hypothesis import given

from safetensors_reference import explain

from ..strategies import FEWER, mutants
from ..support import ABCD, W, make


def test_a_tolerated_fault_keeps_its_place_beside_others() -> None:
    data = make(f'{{"w":{W},"w":{W}}}', ABCD + b"!")
    explanation = explain(data, "official")
    (fault,) = explanation.tolerated
    at = data.rindex(b'"w"')
    assert (fault.code, fault.start, fault.end, fault.path) == ("HDR_DUP_KEY", at, at + 3, ("w",))
    assert [f.code for f in explanation.faults] == ["OFF_TRAILING"]


def official_version() -> str | None:
    try:
        return version("safetensors")
    except PackageNotFoundError:
        return None


@pytest.mark.skipif(official_version() != "0.8.0", reason="the profile describes safetensors 0.8.0")
@FEWER
@given(mutants())
def test_the_official_profile_gives_the_verdict_and_content_of_the_official_library(data: bytes) -> None:
    from safetensors import SafetensorError, deserialize

    header = explain(data, "official").header
    try:
        found = {name: (info["dtype"], tuple(info["shape"])) for name, info in deserialize(data)}  # type: ignore[no-untyped-call]
    except SafetensorError:
        assert header is None
    else:
        assert header is not None
        assert found == {t.name: (t.dtype, t.shape) for t in header.tensors.values()}
