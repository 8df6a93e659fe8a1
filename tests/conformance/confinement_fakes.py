"""A tested program that records its environment: an adapter, or a program with an output file."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path


class Tells:
    """A reader that refuses every file with the names of its variables."""

    name, version = "tells", "1"

    def read(self, path: str) -> None:
        raise ValueError(" ".join(sorted(os.environ)))


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(dict(os.environ)), encoding="utf-8")
