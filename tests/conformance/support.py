"""Helpers of the harness's tests."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

from safetensors_corpus import Case, Manifest, load_manifest

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
SUITE = REPOSITORY / "conformance"


def fake(name: str) -> str:
    """Selector of a fake Python reader."""
    return f"py:{HERE / 'fakes.py'}:{name}"


QUICK = f"py:{HERE / 'quick_reader.py'}:Reference"
"""Selector of a right reader that starts at once and calls itself reference."""


def device_loader(name: str) -> str:
    """Selector of a fake loader onto a device."""
    return f"py:{HERE / 'device_fakes.py'}:{name}"


def stdio(how: str) -> str:
    """Selector of a program that speaks the protocol badly."""
    return f"cmd:{sys.executable} {HERE / 'stdio_fakes.py'} {how}"


def by_exit(how: str) -> str:
    """Selector of the exit-status program."""
    return f"exit:{sys.executable} {HERE / 'exit_fake.py'} {how} {{path}}"


@functools.cache
def committed() -> Manifest:
    """Return the committed corpus, loaded once: that takes longer than most tests here."""
    return load_manifest()


def cases(*ids: str) -> list[Case]:
    """Return cases of the committed corpus by id."""
    return [committed().by_id[i] for i in ids]


TRIGGER = "framing/one-tensor"
NEIGHBOURS = ("framing/no-bytes", "layout/hole-between-two")
