"""The safetensors format, executable: rules as data and a strict reader that explains every fault."""

from __future__ import annotations

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
