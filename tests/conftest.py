"""Hypothesis profiles: ``HYPOTHESIS_PROFILE=long`` searches longer, and elsewhere on every run."""

from __future__ import annotations

import os
import sys

from hypothesis import HealthCheck, settings

# Tests start hundreds of processes of the same modules, and compiling takes each of them half a second.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Shared runners are too uneven for a deadline per example, and a file with many tensors is not small.
settings.register_profile(
    "default",
    max_examples=300,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "long",
    max_examples=10_000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
