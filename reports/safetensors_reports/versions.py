"""Compare versions, and labels that end in a version."""

from __future__ import annotations

from packaging.specifiers import SpecifierSet
from packaging.version import Version


def version_key(version: str) -> tuple[bool, Version]:
    """Return a sort key: releases are sorted by number, and other versions come first in their order."""
    try:
        return True, Version(version)
    except ValueError:  # this includes numbers with too many digits
        return False, Version("0")


def affects_version(versions: str, version: str) -> bool:
    """Return whether a bug affects a version; True if no affected versions are recorded."""
    if not versions.strip():
        return True
    try:
        return SpecifierSet(versions).contains(Version(version), prereleases=True)
    except ValueError:  # this includes numbers with too many digits
        return False


def is_prerelease(version: str) -> bool:
    return version_key(version)[1].is_prerelease


def label_key(label: str) -> tuple[str, tuple[bool, Version], str]:
    name, _, version = label.partition(" ")
    return name.casefold(), version_key(version), label
