"""What a broken implementation is: a name, a sentence and a way to make it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache


class Panic(BaseException):
    """Stands for the end of the process: an abort, a failed cast, an access out of bounds.

    No ``Exception``, so that nothing takes it for a refusal.
    """


@dataclass(frozen=True)
class Variant:
    """One deliberately broken implementation.

    ``name`` is a slug such as ``reader/no-hole-check``; ``about`` says in one sentence what it does wrong;
    ``kind`` is the kind of case that it can be run on; ``make`` returns an object with the methods of that
    kind, for ``read`` the method ``read(path) -> dict``. ``heavy`` ones are caught by heavy cases alone and
    stay out of the matrix.
    """

    name: str
    about: str
    kind: str
    make: Callable[[], object]
    heavy: bool = False


def reading(name: str, about: str, reader: object) -> Variant:
    """Return a variant of kind ``read``. Readers hold no state, so one object serves every case."""
    return Variant(f"reader/{name}", about, "read", lambda: reader)


@cache
def all_variants() -> tuple[Variant, ...]:
    """Return the ``VARIANTS`` of every module in this package, sorted by name.

    Raises ValueError when two variants share a name.
    """
    found: dict[str, Variant] = {}
    package = importlib.import_module(__package__)
    for info in pkgutil.walk_packages(package.__path__, f"{__package__}."):
        module = importlib.import_module(info.name)
        for variant in getattr(module, "VARIANTS", ()):
            if variant.name in found:
                raise ValueError(f"two variants are called {variant.name}")
            found[variant.name] = variant
    return tuple(found[name] for name in sorted(found))
