"""Which implementation is which project of the table of bugs: the same name, spelt this way or that."""

from __future__ import annotations


def same_project(implementation: str, project: str) -> bool:
    """Return whether an implementation, given by name or selector, belongs to a project, by name."""
    return _plain(implementation.partition(":")[0]) == _plain(project)


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")
