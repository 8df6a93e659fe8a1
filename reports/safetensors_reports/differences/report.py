"""The report of a differential run: the compared inputs, the disagreements and their triage.

It has three forms: the JSON document (``DiffDocument``), the text for a terminal and the Markdown page.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from safetensors_corpus.typed import Count
from safetensors_reference import rule_book

from ..templates import render, render_lines
from ..text import COPIED, code, join_counts, listed, plural, visible
from .compare import NO_ANSWER, REFUSING, Comparison, Kind
from .signatures import NO_VOTE, SORTS, Differences, Sort

MAX_ROWS = 30
MAX_SKELETONS = 20
MAX_SUBJECTS = 5
MAX_CODES = 2
KINDS: tuple[Kind, ...] = ("content", "verdict")
HEADLINES: dict[Sort, str] = {
    "content": "CONTENT SPLIT",
    "verdict": "VERDICT SPLIT",
    "unsafe": "UNSAFE",
    "choice": "open choice",
}
Status = Literal["new", "known", "expired", "choice"]


@dataclass(frozen=True)
class TriageState:
    """Triage of a signature, which may be known for a given reason or overdue for review."""

    status: Status
    reason: str = ""
    issue: str = ""
    review_by: str = ""


class DiffImplementation(Struct, frozen=True):
    """One implementation of the run.

    Attributes:
        label: Name and version. Every label is unique.
        name: Name without the version, as it appears in signatures. Every name is unique.
        selector: Value of --impl.
    """

    label: str
    name: str
    selector: str
    version: str
    language: str
    steps: tuple[str, ...]


_DUMP = {
    "required": ["outcome"],
    "properties": {
        "outcome": {"enum": ["accept", "unsupported", *sorted(REFUSING), *sorted(NO_ANSWER)]},
        "message": {"type": "string"},
        "digest": {
            "type": "string",
            "description": "Digest of the whole report; the same digest means that the content is the same.",
        },
        "count": {
            "type": "integer",
            "minimum": 0,
            "description": "Number of tensors; tensors may contain only the first ones.",
        },
        "tensors": {
            "type": "array",
            "description": "Sorted by name, without values that the implementation does not report.",
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
        },
        "metadata": {
            "type": "object",
            "description": "Missing if the implementation does not report metadata.",
        },
    },
}
Answers = dict[str, Annotated[dict[str, Any], Meta(extra_json_schema=_DUMP)]]
"""Label -> canonical dump, with values as the reader reported them."""
Token = Annotated[str, Meta(pattern=r"^(accept:([A-Z]|[0-9]+|\?)|reject|unsupported|crash|hang|exhausted)$")]
Labels = Annotated[tuple[str, ...], Meta(min_length=2, max_length=2)]


class InputsPart(Struct, frozen=True):
    """Input counts.

    Attributes:
        compared: Inputs that at least two implementations accepted or rejected.
        unanswered: Inputs that fewer than two implementations accepted or rejected.
        left_out: Inputs that were not run by all implementations.
    """

    given: Count
    compared: Count
    unanswered: Count
    left_out: Count


class SignatureRow(Struct, frozen=True):
    """Disagreements of the same kind that have the same signature.

    Attributes:
        status: Status in the triage file; a choice needs no triage.
    """

    signature: str
    sort: Sort
    status: Status
    inputs: Annotated[tuple[str, ...], Meta(min_length=1)]
    reason: str | UnsetType = UNSET
    issue: str | UnsetType = UNSET
    review_by: str | UnsetType = UNSET


class DisagreementRow(Struct, frozen=True):
    """One input on which implementations disagree, or on which one crashed, hung or ran out of memory.

    Attributes:
        input: Case id, or path as given.
        subject: Fault codes that the strict reference reader reports, joined by +. Without codes it is the
            rule of the case, or valid if there is no case.
        choice: The open choice that the input falls under.
        vector: Label -> token.
        difference: First difference in the content of the second label in between, compared with the first
            label.
        answers: Label -> canonical dump.
    """

    input: str
    title: str
    sort: Sort
    signature: str
    subject: str
    choice: str | None
    vector: dict[str, Token]
    dissenter: str | None
    difference: str | None
    between: Labels | None
    unsafe: tuple[str, ...]
    answers: Answers


class ClusterRow(Struct, frozen=True):
    """Inputs on which the implementations split in the same way.

    Attributes:
        vector: Label -> token.
    """

    kind: Kind
    vector: dict[str, Token]
    inputs: tuple[str, ...]


class BySort(Struct, frozen=True):
    """Input counts by kind of disagreement."""

    content: Count
    verdict: Count
    unsafe: Count
    choice: Count


class DissenterRow(Struct, frozen=True):
    """An implementation that disagrees with all others, and how often it does."""

    label: str
    content: Count
    verdict: Count
    unsafe: Count
    choice: Count


class PairRow(Struct, frozen=True):
    """Counts of the inputs on which two implementations disagree."""

    between: Labels
    content: Count
    verdict: Count
    choice: Count


class DiffDocument(Struct, frozen=True):
    """Disagreements between several implementations on the same inputs.

    Nothing in this document depends on an expected result. A label consists of a name and a version;
    signatures contain names only. Readers ignore properties that they do not know.

    Attributes:
        diff: Version of this format; every incompatible change increments it.
        suite: Version of the suite.
        source: Source of the inputs: files, or the corpus with its version.
        counts: Inputs with disagreements; an input counts only under its worst kind of disagreement.
        unmatched: Triage entries that match no disagreement.
        problems: Inputs and implementations that could not be run.
        answers: Results for each input given by path, as label -> canonical dump.
    """

    diff: Literal[1]
    suite: str
    implementations: tuple[DiffImplementation, ...]
    source: str
    inputs: InputsPart
    interrupted: bool
    exit_status: Literal[0, 1, 2]
    counts: BySort
    signatures: tuple[SignatureRow, ...]
    disagreements: tuple[DisagreementRow, ...]
    clusters: tuple[ClusterRow, ...]
    dissenters: tuple[DissenterRow, ...]
    pairs: tuple[PairRow, ...]
    unmatched: tuple[str, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    answers: dict[str, Answers]


def document(
    found: Differences,
    *,
    suite: str,
    implementations: tuple[DiffImplementation, ...],
    source: str,
    given: int,
    standing: Mapping[str, TriageState] = MappingProxyType({}),
    unmatched: tuple[str, ...] = (),
    problems: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
    interrupted: bool = False,
    answers: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    listed: Iterable[str] = (),
) -> DiffDocument:
    """Return the document of one run; ``listed`` contains the inputs given by path."""
    counts = Counter(d.sort for d in found.found)
    signatures = []
    for s in found.signatures():
        state = TriageState("choice") if s.sort == "choice" else standing.get(s.text, TriageState("new"))
        why = (state.reason, state.issue, state.review_by) if state.reason else ()
        signatures.append(SignatureRow(s.text, s.sort, state.status, s.inputs, *why))
    is_new = any(row.status in ("new", "expired") for row in signatures)
    return DiffDocument(
        diff=1,
        suite=suite,
        implementations=implementations,
        source=source,
        inputs=InputsPart(given, found.compared, found.shared - found.compared, found.left_out),
        interrupted=interrupted,
        exit_status=2 if problems else 1 if is_new else 0,
        counts=BySort(**{sort: counts[sort] for sort in SORTS}),
        signatures=tuple(signatures),
        disagreements=tuple(
            DisagreementRow(
                input=d.input,
                title=d.about.title,
                sort=d.sort,
                signature=d.signature,
                subject=d.about.subject,
                choice=d.about.choice or None,
                vector=d.vector,
                dissenter=d.dissenter,
                difference=d.difference or None,
                between=d.between,
                unsafe=d.unsafe,
                answers=dict(answers.get(d.input, {})),
            )
            for d in found.found
        ),
        clusters=tuple(ClusterRow(c.kind, c.vector, c.cases) for c in found.clusters()),
        dissenters=tuple(
            DissenterRow(label, n["content"], n["verdict"], n["unsafe"], n["choice"])
            for label, n in found.dissenters().items()
        ),
        pairs=tuple(
            PairRow(pair, n["content"], n["verdict"], n["choice"]) for pair, n in found.pairs().items()
        ),
        unmatched=unmatched,
        problems=problems,
        notes=notes,
        answers={x: dict(answers[x]) for x in listed if x in answers},
    )


def diff_lines(comparison: Comparison, limit: int = 10) -> list[str]:
    lone = Counter((s.dissenter, s.kind) for s in comparison.splits if s.dissenter is not None)
    counts = {label: {kind: lone[label, kind] for kind in KINDS} for label, _ in lone}
    alone = sorted(counts.items(), key=lambda x: (-x[1]["content"], -x[1]["verdict"], x[0]))
    pairs = sorted(comparison.pairs.items(), key=lambda x: (-x[1].content, -x[1].verdict))
    tables = {
        "alone against all others": [(visible(label, 130), numbers) for label, numbers in alone],
        "pairs": [(_pair(pair, 130), numbers) for pair, numbers in pairs if any(numbers)],
    }
    return render_lines("splits.txt", comparison=comparison, tables=tables, limit=limit)


def diff_text(report: DiffDocument, limit: int = 10) -> list[str]:
    tables = {
        "alone against all others": [(visible(row.label, 60), row) for row in report.dissenters],
        "pairs": [(_pair(row.between), row) for row in _pairs(report)],
    }
    found = {d.input: d for d in report.disagreements}
    rank = {name: i for i, name in enumerate(found)}
    files = []
    for name in sorted(report.answers, key=lambda x: rank.get(x, len(rank))):
        answers = {label: in_words(answer) for label, answer in report.answers[name].items()}
        kinds = sorted({words.partition(":")[0] for words in answers.values()})
        files.append((name, found.get(name), answers, kinds))
    values = _values(report) | {"tables": tables, "files": files, "limit": limit, "HEADLINES": HEADLINES}
    return render_lines("diff.txt", **values)


def diff_markdown(report: DiffDocument) -> str:
    alone = [
        f"{code(row.label, 60)} (content {row.content:,}, verdict {row.verdict:,}, choice {row.choice:,})"
        for row in report.dissenters
    ]
    page = render(
        "diff.md",
        **_values(report),
        ROWS=MAX_ROWS,
        SKELETONS=MAX_SKELETONS,
        alone=alone,
        pairs=_pairs(report),
        toml_string=lambda text: json.dumps(visible(text, 2000).replace("`", "?")),
    )
    return page.rstrip("\n") + "\n"


def _values(report: DiffDocument) -> dict[str, Any]:
    found = {d.input: d for d in report.disagreements}
    clusters: dict[Kind, list[list[DisagreementRow]]] = {kind: [] for kind in KINDS}
    for cluster in report.clusters:
        clusters[cluster.kind].append([found[name] for name in cluster.inputs])
    choices: dict[str, list[DisagreementRow]] = {}
    ends: dict[str, dict[str, str]] = {}
    for d in report.disagreements:
        if d.sort == "choice":
            choices.setdefault(d.choice or "", []).append(d)
        for label in d.unsafe:
            ends.setdefault(label, {})[d.input] = d.vector[label]
    examples: dict[tuple[Sort, str], DisagreementRow] = {}
    for d in sorted(report.disagreements, key=lambda d: (not d.difference, len(d.input), d.input)):
        examples.setdefault((d.sort, d.signature), d)
    return {
        "report": report,
        "SORTS": SORTS,
        "clusters": clusters,
        "choices": sorted(choices.items(), key=lambda x: (-len(x[1]), x[0])),
        "unsafe": [(label, join_counts(Counter(of.values()), ", "), list(of)) for label, of in ends.items()],
        "with_status": lambda *wanted: [
            (row, examples[row.sort, row.signature]) for row in report.signatures if row.status in wanted
        ],
        "subjects": _subjects,
        "cause_of": _cause_of,
        "again": _again,
    }


def in_words(answer: Mapping[str, Any]) -> str:
    """Summarise a canonical dump, for example ``accept, 2 tensors, 1 metadata key``."""
    if answer["outcome"] != "accept":
        message = visible(str(answer.get("message") or ""), 120)
        return str(answer["outcome"]) + (f": {message}" if message else "")
    parts = ["accept"]
    if "count" in answer:
        parts.append(plural(answer["count"], "tensor"))
    if answer.get("metadata"):
        parts.append(plural(len(answer["metadata"]), "metadata key"))
    return ", ".join(parts)


def _pair(labels: Iterable[str], limit: int = 200) -> str:
    return visible(" / ".join(visible(x, 60) for x in labels), limit)


def _pairs(report: DiffDocument) -> list[PairRow]:
    return [row for row in report.pairs if row.content or row.verdict or row.choice]


def _subjects(members: Iterable[DisagreementRow]) -> str:
    counts = Counter(d.subject for d in members).most_common()
    return listed([f"{visible(name, 80)} ({n:,})" for name, n in counts], MAX_SUBJECTS)


def _cause_of(subject: str) -> str:
    book = rule_book()
    meanings = [book.codes[code].partition(" (")[0] for code in subject.split("+") if code in book.codes]
    if meanings:
        return listed(meanings, MAX_CODES)
    if subject in book.rules:
        return f"about {subject} ({book.rules[subject].title})"
    words = {"valid": "the input is valid", "unknown": "unknown"}
    return words.get(subject, visible(subject, 200))


def _again(report: DiffDocument, example: DisagreementRow) -> str:
    answered = {token: x for x, token in reversed(example.vector.items()) if token not in NO_VOTE}
    labels = example.between or tuple(answered.values())
    selectors = {one.label: one.selector for one in report.implementations}
    parts = ["stc", "diff"]
    for label in sorted(labels, key=list(example.vector).index):
        parts += ["--impl", selectors.get(label, label)]
    # A file name that begins with a hyphen would look like an option.
    path = f"./{example.input}" if example.input.startswith("-") else example.input
    parts += ["--case", example.input] if report.source.startswith("corpus") else [path]
    return visible(shlex.join(parts), COPIED)
