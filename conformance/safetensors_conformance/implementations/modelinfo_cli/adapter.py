"""Adapter for ``modelinfo``: the header of a file, or of all files of an index, if the command succeeds."""

from typing import Any

import command
import header_rows
from modelinfo.cli import main
from modelinfo.parsers.safetensors import parse_safetensors_header
from stc_host.library import Refused, call, marked


@marked
class Header:
    def open(self, path: str) -> dict[str, Any]:
        command.run(main, path)
        return header_rows.answer(call(parse_safetensors_header, path))

    def index(self, path: str) -> list[tuple[str, Any, Any]]:
        command.run(main, path)
        header = call(parse_safetensors_header, path)
        missing = header["__metadata__"]["missing_shards"]
        if missing:
            raise Refused(f"missing_shards: {missing}")
        return header_rows.rows(header)
