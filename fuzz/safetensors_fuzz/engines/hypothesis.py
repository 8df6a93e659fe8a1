"""The hypothesis engine: inputs drawn by hypothesis, judged as those of any other engine."""

from __future__ import annotations

import time
from collections.abc import Callable

import hypothesis
from hypothesis import HealthCheck, Phase

from ..grammar.model import File
from ..grammar.strategies import files
from ..loop.campaign import Campaign
from ..loop.recorder import Settings, Tally
from ..loop.subjects import Slots

MANY = 1_000_000_000
"""Examples of a run that ends by time."""
SHOW_EVERY = 50


class _EnoughError(Exception):
    """The time is used up."""


def run_hypothesis(
    campaign: Campaign, settings: Settings, slots: Slots, progress: Callable[[Tally], None]
) -> Tally:
    """Draw and judge inputs until the settings say stop; the same seed draws the same inputs."""
    began = time.monotonic()
    tally = campaign.tally

    @hypothesis.seed(settings.seed)
    @hypothesis.settings(
        max_examples=settings.max_execs or MANY,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(files())
    def each(file: File) -> None:
        campaign.one(file.render(), slots, file)
        tally.seconds = time.monotonic() - began
        if tally.execs % SHOW_EVERY == 0:
            progress(tally)
        late = settings.seconds is not None and tally.seconds >= settings.seconds
        if late or (settings.first and tally.findings):
            raise _EnoughError

    try:
        each()
    except _EnoughError:
        pass
    finally:
        tally.seconds = time.monotonic() - began
        progress(tally)
    return tally
