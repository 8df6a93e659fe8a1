"""The safetensors format, executable: rules as data and a strict reader that explains every fault."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .header.explain import Explanation, InvalidFileError, explain
    from .header.model import Header, TensorInfo
    from .header.read import read_header
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
]

_MODULES = {
    "header.explain": ("Explanation", "InvalidFileError", "explain"),
    "header.model": ("Header", "TensorInfo"),
    "header.read": ("read_header",),
    "rules.book": ("HEADER_CAP", "PROFILES", "Choice", "Rule", "rule_book"),
    "rules.dtypes": ("DTYPE_BITS",),
    "rules.faults": ("Fault",),
    "source": ("UnreadableError",),
}


def __getattr__(name: str) -> object:
    """Load a name when it is first used, so that ``stc`` starts without what it does not need."""
    for module, names in _MODULES.items():
        if name in names:
            globals()[name] = value = getattr(import_module(f".{module}", __name__), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
