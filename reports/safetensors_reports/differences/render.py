"""Comparisons of runs, and differential runs, as text for a terminal and as Markdown."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from safetensors_reference import rule_book

from ..templates import render, render_lines
from ..text import code, listed, plural, visible
from .compare import Cluster, Comparison, Kind
from .report import DiffReport
from .signatures import NO_VOTE, SORTS, Disagreement, Signature, Sort

MAX_ROWS = 30
"""Rows of each list of a page."""
MAX_SKELETONS = 20
"""Signatures that a page prepares for a triage file."""
MAX_SUBJECTS = 5
MAX_CODES = 2
KINDS: tuple[Kind, ...] = ("content", "verdict")
HEADLINES: dict[Sort, str] = {
    "content": "CONTENT SPLIT",
    "verdict": "VERDICT SPLIT",
    "unsafe": "UNSAFE",
    "choice": "open choice",
}
Members = tuple[Disagreement, ...]


def diff_lines(comparison: Comparison, limit: int = 10) -> list[str]:
    """Return a comparison of runs as lines for a terminal, content splits first, each list of ``limit``."""
    lone = Counter((s.dissenter, s.kind) for s in comparison.splits if s.dissenter is not None)
    counts = {label: {kind: lone[label, kind] for kind in KINDS} for label, _ in lone}
    alone = sorted(counts.items(), key=lambda x: (-x[1]["content"], -x[1]["verdict"], x[0]))
    pairs = sorted(comparison.pairs.items(), key=lambda x: (-x[1].content, -x[1].verdict))
    tables = {
        "alone against all others": [(visible(label, 130), numbers) for label, numbers in alone],
        "pairs": [(_pair(pair, 130), numbers) for pair, numbers in pairs if any(numbers)],
    }
    return render_lines("splits.txt", comparison=comparison, tables=tables, limit=limit)


def diff_text(report: DiffReport, limit: int = 10) -> list[str]:
    """Return a differential run as lines for a terminal, what is new at the end, each list of ``limit``."""
    found = report.differences
    tables = {
        "alone against all others": [(visible(x, 60), numbers) for x, numbers in found.dissenters().items()],
        "pairs": [(_pair(pair), numbers) for pair, numbers in _pairs(report)],
    }
    return render_lines(
        "diff.txt", **_values(report), tables=tables, files=_files(report), limit=limit, HEADLINES=HEADLINES
    )


def diff_markdown(report: DiffReport) -> str:
    """Return a differential run as a page: what to look at first, and what to write into a triage file.

    Each list is bounded, and the page can be encoded as UTF-8.
    """
    alone = [
        f"{code(x, 60)} (content {n['content']:,}, verdict {n['verdict']:,}, choice {n['choice']:,})"
        for x, n in report.differences.dissenters().items()
    ]
    limits = {"ROWS": MAX_ROWS, "SKELETONS": MAX_SKELETONS}
    page = render(
        "diff.md",
        **_values(report),
        **limits,
        alone=alone,
        pairs=_pairs(report),
        toml_string=_toml_string,
    )
    return page.rstrip("\n") + "\n"


def _values(report: DiffReport) -> dict[str, Any]:
    """Return what both forms of a differential run show."""
    found = report.differences
    known = {d.input: d for d in found.found}
    clusters: dict[Kind, list[tuple[Cluster, Members]]] = {kind: [] for kind in KINDS}
    for cluster in found.clusters():
        clusters[cluster.kind].append((cluster, tuple(known[case] for case in cluster.cases)))
    choices: dict[str, list[Disagreement]] = {}
    for d in found.of("choice"):
        choices.setdefault(d.about.choice, []).append(d)
    unsafe = [
        (label, _counts(outcome for _, outcome in ends), [name for name, _ in ends])
        for label, ends in found.unsafe().items()
    ]
    return {
        "report": report,
        "SORTS": SORTS,
        "clusters": clusters,
        "choices": sorted(choices.items(), key=lambda x: (-len(x[1]), x[0])),
        "unsafe": unsafe,
        "subjects": _subjects,
        "cause_of": _cause_of,
        "again": _again,
    }


def _files(report: DiffReport) -> list[tuple[str, Disagreement | None, dict[str, str], list[str]]]:
    """Return what became of each file that was named by path, those that are disagreed on first.

    Returns:
        For each its name, the disagreement, the answers in words by label, and the kinds of answer.
    """
    found = {d.input: d for d in report.differences.found}
    rank = {name: i for i, name in enumerate(found)}
    rows = []
    for name in sorted(report.listed, key=lambda x: rank.get(x, len(rank))):
        answers = {label: in_words(answer) for label, answer in report.answers.get(name, {}).items()}
        kinds = sorted({words.partition(":")[0] for words in answers.values()})
        rows.append((name, found.get(name), answers, kinds))
    return rows


def in_words(answer: Mapping[str, Any]) -> str:
    """Say in a few words what a canonical dump holds: ``accept, 2 tensors, 1 metadata key``."""
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


def _pairs(report: DiffReport) -> list[tuple[tuple[str, str], Counter[Sort]]]:
    return [(pair, n) for pair, n in report.differences.pairs().items() if any(n.values())]


def _counts(words: Iterable[str]) -> str:
    return ", ".join(f"{word} {n:,}" for word, n in Counter(words).items())


def _subjects(members: Iterable[Disagreement]) -> str:
    """Return what the inputs have in common, most frequent first: ``OFF_HOLE (3), DTY-07 (2)``."""
    counts = Counter(d.about.subject for d in members).most_common()
    return listed([f"{visible(name, 80)} ({n:,})" for name, n in counts], MAX_SUBJECTS)


def _cause_of(signature: Signature) -> str:
    """Return what is special about the inputs of a signature in plain words, escaped."""
    subject = signature.found[0].about.subject
    book = rule_book()
    meanings = [book.codes[code].partition(" (")[0] for code in subject.split("+") if code in book.codes]
    if meanings:
        return listed(meanings, MAX_CODES)
    if subject in book.rules:
        return f"about {subject} ({book.rules[subject].title})"
    words = {"valid": "nothing is wrong with the input", "unknown": "not known"}
    return words.get(subject, visible(subject, 200))


def _again(report: DiffReport, example: Disagreement) -> str:
    """Return the command line that shows one disagreement again between two that disagree, escaped."""
    answered = {token: x for x, token in reversed(example.vector.items()) if token not in NO_VOTE}
    labels = example.between or tuple(answered.values())
    selectors = {who.label: who.selector for who in report.who}
    parts = ["stc", "diff"]
    for label in sorted(labels, key=list(example.vector).index):
        parts += ["--impl", selectors.get(label, label)]
    # A file name that begins with a hyphen would be taken for an option.
    path = f"./{example.input}" if example.input.startswith("-") else example.input
    parts += ["--case", example.input] if report.source.startswith("corpus") else [path]
    return visible(shlex.join(parts), 400)


def _toml_string(text: str) -> str:
    """Return a text as a TOML string that cannot leave a fenced block."""
    return json.dumps(visible(text, 2000).replace("`", "?"), ensure_ascii=True)
