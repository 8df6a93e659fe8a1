"""Signatures of disagreement read as causes: what is wrong with the inputs, in words, and how to see it."""

from __future__ import annotations

import shlex

from safetensors_reference import rule_book

from ..text import listed, visible
from .report import DiffReport
from .signatures import SILENT, Disagreement, Signature

_CODES = 2


def cause_of(signature: Signature) -> str:
    """Return what is special about the inputs of a signature in plain words, escaped."""
    subject = signature.found[0].about.subject
    book = rule_book()
    told = [book.codes[code].partition(" (")[0] for code in subject.split("+") if code in book.codes]
    if told:
        return listed(told, _CODES)
    if subject in book.rules:
        return f"about {subject} ({book.rules[subject].title})"
    return {"valid": "nothing is wrong with the input", "unknown": "not known"}.get(
        subject, visible(subject, 200)
    )


def example_of(signature: Signature) -> Disagreement:
    """Return the disagreement to look at first: one with its difference in words, by the shortest name."""
    return min(signature.found, key=lambda d: (not d.difference, len(d.input), d.input))


def again(report: DiffReport, example: Disagreement) -> str:
    """Return the command line that shows one disagreement again between two that disagree, escaped."""
    told = {token: x for x, token in reversed(example.vector.items()) if token not in SILENT}
    labels = example.between or tuple(told.values())
    selectors = {who.label: who.selector for who in report.who}
    parts = ["stc", "diff"]
    for label in sorted(labels, key=list(example.vector).index):
        parts += ["--impl", selectors.get(label, label)]
    parts += ["--case", example.input] if report.source.startswith("corpus") else [_operand(example.input)]
    return visible(shlex.join(parts), 400)


def _operand(name: str) -> str:
    """Return a file name that no command takes for an option."""
    return f"./{name}" if name.startswith("-") else name
