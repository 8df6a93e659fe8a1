"""From the rows of a run to groups of one mistake each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from safetensors_corpus.judging.verdicts import badness, kind_of

from ..record.run import Row
from .features import Feature
from .mistakes import UNSEEN, Key, mistake, said
from .rows import Failure, all_failures

if TYPE_CHECKING:
    from safetensors_corpus import Case

WORDINGS = 30
"""Most classes of words of one aspect that are kept apart; with more of them an implementation's words tell
nothing."""
ABSORBED = {"minus zero": "negative numbers"}
"""Kind of fault -> the wider one, whose mistake it is too where both are accepted."""


@dataclass
class Group:
    """The failures of one mistake, and what is known about them.

    Attributes:
        key: see ``mistakes``.
        failures: at least one.
        dtypes: dtypes of the inputs concerned, as features are named, where they tell why.
        feature: what else the inputs concerned have in common that tells why.
        said: class of the implementation's own words.
        every: whether nearly every valid input is concerned.
    """

    key: Key
    failures: list[Failure] = field(default_factory=list)
    dtypes: tuple[str, ...] = ()
    feature: Feature = ""
    said: str = ""
    every: bool = False

    @property
    def cases(self) -> list[str]:
        """Ids of the cases, sorted."""
        return sorted({f.case for f in self.failures})

    @property
    def rules(self) -> list[str]:
        """Rules charged, those of the worst verdict and of most cases first."""
        count: Counter[str] = Counter()
        worst: dict[str, tuple[int, int]] = {}
        for rule, verdict, _ in {(f.rule, f.verdict, f.case) for f in self.failures if f.rule}:
            count[rule] += 1
            worst[rule] = min(badness(verdict), worst.get(rule, badness(verdict)))
        return sorted(count, key=lambda r: (worst[r], -count[r], r))

    def verdicts(self) -> dict[str, int]:
        """Return how many cases have which verdict, each case its worst, the worst first."""
        of_case: dict[str, list[str]] = {}
        for f in self.failures:
            of_case.setdefault(f.case, []).append(f.verdict)
        counts = Counter(min(vs, key=lambda v: (badness(v), v)) for vs in of_case.values())
        return dict(sorted(counts.items(), key=lambda item: (badness(item[0]), item[0])))


def grouped(rows: Sequence[Row], cases: Mapping[str, Case]) -> list[Group]:
    """Return the failing rows in groups of one mistake each, in no order that means anything."""
    # Reading files for what they have in common is needed by refusals and wrong content of valid files only.
    from .reasons import Answers, misread, refused

    groups: dict[Key, Group] = {}
    for failure in all_failures(rows):
        key = mistake(failure, cases.get(failure.case))
        groups.setdefault(key, Group(key)).failures.append(failure)
    _bound(groups)
    _absorb(groups)
    out: list[Group] = []
    open_ones: list[Group] = []
    for group in groups.values():
        (open_ones if group.key[0] in ("reject", "content") else out).append(group)
        if group.key[0] in ("end", "harness"):
            group.said = words_of(group.failures, cases)
    if open_ones:
        answers = Answers(rows, cases)
        out += refused([g for g in open_ones if g.key[0] == "reject"], answers)
        out += misread([g for g in open_ones if g.key[0] == "content"], answers)
    return out


def _bound(groups: dict[Key, Group]) -> None:
    """Leave the words out of the keys of an aspect in which an implementation has too many of them."""
    places = {"reject": 2, "end": 3, "harness": 1, "exception": 1}
    for aspect, place in places.items():
        keys = [key for key in groups if key[0] == aspect]
        if len({key[place] for key in keys}) > WORDINGS:
            _rekey(groups, {key: (*key[:place], "", *key[place + 1 :]) for key in keys})


def _absorb(groups: dict[Key, Group]) -> None:
    """Put narrow kinds of a fault to the wide ones, and those not looked into to the one of the same rule."""
    for key in [key for key in groups if key[0] == "accept" and key[-1] == UNSEEN]:
        rule = groups[key].rules[:1]
        same = [k for k, g in groups.items() if k[:-1] == key[:-1] and k != key and rule == g.rules[:1]]
        if same:
            _rekey(groups, {key: max(same, key=lambda k: (len(groups[k].failures), k))})
    for small, wide in ABSORBED.items():
        keys = [key for key in groups if key[0] == "accept" and key[-1] == small]
        wider = {key: (*key[:-1], wide) for key in keys}
        _rekey(groups, {key: new for key, new in wider.items() if new in groups})


def _rekey(groups: dict[Key, Group], changed: Mapping[Key, Key]) -> None:
    for old, new in changed.items():
        if old != new:
            moved = groups.pop(old).failures
            groups.setdefault(new, Group(new)).failures.extend(moved)


def words_of(members: Iterable[Failure], cases: Mapping[str, Case]) -> str:
    """Return the class of words that is said most often."""
    words = Counter(said(f, cases.get(f.case)) for f in members)
    return min(words, key=lambda w: (-words[w], w))


def contradictions(choices: Iterable[Row], rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Yield the choices whose cases contradict each other, with the rows of their cases."""
    for row in choices:
        if kind_of(row["verdict"]) == "choice-inconsistent":
            name = str(row["choice"])
            yield name, [r for r in rows if r.get("choice") == name]
