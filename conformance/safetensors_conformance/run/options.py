"""Options of a run."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

from safetensors_corpus import Manifest

from ..worker.worker import Limits

MAX_HANGS = 10
"""Cases in a row that may hang by default: a whole corpus of them would take most of a day."""


@dataclass(frozen=True)
class RunOptions:
    """Everything that decides about a run, however it is started.

    Attributes:
        manifest: the corpus.
        profile: profile that disputed cases are graded by, or None.
        limits: limits of one step.
        baseline: file of expected failures; None takes the one that belongs to the implementation, if any.
        use_baseline: False shows every failure.
        smoke: whether the most basic files are tried first.
        strict: whether missed recommendations fail too.
        heavy: whether the cases made of large inputs are run too.
        device: device for the step ``device``, None to leave that step out.
        max_hangs: cases in a row that may hang, and a tenth of those that may die; 0 for any number.
        stop: is set by whoever wants the run to end before the next answer.
    """

    manifest: Manifest
    profile: str | None = None
    limits: Limits = field(default_factory=Limits)
    baseline: Path | None = None
    use_baseline: bool = True
    smoke: bool = True
    strict: bool = False
    heavy: bool = False
    device: str | None = None
    max_hangs: int = 0
    stop: threading.Event = field(default_factory=threading.Event)
