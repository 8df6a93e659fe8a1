"""Import a single module of a package when the rest of the package needs packages that are not installed.

An empty class without behaviour replaces every name from the missing packages. The module must therefore not
pass the content of a file through such a class.
"""

import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterable, Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any


class _Empty(type):
    """Metaclass of the empty classes. Calling such a class returns an object that works as a decorator."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _empty(name)


def _empty(name: str) -> Any:
    return _Empty(name, (), {"__init__": lambda *_, **__: None, "__call__": lambda self, *_, **__: self})


class _StandIn(ModuleType):
    """A fake module that has every attribute."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _empty(name)


class _Finder:
    """Finds fake modules for the packages that are missing."""

    def __init__(self, absent: Iterable[str], names: Mapping[str, Mapping[str, Any]]) -> None:
        self._absent = tuple(absent)
        self._names = names

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        if name.partition(".")[0] not in self._absent:
            return None
        return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type] # has the two methods

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(self._names.get(module.__name__, {}))


def module(
    distribution: str | None,
    file: str,
    absent: Iterable[str] = (),
    names: Mapping[str, Mapping[str, Any]] | None = None,
) -> Any:
    """Return one module of a package, imported on its own. Raises ImportError if the file does not exist.

    If ``distribution`` is None, the package is a checkout on ``PYTHONPATH``. ``absent`` lists the top-level
    packages to replace. ``names`` maps their modules to attributes that are not empty.
    """
    before = set(sys.modules)
    finder: Any = _Finder(absent, names or {})
    where = importlib.metadata.distribution(distribution).locate_file(file) if distribution else _found(file)
    package = distribution or Path(file).parts[0]
    spec = importlib.util.spec_from_file_location(f"cut_out_{package}_{Path(file).stem}", str(where))
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.meta_path.insert(0, finder)
    try:
        spec.loader.exec_module(made)
    finally:
        sys.meta_path.remove(finder)
        for name in set(sys.modules) - before:
            if isinstance(sys.modules[name], _StandIn):
                del sys.modules[name]
    return made


def _found(file: str) -> Path:
    for folder in sys.path:
        if (where := Path(folder, file)).is_file():
            return where
    raise ImportError(f"{file} does not exist in any folder of PYTHONPATH")
