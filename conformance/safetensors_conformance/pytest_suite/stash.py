"""The state of the suite in the configuration of a pytest run."""

from __future__ import annotations

from typing import Any

import pytest

SUITE_KEY: pytest.StashKey[Any] = pytest.StashKey()
"""The ``Suite``. The plugin does not import that class unless the suite is used."""
RESULT_KEY: pytest.StashKey[dict[str, Any]] = pytest.StashKey()


def option(config: pytest.Config, name: str) -> Any:
    return config.getoption(dest_of(name), None)


def dest_of(name: str) -> str:
    return "stc_" + name.lstrip("-").replace("-", "_")
