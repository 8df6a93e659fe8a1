"""The reference answers every request for a part of a tensor in both modes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from proof.broken.matrix import why
from safetensors_corpus import Case, Manifest
from safetensors_reference import safe_open
from safetensors_reference.arrays.slicing import take

from .kinds import of_kind


class Reference:
    """The reference's lazy door, in either mode."""

    def __init__(self, mode: Any) -> None:
        self.mode = mode

    def slice(self, path: Path, name: str, index: tuple[Any, ...]) -> tuple[str, tuple[int, ...], bytes]:
        with safe_open(str(path), "raw", mode=self.mode) as file:
            info = file.info(name)
            assert (
                bytes(file.get_tensor(name))
                == path.read_bytes()[file.header.data_start :][info.begin : info.end]
            )
            shape, _ = take(info, index, lambda start, count: memoryview(bytes(start + count))[start:])
            return info.dtype, shape, bytes(file.get_slice(name)[index])


@pytest.fixture(scope="module")
def cases(manifest: Manifest) -> list[Case]:
    return of_kind(manifest, "slice")


@pytest.mark.parametrize("mode", ["copy", "mmap"])
def test_the_reference_agrees(cases: list[Case], mode: str, tmp_path: Path) -> None:
    assert {c.id: w for c in cases if (w := why(Reference(mode), c, tmp_path))} == {}
