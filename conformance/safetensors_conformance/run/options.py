"""Settings of a run."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field
from pathlib import Path

from safetensors_corpus import Manifest

from ..worker.worker import Limits

DEVICE_NAMES = "a device must be cpu or a kind of accelerator and a number, such as cuda:0"


def is_device(name: str) -> bool:
    return re.fullmatch(r"cpu|[a-z][a-z0-9]{0,29}:(0|[1-9][0-9]{0,3})", name, re.ASCII) is not None


@dataclass(frozen=True)
class RunOptions:
    """Settings of a run. ``max_hangs`` in a row end it, or ten times as many deaths; 0 means no limit."""

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
    report: Path | None = None
    full_failures: bool = False
    stop: threading.Event = field(default_factory=threading.Event)
