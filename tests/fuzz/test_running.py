"""A run as it is asked for: whose known signatures count, and how inputs are shared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from safetensors_conformance.implementations.selectors import resolve
from safetensors_fuzz.engines import run as running
from safetensors_fuzz.engines.config import Order
from safetensors_fuzz.loop.recorder import Tally
from safetensors_fuzz.loop.subjects import told_apart

TRIAGE = """
[[known]]
signature = "a known one"
reason = "of these two alone"
issue = "https://example.org/1"
review_by = 2999-01-01
between = ["reference", "safetensors:numpy"]
"""


def test_known_between_two_are_known_of_any_version_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    triage = tmp_path / "triage.toml"
    triage.write_text(TRIAGE, encoding="utf-8")
    known: list[bool] = []

    def campaign(targets: Sequence[Any], steps: Sequence[str], **given: Any) -> None:
        known.append(given["known"]("a known one"))

    monkeypatch.setattr(running, "ask_campaign", campaign)
    for selector in ("safetensors:numpy==0.7.0", "safetensors:numpy", "safetensors"):
        order = Order((selector,), ("slice",), max_execs=5, triage=triage)
        # What is done in one process: the environment of the version is not needed to ask nothing.
        running._here(order, [resolve(selector)], lambda _: None, lambda _: None, Tally())
    assert known == [True, True, False]


def test_who_has_the_same_name_as_another_is_called_by_the_selector() -> None:
    assert told_apart(["mlx", "mlx", "lib"], ["mlx==1", "mlx==2", "py:a:b"]) == ["mlx==1", "mlx==2", "lib"]


@pytest.mark.parametrize(
    ("steps", "families"),
    [(("read",), 1), (("slice", "index"), 1), (("read", "slice"), 2), (("prove", "write"), 2)],
)
def test_single_files_and_other_steps_are_two_campaigns(steps: tuple[str, ...], families: int) -> None:
    assert Order(("reference",), steps).families == families
