"""Adapter for AdapterSentry's ``open_adapter``, which makes an inventory of a file without loading data.

A file is valid if it can be opened and no tensor in its inventory is malformed.
"""

from pathlib import Path

import lacking
from adaptersentry.parsers.adapter_file import open_adapter
from adaptersentry.parsers.safetensors import ALLOWED_DTYPES
from adaptersentry.schemas.errors import ErrorCategory
from stc_host.library import attribute, call, marked


@marked
class Header:
    rejects = (ValueError, FileNotFoundError)  # the exception types that open_adapter documents
    lacks = lacking.all_but(ALLOWED_DTYPES)

    def check(self, path: str) -> bool:
        left_out = attribute(call(open_adapter, Path(path)), "not_analyzed")
        return all(attribute(item, "category") is not ErrorCategory.MALFORMED for item in left_out)
