"""What the readers in ``budget_fakes.py`` spend, for them and for the tests."""

from __future__ import annotations

SECONDS = 0.3
"""What the spending ones spend of processor time."""
BYTES = 64 << 20
