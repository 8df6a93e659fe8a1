"""Fuzzing of the documents of others: doors that hold, mutations that repeat, and faults that are found."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from proof.documents.__main__ import documents
from proof.documents.doors import DOORS, Door, EscapeError, mutated
from safetensors_conformance.worker import protocol
from safetensors_corpus import document


@pytest.fixture(params=list(DOORS))
def door(request: pytest.FixtureRequest, tmp_path: Path) -> Door:
    return DOORS[request.param](tmp_path)


def flipped(data: bytes) -> bytes:
    """What stands for libFuzzer's own changes."""
    rng = random.Random(len(data))
    changed = bytearray(data or b"x")
    changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def inputs(door: Door, count: int) -> Iterator[bytes]:
    pool = list(door.seeds())
    rng = random.Random(1)
    for seed in range(count):
        made = mutated(rng.choice(pool), seed, flipped, 1 << 16)
        pool.append(made)
        yield made


def test_every_seed_is_taken(door: Door) -> None:
    for seed in door.seeds():
        assert door.ask(seed)


def test_what_is_changed_is_taken_or_refused(door: Door) -> None:
    taken = [door.ask(data) for data in inputs(door, 200)]
    assert 0 < sum(taken) < 200


def test_the_same_seeds_give_the_same_inputs(door: Door) -> None:
    made = list(inputs(door, 60))
    assert made == list(inputs(door, 60))
    assert len(set(made)) > 40


def test_a_path_that_nobody_checks_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "path_fault", lambda *_: None)
    door = DOORS["manifest"](tmp_path)
    manifest = json.loads(next(iter(door.seeds())))
    manifest["cases"] = [c for c in manifest["cases"] if "directory" in (c["input"] or {})]
    given = manifest["cases"][0]["input"]
    first = given["files"][0]  # there where it lies, and outside of the folder that it is copied to
    first["path"] = f"../{given['directory'].rpartition('/')[2]}/{first['path']}"
    with pytest.raises(EscapeError):
        door.ask(json.dumps(manifest).encode())


def test_an_error_that_nobody_documents_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def parse_run(message: dict[str, object], *_: object, **__: object) -> object:
        return message["outcome"]

    monkeypatch.setattr(protocol, "parse_run", parse_run)
    with pytest.raises(KeyError):
        DOORS["answer"](tmp_path).ask(b'{"seq": 7}')


def test_the_command_counts_inputs_and_says_what_fails(tmp_path: Path) -> None:
    pytest.importorskip("atheris")
    result = CliRunner().invoke(documents, ["answer", "--max-execs", "300", "-o", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert result.output == "answer: 300 inputs, 0 findings\n"
    assert list(tmp_path.iterdir()) == []
