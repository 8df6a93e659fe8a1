"""What is proved instead of explained is answered the same, byte for byte, in every form."""

from __future__ import annotations

from pathlib import Path

import pytest

from safetensors_corpus import load_manifest
from safetensors_reference import explain
from safetensors_reference.check.cli import brief_file_lines, file_lines
from safetensors_reference.check.result import CheckResult, check_input
from safetensors_reference.check.sarif import SarifLog
from safetensors_reference.files.names import FileInput


def forms(result: CheckResult) -> list[str]:
    """Return everything that ``stc check`` can say of a result."""
    log = SarifLog(result.profile)
    log.add(result)
    lines = [*file_lines(result, None), *brief_file_lines(result)]
    return [result.to_json(), *lines, log.to_text(0), result.status]


@pytest.mark.parametrize("each", [40, pytest.param(1, marks=pytest.mark.nightly)])
def test_a_valid_file_is_answered_as_by_the_explaining_path(tmp_path: Path, each: int) -> None:
    path = tmp_path / "a.safetensors"
    for case in load_manifest().reading[::each]:
        path.write_bytes(case.read_input())
        seen = explain(path)
        if seen.valid:
            explained = CheckResult(str(path), "hardened", seen.size, explanation=seen)
            assert forms(check_input(FileInput(str(path)), "hardened")) == forms(explained), case.id
