"""Adapter of AdapterSentry's ``open_adapter``, which takes stock of a file without loading data."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

from adaptersentry.parsers.adapter_file import open_adapter
from adaptersentry.parsers.safetensors import ALLOWED_DTYPES
from adaptersentry.schemas.errors import ErrorCategory
from stc_host.library import attribute, call, marked

_INTEGERS = ("BOOL", "U8", "I8", "I16", "U16", "I32", "U32", "I64", "U64")
_FLOATS = ("F64", "F32", "F16", "BF16", "F4", "F6_E2M3", "F6_E3M2", "C64")
_BYTES = ("F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ")


@marked
class Header:
    """A file is valid when it opens and no tensor of its inventory is malformed."""

    name = "adaptersentry"
    version = version("adaptersentry")
    language = "Python"
    rejects = (ValueError, FileNotFoundError)  # what open_adapter documents
    lacks = tuple(
        "dtype-" + code.lower().replace("_", "-")
        for code in _INTEGERS + _FLOATS + _BYTES
        if code not in ALLOWED_DTYPES
    )

    def check(self, path: str) -> bool:
        """Open the file."""
        left_out = attribute(call(open_adapter, Path(path)), "not_analyzed")
        return all(attribute(item, "category") is not ErrorCategory.MALFORMED for item in left_out)
