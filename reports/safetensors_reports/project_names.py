"""The same project, or the same public report, under the names that different tables have for it."""

from __future__ import annotations

import re


def same_project(implementation: str, project: str) -> bool:
    """Return whether an implementation, given by name or selector, belongs to a project, by name."""
    return _plain(implementation.partition(":")[0]) == _plain(project)


def report_key(reference: str) -> str:
    """Return what is the same for all ways to name one public report; owners of repositories change."""
    found = re.search(r"([^/]+)(?:#|/issues/|/pull/)(\d+)/?$", reference)
    return f"{found[1]}#{found[2]}" if found else reference


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")
