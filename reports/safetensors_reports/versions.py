"""Compare versions, labels that end in a version, and the versions that a bug affects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version

COMMIT = re.compile("[0-9a-f]{40}")


def version_key(version: str) -> tuple[bool, Version]:
    """Return a sort key: releases are sorted by number, and other versions come first in their order."""
    try:
        return True, Version(version)
    except ValueError:  # this includes numbers with too many digits
        return False, Version("0")


def is_affected(versions: str, version: str) -> bool | None:
    """Return whether a bug affects a version; None if the affected versions are not known."""
    try:
        return (
            SpecifierSet(versions).contains(Version(version), prereleases=True) if versions.strip() else None
        )
    except ValueError:  # this includes numbers with too many digits
        return None


def affects_version(versions: str, version: str) -> bool:
    """Return whether a bug affects a version; True if no affected versions are recorded."""
    return not versions.strip() or is_affected(versions, version) is True


def bug_affects(bug: Mapping[str, Any], version: str) -> bool | None:
    """Return whether a reported bug affects a version or a commit; None if this is not recorded."""
    if not COMMIT.fullmatch(version):
        return is_affected(bug["versions"], version)
    if version in bug.get("commits_without", ()):
        return False
    return True if version in bug.get("commits_with", ()) else None


def short(version: str) -> str:
    return version[:10] if COMMIT.fullmatch(version) else version


def is_prerelease(version: str) -> bool:
    return version_key(version)[1].is_prerelease


def label_key(label: str) -> tuple[str, tuple[bool, Version], str]:
    name, _, version = label.partition(" ")
    return name.casefold(), version_key(version), label
