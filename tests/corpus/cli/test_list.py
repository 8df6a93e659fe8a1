"""``stc corpus list`` over the whole corpus."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from safetensors_corpus import Manifest, load_manifest
from safetensors_corpus.cli.common import expects

from ..small import run


def test_list_shows_every_case_with_what_it_expects(manifest: Manifest, written: Path) -> None:
    out = run("list", "-c", written).stdout.splitlines()
    assert out[-1] == f"{len(manifest.cases)} cases"
    for case, line in zip(manifest.cases, out[:-1], strict=True):
        for part in (f"{case.id} ", expects(case), " ".join(case.rules), case.title.splitlines()[0]):
            assert part in line


@pytest.fixture(scope="module")
def few(raw: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """The manifest with the cases about framing and metadata."""
    folder = tmp_path_factory.mktemp("few")
    cases = [row for row in raw["cases"] if row["id"].startswith(("framing/", "metadata/"))]
    (folder / "corpus.json").write_text(json.dumps({**raw, "cases": cases}))
    return load_manifest(folder)


@pytest.mark.parametrize("pattern", ["framing/", "FRM-03", "metadata-null", "no-such-thing"])
def test_list_finds_by_id_rule_and_choice(few: Manifest, pattern: str) -> None:
    found = [json.loads(line) for line in run("list", "-c", few.root, "--json", pattern).stdout.splitlines()]
    assert [row["id"] for row in found] == [
        c.id
        for c in few.cases
        if pattern in c.id or pattern in (c.choice or "") or pattern in " ".join(c.rules)
    ]
    assert (found == []) == (pattern == "no-such-thing")


def test_expectations_in_a_few_words(manifest: Manifest) -> None:
    assert expects(manifest.by_id["framing/one-tensor"]) == "accept"
    assert expects(manifest.by_id["framing/no-bytes"]) == "reject (FRM_TOO_SHORT)"
    assert next(expects(c) for c in manifest.cases if c.choice == "metadata-null") == "choice metadata-null"
