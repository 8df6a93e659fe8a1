"""What can go wrong between a valid file and tensors on a device."""

from __future__ import annotations

import traceback

from ..rules.errors import SafetensorsError


class DeviceError(SafetensorsError, RuntimeError):
    """A device, its memory or a way of reading failed; nothing is known against the file."""


def reason(err: BaseException) -> str:
    """Return the first line of what an error says; those of devices go on for a page."""
    lines = str(getattr(err, "strerror", None) or err).splitlines()
    return f"{type(err).__name__}: {lines[0][:200]}" if lines else type(err).__name__


def let_go(err: BaseException, handled: BaseException | None = None) -> None:
    """Forget what the finished frames of an error and of what led to it hold.

    Whoever keeps the error would else keep the buffer that the frames had in hand. ``handled`` is an error
    that was there before and is somebody else's.
    """
    seen = {id(handled)}
    todo: list[BaseException | None] = [err]
    while todo:
        item = todo.pop()
        if item is not None and id(item) not in seen:
            seen.add(id(item))
            traceback.clear_frames(item.__traceback__)
            todo += [item.__cause__, item.__context__]
