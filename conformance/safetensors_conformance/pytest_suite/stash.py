"""Where the suite's items leave their results for the plugin."""

from __future__ import annotations

from typing import Any

import pytest

RESULT_KEY: pytest.StashKey[dict[str, Any]] = pytest.StashKey()
