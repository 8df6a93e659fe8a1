"""A strict safetensors reader that explains every fault, and the rules of the format as data."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .arrays.open import safe_open
    from .header.explain import Explanation, InvalidFileError
    from .header.model import Header, TensorInfo
    from .header.read import explain, read_header
    from .rules.book import HEADER_CAP, PROFILES, Choice, Rule, rule_book
    from .rules.dtypes import DTYPE_BITS
    from .rules.faults import Fault
    from .source import UnreadableError

__all__ = [
    "DTYPE_BITS",
    "HEADER_CAP",
    "PROFILES",
    "Choice",
    "Explanation",
    "Fault",
    "Header",
    "InvalidFileError",
    "Rule",
    "TensorInfo",
    "UnreadableError",
    "explain",
    "read_header",
    "rule_book",
    "safe_open",
]

_HOMES = {
    ".arrays.open": ("safe_open",),
    ".header.explain": ("Explanation", "InvalidFileError"),
    ".header.model": ("Header", "TensorInfo"),
    ".header.read": ("explain", "read_header"),
    ".rules.book": ("HEADER_CAP", "PROFILES", "Choice", "Rule", "rule_book"),
    ".rules.dtypes": ("DTYPE_BITS",),
    ".rules.faults": ("Fault",),
    ".source": ("UnreadableError",),
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use.

    Every command imports this package, but most commands need only a part of it.
    """
    for home, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(home, __name__), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
