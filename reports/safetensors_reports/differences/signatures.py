"""Sort the disagreements of a differential run, and assign each a signature and a dissenter.

Different content for one file is always a defect. If some readers accept and others reject, it is a defect
only if the format leaves no choice. A signature contains no versions, case ids or messages, so known
disagreements stay known when the corpus grows or an implementation publishes a release.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ..record.run import RunRecord
from ..text import visible
from .compare import NO_ANSWER, REFUSING, Cluster, Comparison, Split, compare, letter, outcome_of

Sort = Literal["content", "verdict", "unsafe", "choice"]
SORTS: dict[Sort, str] = {
    "content": "several implementations accept the input but read different content",
    "verdict": "some implementations accept the input and others reject it",
    "unsafe": "an implementation crashes, hangs or runs out of memory and none of the others accepts",
    "choice": "some implementations accept the input and others reject it; the format allows both",
}
"""Meaning of each sort of disagreement, most dangerous first. All but the last count as defects."""
UNSAFE = REFUSING - {"reject"}
NO_VOTE = frozenset({"unsupported", *NO_ANSWER})


@dataclass(frozen=True)
class InputInfo:
    """Facts about an input; ``subject`` contains its fault codes, a rule if it has none, or ``valid``."""

    subject: str
    choice: str = ""
    title: str = ""


@dataclass(frozen=True)
class Disagreement:
    """One input on which implementations disagree or one fails badly; ``vector`` is as in ``Split``."""

    input: str
    sort: Sort
    vector: dict[str, str]
    signature: str
    about: InputInfo
    dissenter: str | None = None
    difference: str = ""
    between: tuple[str, str] | None = None

    @property
    def unsafe(self) -> tuple[str, ...]:
        return tuple(label for label, token in self.vector.items() if token in UNSAFE)


@dataclass(frozen=True)
class Signature:
    """Disagreements of the same kind that share a signature."""

    text: str
    sort: Sort
    found: tuple[Disagreement, ...]

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(sorted(d.input for d in self.found))

    @property
    def example(self) -> Disagreement:
        return min(self.found, key=lambda d: (not d.difference, len(d.input), d.input))


@dataclass(frozen=True)
class Differences:
    """Disagreements of a run, worst first; ``main`` is the comparison without ``choice`` disagreements."""

    labels: tuple[str, ...]
    found: tuple[Disagreement, ...]
    main: Comparison
    choices: Comparison
    shared: int = 0
    left_out: int = 0

    @property
    def compared(self) -> int:
        return self.main.compared + self.choices.compared

    def of(self, sort: Sort) -> tuple[Disagreement, ...]:
        return tuple(d for d in self.found if d.sort == sort)

    def signatures(self) -> tuple[Signature, ...]:
        groups: dict[tuple[Sort, str], list[Disagreement]] = {}
        for d in self.found:
            groups.setdefault((d.sort, d.signature), []).append(d)
        rows = [Signature(text, sort, tuple(ds)) for (sort, text), ds in groups.items()]
        order = list(SORTS)
        return tuple(sorted(rows, key=lambda s: (order.index(s.sort), -len(s.found), s.text)))

    def clusters(self) -> tuple[Cluster, ...]:
        return tuple(sorted(self.main.clusters, key=lambda c: (c.kind != "content", -len(c.splits), c.cases)))

    def dissenters(self) -> dict[str, Counter[Sort]]:
        counts: dict[str, Counter[Sort]] = {}
        for d in self.found:
            if d.dissenter is not None:
                counts.setdefault(d.dissenter, Counter())[d.sort] += 1
        rank = sorted(counts.items(), key=lambda x: (-x[1]["content"], -x[1]["verdict"], x[0]))
        return dict(rank)

    def unsafe(self) -> dict[str, list[tuple[str, str]]]:
        out: dict[str, list[tuple[str, str]]] = {}
        for d in self.found:
            for label in d.unsafe:
                out.setdefault(label, []).append((d.input, d.vector[label]))
        return out

    def pairs(self) -> dict[tuple[str, str], Counter[Sort]]:
        rows: dict[tuple[str, str], Counter[Sort]] = {}
        for pair, (content, verdict) in self.main.pairs.items():
            rows[pair] = Counter({"content": content, "verdict": verdict})
        for pair, (_, verdict) in self.choices.pairs.items():
            rows.setdefault(pair, Counter())["choice"] = verdict
        rank = sorted(rows.items(), key=lambda x: (-x[1]["content"], -x[1]["verdict"], -x[1]["choice"], x[0]))
        return dict(rank)


def signature_of(subject: str, vector: Mapping[str, str], names: Mapping[str, str]) -> str:
    """Return a stable string such as ``OFF_HOLE: accept mlx, reader; reject reference``."""
    by_token: dict[str, list[str]] = {}
    for label, token in vector.items():
        if token not in NO_VOTE:
            by_token.setdefault(token, []).append(visible(names[label], 60))
    seen = {token: sorted(n) for token, n in by_token.items() if token.startswith("accept:")}
    vague = seen.pop("accept:?", [])  # these report too little to belong to a group
    groups = sorted(seen.values())
    parts = [
        (f"accept:{letter(i)}" if len(groups) > 1 else "accept", members) for i, members in enumerate(groups)
    ]
    parts += [("accept:?", vague)] if vague else []
    parts += sorted((x, sorted(members)) for x, members in by_token.items() if not x.startswith("accept:"))
    return f"{subject}: " + "; ".join(f"{token} {', '.join(members)}" for token, members in parts)


def evaluate(
    records: Sequence[RunRecord], names: Sequence[str], about: Mapping[str, InputInfo] | None = None
) -> Differences:
    known: Mapping[str, InputInfo] = about if about is not None else {}
    whole = compare(records)
    name_of = dict(zip(whole.labels, names, strict=True))
    splits = {s.case: s for s in whole.splits}
    disagreements = [_described(s, known, name_of) for s in splits.values()]
    disagreements += [
        _described(s, known, name_of, unsafe=True) for s in _bad_ends(records, whole) if s.case not in splits
    ]
    order = list(SORTS)
    disagreements.sort(key=lambda d: (order.index(d.sort), d.input))
    legitimate = {d.input for d in disagreements if d.sort == "choice"}
    main = compare([_only(r, legitimate, inside=False) for r in records])
    choices = compare([_only(r, legitimate, inside=True) for r in records])
    shared = whole.compared + whole.unanswered
    return Differences(whole.labels, tuple(disagreements), main, choices, shared, whole.left_out)


def _described(
    split: Split, known: Mapping[str, InputInfo], names: Mapping[str, str], *, unsafe: bool = False
) -> Disagreement:
    about = known.get(split.case) or InputInfo("unknown")
    bad = any(token in UNSAFE for token in split.vector.values())
    sort: Sort = "unsafe" if unsafe else split.kind
    if sort == "verdict" and about.choice and not bad:
        sort = "choice"
    return Disagreement(
        split.case,
        sort,
        split.vector,
        signature_of(about.subject, split.vector, names),
        about,
        split.dissenter,
        split.difference,
        split.between,
    )


def _bad_ends(records: Sequence[RunRecord], whole: Comparison) -> list[Split]:
    rows: dict[str, dict[str, str]] = {}
    for record, label in zip(records, whole.labels, strict=True):
        for row in record.results:
            rows.setdefault(row["case"], {})[label] = outcome_of(row)
    return [
        Split(case, "verdict", {x: t for x, t in vector.items() if t not in NO_ANSWER})
        for case, vector in rows.items()
        if len(vector) == len(records) and any(t in UNSAFE for t in vector.values())
    ]


def _only(record: RunRecord, inputs: set[str], *, inside: bool) -> RunRecord:
    return replace(record, results=[r for r in record.results if (r["case"] in inputs) is inside])
