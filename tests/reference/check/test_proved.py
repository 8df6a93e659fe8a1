"""What is proved instead of explained is answered the same, byte for byte, in every form."""

from __future__ import annotations

from pathlib import Path

import pytest

from safetensors_corpus import load_manifest
from safetensors_reference import PROFILES, explain
from safetensors_reference.check.cli import brief_file_lines, file_lines
from safetensors_reference.check.result import CheckResult, check_input
from safetensors_reference.check.sarif import SarifLog
from safetensors_reference.files.names import FileInput
from safetensors_reference.header import read
from safetensors_reference.rules.book import ProfileName

from ..support import W, make

ABCD = b"abcd"


def forms(result: CheckResult) -> list[str]:
    """Return everything that ``stc check`` can say of a result."""
    lines = [*file_lines(result, None), *brief_file_lines(result)]
    log = SarifLog(result.profile)
    log.add(result)
    return [result.to_json(), *lines, log.to_text(0), result.status]


PARTS = 40


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.by_day(1)
def test_the_whole_corpus_is_answered_as_by_the_explaining_path(
    tmp_path: Path, profile: ProfileName, part: int
) -> None:
    path = tmp_path / "a.safetensors"
    valid = 0
    for case in load_manifest().reading[part::PARTS]:
        path.write_bytes(case.read_input())
        seen = explain(path, profile)
        explained = CheckResult(str(path), profile, seen.size, seen.faults, seen.tolerated, explanation=seen)
        result = check_input(FileInput(str(path)), profile)
        valid += seen.valid
        # What has a fault is explained twice; its many lines need not be drawn to be told apart.
        assert result.to_json() == explained.to_json(), case.id
        assert seen.faults or forms(result) == forms(explained), case.id
    assert valid > 15


def test_a_valid_file_is_not_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(make(f'{{"w":{W}}}', ABCD))

    def explained(*_: object) -> None:
        raise AssertionError("a valid file was explained")

    monkeypatch.setattr(read, "explain_source", explained)
    assert check_input(FileInput(str(path)), "hardened").status == "valid"
    path.write_bytes(make(f' {{"w":{W}}}', ABCD))
    with pytest.raises(AssertionError, match="explained"):
        check_input(FileInput(str(path)), "hardened")
