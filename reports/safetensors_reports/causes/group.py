"""Group failures that have the same cause: by key and, for valid inputs, by the features that they share.

A feature (a dtype, an empty tensor, an order, ...) explains why inputs are rejected or misread if the program
rejects or misreads nearly all inputs that have the feature.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from safetensors_corpus import Case, ManifestError
from safetensors_corpus.features import FEATURES
from safetensors_corpus.features.draft import Draft
from safetensors_corpus.judging.verdicts import badness, kind_of

from ..case_evidence import MAX_EXPLAINED
from ..record.run import Row
from .failures import (
    NOT_EXAMINED,
    Failure,
    Key,
    all_failures,
    failures,
    mask_letters,
    message_class_of,
    mistake_key,
    own_words,
    realm,
)

Feature = str
DTYPE = "dtype-"
TELLING_SHARE = 0.8
"""A feature explains the rejections if at least this share of the inputs that have it are rejected."""
MIN_INPUTS = 10

_TELLING = (
    "a tensor of zero bytes",
    "no tensors",
    "a tensor that does not begin at a multiple of its element size",
    "entries in a different order than the data",
    "a tensor with an empty name",
    "non-ASCII names",
    "metadata",
    "non-ASCII metadata",
    "a scalar",
    "more than 8 dimensions",
    "dimensions of 2^31 or more",
    "escapes in header strings",
    "line breaks or tabs between header tokens",
    "unusual spaces in the header",
    "a header whose length is not a multiple of 8",
    "a name of 256 or more characters",
    "a hundred or more tensors",
)
"""Features that confuse some readers. The first one that explains an answer counts."""

OF_TEXT = frozenset(
    {
        "non-ASCII names",
        "non-ASCII metadata",
        "escapes in header strings",
        "line breaks or tabs between header tokens",
        "unusual spaces in the header",
    }
)
"""Features that confuse different parts of a parser and so produce different messages."""


@lru_cache(maxsize=1 << 14)
def features(case: Case | None) -> frozenset[Feature] | None:
    """Return the features of a case's file, without its dtypes; None unless it is a small valid file."""
    if case is None or case.kind != "read" or case.input.file is None or case.size > MAX_EXPLAINED:
        return None
    try:
        data = case.read_input()
    except ManifestError:
        return None
    draft = Draft.of(data)
    return None if draft is None else frozenset(n for n in _TELLING if FEATURES[n].is_in(draft))


def dtypes(case: Case | None) -> frozenset[Feature]:
    return frozenset(name for name in case.features if name.startswith(DTYPE)) if case else frozenset()


def telling_features(
    refused: Mapping[str, frozenset[Feature]], read: Iterable[frozenset[Feature]]
) -> dict[Feature, set[str]]:
    fine = list(read)
    if len(fine) < MIN_INPUTS:
        return {}  # in a filtered run, every feature looks like an explanation
    out: dict[Feature, set[str]] = {}
    for name in _TELLING:
        with_it = {case for case, has in refused.items() if name in has}
        others = sum(name in has for has in fine)
        if with_it and len(with_it) >= TELLING_SHARE * (len(with_it) + others):
            out[name] = with_it
    return dict(sorted(out.items(), key=lambda item: -len(item[1])))


MAX_WORDINGS = 30
ABSORBED = {"minus zero": "negative numbers"}
"""Kind of fault -> the wider kind that includes it if the program accepts both."""


@dataclass
class Group:
    """Failures caused by one mistake; ``every`` is set if nearly all valid inputs fail."""

    key: Key
    failures: list[Failure] = field(default_factory=list)
    dtypes: tuple[str, ...] = ()
    feature: Feature = ""
    said: str = ""
    every: bool = False

    @property
    def cases(self) -> list[str]:
        return sorted({f.case for f in self.failures})

    @property
    def rules(self) -> list[str]:
        count: Counter[str] = Counter()
        worst: dict[str, tuple[int, int]] = {}
        for rule, verdict, _ in {(f.rule, f.verdict, f.case) for f in self.failures if f.rule}:
            count[rule] += 1
            worst[rule] = min(badness(verdict), worst.get(rule, badness(verdict)))
        return sorted(count, key=lambda r: (worst[r], -count[r], r))

    def verdicts(self) -> dict[str, int]:
        of_case: dict[str, list[str]] = {}
        for f in self.failures:
            of_case.setdefault(f.case, []).append(f.verdict)
        counts = Counter(min(vs, key=lambda v: (badness(v), v)) for vs in of_case.values())
        return dict(sorted(counts.items(), key=lambda item: (badness(item[0]), item[0])))


def group_failures(rows: Sequence[Row], cases: Mapping[str, Case]) -> list[Group]:
    groups: dict[Key, Group] = {}
    for failure in all_failures(rows):
        key = mistake_key(failure, cases.get(failure.case))
        groups.setdefault(key, Group(key)).failures.append(failure)
    places = {"reject": 2, "end": 3, "harness": 1, "exception": 1}
    for aspect, place in places.items():
        keys = [key for key in groups if key[0] == aspect]
        if len({key[place] for key in keys}) > MAX_WORDINGS:
            _rekey(groups, {key: (*key[:place], "", *key[place + 1 :]) for key in keys})
    _absorb(groups)
    out: list[Group] = []
    unexplained: list[Group] = []
    for group in groups.values():
        (unexplained if group.key[0] in ("reject", "content") else out).append(group)
        if group.key[0] in ("end", "harness"):
            group.said = words_of(group.failures, cases)
    if unexplained:
        answers = Answers(rows, cases)
        out += group_refusals([g for g in unexplained if g.key[0] == "reject"], answers)
        out += group_misreadings([g for g in unexplained if g.key[0] == "content"], answers)
    return out


def _absorb(groups: dict[Key, Group]) -> None:
    """Merge narrow kinds of faults into wider kinds.

    Also merges unexamined faults into known faults of the same rule.
    """
    for key in [key for key in groups if key[0] == "accept" and key[-1] == NOT_EXAMINED]:
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
    words = Counter(own_words(f.row, cases.get(f.case)) for f in members)
    return min(words, key=lambda w: (-words[w], w))


MANY_CODES, MANY_AREAS = 5, 3
"""A message is unspecific if at least this many faults, in at least this many areas of rules, produce it."""


class Answers:
    """How a run answered valid inputs, and the messages of its rejections of invalid inputs."""

    def __init__(self, rows: Iterable[Row], cases: Mapping[str, Case]) -> None:
        self.cases = cases
        self._good: set[tuple[str, str]] = set()
        self._bad: set[tuple[str, str]] = set()
        self._refused: set[tuple[str, Case]] = set()
        for row in rows:
            case = cases.get(row["case"])
            if case is None or case.expect is None or kind_of(row["verdict"]) == "unsupported":
                continue
            if case.expect.outcome == "reject":
                if row["outcome"] == "reject":
                    self._refused.add((str(row.get("message") or ""), case))
            elif row["outcome"] == "accept" and not failures(row):
                self._good.add((realm(row["step"]), case.id))
            else:
                self._bad.add((realm(row["step"]), case.id))
        self._good -= self._bad

    @cached_property
    def _codes(self) -> dict[str, set[str]]:
        codes: dict[str, set[str]] = {}
        for message, case in self._refused:
            codes.setdefault(mask_letters(message_class_of(message, case)), set()).update(case.codes[:1])
        return codes

    def general(self, words: str) -> bool:
        codes = self._codes.get(words, set())
        many = len(codes) >= MANY_CODES and len({code[:3] for code in codes}) >= MANY_AREAS
        return many or not words.strip(" #:.")

    def lacking(self, where: str, concerned: set[str]) -> set[str]:
        mine = Counter(name for case_id in concerned for name in dtypes(self.cases.get(case_id)))
        good = [dtypes(self.cases.get(case_id)) for place, case_id in self._good if place == where]
        others = [
            dtypes(self.cases.get(case_id))
            for place, case_id in self._bad
            if place == where and case_id not in concerned
        ]
        if len(good) < MIN_INPUTS:
            return set()
        left = Counter(name for names in (*good, *others) for name in names)
        return {name for name, count in mine.items() if count >= TELLING_SHARE * (count + left[name])}

    def nearly_all(self, where: str, concerned: set[str]) -> bool:
        asked = {case_id for place, case_id in (*self._good, *self._bad) if place == where}
        mine = len(asked & concerned)
        return mine >= MIN_INPUTS and mine >= TELLING_SHARE * len(asked)

    def telling_features(self, concerned: Iterable[Failure]) -> tuple[dict[Feature, set[str]], int]:
        looked = {f.case: features(self.cases.get(f.case)) for f in concerned if realm(f.step) == "file"}
        known = {case: has for case, has in looked.items() if has is not None}
        good = (
            [features(self.cases[case]) for place, case in sorted(self._good) if place == "file"]
            if known
            else []
        )
        return telling_features(known, [has for has in good if has is not None]), len(known)


def _take(left: list[Failure], chosen: set[str]) -> tuple[list[Failure], list[Failure]]:
    return [f for f in left if f.case in chosen], [f for f in left if f.case not in chosen]


def group_refusals(groups: Sequence[Group], answers: Answers) -> Iterator[Group]:
    """Group rejections of valid inputs by cause: dtypes first, then features, then messages."""
    pools: dict[tuple[str, str], list[Failure]] = {}
    for group in groups:
        _, where, words, _ = group.key
        pools.setdefault((where, words), []).extend(group.failures)
    for where, words in list(pools):
        # If slicing and reading fail with the same message, it is the same mistake.
        if where in ("slice", "index") and ("file", words) in pools and not answers.general(words):
            pools["file", words] += pools.pop((where, words))
    for (where, words), members in pools.items():
        lacks = answers.lacking(where, {f.case for f in members})
        mine, pools[where, words] = _take(
            members, {f.case for f in members if lacks & dtypes(answers.cases.get(f.case))}
        )
        if mine:
            message = words_of(mine, answers.cases)
            yield Group(("reject", where, words, "dtypes"), mine, tuple(sorted(lacks)), said=message)
    yield from _tripped("reject", pools, answers)
    for (where, words), members in pools.items():
        if members:
            yield from _by_reason(("reject", where, words), members, answers, answers.general(words))


def _tripped(aspect: str, pools: dict[tuple[str, str], list[Failure]], answers: Answers) -> Iterator[Group]:
    files = [f for (where, _), members in pools.items() if where == "file" for f in members]
    why, _ = answers.telling_features(files)
    for name in why:
        if name not in OF_TEXT:
            continue
        mine: list[Failure] = []
        for pool, members in pools.items():
            if pool[0] == "file":
                taken, pools[pool] = _take(members, why[name])
                mine += taken
        if mine:
            message = words_of(mine, answers.cases) if aspect == "reject" else ""
            yield Group((aspect, "file", "", name), mine, feature=name, said=message)


def _by_reason(
    key: tuple[str, str, str], members: list[Failure], answers: Answers, general: bool
) -> Iterator[Group]:
    message = words_of(members, answers.cases) if key[0] == "reject" else ""
    if answers.nearly_all(key[1], {f.case for f in members}):
        yield Group((*key, ""), members, said=message, every=True)
        return
    why, looked = answers.telling_features(members)
    whole = next((name for name, cases in why.items() if len(cases) == looked), "")
    if whole or not general:
        yield Group((*key, whole), members, feature=whole, said=message)
        return
    left = members
    for name, cases in why.items():
        mine, left = _take(left, cases)
        if mine:
            yield Group((*key, name), mine, feature=name, said=message)
    of_rule: dict[str, list[Failure]] = {}
    for f in left:
        of_rule.setdefault(f.rule, []).append(f)
    for rule, mine in of_rule.items():
        yield Group((*key, rule), mine, said=message)


def group_misreadings(groups: Sequence[Group], answers: Answers) -> Iterator[Group]:
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
