"""Readers that run inside the libFuzzer target, each with one mistake or none."""

from __future__ import annotations

import os
import signal
from typing import Any

from safetensors_corpus.features.tree import entries, parse
from safetensors_corpus.judging.answer import Refused
from safetensors_fuzz.loop.question import opinion


def right(data: bytes) -> dict[str, Any]:
    what = opinion(data)
    if what.header is None:
        raise Refused(what.subject)
    return what.content()


def forgets_the_end(data: bytes) -> dict[str, Any]:
    """Never looks whether the last tensor ends where the file ends (OFF-08)."""
    header = 8 + int.from_bytes(data[:8], "little")
    end = max((entry.end for entry in entries(parse(data))), default=0)
    return right(data[: header + end])


def dies_of_a_size(data: bytes) -> dict[str, Any]:
    """Ends the whole process, as native code may."""
    if len(data) == 200:
        os.kill(os.getpid(), signal.SIGSEGV)
    return right(data)
