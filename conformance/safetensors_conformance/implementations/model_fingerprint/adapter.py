"""Adapter for the command ``model-fingerprint`` and its parser."""

from pathlib import Path
from typing import Any

import command
from model_fingerprint import FileReader, main, parse_safetensors
from stc_host.library import call, marked, opened


@marked
class Header:
    """The parser's list of tensors, for files on which the command succeeds. Digests are ignored."""

    def open(self, path: str) -> dict[str, Any]:
        command.run(main, path)
        with opened(FileReader, Path(path)) as reader:
            model = call(parse_safetensors, reader, Path(path))
        return {"tensors": [(t.name, t.dtype, t.dims) for t in model.tensors], "metadata": model.metadata}
