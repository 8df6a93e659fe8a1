"""Results of a run: where the baseline of an implementation is found and written."""

from __future__ import annotations

from pathlib import Path

import pytest

from safetensors_conformance.implementations.descriptor import descriptors
from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.run.baseline import name_in_records, own_baselines
from safetensors_conformance.run.results import baseline_path

DEFAULT = descriptors()["safetensors"].version


@pytest.mark.parametrize(
    ("selector", "name"),
    [
        ("safetensors", "safetensors.toml"),
        ("safetensors:numpy", "safetensors-numpy.toml"),
        (f"safetensors=={DEFAULT}", "safetensors.toml"),
        (f"safetensors:torch=={DEFAULT}", "safetensors-torch.toml"),
    ],
)
def test_a_known_implementation_has_the_baseline_of_this_project(selector: str, name: str) -> None:
    path = baseline_path(resolve(selector), None)
    assert path == own_baselines()[name]
    assert name_in_records(path) == name
    assert path.is_file()


@pytest.mark.parametrize(
    ("selector", "name"),
    [
        ("safetensors==0.3.0", "safetensors-0.3.0.baseline.toml"),
        ("safetensors:numpy==0.3.0", "safetensors-numpy-0.3.0.baseline.toml"),
        ("mlx", "mlx.baseline.toml"),
        ("reference", "reference.baseline.toml"),
        ("py:mylib.adapter:Reader", "py-mylib.adapter-Reader.baseline.toml"),
    ],
)
def test_where_this_project_has_none_it_lies_in_the_current_folder(selector: str, name: str) -> None:
    assert baseline_path(resolve(selector), None) == Path(name)


def test_the_file_that_is_named_is_taken() -> None:
    assert baseline_path(resolve("safetensors"), Path("mine.toml")) == Path("mine.toml")
