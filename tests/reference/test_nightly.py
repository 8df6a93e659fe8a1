"""Properties over tens of thousands of inputs, every night. Each input has a seed of its own."""

from __future__ import annotations

import random
from contextlib import suppress
from importlib.metadata import version
from typing import Any

import pytest
import safetensors

from safetensors_reference import InvalidFileError, explain, read_header
from safetensors_reference.header.read import prove
from safetensors_reference.rules.book import PROFILES

from .strategies import broken

COUNT = 20_000


@pytest.mark.nightly
@pytest.mark.skipif(version("safetensors") != "0.8.0", reason="the profile describes safetensors 0.8.0")
def test_all_paths_agree_and_the_official_profile_says_what_the_official_library_says() -> None:
    accepted = 0
    for number in range(COUNT):
        data = broken(random.Random(number))
        for profile in PROFILES:
            explanation = explain(data, profile)
            if explanation.header is None:
                with pytest.raises(InvalidFileError) as caught:
                    read_header(data, profile)
                assert caught.value.explanation.faults == explanation.faults, number
            else:
                header = read_header(data, profile)
                assert dict(header.tensors) == dict(explanation.header.tensors), number
                assert header.metadata == explanation.header.metadata, number
            length = int.from_bytes(data[:8], "little")
            if 8 <= 8 + length <= len(data):
                proved = prove(data[8 : 8 + length], len(data) - 8 - length)
                assert proved is None or not (explanation.faults or explanation.tolerated), number
        ours = explain(data, "official").header
        found: list[tuple[str, dict[str, Any]]] | None = None
        with suppress(safetensors.SafetensorError):
            found = safetensors.deserialize(data)  # type: ignore[no-untyped-call]
        assert (found is None) == (ours is None), number
        if found is not None and ours is not None:
            accepted += 1
            assert {n: (info["dtype"], tuple(info["shape"]), bytes(info["data"])) for n, info in found} == {
                t.name: (t.dtype, t.shape, data[ours.data_start + t.begin : ours.data_start + t.end])
                for t in ours.tensors.values()
            }, number
    assert accepted > COUNT / 50
