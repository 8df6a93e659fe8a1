"""Adapter for the command ``sft ls`` and its parser."""

from pathlib import Path
from typing import Any

import command
from sft.cli import app
from sft.index import TensorIndex
from stc_host.library import call, marked


@marked
class Index:
    """The parser's list of tensors, for files on which the command succeeds."""

    def open(self, path: str) -> dict[str, Any]:
        command.run(app, "ls", path)
        index = call(TensorIndex.from_file, Path(path))
        rows = [(t.full_name, t.dtype, t.shape) for t in index.tensors]
        return {"tensors": rows, "metadata": index.metadata}
