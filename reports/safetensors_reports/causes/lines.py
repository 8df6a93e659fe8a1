"""Likely causes of failures as lines for a terminal."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence

from safetensors_corpus.judging.verdicts import kind_of

from ..record.run import Row
from ..text import plural, visible
from .cause import Cause, cause_text, command, failing

MAX_SHOWN = 10
WIDTH = 100
_INDENT = " " * 8


def described(found: Sequence[Cause], *, strict: bool = False) -> list[Cause]:
    """Return the causes that ``cause_lines`` describes.

    If only one case fails, there are none, because its failure is the cause.
    """
    bad = failing(found, strict=strict)
    return bad if _cases(bad) > 1 else []


def cause_lines(
    found: Sequence[Cause], header: Row, *, strict: bool = False, limit: int | None = MAX_SHOWN
) -> list[str]:
    bad = described(found, strict=strict)
    expected = [cause for cause in found if cause.is_expected]
    if not bad:
        count = plural(_cases(expected), "case")
        title = f"CAUSES OF THE EXPECTED FAILURES of {count}: {len(expected):,}, worst first"
        lines = [line for cause in expected[:limit] for line in _title_lines(cause)]
        return [title, *lines, *_rest_lines(expected, limit)] if expected else []
    lines = [f"LIKELY CAUSES of {_cases(bad):,} failing cases: {len(bad):,}, worst first"]
    for cause in bad[:limit]:
        lines += _title_lines(cause)
        numbers = [f"{count:,} {visible(verdict, 40)}" for verdict, count in cause.verdicts]
        counts = ", ".join(numbers) if len(numbers) > 1 else ""
        for label, text in (("", counts), ("said: ", cause.said), ("fix: ", cause.advice)):
            if text:
                lines += _wrapped(label + text, _INDENT, _INDENT + " " * len(label))
        lines.append(f"{_INDENT}{command(header, cause)}")
    others: dict[str, list[Cause]] = {
        "in the baseline": expected,
        "failing only with --fail-on-should": [c for c in found if not c.is_expected and c not in bad],
    }
    lines += _rest_lines(bad, limit)
    return [*lines, *(f"{_INDENT}{title}: {_counted(group)}" for title, group in others.items() if group)]


def _title_lines(cause: Cause) -> list[str]:
    text = f"{visible(cause.verdict, 40)}: {cause_text(cause)}"
    return _wrapped(text, f"{len(cause.cases):>6,}  ", _INDENT)


def _rest_lines(all_causes: Sequence[Cause], limit: int | None) -> list[str]:
    rest = [] if limit is None else all_causes[limit:]
    more = plural(len(rest), "more cause", "more causes")
    return [f"     …  {more}, {plural(_cases(rest), 'case')}; --full-failures shows all"] if rest else []


def _cases(found: Sequence[Cause]) -> int:
    return len({case for cause in found for case in cause.cases})


def _wrapped(text: str, first: str, others: str) -> list[str]:
    """Wrap text without starting a line with ``::``, which GitHub would run as a workflow command."""
    lines = textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=others, break_on_hyphens=False)
    return [f"{others}… {line.strip()}" if line.strip().startswith("::") else line for line in lines]


def _counted(found: Sequence[Cause]) -> str:
    cases = Counter[str]()
    for verdict, count in (pair for cause in found for pair in cause.verdicts):
        cases[kind_of(verdict)] += count
    numbers = ", ".join(f"{visible(kind, 40)} {count:,}" for kind, count in cases.items())
    return f"{plural(len(found), 'cause')} ({numbers})"
