"""Why valid inputs are refused or misread: what those have in common that are, and the others do not have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from safetensors_corpus.judging.verdicts import kind_of

from ..case_evidence import case_codes
from ..record.run import Row
from .features import ENOUGH, OF_TEXT, SHARE, Feature, dtypes, features, telling
from .group import Group, words_of
from .mistakes import plain, realm, said
from .rows import Failure, failures

if TYPE_CHECKING:
    from safetensors_corpus import Case

CODES, AREAS = 5, 3
"""Numbers of different faults, and of areas of rules, that a reader refuses in the same words, from which on
those words tell nothing."""


class Answers:
    """What a run answered to valid inputs, and in which words it refused broken ones."""

    def __init__(self, rows: Iterable[Row], cases: Mapping[str, Case]) -> None:
        self.cases = cases
        self._good: set[tuple[str, str]] = set()
        self._bad: set[tuple[str, str]] = set()
        self._codes: dict[str, set[str]] = {}
        self._features: dict[str, frozenset[Feature] | None] = {}
        for row in rows:
            case = cases.get(row["case"])
            if case is None or case.expect is None or kind_of(row["verdict"]) == "unsupported":
                continue
            asked = Failure(row, "", "")
            if case.expect.outcome == "reject":
                if row["outcome"] == "reject":
                    self._codes.setdefault(plain(said(asked, case)), set()).update(case_codes(case)[:1])
            elif row["outcome"] == "accept" and not failures(row):
                self._good.add((realm(asked), case.id))
            else:
                self._bad.add((realm(asked), case.id))
        self._good -= self._bad

    def general(self, words: str) -> bool:
        """Tell whether words say nothing about why: there are none, or they stand for many faults."""
        codes = self._codes.get(words, set())
        many = len(codes) >= CODES and len({code[:3] for code in codes}) >= AREAS
        return many or not words.strip(" #:.")

    def lacking(self, where: str, concerned: set[str]) -> set[str]:
        """Return the dtypes of some cases of which nearly every valid input is among these cases."""
        mine: dict[str, int] = {}
        for case_id in concerned:
            for name in dtypes(self.cases.get(case_id)):
                mine[name] = mine.get(name, 0) + 1
        good = [dtypes(self.cases.get(case_id)) for place, case_id in self._good if place == where]
        others = [
            dtypes(self.cases.get(case_id))
            for place, case_id in self._bad
            if place == where and case_id not in concerned
        ]
        found: set[str] = set()
        if len(good) < ENOUGH:
            return found
        for name, count in mine.items():
            left = sum(name in has for has in (*good, *others))
            if count >= SHARE * (count + left):
                found.add(name)
        return found

    def nearly_all(self, where: str, concerned: set[str]) -> bool:
        """Tell whether nearly every valid input that was answered is among some cases, and there are many."""
        asked = {case_id for place, case_id in (*self._good, *self._bad) if place == where}
        mine = len(asked & concerned)
        return mine >= ENOUGH and mine >= SHARE * len(asked)

    def features(self, case_id: str) -> frozenset[Feature] | None:
        """Return the features of a case, looked up once."""
        if case_id not in self._features:
            case = self.cases.get(case_id)
            self._features[case_id] = None if case is None else features(case)
        return self._features[case_id]

    def telling(self, concerned: Iterable[Failure]) -> tuple[dict[Feature, set[str]], int]:
        """Return feature -> cases for which it tells why, and how many of the cases were looked into."""
        looked = {f.case: self.features(f.case) for f in concerned if realm(f) == "file"}
        known = {case: has for case, has in looked.items() if has is not None}
        good = [self.features(case) for place, case in sorted(self._good) if place == "file"] if known else []
        return telling(known, [has for has in good if has is not None]), len(known)


def _take(left: list[Failure], chosen: set[str]) -> tuple[list[Failure], list[Failure]]:
    """Return the failures of some cases, and the others."""
    return [f for f in left if f.case in chosen], [f for f in left if f.case not in chosen]


def refused(groups: Sequence[Group], answers: Answers) -> Iterator[Group]:
    """Yield the refusals of valid inputs in groups of one mistake.

    Args:
        groups: refusals by realm, words and rule.
        answers: the whole run.

    Dtypes that are refused as a whole come first. What trips a parser stands together whatever the parser
    says there. Words that are said of one fault, or of none, stand for one mistake; words that are said of
    many things stand for as many as there are features that tell why, and else for one per rule.
    """
    pools: dict[tuple[str, str], list[Failure]] = {}
    for group in groups:
        _, where, words, _ = group.key
        pools.setdefault((where, words), []).extend(group.failures)
    for where, words in list(pools):
        # What is refused on the way to a slice, and refused at reading in the same words, is the same.
        if where in ("slice", "index") and ("file", words) in pools and not answers.general(words):
            pools["file", words] += pools.pop((where, words))
    for (where, words), members in pools.items():
        lacks = answers.lacking(where, {f.case for f in members})
        mine, pools[where, words] = _take(
            members, {f.case for f in members if lacks & dtypes(answers.cases.get(f.case))}
        )
        if mine:
            spoken = words_of(mine, answers.cases)
            yield Group(("reject", where, words, "dtypes"), mine, tuple(sorted(lacks)), said=spoken)
    yield from _tripped("reject", pools, answers)
    for (where, words), members in pools.items():
        if members:
            yield from _by_reason(("reject", where, words), members, answers, answers.general(words))


def _tripped(aspect: str, pools: dict[tuple[str, str], list[Failure]], answers: Answers) -> Iterator[Group]:
    """Yield what stands in the text of headers and trips a parser, and take it out of the pools of files."""
    files = [f for (where, _), members in pools.items() if where == "file" for f in members]
    why, _ = answers.telling(files)
    for name in why:
        if name not in OF_TEXT:
            continue
        mine: list[Failure] = []
        for pool, members in pools.items():
            if pool[0] == "file":
                taken, pools[pool] = _take(members, why[name])
                mine += taken
        if mine:
            spoken = words_of(mine, answers.cases) if aspect == "reject" else ""
            yield Group((aspect, "file", "", name), mine, feature=name, said=spoken)


def _by_reason(
    key: tuple[str, str, str], members: list[Failure], answers: Answers, general: bool
) -> Iterator[Group]:
    """Yield the groups of a pool: one where a reason fits all or the words are telling, else several."""
    spoken = words_of(members, answers.cases) if key[0] == "reject" else ""
    if answers.nearly_all(key[1], {f.case for f in members}):
        yield Group((*key, ""), members, said=spoken, every=True)
        return
    why, looked = answers.telling(members)
    whole = next((name for name, cases in why.items() if len(cases) == looked), "")
    if whole or not general:
        yield Group((*key, whole), members, feature=whole, said=spoken)
        return
    left = members
    for name, cases in why.items():
        mine, left = _take(left, cases)
        if mine:
            yield Group((*key, name), mine, feature=name, said=spoken)
    of_rule: dict[str, list[Failure]] = {}
    for f in left:
        of_rule.setdefault(f.rule, []).append(f)
    for rule, mine in of_rule.items():
        yield Group((*key, rule), mine, said=spoken)


def misread(groups: Sequence[Group], answers: Answers) -> Iterator[Group]:
    """Yield the wrong contents of valid inputs in groups of one mistake.

    Args:
        groups: wrong contents; those whose key ends with a rule are told apart by nothing better so far.
        answers: the whole run.
    """
    pools: dict[tuple[str, str], list[Failure]] = {}
    for group in groups:
        _, where, part, *_ = group.key
        if where == "file" and (part == "metadata" or len(group.key) > 4):
            pools.setdefault((where, part), []).extend(group.failures)
        else:
            yield group
    yield from _tripped("content", pools, answers)
    for (where, part), members in pools.items():
        lacks = answers.lacking(where, {f.case for f in members})
        mine, left = _take(members, {f.case for f in members if lacks & dtypes(answers.cases.get(f.case))})
        if mine:
            yield Group(("content", where, part), mine, tuple(sorted(lacks)))
        if left:
            yield from _by_reason(("content", where, part), left, answers, part != "metadata")
