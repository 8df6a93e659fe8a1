"""Handles: nothing stays open behind them, however they end, and none can be copied."""

from __future__ import annotations

import copy
import gc
import importlib
import inspect
import itertools
import pickle
import pkgutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import safetensors_reference
from safetensors_reference import device, explain, read_header, safe_open
from safetensors_reference import numpy as numpy_door
from safetensors_reference import torch as torch_door
from safetensors_reference.header.read import examine
from safetensors_reference.model.read import explain_index, open_index
from safetensors_reference.model.write import save_sharded
from safetensors_reference.rules.errors import SafetensorsError
from safetensors_reference.source import MemorySource, Uncopied, open_source, read_whole

from .support import ABCD, W, make

FDS = Path("/proc/self/fd")
linux = pytest.mark.skipif(not FDS.exists(), reason="this system does not list open files")
TIMES = 20
Way = Callable[[Path], object]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A sharded model, one more file, and the same with faults."""
    tensors = {"w": np.arange(4, dtype=np.uint8), "v": np.ones(4, np.uint8)}
    save_sharded(numpy_door.save_file, tensors, {"w": 4, "v": 4}, tmp_path, 4)
    (tmp_path / "good").write_bytes(make(f'{{"w":{W}}}', ABCD))
    (tmp_path / "bad").write_bytes(make(f'{{"w":{W},}}', ABCD))
    (tmp_path / "index.safetensors.index.json").write_text('{"weight_map":{"w":"bad"}}')
    return tmp_path


def ways() -> dict[str, Way]:
    index, wrong = "model.safetensors.index.json", "index.safetensors.index.json"
    save_any: Any = numpy_door.save_file
    found: dict[str, Way] = {
        "safe_open folder": safe_open,
        "safe_open missing": lambda f: safe_open(f / "none"),
        "safe_open mode": lambda f: safe_open(f / "good", mode="x"),  # type: ignore[call-overload]
        "open_source": lambda f: open_source(f / "good"),
        "read_whole too large": lambda f: read_whole(f / "good", 1),
        "explain": lambda f: (explain(f / "good"), explain(f / "bad")),
        "examine": lambda f: (examine(f / "good"), examine(f / "bad")),
        "read_header": lambda f: read_header(f / "good"),
        "read_header bad": lambda f: read_header(f / "bad"),
        "numpy.load_file": lambda f: numpy_door.load_file(f / "good", mode="mmap").keys(),
        "torch.load_file": lambda f: torch_door.load_file(f / "good").keys(),
        "load_file bad": lambda f: torch_door.load_file(f / "bad"),
        "numpy.save_file": lambda f: save_any({"w": np.ones(3)}, f / "new"),
        "numpy.save_file folder": lambda f: save_any({"w": np.ones(3)}, f),
        "numpy.save_file refused": lambda f: save_any({"w": "no"}, f / "new"),
        "torch.save_file": lambda f: torch_door.save_file({"w": torch.ones(3)}, f / "new"),
        "save_model": lambda f: torch_door.save_model(torch.nn.Linear(2, 2), f / "new"),
        "load_model": lambda f: torch_door.load_model(torch.nn.Linear(2, 2), f / "good"),
        "open_index": lambda f: (explain_index(f / index), open_index(f / index)),
        "open_index bad": lambda f: open_index(f / wrong),
        "save_sharded refused": lambda f: save_sharded(save_any, {"w": "x"}, {"w": 4}, f, 4),
        "device": lambda f: device.load_file(f / "good", device="cpu"),
        "device direct": lambda f: device.load_file(f / "good", device="cpu", direct=True),
        "device bad": lambda f: device.load_files([f / "good", f / "bad"], device="cpu"),
        "device names": lambda f: device.load_file(f / "good", device="cpu", names=["none"]),
    }

    framework: Any
    mode: Any
    for framework, mode in itertools.product(("np", "pt", "raw"), ("copy", "mmap")):
        opened: Callable[..., Any] = partial(safe_open, framework=framework, mode=mode)
        good: Callable[[Path], Any] = partial(lambda opened, f: opened(f / "good"), opened)
        found[f"{framework} {mode}"] = good
        found[f"{framework} {mode} bad"] = partial(lambda opened, f: opened(f / "bad"), opened)
        found[f"{framework} {mode} slice"] = partial(lambda good, f: good(f).get_slice("w")[1:], good)
    return found


def call(way: Way, folder: Path) -> object:
    try:
        return way(folder)
    except SafetensorsError as err:
        return err


@pytest.fixture(scope="module")
def frozen() -> None:
    """Leave what earlier tests keep out of the search for garbage that each item makes."""
    gc.collect()
    gc.freeze()


@linux
@pytest.mark.usefixtures("frozen")
@pytest.mark.parametrize("way", [pytest.param(way, id=name) for name, way in ways().items()])
def test_what_is_dropped_leaves_no_descriptor_open(way: Way, folder: Path) -> None:
    kept = call(way, folder)  # what stays of the first call, such as the memory of a device, is kept by all
    del kept
    gc.collect()  # otherwise the search below could close what other tests have dropped
    before = len(list(FDS.iterdir()))
    for _ in range(TIMES):
        call(way, folder)
    gc.collect()  # an error and its frames hold each other
    assert len(list(FDS.iterdir())) == before


@linux
def test_a_handle_that_is_dropped_and_one_that_is_closed_twice_close_nothing_else(folder: Path) -> None:
    opened = safe_open(folder / "good")
    number = opened._source.fd  # type: ignore[union-attr]
    opened.close()
    with (folder / "good").open("rb") as other:
        assert other.fileno() == number
        opened.close()
        del opened
        assert other.read(1)


NOTHING_OF_THEIR_OWN = {"CpuLane", "AcceleratorLane", "InterruptGate", "ProgressBar", "_FileReplacement"}
"""Parts of one call, which no caller ever holds."""


def test_every_class_that_is_closed_refuses_to_be_copied() -> None:
    found = set()
    for module in pkgutil.walk_packages(safetensors_reference.__path__, "safetensors_reference."):
        if not module.name.startswith(("safetensors_reference.audit", "safetensors_reference.check")):
            found |= {
                kind
                for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass)
                if kind.__module__ == module.name and (hasattr(kind, "close") or hasattr(kind, "__exit__"))
            }
    odd = {kind.__name__ for kind in found if not issubclass(kind, Uncopied)}
    assert odd == NOTHING_OF_THEIR_OWN
    assert {"TensorFile", "PathSource", "DirectReader", "ShardedModel"} <= {kind.__name__ for kind in found}


@pytest.mark.parametrize("make_copy", [copy.copy, copy.deepcopy, pickle.dumps, lambda x: pickle.dumps(x, 0)])
def test_a_handle_cannot_be_copied(make_copy: Callable[[object], object], folder: Path) -> None:
    file = safe_open(folder / "good")
    for handle in (file, file.get_slice("w"), MemorySource(b"x")):
        with pytest.raises(TypeError, match=f"cannot copy or pickle a {type(handle).__name__}"):
            make_copy(handle)
