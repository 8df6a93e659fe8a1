"""Adapter of ``modelinfo.parsers.safetensors.parse_safetensors_header``."""

from __future__ import annotations

from typing import Any

import header_rows
from modelinfo.parsers.safetensors import parse_safetensors_header
from stc_host.library import Refused, call, marked


@marked
class Header:
    """The header of a file, or of all files that an index names."""

    def open(self, path: str) -> dict[str, Any]:
        return header_rows.answer(call(parse_safetensors_header, path))

    def index(self, path: str) -> list[tuple[str, Any, Any]]:
        """Parse the headers that an index names. Missing files are counted, which is told as a refusal."""
        header = call(parse_safetensors_header, path)
        missing = header["__metadata__"]["missing_shards"]
        if missing:
            raise Refused(f"missing_shards: {missing}")
        return header_rows.rows(header)
