"""What an answer is called: the token and signature that findings are told apart by, and lines for people."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from safetensors_conformance.judge import StepVerdict
from safetensors_reports.disagreements import signature_of

from ..finding import ADAPTER_ERROR
from .question import Question

_FAULT = re.compile(r"\b([A-Z]{3}_[A-Z0-9_]+) \(")
_FOLDER = re.compile(r"[^\s'\"]*(?:safetensors-case-|stc-fuzz-)[^\s'\"/]*/?")
"""Paths of this run's own folders, which are different in each."""


def token(question: Question, judged: StepVerdict) -> str:
    """Return what came in a word: the outcome, or what is wrong with an accepted one."""
    if judged.verdict == "harness-error":
        return ADAPTER_ERROR
    if judged.verdict == "wrong-reject" and judged.result.exception:
        return f"reject:{judged.result.exception}"
    if judged.verdict != "wrong-content":
        return judged.result.outcome
    if judged.result.fault:
        codes = sorted(set(_FAULT.findall(judged.result.fault)))
        return f"wrong-content:{'+'.join(codes) or 'no-file'}"
    if judged.result.broken:
        return f"wrong-content:{'+'.join(sorted(judged.result.broken))}"
    return f"wrong-content:{_aspect(question, judged)}"


def _aspect(question: Question, judged: StepVerdict) -> str:
    """Return what of the content is wrong, compared with the first option that answers."""
    options = question.expectation.get("options") or {"": question.expectation}
    content = next((o["content"] for o in options.values() if "content" in o), None)
    if content is None or judged.result.tensors is None:
        return "content"
    want = {row["name"]: row for row in content["tensors"]}
    got = {row["name"]: row for row in judged.result.tensors}
    if set(want) != set(got) or len(got) != len(judged.result.tensors):
        return "names"
    for key in ("dtype", "shape", "nbytes", "sha256"):
        if any(got[n].get(key) is not None and got[n][key] != row[key] for n, row in want.items()):
            return "bytes" if key in ("nbytes", "sha256") else key
    return "metadata"


def signature(name: str, question: Question, judged: StepVerdict, subject: str = "") -> str:
    """Return the text that findings are told apart by: ``API-05: accept expected; crash mlx (slice)``.

    ``name`` is that of the implementation; ``subject`` takes the place of the question's own.
    """
    wanted = "choice" if "choice" in question.expectation else question.expectation["outcome"]
    vector = {"expected": wanted, "answer": token(question, judged)}
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
