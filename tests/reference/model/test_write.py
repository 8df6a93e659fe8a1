"""Writing sharded models: what is written passes the strict reader, and failures leave nothing behind."""

from __future__ import annotations

import errno
import itertools
import json
import os
import signal
import stat
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
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from safetensors_reference import InvalidFileError
from safetensors_reference import numpy as reference_numpy
from safetensors_reference.model.read import explain_index, open_index
from safetensors_reference.model.write import plan_shards, save_sharded, write_index
from safetensors_reference.rules.errors import WriteError
from safetensors_reference.writing.atomic import NotSavedError

Array = npt.NDArray[Any]
Tensors = dict[str, Array]
INDEX = "model.safetensors.index.json"
NAMES = (
    "",
    "a",
    "b",
    "é",
    "😀",
    "a\x00",
    '"',
    "\\",
    "../x",
    "weight_map",
    "model.layers.0.mlp.down_proj.weight",
)


def sizes(tensors: Mapping[str, Array]) -> dict[str, int]:
    return {name: array.nbytes for name, array in tensors.items()}


def listing(folder: Path) -> dict[str, bytes | str]:
    return {p.name: str(p.readlink()) if p.is_symlink() else p.read_bytes() for p in folder.iterdir()}


# ---- planning ----

plans = st.tuples(
    st.dictionaries(st.text(max_size=3), st.integers(0, 12) | st.just(2**60)),
    st.integers(1, 12) | st.just(2**61),
)


@given(plans)
def test_shards_keep_the_order_and_the_limit(args: tuple[dict[str, int], int]) -> None:
    tensors, limit = args
    shards = plan_shards(tensors, limit)
    assert [name for names in shards for name in names] == list(tensors)
    assert all(shards)
    for names in shards:
        assert sum(tensors[n] for n in names) <= limit or len(names) == 1


@given(plans)
def test_a_new_shard_begins_only_where_the_next_tensor_does_not_fit(args: tuple[dict[str, int], int]) -> None:
    tensors, limit = args
    shards = plan_shards(tensors, limit)
    for before, after in itertools.pairwise(shards):
        assert sum(tensors[n] for n in before) + tensors[after[0]] > limit


@pytest.mark.parametrize(
    ("sizes_", "limit", "expected"),
    [
        ([], 5, []),
        ([0, 0, 0], 1, [3]),
        ([5, 0, 5], 5, [2, 1]),
        ([6, 0, 1], 5, [1, 2]),
        ([1, 6, 1], 5, [1, 1, 1]),
        ([6, 6], 5, [1, 1]),
        ([2, 2, 2, 2], 4, [2, 2]),
    ],
)
def test_plans_worked_out_by_hand(sizes_: list[int], limit: int, expected: list[int]) -> None:
    shards = plan_shards({str(n): size for n, size in enumerate(sizes_)}, limit)
    assert [len(names) for names in shards] == expected


@pytest.mark.parametrize(("tensors", "limit"), [({}, 0), ({"a": 1}, -1), ({"a": -1}, 5)])
def test_senseless_plans_are_refused(tensors: dict[str, int], limit: int) -> None:
    with pytest.raises(ValueError, match=r"."):
        plan_shards(tensors, limit)


# ---- the index ----

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=2),
    max_leaves=4,
)  # fmt: skip
arrays = st.builds(
    lambda code, shape: np.arange(int(np.prod(shape))).astype(code).reshape(shape),
    st.sampled_from(["u1", "<i4", "<f8", "?"]),
    st.lists(st.integers(0, 3), max_size=2).map(tuple),
)
models = st.dictionaries(st.sampled_from(NAMES), arrays, max_size=6)


@settings(max_examples=50)
@given(
    models, st.integers(1, 40), st.none() | st.dictionaries(st.sampled_from(NAMES), json_values, max_size=2)
)
def test_what_is_saved_has_no_faults_and_is_found_where_the_map_says(
    tensors: Tensors, limit: int, metadata: dict[str, Any] | None
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = save_sharded(save_file, tensors, sizes(tensors), folder, limit, metadata=metadata)
        assert path == Path(folder, INDEX)
        seen = explain_index(path)
        assert (seen.faults, seen.tolerated, seen.notes) == ([], [], [])
        header = open_index(path)
        assert list(header.tensors) == list(tensors)
        assert header.total_size == sum(array.nbytes for array in tensors.values())
        assert header.metadata == {"total_size": header.total_size, **(metadata or {})}
        plan = plan_shards(sizes(tensors), limit)
        assert sorted(os.listdir(folder)) == sorted([*seen.shards, INDEX])
        assert list(seen.shards) == [
            f"model-{n:05}-of-{len(plan):05}.safetensors" for n in range(1, len(plan) + 1)
        ]
        shards = {shard: load_file(Path(folder, shard)) for shard in seen.shards}
        assert [set(content) for content in shards.values()] == [set(names) for names in plan]
        for name, (shard, _) in header.tensors.items():
            np.testing.assert_array_equal(shards[shard][name], tensors[name], strict=True)


TWO: Tensors = {"b": np.arange(3, dtype=np.int16), "a": np.ones(2, np.float64)}


def test_the_index_is_written_in_ascii_and_the_same_every_time(tmp_path: Path) -> None:
    weight_map = {"é": "modèle.safetensors", "b": "b.safetensors"}
    texts = {write_index(tmp_path, weight_map, 3, {"k": "ü"}).read_bytes() for _ in range(2)}
    (text,) = texts
    assert text.isascii()
    assert json.loads(text) == {"metadata": {"total_size": 3, "k": "ü"}, "weight_map": weight_map}
    assert list(json.loads(text)["weight_map"]) == ["é", "b"]


def test_the_stem_names_index_and_shards(tmp_path: Path) -> None:
    path = save_sharded(save_file, TWO, sizes(TWO), tmp_path, 10, "diffusion_pytorch_model")
    assert path.name == "diffusion_pytorch_model.safetensors.index.json"
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "diffusion_pytorch_model-00001-of-00002.safetensors",
        "diffusion_pytorch_model-00002-of-00002.safetensors",
        "diffusion_pytorch_model.safetensors.index.json",
    ]
    assert explain_index(path).faults == []


def test_metadata_may_repeat_the_total_size(tmp_path: Path) -> None:
    for same in (0, 0.0, False):
        path = write_index(tmp_path, {}, np.int64(0), {"total_size": same})  # type: ignore[arg-type]
        assert explain_index(path).faults == []
        assert b'"total_size": 0\n' in path.read_bytes()


@pytest.mark.parametrize(
    ("weight_map", "total", "metadata", "stem", "code"),
    [
        ({"a": "../x.safetensors"}, 0, None, "model", "IDX_BAD_FILENAME"),
        ({"a": "%2e%2e%2fx.safetensors"}, 0, None, "model", "IDX_BAD_FILENAME"),
        ({"a": "x.bin"}, 0, None, "model", "IDX_BAD_EXTENSION"),
        ({}, 0, None, "../model", "IDX_BAD_FILENAME"),
        ({}, 0, None, "a\x00", "IDX_BAD_FILENAME"),
        ({}, 0, None, "m" * 300, "IDX_BAD_FILENAME"),
        ({"__metadata__": "x.safetensors"}, 0, None, "model", "WRT_BAD_NAME"),
        ({"\ud800": "x.safetensors"}, 0, None, "model", "WRT_BAD_NAME"),
        ({1: "x.safetensors"}, 0, None, "model", "WRT_BAD_NAME"),
        ({}, -1, None, "model", "IDX_SIZE_MISMATCH"),
        ({}, 1, {"total_size": 2}, "model", "WRT_BAD_METADATA"),
        ({}, 1, {"x": float("nan")}, "model", "WRT_BAD_METADATA"),
        ({}, 1, {"x": b""}, "model", "WRT_BAD_METADATA"),
        ({}, 1, {("x",): 1}, "model", "WRT_BAD_METADATA"),
        ({}, 1, {1: "x", "1": "y"}, "model", "HDR_DUP_KEY"),
        ({}, 1, {"x": "\ud800"}, "model", "IDX_NOT_JSON"),
        ({}, 1, {"x": "x" * 10_000_000}, "model", "LIM_METADATA"),
    ],
)
def test_what_readers_would_refuse_is_not_written(
    tmp_path: Path, weight_map: Any, total: int, metadata: Any, stem: str, code: str
) -> None:
    with pytest.raises(WriteError) as caught:
        write_index(tmp_path, weight_map, total, metadata, stem)
    assert caught.value.code == code
    assert list(tmp_path.iterdir()) == []


def test_endless_metadata_are_refused(tmp_path: Path) -> None:
    metadata: dict[str, Any] = {}
    metadata["x"] = metadata
    with pytest.raises(WriteError):
        write_index(tmp_path, {}, 0, metadata)


def test_an_index_above_the_cap_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from safetensors_reference.model import write as shard_write

    size = write_index(tmp_path, {"a": "x.safetensors"}, 0).stat().st_size
    monkeypatch.setattr(shard_write, "INDEX_CAP", size)
    write_index(tmp_path, {"a": "x.safetensors"}, 0)
    monkeypatch.setattr(shard_write, "INDEX_CAP", size - 1)
    with pytest.raises(WriteError) as caught:
        write_index(tmp_path, {"a": "x.safetensors"}, 0)
    assert caught.value.code == "LIM_MEMORY"


# ---- saving ----


def test_any_function_that_saves_will_do(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save_file as save_torch

    for number, (save, tensors) in enumerate(
        [
            (reference_numpy.save_file, TWO),
            (save_torch, {name: torch.from_numpy(array) for name, array in TWO.items()}),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = save_sharded(save, tensors, sizes(tensors), folder, 6)
        assert explain_index(path).faults == []
        assert open_index(path).total_size == 22


def test_sizes_only_plan(tmp_path: Path) -> None:
    """A wrong size gives other shards, but the total of the index is that of the shards."""
    path = save_sharded(save_file, TWO, {"a": 1, "b": 1}, tmp_path, 2)
    assert explain_index(path).faults == []
    assert json.loads(path.read_bytes())["metadata"]["total_size"] == 22


def drop(tensors: Tensors, path: Path) -> None:
    save_file(dict(list(tensors.items())[1:]), path)


def rename(tensors: Tensors, path: Path) -> None:
    save_file({name + "2": array for name, array in tensors.items()}, path)


def garble(tensors: Tensors, path: Path) -> None:
    path.write_bytes(b"no shard")


def forget(tensors: Tensors, path: Path) -> None:
    pass


def full_disk(tensors: Tensors, path: Path) -> None:
    path.write_bytes(b"part")
    raise OSError(errno.ENOSPC, "No space left on device")


def interrupt(tensors: Tensors, path: Path) -> None:
    save_file(tensors, path)
    if path.name in ("model-00002-of-00002.safetensors", "model-00001-of-00001.safetensors"):
        raise KeyboardInterrupt


SABOTAGE: list[tuple[Callable[[Tensors, Path], None], type[BaseException]]] = [
    (drop, WriteError),
    (rename, WriteError),
    (garble, InvalidFileError),
    (forget, NotSavedError),
    (full_disk, NotSavedError),
    (interrupt, KeyboardInterrupt),
]


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A directory with an earlier model of as many shards, and another file."""
    earlier = {"a": np.zeros(4, np.int8), "b": np.zeros(4, np.int8)}
    save_sharded(save_file, earlier, sizes(earlier), tmp_path, 4)
    (tmp_path / "config.json").write_text("{}")
    return tmp_path


@pytest.mark.parametrize(("save", "error"), SABOTAGE)
@pytest.mark.parametrize("limit", [10, 100])
def test_a_failed_save_leaves_the_directory_as_it_was(
    old: Path, save: Callable[[Tensors, Path], None], error: type[BaseException], limit: int
) -> None:
    before = listing(old)
    with pytest.raises(error) as caught:
        save_sharded(save, TWO, sizes(TWO), old, limit)
    assert listing(old) == before
    if save is full_disk:
        assert isinstance(caught.value, OSError)
        assert caught.value.errno == errno.ENOSPC


class Killed(BaseException):
    pass


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("error", [Killed(), OSError(errno.EIO, "Input/output error")])
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
            except (Killed, NotSavedError):
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
from safetensors.numpy import save_file
from safetensors_reference.model.write import save_sharded

left = int(sys.argv[2])

def counted(real):
    def step(*names, **more):
        global left
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return real(*names, **more)
    return step

pathlib.Path.replace, os.link = counted(pathlib.Path.replace), counted(os.link)
save_sharded(save_file, {"a": np.ones(2), "c": np.ones(2)}, {"a": 16, "c": 16}, sys.argv[1], 16)
"""


@pytest.mark.parametrize("steps", [0, 1, 3, 5])
def test_a_process_that_is_killed_leaves_no_index_that_does_not_fit(old: Path, steps: int) -> None:
    """Before the first of six renames the old model is there; then there is no index until the last."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(old), str(steps)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert (old / INDEX).exists() == (steps == 0)
    if steps == 0:
        assert explain_index(old / INDEX).faults == []
    save_sharded(save_file, TWO, sizes(TWO), old, 10)
    assert explain_index(old / INDEX).faults == []


@pytest.mark.parametrize("name", [INDEX, "model-00002-of-00002.safetensors"])
@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_file_is_not_replaced(tmp_path: Path, name: str, make: Callable[[Path], object]) -> None:
    make(tmp_path / name)
    calls: list[object] = []
    with pytest.raises(NotSavedError, match="not a regular file"):
        save_sharded(lambda tensors, path: calls.append(path), TWO, sizes(TWO), tmp_path, 10)
    assert calls == []
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_blobs_behind_links_of_a_hub_cache_are_not_touched(old: Path) -> None:
    blob = old / "blob"
    (old / "model-00001-of-00002.safetensors").rename(blob)
    (old / "model-00001-of-00002.safetensors").symlink_to("blob")
    content = blob.read_bytes()
    save_sharded(save_file, TWO, sizes(TWO), old, 10)
    assert blob.read_bytes() == content
    assert not (old / "model-00001-of-00002.safetensors").is_symlink()
    assert explain_index(old / INDEX).faults == []


def test_a_new_model_replaces_the_old_one_and_nothing_else(old: Path) -> None:
    names = set(listing(old))
    save_sharded(save_file, TWO, sizes(TWO), old, 10)
    assert set(listing(old)) == names
    assert open_index(old / INDEX).total_size == 22
    assert stat.S_IMODE((old / INDEX).stat().st_mode) & 0o600 == 0o600


@pytest.mark.parametrize("wrong", [{}, {"a": 16}, {"a": 16, "b": 6, "c": 1}])
def test_sizes_and_tensors_must_have_the_same_names(tmp_path: Path, wrong: dict[str, int]) -> None:
    with pytest.raises(WriteError) as caught:
        save_sharded(save_file, TWO, wrong, tmp_path, 10)
    assert caught.value.code == "WRT_SIZE_MISMATCH"
    assert list(tmp_path.iterdir()) == []


def test_the_directory_must_exist(tmp_path: Path) -> None:
    with pytest.raises(NotSavedError) as caught:
        save_sharded(save_file, TWO, sizes(TWO), tmp_path / "none", 10)
    assert caught.value.errno == errno.ENOENT
    with pytest.raises(NotSavedError):
        write_index(tmp_path / "none", {}, 0)
