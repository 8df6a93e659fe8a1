"""Adapter of the checks that AdapterSentry makes on a header before it loads an adapter."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from adaptersentry.parsers.safetensors import ALLOWED_DTYPES, header_entry_problem, read_header
from stc_host.library import call, marked

_INTEGERS = ("BOOL", "U8", "I8", "I16", "U16", "I32", "U32", "I64", "U64")
_FLOATS = ("F64", "F32", "F16", "BF16", "F4", "F6_E2M3", "F6_E3M2", "C64")
_BYTES = ("F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ")


@marked
class Header:
    """Every entry must be without a problem."""

    name = "adaptersentry"
    version = version("adaptersentry")
    language = "Python"
    rejects = (ValueError,)  # what read_header documents
    lacks = tuple(
        "dtype-" + code.lower().replace("_", "-")
        for code in _INTEGERS + _FLOATS + _BYTES
        if code not in ALLOWED_DTYPES
    )

    def check(self, path: str) -> bool:
        """Read the header and check each entry."""
        header, begin = call(read_header, Path(path))
        size = Path(path).stat().st_size - begin
        entries = [info for name, info in header.items() if name != "__metadata__"]
        return all(call(header_entry_problem, info, size) is None for info in entries)
