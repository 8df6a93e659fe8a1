"""A run as it is asked for: whose known signatures count, and how inputs are shared."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from safetensors_conformance.implementations.selectors import Target, resolve
from safetensors_fuzz.engines import run as running
from safetensors_fuzz.engines.run import FuzzConfig, Run
from safetensors_fuzz.loop.recorder import Settings, Tally
from safetensors_fuzz.loop.subjects import Subject, complete

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

    class Started(Subject):
        """Stands for a worker, so that no environment of the version is needed."""

        plan_steps = ("slice",)
        steps = ()

        def __init__(self, target: Target, *_: Any) -> None:
            self.name, self.plain = target.selector, target.plain()

    def campaign(subjects: Any, settings: Settings, **_: Any) -> Any:
        known.append(settings.known("a known one"))
        return SimpleNamespace(plans=lambda *_: None)

    monkeypatch.setattr(running, "WorkerSubject", Started)
    monkeypatch.setattr(running, "Campaign", campaign)
    for selector in ("safetensors:numpy==0.7.0", "safetensors:numpy", "safetensors"):
        config = FuzzConfig((selector,), ("slice",), max_execs=5, triage=triage)
        Run(config, lambda _: None, lambda _: None, Tally()).here([resolve(selector)])
    assert known == [True, True, False]


def test_who_has_the_same_name_as_another_is_called_by_the_selector() -> None:
    subjects = [Subject() for _ in range(3)]
    names = [("mlx", "mlx==1"), ("mlx", "mlx==2"), ("lib", "py:a:b")]
    for subject, (plain, name) in zip(subjects, names, strict=True):
        subject.plain, subject.name = plain, name
    complete(subjects, [])
    assert [subject.plain for subject in subjects] == ["mlx==1", "mlx==2", "lib"]


@pytest.mark.parametrize(
    ("steps", "families"),
    [(("read",), 1), (("slice", "index"), 1), (("read", "slice"), 2), (("prove", "write"), 2)],
)
def test_single_files_and_other_steps_are_two_campaigns(steps: tuple[str, ...], families: int) -> None:
    assert FuzzConfig(("reference",), steps).families == families
