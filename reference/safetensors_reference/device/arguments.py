"""Arguments that all doors to a device have, checked before anything is opened."""

from __future__ import annotations

from ..rules.errors import AccessError


def check_numbers(**values: object) -> None:
    """Raise AccessError for what is neither None nor a whole number from 1 on."""
    for name, value in values.items():
        if value is not None and (type(value) is not int or value < 1):
            raise AccessError(f"{name} must be a number from 1 on, not {repr(value)[:80]}")
