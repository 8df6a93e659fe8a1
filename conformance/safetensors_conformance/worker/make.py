"""The worker that an implementation gets."""

from __future__ import annotations

from ..implementations.selectors import Target
from .exit_status import ExitWorker
from .pipe import PipeWorker
from .worker import Limits, Worker


def make_worker(
    target: Target,
    limits: Limits,
    profile: str | None = None,
    *,
    device: str | None = None,
    roomy: bool = False,
) -> Worker:
    """Return the worker for a target; with a ``device`` the step of that name can be asked of it.

    A ``roomy`` one may reserve any amount of address space, as mapping a file of a tebibyte takes; its
    resident memory is watched as that of any other.
    """
    if target.kind == "exit":
        return ExitWorker(target, limits)
    return PipeWorker(target, limits, profile, device=device, roomy=roomy)
