"""Benches of this project, run from a checkout: ``python -m benchmarks -h``. They belong to no package."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The checkout."""
SEARCH_PATH = (str(ROOT), str(ROOT / "reference"))
"""Where processes that are measured find the benches and the reference."""
