"""Arguments that all doors to a device have, checked before anything is opened."""

from __future__ import annotations

from typing import get_args

from ..errors import AccessError
from ..rules import ProfileName


def check_numbers(**values: object) -> None:
    """Raise AccessError for what is neither None nor a whole number from 1 on."""
    for name, value in values.items():
        if value is not None and (type(value) is not int or value < 1):
            raise AccessError(f"{name} must be a number from 1 on, not {repr(value)[:80]}")


def check_profile(profile: object) -> None:
    """Raise AccessError for what is no profile."""
    names = get_args(ProfileName)
    if profile not in names:
        raise AccessError(f"profile must be one of {', '.join(names)}, not {repr(profile)[:80]}")
