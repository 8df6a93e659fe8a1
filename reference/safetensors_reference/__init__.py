"""The safetensors format, executable: rules as data and a strict reader that explains every fault."""

from __future__ import annotations

from .dtypes import DTYPE_BITS
from .explain import Explanation, InvalidFileError, explain
from .faults import Fault
from .header import Header, TensorInfo
from .parse import read_header
from .rules import HEADER_CAP, PROFILES, Choice, Rule, rule_book
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
