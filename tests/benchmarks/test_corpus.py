"""``python -m benchmarks corpus``: what counts as caught."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks import corpus as bench
from proof.broken.correct.reader import READER
from proof.held_out import PARTS
from proof.planted import Planted
from safetensors_corpus import Manifest, load_manifest
from safetensors_corpus.packed import corpus_root


def planted(name: str, reader: Any) -> Planted:
    return Planted(name, "Reads.", "read", lambda _probe: SimpleNamespace(content=reader))


def crash(_data: bytes) -> Any:
    raise ZeroDivisionError


def other_metadata(data: bytes) -> Any:
    return {**READER.content(data), "metadata": {"a": "b"}}


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return load_manifest(corpus_root())


@pytest.mark.parametrize(
    ("reader", "failed"),
    [
        (READER.content, []),
        (READER.without("trailing").content, ["layout/trailing-4-bytes"]),
        (other_metadata, ["framing/one-tensor"]),
        (crash, ["framing/one-tensor", "layout/trailing-4-bytes"]),
    ],
    ids=["right", "accepts", "content", "crash"],
)
def test_a_reader_is_caught_by_wrong_verdicts_contents_and_crashes(
    manifest: Manifest, reader: Any, failed: list[str]
) -> None:
    cases = [manifest.by_id[name] for name in ("framing/one-tensor", "layout/trailing-4-bytes")]
    assert bench.caught(planted("x", reader), [(case, case.read_input()) for case in cases]) == failed


SEEN = (
    "framing/one-tensor",
    "layout/trailing-4-bytes",
    "surroundings/byte-behind-middle-void-odd-mfirst-t64-osd",
)


def test_the_summary_tells_thin_ice(monkeypatch: pytest.MonkeyPatch, manifest: Manifest) -> None:
    cases = [manifest.by_id[name] for name in SEEN]
    monkeypatch.setattr(bench, "cases_for", lambda *_: cases)
    readers = [planted("right", READER.content), planted("blind", READER.without("trailing").content)]
    monkeypatch.setattr(bench, "HELD_OUT", readers)
    result = CliRunner().invoke(bench.corpus, ["--names"])
    assert result.exit_code == 0, result.output
    assert "2 held-out readers, 3 cases, of which 1 belong to covering sets" in result.output
    assert "single cases           caught 1 (50 %), by one case 1, by two 0" in result.output
    assert "with covering sets     caught 1 (50 %), by one case 0, by two 1" in result.output
    assert result.output.endswith("unseen: right\n")
    # The set is held out: names appear on demand only.
    assert CliRunner().invoke(bench.corpus, []).output.endswith("unseen: 1\n")
    monkeypatch.setitem(PARTS, "third", (planted("crash", crash), *readers, planted("other", other_metadata)))
    result = CliRunner().invoke(bench.corpus, ["--part", "third"])
    assert "4 held-out readers, 3 cases" in result.output
    assert "single cases           caught 3 (75 %)" in result.output
