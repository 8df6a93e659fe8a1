"""Benchmarks of this project, run from a checkout: ``python -m benchmarks -h``. They belong to no package."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SEARCH_PATH = (str(ROOT), str(ROOT / "reference"))
"""Import path of measured processes: the benchmarks and the reference."""
