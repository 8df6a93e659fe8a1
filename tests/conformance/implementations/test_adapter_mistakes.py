"""Mistakes of an adapter never count against its library; those of a library are never hidden.

Every adapter in Python runs in this process over a stand-in for its library (``dummy_libraries``), loaded by
path as the host does. No library is needed.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from safetensors_conformance.host import python_host as host
from safetensors_conformance.implementations.descriptor import HERE, descriptors
from safetensors_corpus import sharing

from ..dummy_libraries import ADAPTERS, Library, OwnError, modules
from ..support import cases

Load = Callable[..., tuple[Any, Library]]
LOADED = ("given", "header_rows", "lacking", "torch_given", "torch_rows", "weight_iterators", "stc_adapter")
READING = ("open", "read", "slice", "index", "check", "device", "lifecycle", "remote", "concurrent")
WRITING = ("write", "resave", "sharded", "export")

METHODS = {"lifecycle": "hold", "sharded": "save_sharded", "concurrent": "share"}
"""Step -> method of an adapter, where that has another name."""


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Load]:
    """Load an adapter over its fake library; arguments are those of ``Library``."""
    path = tmp_path / "model.safetensors"
    path.write_bytes(bytes(16))
    paddle = tmp_path / "paddle.py"
    paddle.write_text("from dummy_paddleformers import *\n", encoding="utf-8")
    distribution = SimpleNamespace(version="1.0", locate_file=lambda _: paddle)
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "1.0")
    monkeypatch.setattr(importlib.metadata, "distribution", lambda _: distribution)
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def make(spec: str, **more: Any) -> tuple[Any, Library]:
        library = Library(str(path), **more)
        made = modules(spec, library)
        replaced = vars(made.pop("stc_adapter", SimpleNamespace()))
        for name, module in made.items():
            monkeypatch.setitem(sys.modules, name, module)
        for name in LOADED:
            monkeypatch.delitem(sys.modules, name, raising=False)
        adapter = host.load(f"{HERE / spec.partition(':')[0]}:{spec.partition(':')[2]}")
        for name, value in replaced.items():
            if not name.startswith("__"):
                monkeypatch.setattr(sys.modules["stc_adapter"], name, value)
        assert host.invalid_part(adapter) is None
        if spec == "reference/adapter.py:Reference":
            adapter.device = None  # takes torch itself; its device step has tests of its own

        def rows(path: str) -> list[Any]:  # the checks of the step want memory of a real device
            given = host.ask(adapter.device, path, "cuda:0")
            return [row[:3] for row in host.rows_of(given, adapter.device)]

        monkeypatch.setitem(host.DEVICE, "checks", SimpleNamespace(run=rows, results=[]))
        return adapter, library

    yield make
    for name in LOADED:
        sys.modules.pop(name, None)


def has(adapter: Any, steps: tuple[str, ...]) -> list[str]:
    """The steps out of ``steps`` that an adapter has."""
    return [step for step in steps if callable(getattr(adapter, METHODS.get(step, step), None))]


def ask(adapter: Any, step: str, library: Library) -> dict[str, Any]:
    """Return the answer of the host for one step."""
    request: dict[str, Any] = {"seq": 1, "step": step, "path": library.path}
    if step == "lifecycle":
        for part in ("hold", "get", "look"):
            answer = host.run(adapter, {**request, "step": part, "tensor": "w"})
            if answer["outcome"] != "accept":
                break
        return answer
    host.SHARING[:] = [sharing.__file__]
    return host.run(adapter, request | MORE.get(step, {}) | {"folder": str(Path(library.path).parent)})


CASES = cases("sharded/two-shards", "concurrent/threads-another-tensor-each-two")
SHARDED, SHARED = (dict(case.action or {}) for case in CASES)
READERS = [{"tensors": ["w"], "unknown": False}] * 2
MORE: dict[str, dict[str, Any]] = {
    "remote": {"path": "http://127.0.0.1:1/owner/model/resolve/main/file.safetensors"},
    "concurrent": {"action": {**SHARED, "readers": READERS}},
    "slice": {"tensor": "w", "index": [{"start": 0, "stop": 1, "step": None}]},
    "write": SHARDED,
    "sharded": SHARDED,
}
"""What a request for a step contains in addition to its path."""


def answers(loaded: tuple[Any, Library], steps: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield those of ``steps`` that an adapter has, with its answers."""
    for step in has(loaded[0], steps):
        yield step, ask(loaded[0], step, loaded[1])


every_adapter = pytest.mark.parametrize("spec", ADAPTERS)


@every_adapter
def test_what_a_library_says_arrives_as_it_is_from_what_the_descriptor_names(spec: str, load: Load) -> None:
    adapter, library = load(spec)
    assert has(adapter, READING + WRITING)
    for step in has(adapter, READING + WRITING):
        assert host.library.is_marked(getattr(adapter, METHODS.get(step, step))), step
        answer = ask(adapter, step, library)
        assert answer["outcome"] == "accept", (step, answer)
        for row in answer.get("tensors", ()):
            assert (row["name"], row["shape"]) == ("w", [2])
            assert row["dtype"] in ("F32", None)
            assert row.get("sha256") in (None, hashlib.sha256(bytes(8)).hexdigest())
            assert row.get("nbytes") in (None, 8)
        assert answer.get("metadata") in (None, {}, {"a": "b"}, {"missing_shards": 0})
    if has(adapter, ("lifecycle",)):
        handle = adapter.hold(library.path)
        assert host.library.is_marked(handle.tensor)
        assert host.library.is_marked(handle.close)
    (known,) = (d for d in descriptors().values() if d.name.replace("-", "_") == spec.partition("/")[0])
    for kind in (known.kind_of(entry) for entry in known.entries if entry.adapter == spec):
        # A reader that keeps what it loads to itself can be asked for its verdict alone.
        assert not has(adapter, ("check",)) or kind in ("validator", "scanner", "reader")
        assert kind == "reader" or not has(adapter, ("read", "slice", "write", "lifecycle"))
    assert not hasattr(adapter, "name"), "the descriptor says it"
    assert not hasattr(adapter, "language")
    told = host.start(adapter, {})["implementation"]
    version = getattr(adapter, "version", "1.0")
    assert told == {"name": known.name, "language": known.language, "version": version}


ERRORS: list[tuple[BaseException, str]] = [
    *((kind("no"), "reject") for kind in (OwnError, TypeError, AttributeError, IndexError, NameError)),
    *((kind("no"), "reject") for kind in (KeyError, ValueError, OSError, UnboundLocalError, AssertionError)),
    (RecursionError("deep"), "reject"),
    (SystemExit(1), "reject"),
    (MemoryError(), "exhausted"),
    (NotImplementedError("later"), "unsupported"),
    (type("PanicException", (BaseException,), {})("panic"), "crash"),
]


@every_adapter
def test_what_a_library_raises_is_its_own_doing(spec: str, load: Load) -> None:
    adapter, library = load(spec)
    documented = getattr(adapter, "rejects", None)
    for step in has(adapter, READING + WRITING):
        for error, outcome in ERRORS:
            library.error = error
            answer = ask(adapter, step, library)
            assert answer["outcome"] == outcome, (step, answer)
            if outcome == "reject":
                assert answer["exception"] == type(error).__name__, step
                known = None if documented is None else isinstance(error, tuple(documented))
                assert answer.get("documented") is known, (step, answer)
    library.error = None
    if has(adapter, ("lifecycle",)):  # an error about a file that is already open
        request = {"seq": 1, "path": library.path, "tensor": "w"}
        assert host.run(adapter, {**request, "step": "hold"})["outcome"] == "accept"
        library.error = OwnError("gone")
        answer = host.run(adapter, {**request, "step": "get"})
        assert (answer["outcome"], answer["exception"]) == ("reject", "OwnError")


NOTHING_MEANS = {
    "modelinfo_cli/adapter.py:Header": "accept",  # what JSON's null becomes, for a file that says no more
    "openvino_genai/adapter.py:Adapter": "accept",  # what it makes is not looked at
    "safetensors_arch/adapter.py:Header": "reject",  # documented
    "safetensors_print/adapter.py:Report": "accept",  # an exit status of 0
}
TAKES_NOTHING = {"safetensors_print/adapter.py:Report"}
"""Adapters that call a command alone, whose arguments are those of the process."""


@every_adapter
def test_no_answer_and_refused_arguments_are_mistakes_of_the_adapter(spec: str, load: Load) -> None:
    for step, answer in answers(load(spec, nothing=True), READING):
        first = step in ("open", "check")
        wants = NOTHING_MEANS.get(spec, "harness-error") if first else "harness-error"
        assert answer["outcome"] == wants, (step, answer)
        assert "exception" not in answer
    if spec in TAKES_NOTHING:
        return
    for step, answer in answers(load(spec, narrow=True), READING + WRITING):
        assert answer["outcome"] == "harness-error", (step, answer)
        assert "the adapter failed: TypeError" in answer["message"]


Liar = type("Liar", (list,), {"__len__": lambda _: 100, "__iter__": lambda _: map((2).__floordiv__, (1, 0))})
"""Says that it is longer than it is, and fails half way."""
NoText = type("NoText", (), {"__repr__": lambda _: 1 // 0})
"""Cannot even be written."""
SHAPELESS = ("orbax/adapter.py:Layout",)
"""Adapters whose stand-in hands out real arrays, which always have a shape."""
ODD_SHAPES = (1, None, "2", {"a": 2}, Liar([2]), NoText(), (2.5,), (None,), ("2",), b"2")


@every_adapter
def test_a_shape_that_is_none_shows_and_refuses_nothing(spec: str, load: Load) -> None:
    for odd in ODD_SHAPES:
        for step, answer in answers(load(spec, shape=odd), READING):
            if answer["outcome"] != "accept":
                assert answer["outcome"] == "harness-error", (step, type(odd), answer)
                assert answer["message"].startswith("the adapter failed: "), answer
            for row in answer.get("tensors", ()):
                assert (row["shape"] == [2]) == (spec in SHAPELESS), (step, row)
                assert row["shape"] is not None, (step, type(odd))


TELL_NO_DTYPE = ("fastsafetensors/adapter.py:Loader", "quantbenchx/adapter.py:Profile")


@every_adapter
def test_an_unknown_dtype_and_too_few_bytes_show(spec: str, load: Load) -> None:
    for step, answer in answers(load(spec, dtype="F77"), READING):
        assert answer["outcome"] == "accept", (step, answer)
        if step != "check":
            (row,) = answer["tensors"]
            assert row["dtype"] != "F32"
            assert row["dtype"] is not None or spec in TELL_NO_DTYPE, (step, row)
    if spec in SHAPELESS:
        return
    for step, answer in answers(
        load(spec, data=b"1234"), ("read", "slice", "index", "lifecycle", "concurrent")
    ):
        assert answer["outcome"] == "accept", (step, answer)
        (row,) = answer["tensors"]
        assert (row.get("nbytes", 4), row["shape"]) == (4, [2])


def test_a_file_is_closed_whatever_happens(load: Load) -> None:
    adapter, library = load("georefine_verify/adapter.py:Header")
    closed: list[int] = []
    file = SimpleNamespace(close=lambda: closed.append(1))
    names = vars(sys.modules["stc_adapter"])
    names["LocalFile"] = lambda _: file
    ask(adapter, "open", library)
    library.error = OwnError("no")
    assert ask(adapter, "open", library)["outcome"] == "reject"
    assert len(closed) == 2
