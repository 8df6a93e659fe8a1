"""Order of the items: case by case, and no placeholders for steps that an implementation does not have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the steps of a case side by side, so that an interrupted run knows whole cases."""
    here = Path(__file__).parent
    mine = [i for i in items if i.path.parent == here and not i.name.endswith("[NOTSET]")]
    others = [i for i in items if i.path.parent != here]
    ranks: dict[tuple[str, str], int] = {}

    def rank(item: pytest.Item) -> tuple[int, int]:
        parameters: dict[str, Any] = dict(item.callspec.params) if isinstance(item, pytest.Function) else {}
        if "case" not in parameters:
            return (2 if "choice" in parameters else 0), 0
        key = (parameters["selector"], parameters["case"].id)
        return 1, ranks.setdefault(key, len(ranks))

    items[:] = [*others, *sorted(mine, key=rank)]
