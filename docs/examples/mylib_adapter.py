"""Adapter for ``mylib``: pytest conformance --impl=py:docs/examples/mylib_adapter.py:Adapter."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # needed only because mylib is not installed
import mylib


class Adapter:
    name = "mylib"
    version = "1.0"

    def read(self, path):
        header, data = mylib.load(path)
        metadata = header.pop("__metadata__", None)
        rows = []
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            rows.append((name, entry["dtype"], entry["shape"], data[begin:end]))
        return {"tensors": rows, "metadata": metadata}
