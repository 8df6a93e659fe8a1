"""A trend as plain text: the table of versions, then what was fixed and what broke, rule by rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from safetensors_corpus.judging.verdicts import kind_of

from ..text import listed, visible
from .model import TURNS, Bug, Change, Passage, Trend, Turn, bugs_of, rule_title

WORDS: dict[Turn, str] = {
    "fixed": "FIXED",
    "broken": "BROKEN",
    "otherwise": "fails otherwise",
    "choice": "chooses otherwise",
    "gained": "supported now",
    "lost": "not supported any more",
    "unknown": "not known",
}
_BUGS = 6


def trend_text(result: Trend, limit: int = 5) -> list[str]:
    """Return the trend for a terminal.

    Args:
        result: the trend.
        limit: most cases shown per rule, and twice as many rules per list.

    Returns:
        Lines without line ends, safe to print as UTF-8.
    """
    title = (
        f"{visible(result.name, 60)} over {len(result.runs)} versions, corpus {visible(result.corpus, 30)}"
    )
    lines = [title, "", *_table(result)]
    lines += [f"  {visible(run.version, 30)}: {visible(x, 300)}" for run in result.runs for x in run.remarks]
    if result.interrupted:
        lines.append("interrupted: further versions were not run")
    for passage in result.passages:
        lines += ["", *_passage(passage, limit)]
    return lines


def _table(result: Trend) -> list[str]:
    kinds = result.kinds
    widths = [max(len(kind), 5) for kind in kinds]
    first = max([len("version"), *(len(visible(run.version, 30)) for run in result.runs)])
    heads = "".join(f"  {kind:>{w}}" for kind, w in zip(kinds, widths, strict=True))
    lines = [f"{'version':<{first}}  {'cases':>5}{heads}"]
    for run in result.runs:
        name = f"{visible(run.version, 30):<{first}}"
        if run.record is None:
            lines.append(f"{name}  not run: {visible(run.reason, 200)}")
            continue
        cells = "".join(f"  {run.counts.get(k, 0):>{w},}" for k, w in zip(kinds, widths, strict=True))
        lines.append(f"{name}  {run.record.cases:>5,}{cells}")
    return lines


def _passage(passage: Passage, limit: int) -> list[str]:
    counts = passage.counts
    said = "   ".join(f"{WORDS[turn].lower()} {n:,}" for turn, n in counts.items() if n or turn in _ALWAYS)
    lines = [f"{visible(passage.before, 30)} -> {visible(passage.after, 30)}   {said}"]
    for turn in TURNS:
        if counts[turn]:
            lines += _turn(passage, turn, limit)
    if passage.only_before or passage.only_after:
        before, after = passage.only_before, passage.only_after
        lines.append(f"  asked about in one of the two only: {before:,} before, {after:,} after")
    return lines


_ALWAYS = ("fixed", "broken")


def _turn(passage: Passage, turn: Turn, limit: int) -> list[str]:
    groups = passage.by_rule(turn)
    lines = [f"  {WORDS[turn]}: {TURNS[turn]}"]
    for rule, changes in list(groups.items())[: limit * 2]:
        title = f" {rule_title(rule)}" if rule_title(rule) else ""
        lines.append(f"    {rule or 'no rule'}{title}: {len(changes):,} ({moves(changes)})")
        lines += _cases(changes, limit)
        bugs = known_bugs(changes, passage)
        lines += [f"      known: {bugs}"] if bugs else []
    if len(groups) > limit * 2:
        rest = sum(len(changes) for changes in list(groups.values())[limit * 2 :])
        lines.append(f"    … {len(groups) - limit * 2:,} more rules, {rest:,} cases; --json lists all")
    return lines


def moves(changes: Sequence[Change]) -> str:
    """Return how verdicts moved, most frequent first: ``wrong-accept -> pass 12, unsafe -> pass 1``."""
    counts = Counter((_short(c.before), _short(c.after)) for c in changes).most_common()
    return listed([f"{a} -> {b} {n:,}" for (a, b), n in counts], 4)


def _short(verdict: str) -> str:
    return visible(verdict, 60) if kind_of(verdict) == "choice" else kind_of(verdict)


def _cases(changes: Sequence[Change], limit: int) -> list[str]:
    shown = changes[: limit if len(changes) > limit + 1 else limit + 1]
    lines = [f"      {visible(c.case, 80)}: {visible(c.note.title, 120)}" for c in shown]
    rest = len(changes) - len(shown)
    return lines + ([f"      … {rest:,} more"] if rest else [])


def known_bugs(changes: Sequence[Change], passage: Passage) -> str:
    """Return the known bugs that explain changes; it is said when the recorded versions do not fit."""
    parts = [_bug(bug, passage) for bug in bugs_of(changes)]
    return listed(parts, _BUGS)


def _bug(bug: Bug, passage: Passage) -> str:
    text = f"{bug.id} {visible(bug.reference, 80)}"
    if bug.versions:
        text += f" ({visible(bug.versions, 30)})"
    if bug.turns_between(passage.before, passage.after) is False:
        text += " [recorded for other versions]"
    return text
