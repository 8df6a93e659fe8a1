"""Classify disagreements, messages and differences, and assign each disagreement a signature.

Different content for one file is always a defect. If some readers accept a file and others reject it, this is
a defect only if the format leaves no choice. A signature contains no versions, case ids or messages, so known
disagreements stay known when the corpus grows or an implementation publishes a release. The class of a
message contains no names, numbers or folders.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from ..record.run import RunRecord
from ..text import visible
from .compare import (
    NO_ANSWER,
    REFUSING,
    Cluster,
    Comparison,
    Split,
    clusters_of,
    compare,
    letter,
    outcome_of,
)

Sort = Literal["content", "verdict", "unsafe", "choice"]
SORTS: dict[Sort, str] = {
    "content": "several implementations accept the input but read different content",
    "verdict": "some implementations accept the input and others reject it",
    "unsafe": "an implementation crashes, hangs or runs out of memory, and no other accepts the input",
    "choice": "some implementations accept the input and others reject it; the format allows both",
}
"""Meaning of each kind of disagreement, most dangerous first. All kinds except the last count as defects."""
UNSAFE = REFUSING - {"reject"}
NO_VOTE = frozenset({"unsupported", *NO_ANSWER})


@dataclass(frozen=True)
class InputInfo:
    """Facts about an input; ``subject`` contains its fault codes, a rule if it has none, or ``valid``."""

    subject: str
    choice: str = ""
    title: str = ""


@dataclass(frozen=True, kw_only=True)
class Disagreement(Split):
    """One input on which implementations disagree, or on which one of them fails badly."""

    sort: Sort
    signature: str
    about: InputInfo

    @property
    def input(self) -> str:
        return self.case

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


@dataclass(frozen=True)
class Differences:
    """Disagreements of a run, worst first, and the input counts."""

    labels: tuple[str, ...]
    found: tuple[Disagreement, ...]
    compared: int
    shared: int
    left_out: int

    def signatures(self) -> tuple[Signature, ...]:
        groups: dict[tuple[Sort, str], list[Disagreement]] = {}
        for d in self.found:
            groups.setdefault((d.sort, d.signature), []).append(d)
        rows = [Signature(text, sort, tuple(ds)) for (sort, text), ds in groups.items()]
        order = list(SORTS)
        return tuple(sorted(rows, key=lambda s: (order.index(s.sort), -len(s.found), s.text)))

    def clusters(self) -> tuple[Cluster, ...]:
        """Return the clusters of all disagreements between implementations that are not choices."""
        clusters = clusters_of(d for d in self.found if d.sort != "choice" and d.pairs)
        return tuple(sorted(clusters, key=lambda c: (c.kind != "content", -len(c.splits), c.cases)))

    def dissenters(self) -> dict[str, Counter[Sort]]:
        counts: dict[str, Counter[Sort]] = {}
        for d in self.found:
            if d.dissenter is not None:
                counts.setdefault(d.dissenter, Counter())[d.sort] += 1
        rank = sorted(counts.items(), key=lambda x: (-x[1]["content"], -x[1]["verdict"], x[0]))
        return dict(rank)

    def pairs(self) -> dict[tuple[str, str], Counter[Sort]]:
        rows: dict[tuple[str, str], Counter[Sort]] = {
            pair: Counter() for pair in combinations(self.labels, 2)
        }
        for d in self.found:
            for pair, kind in d.pairs.items():
                rows[pair]["choice" if d.sort == "choice" else kind] += 1
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
    records: Sequence[RunRecord], names: Sequence[str], about: Callable[[str], InputInfo]
) -> Differences:
    """Compare records. ``about`` is called once for each input on which the implementations disagree."""
    whole = compare(records)
    name_of = dict(zip(whole.labels, names, strict=True))
    splits = {split.case: split for split in whole.splits}
    unsafe = [split for split in _bad_ends(records, whole) if split.case not in splits]
    disagreements = [_described(split, about(split.case), name_of) for split in (*splits.values(), *unsafe)]
    order = list(SORTS)
    disagreements.sort(key=lambda d: (order.index(d.sort), d.input))
    shared = whole.compared + whole.unanswered
    return Differences(whole.labels, tuple(disagreements), whole.compared, shared, whole.left_out)


def _described(split: Split, about: InputInfo, names: Mapping[str, str]) -> Disagreement:
    sort: Sort = split.kind if split.pairs else "unsafe"
    if sort == "verdict" and about.choice and not any(token in UNSAFE for token in split.vector.values()):
        sort = "choice"
    signature = signature_of(about.subject, split.vector, names)
    return Disagreement(**vars(split), sort=sort, signature=signature, about=about)


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


# These patterns start with a literal character and look behind afterwards, so that the search can skip to
# this character. This makes them four times as fast.
_VARYING = re.compile(r"""[0-9"'`](?:(?<=[0-9])[0-9]*|(?<=")[^"]*"?|(?<=')[^']*'?|(?<=`)[^`]*`?)""")
_FOLDERS = re.compile(r"""/(?<![\w.:/]/)(?:[^\s/:'"`]+/)+(?:(?:safetensors-case|stc-fuzz)-[^\s'"`/:]*)?""")
"""The folders of an absolute path. Every run reads from a folder with a random name."""
_LISTS = re.compile(r"#(?<=[\[(]#)(?:, ?#)+(?=[\])])")


def without_folders(text: str) -> str:
    return _FOLDERS.sub("", text)


def message_class(message: str, names: Iterable[str] = (), limit: int = 60) -> str:
    message = without_folders(message[: limit + 200])[: limit + 100]
    for name in sorted((n for n in names if n and n in message), key=len, reverse=True):
        message = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "#", message)
    return _LISTS.sub("#", _VARYING.sub("#", message))[:limit].strip()


def difference_class(difference: str) -> str:
    if '" is reported as it is spelled: "' in difference:
        return "escapes"
    if difference.startswith("metadata"):
        return "metadata"
    # A tensor name may contain anything, so only the text after it counts.
    tail = difference.rpartition('": ')[2]
    for word in ("dtype", "shape", "nbytes", "other bytes"):
        if tail.startswith(word):
            return word
    for ending, word in ((" is missing", "missing"), (" twice", "twice"), (" none of that name", "reported")):
        if difference.endswith(ending):
            return word
    return "content"
