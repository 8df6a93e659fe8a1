"""What a sharded save left behind, judged: each thing that can be wrong, and what is no mistake."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from safetensors_corpus.author.file import FileBuilder
from safetensors_corpus.in_process import written_file
from safetensors_corpus.judging import written_file as judged
from safetensors_corpus.judging.written_folder import (
    FOLDER_PROPERTIES,
    SavedFolder,
    aged_snapshot,
    flaws_of_folder,
)

A, B = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
MAPPED = {"a": A, "b": B}
ACTION = {"max_shard_size": 8}


def shard(*names: str) -> bytes:
    built = FileBuilder()
    for name in names:
        built.tensor(name, "F32", [2])
    return built.render()


def index(mapped: Any = None, size: Any = 16, **more: Any) -> bytes:
    metadata = {} if size is None else {"total_size": size}
    return json.dumps(
        {"metadata": metadata, "weight_map": MAPPED if mapped is None else mapped} | more
    ).encode()


GOOD = {A: shard("a"), B: shard("b"), INDEX: index()}


@pytest.fixture
def save(tmp_path: Path) -> Callable[..., SavedFolder]:
    """Lay files into the folder, settle, write others, and return what is left."""

    def make(after: dict[str, bytes | None], before: Any = None, outcome: str = "accept") -> SavedFolder:
        model = tmp_path / "model"
        model.mkdir()
        _put(model, dict(before or {}))
        held = aged_snapshot(tmp_path)
        _put(model, after)
        return SavedFolder(tmp_path, held, ACTION, outcome, written_file)

    return make


def _put(folder: Path, files: Any) -> None:
    for name, data in files.items():
        path = folder / name
        if data is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def told(saved: SavedFolder) -> tuple[set[str], list[tuple[str, str]]]:
    answer = saved.answer()
    return {row["name"] for row in answer.tensors or ()}, [(f.property, f.rule) for f in answer.flaws]


WHOLE = {"a", "b"}
MODELS: dict[str, tuple[dict[str, bytes | None], set[str], list[tuple[str, str]]]] = {
    "right": (dict(GOOD), WHOLE, []),
    "same-again": (dict(GOOD), WHOLE, []),
    "earlier-index": ({SINGLE: shard("c")}, {"c"}, []),
    "configuration-beside": ({**GOOD, "config.json": b"{}"}, WHOLE, []),
    "no-size": ({**GOOD, INDEX: index(size=None)}, WHOLE, []),
    "single": ({SINGLE: shard("a", "b")}, WHOLE, []),
    "indexed-single": ({SINGLE: shard("a", "b"), INDEX: index({"a": SINGLE, "b": SINGLE})}, WHOLE, []),
    "nothing": ({}, set(), [("missing", "")]),
    "shards-alone": ({A: shard("a"), B: shard("b")}, set(), [("missing", "")]),
    "no-text": ({**GOOD, INDEX: b"\xff"}, set(), [("valid", "IDX-01")]),
    "no-map": ({**GOOD, INDEX: b'{"weight_map":[]}'}, set(), [("valid", "IDX-01")]),
    "number-for-shard": ({**GOOD, INDEX: index({"a": 1})}, set(), [("valid", "IDX-01")]),
    "deep": ({**GOOD, INDEX: b"[" * 100_000}, set(), [("valid", "IDX-01")]),
    "key-twice": (
        {**GOOD, INDEX: f'{{"weight_map":{{"a":"{A}","a":"{A}","b":"{B}"}}}}'.encode()},
        WHOLE,
        [("valid", "IDX-12")],
    ),
    "path": ({**GOOD, INDEX: index({"a": A, "b": f"../{B}"})}, {"a"}, [("valid", "IDX-04")]),
    "suffix": ({**GOOD, INDEX: index({"a": A, "b": "b.bin"})}, {"a"}, [("valid", "IDX-07")]),
    "shard-missing": ({A: shard("a"), INDEX: index(size=8)}, {"a"}, [("valid", "IDX-17")]),
    "tensor-missing": ({**GOOD, INDEX: index({**MAPPED, "c": B})}, WHOLE, [("valid", "IDX-17")]),
    "tensor-not-mapped": ({**GOOD, B: shard("b", "c")}, WHOLE, [("valid", "IDX-17")]),
    "tensor-twice": ({**GOOD, B: shard("b", "a")}, WHOLE, [("valid", "IDX-17")]),
    "surplus-file": ({**GOOD, "x.safetensors": shard("x")}, WHOLE, [("valid", "IDX-17")]),
    "size-wrong": ({**GOOD, INDEX: index(size=17)}, WHOLE, [("valid", "IDX-03")]),
    "size-text": ({**GOOD, INDEX: index(size="16")}, WHOLE, [("valid", "IDX-03")]),
    "size-true": (
        {A: shard(), INDEX: index({}, size=False)},
        set(),
        [("valid", "IDX-17"), ("valid", "IDX-03")],
    ),
    "shard-broken": ({**GOOD, B: shard("b") + b"\0"}, {"a"}, [("valid", "OFF-08"), ("valid", "IDX-17")]),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_model_that_is_left(save: Callable[..., SavedFolder], name: str) -> None:
    files, names, flaws = MODELS[name]
    found, wrong = told(save(files, GOOD if name in ("same-again", "earlier-index") else None))
    assert found == names
    assert wrong[: len(flaws)] == flaws
    assert bool(wrong) == bool(flaws)


OTHERS: dict[str, dict[str, bytes | None]] = {
    "outside-written": {"../new.json": b""},
    "outside-changed": {"../outside/x.safetensors": b"y"},
    "other-removed": {"adapter.safetensors": None},
    "other-changed": {"adapter.safetensors": b"y"},
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("outcome", ["accept", "reject"])
def test_other_files_are_left_alone(save: Callable[..., SavedFolder], name: str, outcome: str) -> None:
    before = {"../outside/x.safetensors": b"x", "adapter.safetensors": b"x"}
    assert ("valid", "IDX-20") in told(save({**GOOD, **OTHERS[name]}, before, outcome))[1]


def properties(saved: SavedFolder) -> set[str]:
    return {flaw.property for flaw in flaws_of_folder(list(FOLDER_PROPERTIES), saved)}


OLD = {"model-00003-of-00003.safetensors": shard("c"), SINGLE: shard("d")}
ODD = {"x.safetensors": shard("a"), B: shard("b"), INDEX: index({"a": "x.safetensors", "b": B})}


@pytest.mark.parametrize(
    ("outcome", "after", "before", "lacking"),
    [
        ("accept", {**GOOD, **dict.fromkeys(OLD)}, OLD, {"earlier-kept"}),
        ("accept", GOOD, OLD, {"earlier-removed"}),
        ("accept", {**GOOD, SINGLE: None}, OLD, {"earlier-removed", "earlier-kept"}),
        ("accept", {SINGLE: shard("a", "b")}, {}, {"within-limit"}),
        ("accept", ODD, {}, {"conventional-names"}),
        *(
            ("reject", after, GOOD, set())
            for after in ({}, dict.fromkeys(GOOD), {INDEX: None, A: shard("c")})
        ),
        *(
            ("reject", after, GOOD, {"no-mixture"})
            for after in ({A: shard("c")}, {B: None}, {INDEX: index()})
        ),
        ("reject", {"model-00001-of-00003.safetensors": shard("c")}, GOOD, set()),
    ],
)
def test_properties_of_a_folder_and_what_a_failed_save_leaves(
    save: Callable[..., SavedFolder], outcome: str, after: Any, before: Any, lacking: set[str]
) -> None:
    assert properties(save(dict(after), before, outcome)) == lacking


def test_a_link_is_not_followed(save: Callable[..., SavedFolder], tmp_path: Path) -> None:
    saved = save(dict(GOOD))
    (tmp_path / "model" / "link.safetensors").symlink_to(os.devnull)
    assert told(saved)[1] == [("valid", "IDX-17")]


@pytest.mark.parametrize("take", [aged_snapshot, judged.snapshot])
def test_many_large_files_are_not_all_read(
    take: Callable[[Path], dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program may write more files of a permitted size than fit in memory."""
    monkeypatch.setattr(judged, "LARGEST_IN_MEMORY", 250)
    for name in "abcd":
        (tmp_path / name).write_bytes(name.encode() * 100)
    found = [getattr(file, "data", file) for file in take(tmp_path).values()]
    assert [file[:1] * 100 == file for file in found] == [True, True, False, False]
    assert all(file for file in found)
