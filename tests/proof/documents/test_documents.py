"""Fuzzing of the documents of others: targets that hold, mutations that repeat, and faults that are found."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from proof.documents.__main__ import documents
from proof.documents.document_targets import TARGETS, DocumentTarget, EscapeError, mutated
from safetensors_conformance.worker import protocol
from safetensors_corpus import document


@pytest.fixture(params=list(TARGETS))
def target(request: pytest.FixtureRequest, tmp_path: Path) -> DocumentTarget:
    return TARGETS[request.param](tmp_path)


def flipped(data: bytes) -> bytes:
    """What stands for libFuzzer's own changes."""
    rng = random.Random(len(data))
    changed = bytearray(data or b"x")
    changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def inputs(target: DocumentTarget, count: int) -> Iterator[bytes]:
    pool = list(target.seeds())
    rng = random.Random(1)
    for seed in range(count):
        made = mutated(rng.choice(pool), seed, flipped, 1 << 16)
        pool.append(made)
        yield made


def test_every_seed_is_taken(target: DocumentTarget) -> None:
    for seed in target.seeds():
        assert target.run(seed)


def test_what_is_changed_is_taken_or_refused(target: DocumentTarget) -> None:
    made = list(inputs(target, 200))
    assert made[:60] == list(inputs(target, 60))
    assert len(set(made)) > 120
    taken = [target.run(data) for data in made]
    assert 0 < sum(taken) < 200


def test_a_path_that_nobody_checks_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "path_fault", lambda *_: None)
    target = TARGETS["manifest"](tmp_path)
    manifest = json.loads(next(iter(target.seeds())))
    manifest["cases"] = [c for c in manifest["cases"] if "directory" in (c["input"] or {})]
    given = manifest["cases"][0]["input"]
    first = given["files"][0]  # there where it lies, and outside of the folder that it is copied to
    first["path"] = f"../{given['directory'].rpartition('/')[2]}/{first['path']}"
    with pytest.raises(EscapeError):
        target.run(json.dumps(manifest).encode())


def test_an_error_that_nobody_documents_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def parse_run(message: dict[str, object], *_: object, **__: object) -> object:
        return message["outcome"]

    monkeypatch.setattr(protocol, "parse_run", parse_run)
    with pytest.raises(KeyError):
        TARGETS["answer"](tmp_path).run(b'{"seq": 7}')


def test_the_command_counts_inputs_and_says_what_fails(tmp_path: Path) -> None:
    pytest.importorskip("atheris")
    result = CliRunner().invoke(documents, ["answer", "--max-execs", "300", "-o", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert result.output == "answer: 300 inputs, 0 findings\n"
    assert list(tmp_path.iterdir()) == []
