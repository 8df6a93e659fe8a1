"""Properties over tens of thousands of inputs, every night. Each input has a seed of its own."""

from __future__ import annotations

import random
from importlib.metadata import version
from typing import Any

import pytest

from .header import test_explain, test_prove
from .strategies import broken

PROPERTIES: list[Any] = [
    test_prove.test_what_is_proved_has_no_fault_and_means_the_same,
    test_explain.test_hardened_is_the_strictest_profile_and_others_tolerate_what_their_choices_allow,
    test_explain.test_the_official_profile_gives_the_verdict_and_content_of_the_official_library,
]
COUNT = 20_000


@pytest.mark.nightly
@pytest.mark.skipif(version("safetensors") != "0.8.0", reason="describes safetensors 0.8.0")
def test_all_paths_agree_and_the_official_profile_says_what_the_official_library_says() -> None:
    accepted = 0
    for number in range(COUNT):
        data = broken(random.Random(number))
        accepted += test_explain.agrees(data).valid
        for test in PROPERTIES:
            test.hypothesis.inner_test(data)
    assert accepted > COUNT / 50
