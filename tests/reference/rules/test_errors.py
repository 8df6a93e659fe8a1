"""Exceptions: what each of them says survives the way to another process."""

from __future__ import annotations

import errno
import importlib
import pickle
import pkgutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

from safetensors_corpus.typed import MisfitError
from safetensors_reference import InvalidFileError, UnreadableError, explain, read_header
from safetensors_reference.device.ranks.consensus import RankError
from safetensors_reference.model.read import open_index
from safetensors_reference.rules.errors import PortableError, SafetensorsError
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


def shares(error: BaseException) -> dict[str, object]:
    names = ("args", "errno", "strerror", "filename", "filename2", "code", "rule", *vars(error))
    return {"type": type(error), "str": str(error), "repr": repr(error)} | {
        name: getattr(error, name, None) for name in names
    }


def check_survives(error: BaseException) -> None:
    for protocol in (2, pickle.HIGHEST_PROTOCOL):
        back = pickle.loads(pickle.dumps(error, protocol))
        assert shares(back) == shares(error)
        assert shares(pickle.loads(pickle.dumps(back, protocol))) == shares(error)


def test_every_exception_survives_pickling() -> None:
    """One with a constructor of its own does so if it is portable, which takes any arguments."""
    values = {value for module in modules() for value in vars(module).values() if isinstance(value, type)}
    errors = {value for value in values if issubclass(value, BaseException)}
    found = {kind for kind in errors if kind.__module__.partition(".")[0] in PACKAGES}
    assert {kind.__module__.partition(".")[0] for kind in found} == set(PACKAGES)
    assert {InvalidFileError, UnreadableError, NotSavedError, RankError, MisfitError} <= found
    for kind in found:
        owners = [base for base in kind.__mro__ if "__init__" in vars(base)]
        if owners[0].__module__.partition(".")[0] not in PACKAGES:
            check_survives(kind("é\n\x1b"))
        else:
            assert issubclass(kind, PortableError | MisfitError), f"{kind.__qualname__} cannot be pickled"
    check_survives(MisfitError("rows[0].é", "must be a string, not 1"))
    check_survives(RankError("é", (1, 3), "API_CLOSED", "API-10"))
    check_survives(InvalidFileError(explain(BROKEN)))


def test_what_went_wrong_and_what_was_read_survive(tmp_path: Path) -> None:
    with pytest.raises(NotSavedError) as caught:
        write_file(tmp_path / "no" / "folder", [b"x"])
    assert caught.value.errno == errno.ENOENT
    check_survives(caught.value)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text('{"weight_map":{"w":"../w","v":7}}')
    for call in (partial(open_index, index), partial(read_header, BROKEN), partial(read_header, "none")):
        with pytest.raises(SafetensorsError) as refused:
            call()
        check_survives(refused.value)
    for data in (BROKEN, make(f'{{"w":{W}}}', ABCD)):
        assert pickle.loads(pickle.dumps(explain(data))) == explain(data)
