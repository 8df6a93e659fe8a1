"""The easy set, generated: for every rule that the strict reader can report, a reader that lacks just it."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

from safetensors_corpus.broken.correct.json import Refused
from safetensors_reference import explain
from safetensors_reference.rules.book import ProfileName

from ..loop.expectation import content, quick_header
from . import Planted, Probe

_DECIDING = ("explain", "entries", "layout", "json_text")
_RULE = re.compile(r'"((?:FRM|HDR|ENT|DTY|SHP|OFF|MET)-\d\d)"')


@cache
def reported_rules() -> tuple[str, ...]:
    """Return the rules that the strict reader names in its faults, out of its source."""
    root = files("safetensors_reference.header")
    texts = (root.joinpath(f"{name}.py").read_text(encoding="utf-8") for name in _DECIDING)
    return tuple(sorted({rule for text in texts for rule in _RULE.findall(text)}))


def _profile(rule: str) -> ProfileName:
    """Return the profile under which a fault of the rule can stand alone.

    Numbers out of range stand in unknown fields only, which are refused themselves unless they are ignored.
    """
    return "official" if rule == "HDR-18" else "hardened"


def _without(rule: str) -> Callable[[bytes, Probe], dict[str, Any]]:
    """Return a reader that takes no notice of the faults of one rule."""

    def read(data: bytes, probe: Probe) -> dict[str, Any]:
        header = quick_header(data)
        if header is None:
            found = explain(data, _profile(rule))
            probe.reached = probe.reached or bool(found.faults)
            probe.triggered = probe.triggered or any(f.rule == rule for f in found.faults)
            left = [f for f in found.faults if f.rule != rule]
            if left:
                raise Refused(left[0].code)
            header = found.header
        if header is None:
            return {"tensors": [], "metadata": None}  # what it reads of a bad file is nobody's business
        return content(data, header)

    return read


def easy() -> tuple[Planted, ...]:
    """Return the set, one reader per rule."""
    return tuple(
        Planted(
            f"without-{rule.lower()}", f"takes no notice of {rule}", (rule,), _without(rule), _profile(rule)
        )
        for rule in reported_rules()
    )
