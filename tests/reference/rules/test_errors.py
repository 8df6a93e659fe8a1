"""Exceptions: what each of them says survives the way to another process, and a pool of processes with it."""

from __future__ import annotations

import errno
import importlib
import pickle
import pkgutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.device.client import LoaderError
from safetensors_conformance.implementations.commands import CommandFailedError
from safetensors_conformance.programs.process import (
    DiedError,
    EndlessLineError,
    MemoryLimitError,
    TimeLimitError,
)
from safetensors_conformance.protocol_check.conversation import BreachError
from safetensors_corpus.typed import MisfitError
from safetensors_reference import InvalidFileError, UnreadableError, explain, read_header
from safetensors_reference.device.ranks.consensus import RankError
from safetensors_reference.files.reading import NotReadError
from safetensors_reference.model.read import InvalidIndexError, explain_index, open_index
from safetensors_reference.rules.errors import InvalidError, SafetensorsError
from safetensors_reference.torch import StateMismatchError
from safetensors_reference.writing.atomic import NotSavedError, write_file

from ..support import ABCD, W, make

PACKAGES = [
    *(f"safetensors_{name}" for name in ("reference", "corpus", "reports", "conformance", "fuzz")),
    "benchmarks",
]
ADAPTERS = ("safetensors_conformance.implementations.", "benchmarks.formats.adapters.")
BROKEN = make(f'{{"w":{W},"v":{W},"":7}}', ABCD)


def modules() -> Iterator[ModuleType]:
    """Every module of the project; adapters as far as the library that they call is there."""
    for package in map(importlib.import_module, PACKAGES):
        yield package
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.", onerror=lambda _: None):
            if found.name.endswith("__main__"):
                continue
            try:
                yield importlib.import_module(found.name)
            except ImportError:
                if not found.name.startswith(ADAPTERS):
                    raise


def exceptions() -> list[type[BaseException]]:
    return sorted(
        {
            value
            for module in modules()
            for value in vars(module).values()
            if isinstance(value, type)
            and issubclass(value, BaseException)
            and value.__module__ == module.__name__
        },
        key=lambda kind: (kind.__module__, kind.__qualname__),
    )


def no_index(folder: Path) -> Path:
    path = folder / "model.safetensors.index.json"
    path.write_text('{"weight_map":{"w":"../w","v":7}}')
    return path


MAKERS: dict[type[BaseException], Callable[[type[BaseException], Path], BaseException]] = {
    SafetensorsError: lambda kind, _: kind("é\n", "LIM_MEMORY", "LIM-06"),
    InvalidError: lambda kind, _: kind(explain(BROKEN)),
    InvalidIndexError: lambda kind, folder: kind(explain_index(no_index(folder))),
    StateMismatchError: lambda kind, _: kind("é", ["missing"], ["unexpected"]),
    RankError: lambda kind, _: kind("é", (1, 3), "API_CLOSED", "API-10"),
    LoaderError: lambda kind, _: kind("failed", "in /somewhere/below/here"),
    MisfitError: lambda kind, _: kind("rows[0].é", "must be a string, not 1"),
    DiedError: lambda kind, _: kind(-9),
    CommandFailedError: lambda _kind, _: CommandFailedError("pip", ["é"], DiedError(1)),
    EndlessLineError: lambda _kind, _: EndlessLineError(),
    MemoryLimitError: lambda _kind, _: MemoryLimitError("too many", in_all=3, shares_known=False),
    TimeLimitError: lambda _kind, _: TimeLimitError("much later", starved=True),
    NotReadError: lambda kind, _: kind("unreachable", "é\n", 2, 300),
    BreachError: lambda _kind, _: BreachError("é", do="flush", line=b"\xff", where="$.x"),
}
"""How to make one, for every ``__init__``; a class of another ``__init__`` has to be added here."""


def instance(kind: type[BaseException], folder: Path) -> BaseException:
    """An instance by the nearest class that has an ``__init__`` of ours."""
    for base in kind.__mro__:
        if base in MAKERS:
            return MAKERS[base](kind, folder)
        if base.__module__.startswith("safetensors_") and "__init__" in vars(base):
            pytest.fail(f"{kind.__module__}.{kind.__qualname__} needs a line in MAKERS")
    return kind("é\n\x1b")


def shares_known(error: BaseException) -> dict[str, object]:
    names = ("args", "errno", "strerror", "filename", "filename2", "code", "rule", *vars(error))
    return {"type": type(error), "str": str(error), "repr": repr(error)} | {
        name: getattr(error, name, None) for name in names
    }


@pytest.mark.parametrize("kind", exceptions(), ids=lambda kind: f"{kind.__module__}.{kind.__qualname__}")
@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_every_exception_survives_pickling(kind: type[BaseException], protocol: int, tmp_path: Path) -> None:
    error = instance(kind, tmp_path)
    assert type(error) is kind
    back = pickle.loads(pickle.dumps(error, protocol))
    assert shares_known(back) == shares_known(error)
    again = pickle.loads(pickle.dumps(back, protocol))
    assert shares_known(again) == shares_known(error)


def test_every_package_has_exceptions_to_look_at() -> None:
    found = exceptions()
    assert {kind.__module__.split(".")[0] for kind in found} == set(PACKAGES)
    assert {InvalidFileError, UnreadableError, NotSavedError, *MAKERS} <= set(found)


def test_what_the_system_said_survives(tmp_path: Path) -> None:
    with pytest.raises(NotSavedError) as caught:
        write_file(tmp_path / "no" / "folder", [b"x"])
    back = pickle.loads(pickle.dumps(caught.value))
    assert back.errno == caught.value.errno == errno.ENOENT
    assert isinstance(back, OSError)
    assert shares_known(back) == shares_known(caught.value)


def test_a_pool_of_processes_hands_on_what_went_wrong(tmp_path: Path) -> None:
    """A process of its own that knows nothing of this one, hashes of strings included."""
    index = no_index(tmp_path)
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        invalid, missing = pool.submit(read_header, BROKEN), pool.submit(read_header, str(tmp_path / "none"))
        model = pool.submit(open_index, str(index))
        seen = pool.submit(explain, BROKEN)
        assert type(missing.exception(60)) is UnreadableError
        assert type(model.exception(60)) is InvalidIndexError
        error = invalid.exception(60)
        assert isinstance(error, InvalidFileError)
        assert error.explanation == explain(BROKEN)
        assert seen.result() == explain(BROKEN)
        valid = pool.submit(explain, make(f'{{"w":{W}}}', ABCD)).result()
        assert valid.header is not None
        assert valid.header.tensors["w"].shape == (4,)
