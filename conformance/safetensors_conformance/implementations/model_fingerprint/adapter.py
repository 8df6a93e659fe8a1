"""Adapter of the command ``model-fingerprint``, with the parser that it begins with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import command
from model_fingerprint import FileReader, main, parse_safetensors
from stc_host.library import call, marked, opened


@marked
class Header:
    """What the parser lists of a file, where the command succeeds; the digests are not looked at."""

    def open(self, path: str) -> dict[str, Any]:
        command.run(main, path)
        with opened(FileReader, Path(path)) as reader:
            model = call(parse_safetensors, reader, Path(path))
        return {"tensors": [(t.name, t.dtype, t.dims) for t in model.tensors], "metadata": model.metadata}
