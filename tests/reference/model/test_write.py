"""Writing sharded models: what is written passes the strict reader, and failures leave nothing behind."""

from __future__ import annotations

import errno
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from huggingface_hub import load_torch_model, save_torch_state_dict
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_torch

from safetensors_reference import InvalidFileError
from safetensors_reference import numpy as reference_numpy
from safetensors_reference.model.read import explain_index, open_index
from safetensors_reference.model.write import plan_shards, save_sharded, write_index
from safetensors_reference.rules.errors import WriteError
from safetensors_reference.writing.atomic import NotSavedError

from ..strategies import json_values
from ..support import refusal
from ..writing.samples import Sample, Tied, dicts, wanted
from ..writing.support import read_official

Array = npt.NDArray[Any]
Tensors = dict[str, Array]
INDEX = "model.safetensors.index.json"
NAMES = ("", "a", "b", "é", "😀", "a\x00", '"', "\\", "../x", "weight_map", "model.layers.0.weight")


def sizes(tensors: Mapping[str, Any]) -> dict[str, int]:
    return {name: array.nbytes for name, array in tensors.items()}


def listing(folder: Path) -> dict[str, bytes | str]:
    return {p.name: str(p.readlink()) if p.is_symlink() else p.read_bytes() for p in folder.iterdir()}


# ---- planning ----


@given(
    st.dictionaries(st.text(max_size=3), st.integers(0, 12) | st.just(2**60)),
    st.integers(1, 12) | st.just(2**61),
)
def test_shards_keep_the_order_and_the_limit_and_are_as_full_as_they_may(
    tensors: dict[str, int], limit: int
) -> None:
    shards = plan_shards(tensors, limit)
    assert [name for names in shards for name in names] == list(tensors)
    assert all(shards)
    for names in shards:
        assert sum(tensors[n] for n in names) <= limit or len(names) == 1
    for before, after in itertools.pairwise(shards):
        assert sum(tensors[n] for n in before) + tensors[after[0]] > limit


def test_sizes_without_sense_are_refused() -> None:
    for tensors, senseless in (({}, 0), ({"a": 1}, -1), ({"a": -1}, 5)):
        with pytest.raises(ValueError, match=r"must (be at least 1|not be negative)"):
            plan_shards(tensors, senseless)


# ---- the index ----


@settings(max_examples=50)
@given(
    dicts(("plain",)),
    st.integers(1, 40),
    st.none() | st.dictionaries(st.sampled_from(NAMES), json_values(st.sampled_from(NAMES), 4), max_size=2),
    st.sampled_from(["model", "diffusion_pytorch_model"]),
    st.sampled_from([save_file, reference_numpy.save_file]),
    st.booleans(),
)
def test_what_is_saved_has_no_faults_and_is_found_where_the_map_says(
    samples: dict[str, Sample],
    limit: int,
    metadata: dict[str, Any] | None,
    stem: str,
    save: Any,
    sized: bool,
) -> None:
    tensors = {name: sample.array for name, sample in samples.items()}
    with tempfile.TemporaryDirectory() as folder:
        # Sizes only plan: with others there are other shards, but the total is that of the tensors.
        planned = sizes(tensors) if sized else dict.fromkeys(tensors, 1)
        path = save_sharded(save, tensors, planned, folder, limit, stem, metadata)
        assert path == Path(folder, f"{stem}.safetensors.index.json")
        seen = explain_index(path)
        assert (seen.faults, seen.tolerated, seen.notes) == ([], [], [])
        header = open_index(path)
        total = sum(array.nbytes for array in tensors.values())
        assert (list(header.tensors), header.total_size) == (list(tensors), total)
        assert header.metadata == {"total_size": total, **(metadata or {})}
        plan = plan_shards(planned, limit)
        assert sorted(os.listdir(folder)) == sorted([*seen.shards, path.name])
        assert list(seen.shards) == [
            f"{stem}-{n:05}-of-{len(plan):05}.safetensors" for n in range(1, len(plan) + 1)
        ]
        shards = {shard: read_official(Path(folder, shard).read_bytes()) for shard in seen.shards}
        assert [set(content) for content in shards.values()] == [set(names) for names in plan]
        assert {n: shards[shard][n] for n, (shard, _) in header.tensors.items()} == wanted(samples)


TWO: Tensors = {"b": np.arange(3, dtype=np.int16), "a": np.ones(2, np.float64)}


def test_the_index_is_written_in_ascii_and_the_same_every_time(tmp_path: Path) -> None:
    weight_map = {"é": "modèle.safetensors", "b": "b.safetensors"}
    (text,) = {write_index(tmp_path, weight_map, 3, {"k": "ü"}).read_text("ascii") for _ in range(2)}
    assert json.loads(text) == {"metadata": {"total_size": 3, "k": "ü"}, "weight_map": weight_map}
    assert list(json.loads(text)["weight_map"]) == ["é", "b"]


ENDLESS: dict[str, Any] = {}
ENDLESS["x"] = ENDLESS


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        ("IDX_BAD_FILENAME", [({"a": "../x.safetensors"}, 0), ({"a": "%2e%2e%2fx.safetensors"}, 0)]),
        ("IDX_BAD_FILENAME", [({}, 0, None, stem) for stem in ("../model", "a\0", "m" * 300)]),
        ("IDX_BAD_EXTENSION", [({"a": "x.bin"}, 0)]),
        ("WRT_BAD_NAME", [({name: "x.safetensors"}, 0) for name in ("__metadata__", "\ud800", 1)]),
        ("IDX_SIZE_MISMATCH", [({}, -1)]),
        ("WRT_BAD_METADATA", [({}, 1, odd) for odd in ({"total_size": 2}, {"x": b""}, {("x",): 1}, ENDLESS)]),
        ("WRT_BAD_METADATA", [({}, 1, {"x": float("nan")})]),
        ("HDR_DUP_KEY", [({}, 1, {1: "x", "1": "y"})]),
        ("IDX_NOT_JSON", [({}, 1, {"x": "\ud800"})]),
        ("LIM_METADATA", [({}, 1, {"x": "x" * 10_000_000})]),
    ],
)
def test_what_readers_would_refuse_is_not_written(tmp_path: Path, code: str, arguments: list[Any]) -> None:
    for odd in arguments:
        assert refusal(WriteError, write_index, tmp_path, *odd)[0] == code
    assert list(tmp_path.iterdir()) == []


def test_an_index_of_exactly_the_cap_is_written_and_a_larger_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Metadata may repeat the total size.
    path = write_index(tmp_path, {"a": "x.safetensors"}, np.int64(0), {"total_size": 0.0})  # type: ignore[arg-type]
    assert b'"total_size": 0\n' in path.read_bytes()
    cap = "safetensors_reference.model.write.INDEX_CAP"
    monkeypatch.setattr(cap, path.stat().st_size)
    write_index(tmp_path, {"a": "x.safetensors"}, 0)
    monkeypatch.setattr(cap, path.stat().st_size - 1)
    assert refusal(WriteError, write_index, tmp_path, {"a": "x.safetensors"}, 0)[0] == "LIM_MEMORY"


# ---- saving ----


def full_disk(_: Tensors, path: Path) -> None:
    path.write_bytes(b"part")
    raise OSError(errno.ENOSPC, "No space left on device")


def interrupt(tensors: Tensors, path: Path) -> None:
    if not path.name.startswith("model-00001-of-00002"):
        path.write_bytes(b"part")
        raise KeyboardInterrupt
    save_file(tensors, path)


SABOTAGE: dict[str, tuple[Callable[[Tensors, Path], object], type[BaseException]]] = {
    "drop": (lambda tensors, path: save_file(dict(list(tensors.items())[1:]), path), WriteError),
    "rename": (lambda tensors, path: save_file({n + "2": a for n, a in tensors.items()}, path), WriteError),
    "garble": (lambda _, path: path.write_bytes(b"part"), InvalidFileError),
    "nothing": (lambda *_: None, NotSavedError),
    "full disk": (full_disk, NotSavedError),
    "interrupt": (interrupt, KeyboardInterrupt),
}


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A directory with an earlier model of as many shards, and another file."""
    earlier = {"a": np.zeros(4, np.int8), "b": np.zeros(4, np.int8)}
    save_sharded(save_file, earlier, sizes(earlier), tmp_path, 4)
    (tmp_path / "config.json").write_text("{}")
    return tmp_path


@pytest.mark.parametrize("kind", SABOTAGE)
@pytest.mark.parametrize("limit", [10, 100])
def test_a_failed_save_leaves_the_directory_as_it_was(old: Path, kind: str, limit: int) -> None:
    before, (sabotage, error) = listing(old), SABOTAGE[kind]
    with pytest.raises(error) as caught:
        save_sharded(sabotage, TWO, sizes(TWO), old, limit)
    assert listing(old) == before
    if kind == "full disk":
        assert isinstance(caught.value, OSError)
        assert caught.value.errno == errno.ENOSPC


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.EIO, "Input/output error")])
def test_a_save_that_fails_at_any_step_of_moving_leaves_the_directory_as_it_was(
    old: Path, tmp_path_factory: pytest.TempPathFactory, fresh: bool, error: BaseException
) -> None:
    """Every rename, and the link that names a new file, is made to fail in turn; no index ever has faults."""
    folder = tmp_path_factory.mktemp("new") if fresh else old
    before = listing(folder)
    step = 0
    while True:
        calls = 0

        def fail_at(real: Callable[..., None], *names: Any, step: int = step, **more: Any) -> None:
            nonlocal calls
            if (folder / INDEX).exists():
                assert explain_index(folder / INDEX).faults == []
            calls += 1
            if calls == step + 1:
                raise error
            real(*names, **more)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Path, "replace", lambda self, target: fail_at(os.replace, self, target))
            patch.setattr(os, "link", partial(fail_at, os.link))
            try:
                save_sharded(save_file, TWO, sizes(TWO), folder, 10)
            except (KeyboardInterrupt, NotSavedError):
                assert calls > step
                assert listing(folder) == before
            else:
                break
        step += 1
    # Two shards and the index are moved in; in the old directory as many files are moved away.
    assert step == (3 if fresh else 6)
    assert explain_index(folder / INDEX).faults == []
    assert set(open_index(folder / INDEX).tensors) == {"a", "b"}
    assert len(listing(folder)) == len(before) + 3 * fresh


KILLED = """
import os, pathlib, signal, sys
import numpy as np
from safetensors_reference.model.write import save_sharded
from safetensors_reference.numpy import save_file

def step(*names):
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    left.pop()
    return real(*names)

real, left = pathlib.Path.replace, [*sys.argv[2]]
pathlib.Path.replace = step
save_sharded(save_file, {"a": np.ones(2), "c": np.ones(2)}, {"a": 16, "c": 16}, sys.argv[1], 16)
"""


@pytest.mark.parametrize("steps", ["", "1234"])
def test_a_process_that_is_killed_leaves_no_index_that_does_not_fit(old: Path, steps: str) -> None:
    """Before the first rename the old model is there; then there is no index until the last."""
    before = {path.name for path in old.glob("model*")}
    assert subprocess.call([sys.executable, "-c", KILLED, old, steps], timeout=60) == -signal.SIGKILL
    if steps:
        assert not (old / INDEX).exists()
        assert {path.name for path in old.glob(".safetensors-*.old/*")} == before
    else:
        assert set(open_index(old / INDEX).tensors) == {"a", "b"}
    save_sharded(save_file, TWO, sizes(TWO), old, 10)
    assert explain_index(old / INDEX).faults == []


@pytest.mark.parametrize("name", [INDEX, "model-00002-of-00002.safetensors"])
@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_file_is_not_replaced(tmp_path: Path, name: str, make: Callable[[Path], object]) -> None:
    make(tmp_path / name)
    with pytest.raises(NotSavedError, match="not a regular file"):
        save_sharded(lambda *_: pytest.fail("a call"), TWO, sizes(TWO), tmp_path, 10)
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_a_new_model_replaces_the_old_one_and_neither_other_files_nor_the_blobs_of_a_cache(
    old: Path,
) -> None:
    first, blob = old / "model-00001-of-00002.safetensors", old / "blob"
    before = {**listing(old), "blob": first.read_bytes()}
    first.rename(blob)
    first.symlink_to("blob")
    save_sharded(save_file, TWO, sizes(TWO), old, 10)
    assert (blob.read_bytes(), first.is_symlink()) == (before["blob"], False)
    assert listing(old).keys() == before.keys()
    assert open_index(old / INDEX).total_size == 22


def test_names_must_match_and_the_directory_must_exist(tmp_path: Path) -> None:
    for wrong in ({}, {"a": 16}, {"a": 16, "b": 6, "c": 1}):
        assert (
            refusal(WriteError, save_sharded, save_file, TWO, wrong, tmp_path, 10)[0] == "WRT_SIZE_MISMATCH"
        )
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(NotSavedError) as caught:
        save_sharded(save_file, TWO, sizes(TWO), tmp_path / "none", 10)
    assert caught.value.errno == errno.ENOENT
    with pytest.raises(NotSavedError):
        write_index(tmp_path / "none", {}, 0)


# ---- huggingface_hub: what it writes is read without faults, and what we write it reads ----


@pytest.mark.parametrize("limit", [1, 100, 140])
def test_saved_models_of_the_hub_library_have_no_faults(tmp_path: Path, limit: int) -> None:
    model = Tied()
    save_torch_state_dict(model.state_dict(), tmp_path, max_shard_size=limit)
    seen = explain_index(tmp_path / INDEX)
    assert (seen.faults, seen.notes) == ([], [])
    header = open_index(tmp_path / INDEX)
    state = model.state_dict()
    assert set(header.tensors) | {"again", "embed.weight", "head.weight"} == set(state)
    for name, (_, info) in header.tensors.items():
        assert (info.shape, info.nbytes) == (tuple(state[name].shape), state[name].nbytes)
    assert header.metadata == json.loads((tmp_path / INDEX).read_bytes())["metadata"]


def test_the_hub_library_loads_what_we_save(tmp_path: Path) -> None:
    model, other = Tied(), Tied()
    state = {n: tensor for n, tensor in model.state_dict().items() if n not in ("head.weight", "again")}
    path = save_sharded(save_torch, state, sizes(state), tmp_path, 100)
    assert explain_index(path).faults == []
    load_torch_model(other, tmp_path, strict=False, safe=True)
    for name, tensor in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], tensor)
