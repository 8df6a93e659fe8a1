"""Adapter for ``model-fingerprint``: its parser's list of tensors, if its command accepts the file."""

from pathlib import Path
from typing import Any

import command
from model_fingerprint import FileReader, main, parse_safetensors
from stc_host.library import call, marked, opened


@marked
class Header:
    def open(self, path: str) -> dict[str, Any]:
        command.run(main, path)
        with opened(FileReader, Path(path)) as reader:
            model = call(parse_safetensors, reader, Path(path))
        return {"tensors": [(t.name, t.dtype, t.dims) for t in model.tensors], "metadata": model.metadata}
