"""Benchmarks of this project. They are not part of any package.

Run ``python -m benchmarks -h`` in a checkout.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SEARCH_PATH = (str(ROOT), str(ROOT / "reference"))
"""Import path for measured processes. It contains the benchmarks and the reference."""
