"""The dtype table is the one of rules DTY-01 and DTY-05, which ``naive`` lists a second time."""

from __future__ import annotations

from typing import Any, cast

import pytest

from safetensors_reference import DTYPE_BITS

from ..naive import BITS


def test_codes_and_widths() -> None:
    assert dict(DTYPE_BITS) == BITS
    assert len(DTYPE_BITS) == 22


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        cast(Any, DTYPE_BITS)["F128"] = 128
