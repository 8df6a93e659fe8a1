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
    unlimited_address_space: bool = False,
) -> Worker:
    """Return the worker for a target; with a ``device`` the step of that name can be asked of it.

    With ``unlimited_address_space`` it may reserve any amount, as mapping a file of a tebibyte takes; its
    resident memory is watched as that of any other.
    """
    if target.kind == "exit":
        return ExitWorker(target, limits)
    return PipeWorker(target, limits, profile, device=device, unlimited_address_space=unlimited_address_space)
