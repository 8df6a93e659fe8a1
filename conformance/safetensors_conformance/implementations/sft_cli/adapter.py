"""Adapter for ``sft``: its parser's list of tensors, if the command ``sft ls`` accepts the file."""

from pathlib import Path
from typing import Any

import command
from sft.cli import app
from sft.index import TensorIndex
from stc_host.library import call, marked


@marked
class Index:
    def open(self, path: str) -> dict[str, Any]:
        command.run(app, "ls", path)
        index = call(TensorIndex.from_file, Path(path))
        rows = [(t.full_name, t.dtype, t.shape) for t in index.tensors]
        return {"tensors": rows, "metadata": index.metadata}
