"""Implementations with one planted fault each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from safetensors_reference.rules.book import ProfileName


@dataclass
class Probe:
    """Records whether reading one input reached the faulty code and triggered the fault."""

    reached: bool = False
    triggered: bool = False


@dataclass(frozen=True)
class Planted:
    """An implementation with exactly one fault.

    Attributes:
        name: a slug such as ``reader/no-hole-check``.
        about: one sentence that describes the fault and when it shows.
        kind: kind of case that it can run.
        make: returns an object with the methods of that kind, such as ``read(path) -> dict``.
            Readers of the held-out set receive the probe to fill.
        rules: ids of the rules that it breaks, for a held-out reader.
        profile: profile under which the fault shows.
        heavy: only heavy cases detect it, so the matrix omits it.
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

        Raises Refused for a file that the reader rejects; any other exception is a crash.
        """
        content: dict[str, Any] = self.make(probe).content(data)
        return content
