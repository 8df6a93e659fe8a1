"""Compare runs and find the cases on which implementations disagree about the same file.

In a content split, two readers accept the same file and return different tensors. An attacker can use this to
show a scanner different content than the loader sees. In a verdict split, one reader accepts and another
rejects, which is usually an interoperability defect. The two are counted separately and never added up.

Only values that both readers report can differ: a reader that lists names and shapes agrees with a reader
that also returns bytes. Agreement is therefore symmetric but not transitive.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Literal, NamedTuple

from safetensors_corpus.judging.content import FIELDS, first_disagreement

from ..record.run import Row, RunRecord, distinct_labels
from ..text import listed, visible

Kind = Literal["content", "verdict"]
Pair = tuple[str, str]
REFUSING = frozenset({"reject", "crash", "hang", "exhausted"})
NO_ANSWER = frozenset({"harness-error", "not-asked"})
"""Outcomes without an answer: the adapter failed, or the implementation does not support the step."""


class PairSplits(NamedTuple):
    """Number of cases on which two implementations disagree."""

    content: int
    verdict: int


@dataclass(frozen=True)
class Split:
    """One case on which implementations disagree.

    ``vector`` maps labels to ``accept:A``, ``accept:B``, ..., ``reject``, ``unsupported``, ``crash``,
    ``hang`` or ``exhausted``, or to ``accept:?`` if an implementation reports too little to belong to one
    group. ``pairs`` contains the pairs that disagree. ``dissenter`` is the only label, among three or more,
    that differs from all others. ``difference`` describes how the second label in ``between`` differs from
    the first.
    """

    case: str
    kind: Kind
    vector: dict[str, str]
    pairs: dict[Pair, Kind] = field(default_factory=dict)
    dissenter: str | None = None
    difference: str = ""
    between: Pair | None = None


@dataclass(frozen=True)
class Cluster:
    """Cases on which the implementations split in the same way."""

    kind: Kind
    vector: dict[str, str]
    splits: tuple[Split, ...]

    @property
    def cases(self) -> tuple[str, ...]:
        return tuple(split.case for split in self.splits)


@dataclass(frozen=True)
class Comparison:
    """Result of comparing runs; ``left_out`` counts cases that are not in every run."""

    labels: tuple[str, ...]
    compared: int = 0
    unanswered: int = 0
    left_out: int = 0
    splits: tuple[Split, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def content_splits(self) -> tuple[Split, ...]:
        return tuple(split for split in self.splits if split.kind == "content")

    @property
    def verdict_splits(self) -> tuple[Split, ...]:
        return tuple(split for split in self.splits if split.kind == "verdict")

    @property
    def clusters(self) -> tuple[Cluster, ...]:
        return clusters_of(self.splits)

    @property
    def pairs(self) -> dict[Pair, PairSplits]:
        counts: dict[Pair, Counter[Kind]] = {pair: Counter() for pair in combinations(self.labels, 2)}
        for split in self.splits:
            for pair, kind in split.pairs.items():
                counts[pair][kind] += 1
        return {pair: PairSplits(n["content"], n["verdict"]) for pair, n in counts.items()}


def clusters_of(splits: Iterable[Split]) -> tuple[Cluster, ...]:
    found: dict[tuple[tuple[str, str], ...], list[Split]] = {}
    for split in splits:
        found.setdefault(tuple(split.vector.items()), []).append(split)
    clusters = [Cluster(members[0].kind, dict(key), tuple(members)) for key, members in found.items()]
    return tuple(sorted(clusters, key=lambda c: (-len(c.splits), c.cases)))


class _Answer(NamedTuple):
    """An answer of one implementation. Equal contents are represented by the same object."""

    label: str
    outcome: str
    content: Mapping[str, Any]


def compare(records: Sequence[RunRecord]) -> Comparison:
    """Compare runs on the cases that they share, using the last step of each case (``read`` or ``open``)."""
    labels = distinct_labels(records)
    finals = [_final_results(record) for record in records]
    shared = sorted(set.intersection(*(set(f) for f in finals))) if len(finals) > 1 else []
    splits: list[Split] = []
    compared = 0
    for case in shared:
        rows = [(label, f[case]) for label, f in zip(labels, finals, strict=True)]
        answers = [a for a in _answers(rows) if a.outcome not in NO_ANSWER]
        compared += sum(a.outcome != "unsupported" for a in answers) > 1
        if disagreements := _disagreements(answers):
            splits.append(_split(case, answers, disagreements))
    return Comparison(
        labels=labels,
        compared=compared,
        unanswered=len(shared) - compared,
        left_out=len(set().union(*finals)) - len(shared) if len(finals) > 1 else 0,
        splits=tuple(splits),
        notes=_notes(records, labels),
    )


def _final_results(record: RunRecord) -> dict[str, Row]:
    finals: dict[str, Row] = {}
    for row in record.results:
        if row["step"] == "read" or finals.get(row["case"], row)["step"] != "read":
            finals[row["case"]] = row
    half = record.half_run
    return {case: row for case, row in finals.items() if case not in half} if half else finals


def outcome_of(row: Row) -> str:
    excused = row["verdict"] == "unsupported" and row["outcome"] == "reject"
    return "unsupported" if excused else str(row["outcome"])


def _answers(rows: Iterable[tuple[str, Row]]) -> list[_Answer]:
    answers: list[_Answer] = []
    for label, row in rows:
        content = row.get("content") or {}
        seen = (answer.content for answer in answers)
        same = next((one for one in seen if one is content or one == content), content)
        answers.append(_Answer(label, outcome_of(row), same))
    return answers


def _disagreements(answers: Sequence[_Answer]) -> dict[Pair, Kind]:
    found: dict[Pair, Kind] = {}
    contents = {id(a.content): a.content for a in answers if a.outcome == "accept"}
    apart = {
        frozenset((a, b))
        for a, b in combinations(contents, 2)
        if first_disagreement(contents[a], contents[b]) is not None
    }
    for a, b in combinations(answers, 2):
        if a.outcome == b.outcome == "accept":
            if apart and frozenset((id(a.content), id(b.content))) in apart:
                found[a.label, b.label] = "content"
        elif "accept" in (a.outcome, b.outcome) and not REFUSING.isdisjoint((a.outcome, b.outcome)):
            found[a.label, b.label] = "verdict"
    return found


def _split(case: str, answers: Sequence[_Answer], disagreements: dict[Pair, Kind]) -> Split:
    groups = _groups([a for a in answers if a.outcome == "accept"], disagreements)
    vector = {a.label: f"accept:{groups[a.label]}" if a.label in groups else a.outcome for a in answers}
    lone = _dissenter(vector, disagreements)
    between = next((pair for pair, kind in disagreements.items() if kind == "content"), None)
    if between is None:
        return Split(case, "verdict", vector, disagreements, lone)
    a, b = (answer.content for answer in answers if answer.label in between)
    difference = first_disagreement(a, b)
    assert difference is not None
    first, second = (visible(label, 60) for label in between)
    text = f"{second}: {visible(difference.text, 300)} (as {first} reads it)"
    return Split(case, "content", vector, disagreements, lone, text, between)


def _groups(accepters: Sequence[_Answer], disagreements: Mapping[Pair, Kind]) -> dict[str, str]:
    """Assign a letter to each label; readers that report too little to belong to a group get ``?``."""
    labels = [a.label for a in accepters]
    split = {x for pair, kind in disagreements.items() if kind == "content" for x in pair}
    if not split:
        return dict.fromkeys(labels, letter(0))
    groups: list[list[str]] = []
    for answer in sorted(accepters, key=lambda a: -_value_count(a.content)):
        if answer.label in split:
            fits = (g for g in groups if not any(_differ(answer.label, x, disagreements) for x in g))
            home = next(fits, [])
            home.append(answer.label)
            if len(home) == 1:
                groups.append(home)
    groups.sort(key=lambda g: min(map(labels.index, g)))
    letters = {x: letter(i) for i, group in enumerate(groups) for x in group}
    return {x: letters.get(x, "?") for x in labels}


def _value_count(content: Mapping[str, Any]) -> int:
    """Return the number of values in a reader's content; truncated content counts as if it were complete."""
    if "digests" in content:
        return int(content.get("tensor_count", 0)) * len(content["digests"]) + 1
    rows = content.get("tensors") or ()
    values = sum(1 + sum(row.get(field) is not None for field in FIELDS) for row in rows)
    return values + (content.get("tensors") is not None) + ("metadata" in content)


def _differ(x: str, y: str, disagreements: Mapping[Pair, Kind]) -> bool:
    return (x, y) in disagreements or (y, x) in disagreements


def letter(index: int) -> str:
    return string.ascii_uppercase[index] if index < 26 else str(index + 1)


def _dissenter(vector: Mapping[str, str], disagreements: Mapping[Pair, Kind]) -> str | None:
    votes = Counter(token for token in vector.values() if token not in ("unsupported", "accept:?"))
    if len(votes) != 2 or votes.total() < 3 or 1 not in votes.values():
        return None
    lone = next(x for x, token in vector.items() if votes[token] == 1)
    others = [x for x, token in vector.items() if votes[token] > 1]
    return lone if all(_differ(lone, x, disagreements) for x in others) else None


def _notes(records: Sequence[RunRecord], labels: Sequence[str]) -> tuple[str, ...]:
    """Return the reasons why comparing the runs shows less than it seems to."""
    notes = []
    if len({r.header["corpus"]["digest"] for r in records}) > 1:
        notes.append("the runs used different corpora, so a case may have different bytes in each of them")
    if len({r.header["profile"] for r in records}) > 1:
        notes.append("the runs used different profiles")
    endings = {
        "truncated": [label for r, label in zip(records, labels, strict=True) if r.truncated],
        "partial": [label for r, label in zip(records, labels, strict=True) if r.partial],
    }
    notes += [f"{ending} run: {listed(names, 6)}" for ending, names in endings.items() if names]
    return tuple(notes)
