"""Changes by release: consecutive versions of a program are compared on the same corpus.

The number of failing cases per rule shows whether the program got better or worse. Individual cases are
listed only if all failing cases of the rule are named, because otherwise a case that is not named may still
fail. *Fixed* means that no fault is shown in the newer version. Withheld results look the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from typing import TypeVar

from safetensors_corpus.judging.verdicts import STRICT_FAILING, VERDICTS

from ..audit.disclosure import OWN
from ..templates import render
from .ledger import FailureRow, Ledger, Line, in_order
from .trend import Turn, rule_title

TURNS: dict[Turn, str] = {"fixed": "Fixed", "broken": "Broken", "otherwise": "Fails differently"}
"""Possible changes of a rule, with headings."""
MAX_NAMED = 12
_T = TypeVar("_T", int, str)


@dataclass(frozen=True)
class RuleChange:
    """The change in the cases that fail a rule; ``before`` and ``after`` count them by verdict."""

    rule: str
    before: Mapping[str, int]
    after: Mapping[str, int]
    fixed: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()

    @property
    def difference(self) -> int:
        return sum(self.after.values()) - sum(self.before.values())

    @property
    def turn(self) -> Turn:
        return "fixed" if self.difference < 0 else "broken" if self.difference else "otherwise"

    @property
    def title(self) -> str:
        return rule_title(self.rule)

    @property
    def moves(self) -> str:
        """The counts that changed, such as ``wrong-accept 12 -> 3, deviation 0 -> 1``."""
        counts = _differing(self.before, self.after, VERDICTS, 0)
        return ", ".join(f"{kind} {old:,} -> {new:,}" for kind, (old, new) in counts.items())


@dataclass(frozen=True)
class Passage:
    """Two consecutive releases that were run on the same corpus."""

    before: Line
    after: Line

    @cached_property
    def changes(self) -> list[RuleChange]:
        rules = {row.rule for line in (self.before, self.after) for row in line.failures}
        changes = [change for rule in rules if (change := self._change(rule))]
        return sorted(changes, key=lambda change: (-abs(change.difference), change.rule))

    def _change(self, rule: str) -> RuleChange | None:
        old, new = ([row for row in x.failures if row.rule == rule] for x in (self.before, self.after))
        named_old, named_new = ({case for row in rows for case in row.named} for rows in (old, new))
        # If some failing cases of a rule are not named, a case that is not named may still fail.
        fixed = named_old - named_new if _all_named(new) else set[str]()
        broken = named_new - named_old if _all_named(old) else set[str]()
        before, after = ({row.verdict: row.cases for row in rows} for rows in (old, new))
        if before == after and not fixed and not broken:
            return None
        return RuleChange(rule, before, after, tuple(sorted(fixed)), tuple(sorted(broken)))

    def of(self, turn: Turn) -> list[RuleChange]:
        return [change for change in self.changes if change.turn == turn]

    @cached_property
    def counts(self) -> dict[str, tuple[int, int]]:
        return _differing(self.before.counts, self.after.counts, VERDICTS, 0)

    @cached_property
    def choices(self) -> dict[str, tuple[str, str]]:
        old, new = self.before.choices, self.after.choices
        return _differing(old, new, sorted({*old, *new}), "")

    @property
    def steps(self) -> tuple[list[str], list[str]]:
        old, new = self.before.steps, self.after.steps
        return [s for s in new if s not in old], [s for s in old if s not in new]

    @property
    def same(self) -> bool:
        return (
            not (self.changes or self.counts or self.choices or any(self.steps))
            and self.before.asked == self.after.asked
        )


def _differing(
    before: Mapping[str, _T], after: Mapping[str, _T], names: Iterable[str], missing: _T
) -> dict[str, tuple[_T, _T]]:
    pairs = {name: (before.get(name, missing), after.get(name, missing)) for name in names}
    return {name: (old, new) for name, (old, new) in pairs.items() if old != new}


def _all_named(rows: Iterable[FailureRow]) -> bool:
    return all(len(row.named) == row.cases for row in rows)


@dataclass(frozen=True)
class Series:
    """Runs of one entry point on one corpus, from newest to oldest."""

    lines: list[Line]

    @property
    def entry(self) -> str:
        return self.lines[0].entry

    @property
    def corpus(self) -> str:
        corpus = self.lines[0].corpus
        return f"{corpus.version} ({corpus.sha256})"

    @property
    def parts(self) -> list[list[Passage]]:
        passages = [Passage(before, after) for after, before in pairwise(self.lines)]
        return [
            part
            for same, group in groupby(passages, key=lambda passage: passage.same)
            for part in ([list(group)] if same else [[passage] for passage in group])
        ]

    @property
    def profile(self) -> str:
        return self.lines[0].profile

    @property
    def kinds(self) -> list[str]:
        present = {kind for line in self.lines for kind, number in line.counts.items() if number}
        return [kind for kind in VERDICTS if kind in present & (STRICT_FAILING | {"unsupported"})]


def series(lines: Sequence[Line]) -> list[Series]:
    """Return the runs of a program by entry point and corpus, with the newest corpus of each entry first."""
    groups: dict[tuple[str, str, str], list[Line]] = {}
    for line in lines:
        groups.setdefault((line.entry, line.corpus.sha256, line.profile), []).append(line)
    # Newer corpora come later in the file.
    newest_first = [*groups.values()][::-1]
    return [Series(in_order(group)[::-1]) for group in sorted(newest_first, key=lambda group: group[0].entry)]


def history_page(ledger: Ledger, report: str = "") -> str:
    text = render(
        "history.md",
        ledger=ledger,
        series=series(ledger.runs),
        report=report,
        own=ledger.program == OWN,
        TURNS=TURNS,
        NAMED=MAX_NAMED,
    )
    return text.rstrip("\n") + "\n"
