"""Seconds on the command line."""

from __future__ import annotations

import math
from typing import Any

import click


class SecondsRange(click.FloatRange):
    """Seconds from ``least`` up to a day."""

    def __init__(self, least: float = 0.001) -> None:
        super().__init__(least, 86_400)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return a number. NaN compares with nothing, and so is in every range of click's."""
        if not math.isfinite(float(click.FLOAT.convert(value, param, ctx))):
            self.fail(f"{value} is no number of seconds", param, ctx)
        return float(super().convert(value, param, ctx))
