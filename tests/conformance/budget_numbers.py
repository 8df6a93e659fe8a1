"""Costs of the readers in ``budget_fakes.py``, shared with the tests."""

from __future__ import annotations

SECONDS = 0.3
"""Seconds of processor time of those that spend it."""
BYTES = 64 << 20
