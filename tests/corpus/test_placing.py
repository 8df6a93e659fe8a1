"""Places: the bytes of the input stay the same wherever it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from safetensors_corpus.placing import LONG_PATH, PLACES, put

SHARD = "a-00002-of-00002.safetensors"
FILES = {"model.safetensors.index.json": b"{}", SHARD: (2).to_bytes(8, "little") + b"{}*"}
DECOYS = {
    **dict.fromkeys(("subfolder", "early-subfolder", "deep-subfolder", "parent", "sibling"), 1),
    **dict.fromkeys(("parent-with-one-shard", "other-component"), 1),
    **dict.fromkeys(("checkpoints-below", "checkpoints-beside"), 2),
}


@pytest.mark.parametrize("name", PLACES)
def test_places_change_the_path_and_not_the_files(name: str, tmp_path: Path) -> None:
    def set_up(folder: Path) -> Path:
        model = folder / "model"
        model.mkdir()
        for file, data in FILES.items():
            (model / file).write_bytes(data)
        return model / "model.safetensors.index.json"

    index = put(set_up, PLACES[name], tmp_path)
    assert {file: (index.parent / file).read_bytes() for file in FILES} == FILES
    others = {Path(folder) / SHARD for folder, _, names in os.walk(tmp_path) if SHARD in names}
    decoys = {path for path in others if path.read_bytes() != FILES[SHARD]}
    assert len(decoys) == DECOYS.get(name, 0)


@pytest.mark.parametrize("name", ["long-path", *(name for name, place in PLACES.items() if place.name)])
def test_single_files_get_the_name_of_the_place(name: str, tmp_path: Path) -> None:
    def set_up(folder: Path) -> Path:
        path = folder / "file.safetensors"
        path.write_bytes(b"*")
        return path

    path = put(set_up, PLACES[name], tmp_path)
    assert (path.name, path.read_bytes()) == (PLACES[name].name or "file.safetensors", b"*")
    if name == "long-path":
        assert LONG_PATH <= len(bytes(path)) < 1100, "within the limit of macOS"
    else:
        assert path.parent == tmp_path / PLACES[name].folder
