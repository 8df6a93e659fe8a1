"""Classes of messages and differences: what is left of a text without what differs from input to input."""

from __future__ import annotations

import re
from collections.abc import Iterable

_VARYING = re.compile(r"""[0-9]+|"[^"]*"?|'[^']*'?|`[^`]*`?""")
"""Numbers and quoted texts: what differs from input to input in a message."""
_LISTS = re.compile(r"(?<=[\[(])#(?:, ?#)+(?=[\])])")


def message_class(message: str, names: Iterable[str] = (), limit: int = 60) -> str:
    """Return a message without what differs from input to input, at most ``limit`` characters.

    Args:
        message: the words of an implementation.
        names: those of tensors, which are left out too.
        limit: length of the class; of the message itself 100 characters more are read.
    """
    message = message[: limit + 100]
    for name in sorted((n for n in names if n and n in message), key=len, reverse=True):
        message = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "#", message)
    return _LISTS.sub("#", _VARYING.sub("#", message))[:limit].strip()


def difference_class(difference: str) -> str:
    """Return which part of the content differs: dtype, shape, nbytes, bytes, metadata, tensors."""
    if difference.startswith("metadata"):
        return "metadata"
    # Names of tensors may be anything, so only what stands behind them counts.
    tail = difference.rpartition('": ')[2]
    for word in ("dtype", "shape", "nbytes", "other bytes"):
        if tail.startswith(word):
            return word
    for ending, word in ((" is missing", "missing"), (" twice", "twice"), (" none of that name", "reported")):
        if difference.endswith(ending):
            return word
    return "content"
