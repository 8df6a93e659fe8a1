"""The tools of the project, which stand beside the packages in a checkout and are part of no package."""

from __future__ import annotations

import sys
from pathlib import Path


def find_tools() -> None:
    """Make ``tools`` importable. Raises FileNotFoundError for an installed copy, which has none."""
    root = Path(__file__).resolve().parents[2]
    if not (root / "tools" / "mutation").is_dir():
        raise FileNotFoundError(
            "the mutants of the strict reader are made by tools/ of a checkout of this project; "
            "run it in a checkout installed with: pip install -e '.[harness]'"
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
