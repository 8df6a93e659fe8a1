"""Failures that repeat a cause: the first cases of one are told in full, the others in one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from safetensors_reports.causes import in_words, mistakes_of
from safetensors_reports.text import visible

if TYPE_CHECKING:
    from ..run.session import RunSession

CASES = 3
"""Cases of one cause that are told in full."""


class Repeats:
    """What was told of one implementation in this process.

    Args:
        session: the implementation in its run.
        full: whether everything is told in full.
    """

    def __init__(self, session: RunSession, *, full: bool = False) -> None:
        self._session = session
        self._full = full
        self._told: dict[tuple[str, ...], list[str]] = {}

    def told(self, row: Mapping[str, Any], text: str) -> str:
        """Return the text of a failure, or one line where cases of the same causes were told in full.

        What does not agree with the baseline is always told as it is.

        Args:
            row: of the run record.
            text: the whole message.
        """
        case, step = str(row["case"]), str(row["step"])
        keys = mistakes_of(dict(row), self._session.options.manifest)
        entry = self._session.baseline.find(case)
        if self._full or not keys or (entry is not None and step in entry.steps):
            return text
        known = [self._told.setdefault(key, []) for key in keys]
        if all(len(cases) >= CASES and case not in cases for cases in known):
            return self._line(row, known[0][0])
        for cases in known:
            if case not in cases and len(cases) < CASES:
                cases.append(case)
        return text

    def _line(self, row: Mapping[str, Any], first: str) -> str:
        who = self._session.who
        label = visible(who.label, 80) if who is not None else visible(self._session.target.selector, 80)
        why = in_words(dict(row), self._session.options.manifest)
        head = f"{label} · {row['case']} · {row['step']}: {str(row['verdict']).upper()}"
        return f"{head}, as {first} (same cause: {visible(why, 200)})"
