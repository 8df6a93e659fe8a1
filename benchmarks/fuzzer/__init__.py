"""Readers with a planted bug each, by which engines are measured.

Three numbers are told apart, since they fail for different reasons: the code with the bug was *reached*, the
condition that makes it a bug was *triggered*, and the engine *detected* it by the wrong answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from safetensors_reference.rules.book import ProfileName


@dataclass
class Probe:
    """What one reading of one input touched."""

    reached: bool = False
    triggered: bool = False


@dataclass(frozen=True)
class Planted:
    """A reader of the hardened profile that is right but for one bug.

    Attributes:
        name: a slug such as ``hole-before-packed``.
        about: one sentence: what it does wrong, and when.
        rules: ids of the rules that it breaks.
        read: returns the content of a file in the form of the manifest (``tensors``, ``metadata``), raises
            ``safetensors_corpus.broken.correct.json.Refused`` for a file that it refuses, and notes in the
            probe what it touched. Any other exception stands for a crash.
        profile: the profile under which the bug shows.
    """

    name: str
    about: str
    rules: tuple[str, ...]
    read: Callable[[bytes, Probe], dict[str, Any]]
    profile: ProfileName = "hardened"
