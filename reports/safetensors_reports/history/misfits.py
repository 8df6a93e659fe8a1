"""Answers that tell of an adapter that does not fit a version, and nothing of the version itself.

An adapter is written for one release and drives others as well. Where an older one lacks what the adapter
calls, every question fails, whatever file it is about; compared with the next version that looks like many
bugs fixed at once. Two things give such an answer away. It comes from a missing name or a call of another
form. Or the same answer meets a file so basic that any reader takes it: the control of the experiment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from safetensors_corpus.judging.verdicts import fails, kind_of

Row = Mapping[str, Any]
"""One result of a run record: a step of a case."""

_MISSING = {"ImportError", "ModuleNotFoundError", "NameError", "ReferenceError"}
_NO_NAME = re.compile(r"has no attribute")
_OF_DATA = re.compile(
    r"'(NoneType|bool|bytes|dict|float|int|list|str|tuple)' object has no attribute"
    r"|module 'numpy' has no attribute"
)
"""A parser that trusts its input trips over what JSON gives it; that is its way of refusing a file.

A library may also miss what NumPy had once, for one dtype alone; where it does for all, the basic files tell.
"""
_OTHER_FORM = re.compile(
    r"unexpected keyword argument|takes .*positional argument|missing \d+ required .*argument"
    r"|is not a (function|constructor)\b"
)


def adapter_misfits(rows: Iterable[Row], control: Iterable[Row]) -> dict[str, str]:
    """Return the cases of which a run says nothing, each with the answer that gives it away.

    Args:
        rows: the results of a run.
        control: what the same version answered to basic files that every reader must take, each step of them.
    """
    failed = [row for row in control if _fails(row)]
    # An accepted file without words of its own is like any other.
    known = ({_answer(row) for row in failed} | {_wordless(row) for row in failed}) - {None}
    out: dict[str, str] = {}
    for row in rows:
        if kind_of(row["verdict"]) == "unsupported":
            continue
        if names_missing_api(row) or _answer(row) in known:
            out.setdefault(row["case"], _told(row))
    return out


def names_missing_api(row: Row) -> bool:
    """Say whether an answer is about a name or a call that is not there, as in a release before it came."""
    kind, message = row.get("exception") or "", row.get("message") or ""
    if row["outcome"] == "accept":
        return False
    if kind == "AttributeError":
        return bool(_NO_NAME.search(message)) and not _OF_DATA.search(message)
    return kind in _MISSING or (kind == "TypeError" and bool(_OTHER_FORM.search(message)))


def _fails(row: Row) -> bool:
    written = row["step"] in ("write", "sharded") and row["outcome"] == "accept"
    return fails(row["verdict"], strict=True) and not written


def _answer(row: Row) -> tuple[str, ...] | None:
    """Return what makes two answers the same one; None for an accepted file whose content is right.

    An exception is the same in every step. Other answers say less, so they must come from the same step.
    """
    if row["outcome"] == "accept":
        return (row["step"], "wrong-content") if kind_of(row["verdict"]) == "wrong-content" else None
    message = re.sub(r"\d+", "#", row.get("message") or "")
    if row.get("exception"):
        return (row["outcome"], row["exception"], message)
    return (row["step"], row["outcome"], message) if message else _wordless(row)


def _wordless(row: Row) -> tuple[str, ...]:
    return (row["step"], row["outcome"])


def _told(row: Row) -> str:
    return str(row.get("message") or row["detail"].rstrip(": ") or row["outcome"])
