"""The garbage collector, for work whose heap grows and of which next to nothing is garbage.

Both decorate functions, too.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

SELDOM = 200_000
"""Objects made between two looks of the collector."""


@contextmanager
def uncollected() -> Iterator[None]:
    """Keep the collector from walking over a growing heap."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Let the collector look seldom, in work that may go on for hours."""
    before = gc.get_threshold()
    gc.set_threshold(SELDOM, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
