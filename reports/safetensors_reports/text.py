"""Make strings from readers and files safe to show and stable across runs, and compare names and versions."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Container, Mapping
from itertools import chain, count
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from safetensors_reference.text import code as code  # noqa: PLC0414 - one place for all text helpers
from safetensors_reference.text import plural as plural  # noqa: PLC0414 - as above
from safetensors_reference.text import visible as visible  # noqa: PLC0414 - as above
from safetensors_reference.text import visible_lines as visible_lines  # noqa: PLC0414 - as above

COPIED = 1 << 16
"""Limit for commands and lists that people copy. Only those about hostile records are longer."""


def join_counts(numbers: dict[str, int], between: str = "   ") -> str:
    return between.join(f"{name} {number:,}" for name, number in numbers.items())


def listed(items: list[str], limit: int) -> str:
    """Join items with commas.

    If there are more than ``limit`` + 1 items, join only ``limit`` of them and append the number of the
    others.
    """
    rest = len(items) - limit
    return ", ".join(items) if rest <= 1 else f"{', '.join(items[:limit])} and {rest:,} more"


def feature_name(name: str) -> str:
    """Return the display name of a feature, such as ``F4`` for ``dtype-f4``."""
    dtype = name.removeprefix("dtype-")
    return visible(name if dtype == name else dtype.upper().replace("-", "_"), 30)


_RULES = (
    (re.compile(r"\b0x[0-9a-fA-F]{6,16}\b"), "0x…"),
    (re.compile(r"(?<![\w.])/(?:[^\s/'\",:;()\[\]]+/)+([^\s/'\",:;()\[\]]*)"), r"…/\1"),
    # The time limit also depends on the machine.
    (re.compile(r"\bprocessor time [\d.,e+]+ s of [\d.,e+]+ s"), "processor time"),
    (re.compile(r"\b[\d,]+ bytes (of memory|read) of ([\d,]+)"), r"more than \2 bytes \1"),
    (re.compile(r"\b(after|in|took) [\d.,]+ ?(ms|s|seconds)\b"), r"\1 …"),
    # Uninitialised bytes differ from run to run.
    (re.compile(r" \(sha256 [0-9a-f]+…?, not [0-9a-f]+…?\)"), ""),
    (re.compile(r"\btmp[a-z0-9_]{8}\b"), "…"),
    (re.compile(r"\b(pid|process|thread) \d+"), r"\1 …"),
)


def stable(text: str, limit: int = 200) -> str:
    """Return the text on one visible line, with volatile parts replaced by ``…``."""
    for pattern, new in _RULES:
        text = pattern.sub(new, text)
    return visible(text, limit)


def digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def unused(name: str, taken: Container[str], between: str = "-") -> str:
    """Return the name, with a number appended if it is already in use."""
    numbered = (f"{name}{between}{number}" for number in count(2))
    return next(free for free in chain([name], numbered) if free not in taken)


MAX_FILE_NAME = 80


def file_slug(text: str) -> str:
    """Turn a string into a part of a file name, which has limited length and need not be unique."""
    # Shorten long names, because hostile programs choose their own names.
    if len(text) <= MAX_FILE_NAME:
        return slug(text)
    return f"{slug(text[:MAX_FILE_NAME])}-{digest(text)[:8]}"


def same_project(implementation: str, project: str) -> bool:
    return _plain(implementation.partition(":")[0]) == _plain(project)


def report_key(reference: str) -> str:
    """Return a key for a public report that ignores its form and its owner, because repositories move."""
    match = re.search(r"([^/]+)(?:#|/issues/|/pull/)(\d+)/?$", reference)
    return f"{match[1]}#{match[2]}" if match else reference


_PACKAGES = {"huggingface.js": "huggingface-hub-js"}


def _plain(name: str) -> str:
    plain = name.lower().replace("_", "-")
    return _PACKAGES.get(plain, plain)


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
