"""The order of versions, and of labels that end in one: the only place that says what is newer."""

from __future__ import annotations

from packaging.version import Version


def version_key(version: str) -> tuple[bool, Version]:
    """Return a key that sorts releases by number, a pre-release before its release.

    What is no release, such as a commit, has no order of its own: it comes first and keeps its place.
    """
    try:
        return True, Version(version)
    except ValueError:  # of numbers with too many digits, too
        return False, Version("0")


def is_prerelease(version: str) -> bool:
    """Tell whether a version is known to come before a release; of what is no number nobody knows."""
    return version_key(version)[1].is_prerelease


def label_key(label: str) -> tuple[str, tuple[bool, Version], str]:
    """Return a key that sorts labels of implementations by the alphabet, and one entry point by version."""
    name, _, version = label.partition(" ")
    return name.casefold(), version_key(version), label
