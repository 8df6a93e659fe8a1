"""Compare runs and find the cases on which implementations disagree about the same file.

In a content split, two readers accept the same file and return different tensors. An attacker can use this to
show a scanner other content than a loader. In a verdict split, one reader accepts and another rejects, which
is usually an interoperability defect. The two are counted separately and never added up.

Only values that both readers report can differ: a reader that lists names and shapes agrees with a reader
that also returns bytes. So agreement is symmetric but not transitive.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any, Literal, NamedTuple

from safetensors_corpus.judging.content import FIELDS, METADATA, NAMES, differing_fields, digests
from safetensors_reference.rules.faults import quote

from ..record.run import Row, RunRecord
from ..text import listed, unused, visible

Tensor = dict[str, Any]


@dataclass(frozen=True)
class Reading:
    """Content from an accepting reader. None means not reported, and a repeated name has several rows."""

    tensors: dict[str, list[Tensor]] | None
    metadata: dict[str, Any] | None
    content: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, content: dict[str, Any] | None) -> Reading:
        content = content or {}
        rows = content.get("tensors")
        tensors: dict[str, list[Tensor]] | None = None if rows is None else {}
        for row in rows or ():
            assert tensors is not None
            tensors.setdefault(row["name"], []).append(row)
        return cls(tensors, (content["metadata"] or {}) if "metadata" in content else None, content)

    @property
    def is_cut(self) -> bool:
        return "digests" in self.content

    @property
    def digests(self) -> Mapping[str, str]:
        return self.content["digests"] if self.is_cut else digests(self.content)

    @property
    def facts(self) -> dict[object, Any] | None:
        """The reported values by (tensor, field); None if they cannot be compared field by field."""
        tensors = self.tensors or {}
        if self.is_cut or any(len(rows) > 1 for rows in tensors.values()):
            return None
        facts: dict[object, Any] = {
            (name, field): value
            for name, (row,) in tensors.items()
            for field in FIELDS
            if (value := row.get(field)) is not None
        }
        facts |= {} if self.tensors is None else {NAMES: tensors.keys()}
        return facts if self.metadata is None else {**facts, METADATA: self.metadata}

    @cached_property
    def fact_count(self) -> int:
        if self.is_cut:
            return int(self.content.get("tensor_count", 0)) * len(self.digests) + 1
        rows = [row for same in (self.tensors or {}).values() for row in same]
        facts = sum(1 + sum(row.get(f) is not None for f in FIELDS) for row in rows)
        return facts + (self.tensors is not None) + (self.metadata is not None)


def difference(a: Reading, b: Reading, label_a: str, label_b: str) -> str | None:
    """Return the first difference in names, tensors or metadata as one safe line, or None."""
    if a.is_cut or b.is_cut:
        return _cut_differ(a, b)
    if a.tensors is not None and b.tensors is not None:
        lone = min(a.tensors.keys() ^ b.tensors.keys(), default=None)
        if lone is not None:
            return (
                f"only {visible(label_a if lone in a.tensors else label_b, 60)} reports tensor {quote(lone)}"
            )
        for name in sorted(a.tensors):
            if text := _rows_differ(a.tensors[name], b.tensors[name]):
                return f"{quote(name)}: {text}"
    if a.metadata is not None and b.metadata is not None and a.metadata != b.metadata:
        mine, others = a.metadata, b.metadata
        shared = mine.keys() & others.keys()  # a key with a null value counts as present
        key = min(k for k in mine.keys() | others.keys() if k not in shared or mine[k] != others[k])
        if key in shared:
            return f"metadata[{quote(key)}]: {_show(mine[key])} vs. {_show(others[key])}"
        return f"only {visible(label_a if key in mine else label_b, 60)} reports metadata {quote(key)}"
    return None


def _cut_differ(a: Reading, b: Reading) -> str | None:
    mine, others = a.digests, b.digests
    shared = [part for part in (NAMES, *FIELDS, METADATA) if part in mine and part in others]
    part = next((part for part in shared if mine[part] != others[part]), None)
    if part is None:
        return None
    name = {NAMES: "the tensor names", METADATA: "the metadata"}.get(part, f"{part} of a tensor")
    return f"{name} by digest: {mine[part][:12]}… vs. {others[part][:12]}…"


def _rows_differ(a: list[Tensor], b: list[Tensor]) -> str | None:
    """Compare the reported rows of one name; the rows of a duplicate name may be in any order."""
    if len(a) == len(b) == 1:
        return _row_differs(a[0], b[0])
    lonely = [x for x in a if all(_row_differs(x, y) for y in b)]
    if lonely:
        return _row_differs(lonely[0], b[0])
    lonely = [y for y in b if all(_row_differs(x, y) for x in a)]
    return _row_differs(a[0], lonely[0]) if lonely else None


def _row_differs(a: Tensor, b: Tensor) -> str | None:
    for name in differing_fields(a, b):
        if name == "sha256":
            return "sha256 differs"
        return f"{name} {visible(str(a[name]), 60)} vs. {visible(str(b[name]), 60)}"
    return None


def _show(value: object) -> str:
    return quote(value) if isinstance(value, str) else visible(str(value), 60)


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
    group. ``dissenter`` is the only one of three or more that differs from all others. ``difference``
    compares the two labels in ``between``.
    """

    case: str
    kind: Kind
    vector: dict[str, str]
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
    content_splits: tuple[Split, ...] = ()
    verdict_splits: tuple[Split, ...] = ()
    clusters: tuple[Cluster, ...] = ()
    pairs: dict[Pair, PairSplits] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def splits(self) -> tuple[Split, ...]:
        return self.content_splits + self.verdict_splits


class _Answer(NamedTuple):
    label: str
    outcome: str
    reading: Reading


def compare(records: Sequence[RunRecord]) -> Comparison:
    """Compare runs on the cases that they share, using the last step of each case (``read`` or ``open``)."""
    labels = distinct_labels(records)
    finals = [_final_results(record) for record in records]
    shared = sorted(set.intersection(*(set(f) for f in finals))) if len(finals) > 1 else []
    splits: list[Split] = []
    pairs: dict[Pair, Counter[Kind]] = {pair: Counter() for pair in combinations(labels, 2)}
    compared = 0
    for case in shared:
        rows = [(label, f[case]) for label, f in zip(labels, finals, strict=True)]
        answers = [a for a in _answers(rows) if a.outcome not in NO_ANSWER]
        compared += sum(a.outcome != "unsupported" for a in answers) > 1
        disagreements = _disagreements(answers)
        for pair, kind in disagreements.items():
            pairs[pair][kind] += 1
        if disagreements:
            splits.append(_split(case, answers, disagreements))
    found: dict[tuple[tuple[str, str], ...], list[Split]] = {}
    for split in splits:
        found.setdefault(tuple(split.vector.items()), []).append(split)
    clusters = [Cluster(members[0].kind, dict(key), tuple(members)) for key, members in found.items()]
    return Comparison(
        labels=labels,
        compared=compared,
        unanswered=len(shared) - compared,
        left_out=len(set().union(*finals)) - len(shared) if len(finals) > 1 else 0,
        content_splits=tuple(s for s in splits if s.kind == "content"),
        verdict_splits=tuple(s for s in splits if s.kind == "verdict"),
        clusters=tuple(sorted(clusters, key=lambda c: (-len(c.splits), c.cases))),
        pairs={pair: PairSplits(n["content"], n["verdict"]) for pair, n in pairs.items()},
        notes=_notes(records, labels),
    )


def distinct_labels(records: Sequence[RunRecord]) -> tuple[str, ...]:
    labels: list[str] = []
    for record in records:
        labels.append(unused(record.label, labels, " #"))
    return tuple(labels)


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
    readings: list[tuple[object, Reading]] = []
    known: dict[int, Reading] = {}  # rows that were read together share equal contents
    answers = []
    for label, row in rows:
        content = row.get("content")
        reading = known.get(id(content)) or next((same for seen, same in readings if seen == content), None)
        if reading is None:
            reading = Reading.of(content)
            readings.append((content, reading))
        known[id(content)] = reading
        answers.append(_Answer(label, outcome_of(row), reading))
    return answers


def _disagreements(answers: Sequence[_Answer]) -> dict[Pair, Kind]:
    found: dict[Pair, Kind] = {}
    accepters = [a for a in answers if a.outcome == "accept"]
    apart = _apart({id(a.reading): a.reading for a in accepters})
    for a, b in combinations(accepters, 2) if apart else ():
        if (id(a.reading), id(b.reading)) in apart:
            found[a.label, b.label] = "content"
    place = {answer.label: i for i, answer in enumerate(answers)}
    for b in answers:
        for a in accepters if b.outcome in REFUSING else ():
            first = place[a.label] < place[b.label]
            found[(a.label, b.label) if first else (b.label, a.label)] = "verdict"
    return found


def _apart(readings: Mapping[int, Reading]) -> set[tuple[int, int]]:
    by_reading = {key: reading.facts for key, reading in readings.items()}
    first: dict[object, Any] = {}
    # Most facts are the same for all readers; compare only the others.
    disputed = {
        fact
        for facts in by_reading.values()
        for fact, value in (facts or {}).items()
        if first.setdefault(fact, value) != value
    }
    apart: set[tuple[int, int]] = set()
    for a, b in combinations(readings, 2) if disputed or None in by_reading.values() else ():
        x, y = by_reading[a], by_reading[b]
        if x is None or y is None:
            differ = difference(readings[a], readings[b], "", "") is not None
        else:
            differ = any(fact in x and fact in y and x[fact] != y[fact] for fact in disputed)
        if differ:
            apart |= {(a, b), (b, a)}
    return apart


def _split(case: str, answers: Sequence[_Answer], disagreements: Mapping[Pair, Kind]) -> Split:
    groups = _groups([a for a in answers if a.outcome == "accept"], disagreements)
    vector = {a.label: f"accept:{groups[a.label]}" if a.label in groups else a.outcome for a in answers}
    lone = _dissenter(vector, disagreements)
    between = next((pair for pair, kind in disagreements.items() if kind == "content"), None)
    if between is None:
        return Split(case, "verdict", vector, lone)
    a, b = (answer.reading for answer in answers if answer.label in between)
    return Split(case, "content", vector, lone, difference(a, b, *between) or "", between)


def _groups(accepters: Sequence[_Answer], disagreements: Mapping[Pair, Kind]) -> dict[str, str]:
    """Assign a letter to each label; readers that report too little to belong to a group get ``?``."""
    labels = [a.label for a in accepters]
    split = {x for pair, kind in disagreements.items() if kind == "content" for x in pair}
    if not split:
        return dict.fromkeys(labels, letter(0))
    groups: list[list[str]] = []
    for answer in sorted(accepters, key=lambda a: (-a.reading.fact_count, labels.index(a.label))):
        if answer.label not in split:
            continue
        fits = (g for g in groups if not any(_differ(answer.label, x, disagreements) for x in g))
        home = next(fits, None)
        if home is None:
            groups.append([answer.label])
        else:
            home.append(answer.label)
    groups.sort(key=lambda g: min(labels.index(x) for x in g))
    letters = {x: letter(i) for i, group in enumerate(groups) for x in group}
    return {x: letters.get(x, "?") for x in labels}


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
