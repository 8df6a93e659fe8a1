"""The known implementations as test parameters, and which of them are installed here."""

from __future__ import annotations

import shutil
from importlib.metadata import PackageNotFoundError, version

import pytest

from safetensors_conformance.implementations.descriptor import descriptors
from safetensors_conformance.implementations.selectors import Target

SELECTORS = [d.selector(e) for d in descriptors().values() for e in d.entries]
BY_DAY = {"reference", "safetensors", "netron", "modelvet"}
"""One each in Python, Rust, JavaScript and C; that of torch has a test of its own."""

every_known = pytest.mark.parametrize(
    "selector", [s if s in BY_DAY else pytest.param(s, marks=pytest.mark.nightly) for s in SELECTORS]
)


def there(target: Target) -> bool:
    """True when everything that the target needs is installed."""
    if target.kind == "node" and shutil.which("node") is None:
        return False
    if target.environment is not None:
        return target.environment.ready
    assert target.descriptor is not None
    assert target.entry is not None
    try:
        for requirement in target.descriptor.requirements(target.descriptor.version, target.entry):
            version(requirement.partition("==")[0])
    except PackageNotFoundError:
        return False
    return True
