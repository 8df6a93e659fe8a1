"""Functions that create broken implementations from replaced methods, from classes, and from rows."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, TypeVar

from proof.planted import Planted

T = TypeVar("T")


class Panic(BaseException):
    """A crash of the process, for example because of an abort, a failed cast or an access out of bounds.

    It is not an ``Exception``, so that no handler treats it as a rejection.
    """


PREFIXES = {
    "read": "reader",
    "slice": "slicer",
    "index": "loader",
    "write": "writer",
    "sharded": "sharder",
    "export": "exporter",
    "lifecycle": "holder",
    "remote": "fetcher",
    "concurrent": "sharer",
    "placed": "visitor",
    "repeated": "keeper",
    "contended": "rival",
}
"""Maps each kind of case to the prefix of the names of its variants."""


def changed(base: type[T], **steps: Callable[..., Any]) -> type[T]:
    """Return ``base`` with replaced methods.

    Each replacement is called with the bound method of ``base`` before the arguments:
    ``lambda right, *arguments: ...``.
    """

    def method(name: str, step: Callable[..., Any]) -> Callable[..., Any]:
        right = getattr(base, name)
        return lambda self, *given: step(partial(right, self), *given)

    return type(base.__name__, (base,), {name: method(name, step) for name, step in steps.items()})


def named(
    module: Mapping[str, Any],
    kind: str,
    base: type[T],
    make: Callable[[type[T]], Callable[[], object]] = lambda own: own,
) -> tuple[Planted, ...]:
    """Return a variant for each class of a module.

    The name of the class and the first line of its docstring become the name and description of the variant.

    Args:
        module: the names of the module, including ``base``; ``base`` itself and classes with a leading
            underscore are skipped, because they are only bases of other classes.
        kind: kind of case.
        base: the correct implementation.
        make: maps a class to the ``make`` of its variant.
    """
    own = [v for v in module.values() if isinstance(v, type) and v.__module__ == module["__name__"]]
    return tuple(
        Planted(
            f"{PREFIXES[kind]}/{slug(v.__name__)}",
            (v.__doc__ or "").partition("\n")[0],
            kind,
            make(v),
            heavy=getattr(v, "only_heavy", False),
        )
        for v in own
        if issubclass(v, base) and v is not base and not v.__name__.startswith("_")
    )


def slug(name: str) -> str:
    """Return the name of a class in lower case, with its words and numbers joined by hyphens."""
    return "-".join(re.findall(r"[A-Z][a-z]*|[0-9][0-9a-z]*", name)).lower()


def reading(name: str, about: str, reader: object) -> Planted:
    """Return a variant of kind ``read``. Readers have no state, so one object serves every case."""
    return Planted(f"reader/{name}", about, "read", lambda: reader)


@cache
def all_variants() -> tuple[Planted, ...]:
    """Return the ``VARIANTS`` of all modules in this package, sorted by name.

    Raises ValueError if two variants have the same name.
    """
    found: dict[str, Planted] = {}
    package = importlib.import_module(__package__)
    for info in pkgutil.walk_packages(package.__path__, f"{__package__}."):
        module = importlib.import_module(info.name)
        for variant in getattr(module, "VARIANTS", ()):
            if variant.name in found:
                raise ValueError(f"two variants are named {variant.name}")
            found[variant.name] = variant
    return tuple(found[name] for name in sorted(found))
