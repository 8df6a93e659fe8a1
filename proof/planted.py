"""Implementations with one planted fault each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from safetensors_reference.rules.book import ProfileName


@dataclass
class Probe:
    """Code reached by one reading of one input: the faulty code, and the condition of the fault."""

    reached: bool = False
    triggered: bool = False


@dataclass(frozen=True)
class Planted:
    """An implementation with exactly one fault.

    Attributes:
        name: a slug such as ``reader/no-hole-check``.
        about: one sentence: the fault, and when it shows.
        kind: kind of case that it can run.
        make: returns an object with the methods of that kind, for ``read`` the method ``read(path) -> dict``.
            Readers of the held-out set take the probe to fill.
        rules: ids of the rules that it breaks, for a held-out reader.
        profile: profile under which the fault shows.
        heavy: only heavy cases catch it, so that the matrix leaves it out.
    """

    name: str
    about: str
    kind: str
    make: Callable[..., Any]
    rules: tuple[str, ...] = ()
    profile: ProfileName = "hardened"
    heavy: bool = False

    def content(self, data: bytes, probe: Probe) -> dict[str, Any]:
        """Return the content of a file in the form of the manifest.

        Raises Refused for a file that the reader refuses; any other exception is a crash.
        """
        content: dict[str, Any] = self.make(probe).content(data)
        return content
