"""What an answer is called: the token and signature that findings are told apart by, and lines for people."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from safetensors_conformance.verdict.judge import StepVerdict
from safetensors_corpus.judging.verdicts import effect_of
from safetensors_reports.differences.signatures import signature_of

from ..findings.finding import ADAPTER_ERROR
from .question import Question

_FAULT = re.compile(r"\(([A-Z]{3}_[A-Z0-9_]+)\)")
_FOLDER = re.compile(r"[^\s'\"]*(?:safetensors-case-|stc-fuzz-)[^\s'\"/]*/?")
"""Paths of this run's own folders, which are different in each."""


def token(judged: StepVerdict) -> str:
    """Return what came in a word: the outcome, or what is wrong with an accepted one."""
    if judged.verdict == "harness-error":
        return ADAPTER_ERROR
    effect = effect_of(judged.verdict)
    if effect == "reject" and judged.result.exception:
        return f"reject:{judged.result.exception}"
    if effect != "content":
        return judged.result.outcome
    invalid = sorted({flaw.text for flaw in judged.result.flaws if flaw.property == "valid"})
    if invalid:
        codes = sorted({code for text in invalid for code in _FAULT.findall(text)})
        return f"wrong-content:{'+'.join(codes) or 'no-file'}"
    parts = {"bytes" if f.property == "nbytes" else f.property for f in judged.failures}
    return f"wrong-content:{'+'.join(sorted(parts - {'exception', 'cost'}))}"


def signature(name: str, question: Question, judged: StepVerdict, subject: str = "") -> str:
    """Return the text that findings are told apart by: ``API-05: accept expected; crash mlx (slice)``.

    ``name`` is that of the implementation; ``subject`` takes the place of the question's own.
    """
    wanted = "choice" if "choice" in question.expectation else question.expectation["outcome"]
    vector = {"expected": wanted, "answer": token(judged)}
    names = {"expected": "expected", "answer": f"{name} ({question.step})"}
    return signature_of(subject or question.subject, vector, names)


def expected_line(question: Question) -> str:
    """Return in one line what is demanded."""
    expectation = question.expectation
    if "choice" in expectation:
        options = "; ".join(f"{name}: {_demand(o)}" for name, o in expectation["options"].items())
        return f"choice {expectation['choice']} ({options})"
    return _demand(expectation)


def _demand(expectation: Mapping[str, Any]) -> str:
    if expectation["outcome"] == "reject":
        text = f"reject ({', '.join(expectation['codes'])})"
    else:
        rows = expectation["content"]["tensors"]
        shown = ", ".join(f"{row['dtype']} {row['shape']}" for row in rows[:3])
        text = f"accept, {len(rows)} tensors" if len(rows) > 3 else f"accept, {shown or 'no tensors'}"
    properties = expectation.get("properties", ())
    return f"{text}, {', '.join(properties)}" if properties else text


def got_line(judged: StepVerdict) -> str:
    """Return in one line what came, without the names of this run's folders."""
    text = judged.detail or judged.result.message or judged.result.outcome
    if not text.startswith(judged.result.outcome):
        text = f"{judged.result.outcome}: {text}"
    return " ".join(_FOLDER.sub("", text).split())[:300]
