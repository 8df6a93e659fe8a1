"""Adapter for ``safetensors_arch.read_header``, which returns None for an invalid header."""

from typing import Any

import header_rows
from safetensors_arch import read_header
from stc_host.library import Refused, call, marked


@marked
class Header:
    def open(self, path: str) -> dict[str, Any]:
        header = call(read_header, path)
        if header is None:
            raise Refused("read_header returned None")
        return header_rows.answer(header)
