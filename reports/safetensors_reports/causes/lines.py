"""Causes as lines for a terminal, and the command that shows one again."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from safetensors_corpus.judging.verdicts import fails, kind_of

from ..case_evidence import reproducer
from ..record.run import Row
from ..text import plural, visible

if TYPE_CHECKING:
    from .cause import Cause

SHOWN = 10
"""Most causes shown of one run in a terminal."""
WIDTH = 100
_INDENT = " " * 8


def command(header: Row, cause: Cause) -> str:
    """Return the command line that runs the example of a cause again, escaped.

    Args:
        header: of the run record.
        cause: one of its causes.
    """
    who = header["implementation"]
    cases = [case for case in (cause.example, cause.beside) if case]
    device = header.get("device") if set(cause.steps) == {"device"} else None
    again = reproducer(str(who.get("selector") or who["name"]), cases, header.get("profile"), device)
    return visible(again, 300)


def headline(cause: Cause) -> str:
    """Return verdict and what is wrong in one line: ``wrong-accept: accepts although ... (OFF-08)``."""
    return f"{visible(cause.verdict, 40)}: {what(cause)}"


def what(cause: Cause) -> str:
    """Return what is wrong with the rule that is charged."""
    rule = f" ({cause.rule})" if cause.rule and cause.rule not in cause.what else ""
    return cause.what + rule


def numbers(cause: Cause) -> str:
    """Return the number of cases by verdict where there are several: ``41 wrong-reject, 4 not-strict``."""
    if len(cause.verdicts) < 2:
        return ""
    return ", ".join(f"{count:,} {visible(verdict, 40)}" for verdict, count in cause.verdicts)


def failing(found: Sequence[Cause], *, strict: bool = False) -> list[Cause]:
    """Return the causes that fail a run and that no baseline lists; ``strict`` as under --fail-on-should."""
    return [cause for cause in found if fails(cause.verdict, strict=strict) and not cause.known]


def cause_lines(
    found: Sequence[Cause], header: Row, *, strict: bool = False, limit: int | None = SHOWN
) -> list[str]:
    """Return the causes of a run for a terminal, nothing where at most one case fails.

    Args:
        found: what ``causes`` returned.
        header: of the run record.
        strict: whether missed recommendations fail the run too.
        limit: most causes shown, None for all.

    Returns:
        Lines without line ends, safe to print as UTF-8.
    """
    bad = failing(found, strict=strict)
    cases = _cases(bad)
    if cases < 2:
        return []
    lines = [f"LIKELY CAUSES of {cases:,} failing cases: {len(bad):,}, the worst first"]
    for cause in bad[:limit]:
        lines += _lines(cause, header)
    rest = bad[len(bad) if limit is None else limit :]
    if rest:
        more = plural(len(rest), "more cause", "more causes")
        lines.append(f"     …  {more}, {plural(_cases(rest), 'case')}; --full-failures shows all")
    return [*lines, *_others(found, bad)]


def _cases(found: Sequence[Cause]) -> int:
    return len({case for cause in found for case in cause.cases})


def _wrapped(text: str, first: str, others: str) -> list[str]:
    """Return a text as lines none of which could be a workflow command, which stands behind any space."""
    lines = textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=others, break_on_hyphens=False)
    return [f"{others}… {line.strip()}" if line.strip().startswith("::") else line for line in lines]


def _lines(cause: Cause, header: Row) -> list[str]:
    lines = _wrapped(headline(cause), f"{len(cause.cases):>6,}  ", _INDENT)
    rows = [("", numbers(cause)), ("said: ", cause.said), ("mend: ", cause.mend)]
    for label, text in rows:
        if text:
            lines += _wrapped(label + text, _INDENT, _INDENT + " " * len(label))
    return [*lines, f"{_INDENT}{command(header, cause)}"]


def _others(found: Sequence[Cause], bad: Sequence[Cause]) -> list[str]:
    """Say what is not among the causes shown: what the baseline lists, and what fails no run."""
    lines = []
    known = [cause for cause in found if cause.known]
    if known:
        lines.append(f"        known to the baseline: {_counted(known)}")
    quiet = [cause for cause in found if not cause.known and cause not in bad]
    if quiet:
        lines.append(f"        fail only with --fail-on-should: {_counted(quiet)}")
    return lines


def _counted(found: Sequence[Cause]) -> str:
    cases = Counter[str]()
    for cause in found:
        for verdict, count in cause.verdicts:
            cases[kind_of(verdict)] += count
    told = ", ".join(f"{visible(kind, 40)} {count:,}" for kind, count in cases.items())
    return f"{plural(len(found), 'cause')} ({told})"
