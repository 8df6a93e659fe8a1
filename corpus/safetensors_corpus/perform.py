"""Doing what a case says with an implementation in this process, and holding the answer against the case.

The harness runs implementations in processes of their own; this is for implementations that are trusted not
to crash: the deliberately broken ones that prove that every case can fail, and the tests of the cases.

An implementation is any object with the methods of the kinds that it has:

=============  ==============================================================================================
``open``       ``(path)``: the tensors without their data, as ``read``
``read``       ``(path)``: ``{"tensors": rows, "metadata": map or None}`` or the rows alone; a row is
               ``(name, dtype, shape, data)`` or a dict of the manifest's form
``slice``      ``(path, tensor, index)``: ``(dtype, shape, data)``; ``index`` is a tuple of Python index items
``write``      ``(path, tensors, metadata)`` with ``GivenTensor`` values
``resave``     ``(path)``: load the file and save what it holds to the same path
``index``      ``(path)``: like ``read``, through an index file
``hold``       ``(path)``: a handle with ``tensor(name)`` like ``slice`` and ``close()``
=============  ==============================================================================================

A refusal is any exception; ``NotImplementedError`` means not supported, ``MemoryError`` exhausted.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors_reference.rules.book import rule_book

from . import recipe
from .author.slice import index_items
from .judging.answer import Answer
from .judging.judge import judge_step
from .judging.verdicts import fails
from .manifest import Case, Expectation
from .writing import write_case


def perform(case: Case, implementation: Any, folder: Path) -> Answer:
    """Do what ``case`` says in the empty ``folder``. Raises what is not an ``Exception`` only."""
    try:
        return _ACTIONS[case.kind](case, implementation, folder)
    except NotImplementedError as err:
        return Answer("unsupported", message=str(err))
    except (MemoryError, RecursionError) as err:
        return Answer("exhausted", message=f"{type(err).__name__}: {err}")
    except TimeoutError as err:
        return Answer("hang", message=str(err))
    except Exception as err:
        return Answer("reject", message=f"{type(err).__name__}: {err}")


def _read(case: Case, implementation: Any, folder: Path) -> Answer:
    if case.action is not None:
        return _slice(case, implementation, folder)
    # Who has no separate opening shows what a file costs when reading it, as in the harness.
    known = ("read", *case.steps) if case.kind == "resource" else case.steps
    steps = [s for s in known if hasattr(implementation, s)]
    if not steps:
        raise NotImplementedError("has none of the steps")
    return accepted(getattr(implementation, steps[-1])(case.path))


def _slice(case: Case, implementation: Any, folder: Path) -> Answer:  # noqa: ARG001
    assert case.action is not None
    name, index = case.action["tensor"], index_items(case.action["index"])
    return accepted(_one(name, _method(implementation, "slice")(case.path, name, index)))


def _index(case: Case, implementation: Any, folder: Path) -> Answer:
    return accepted(_method(implementation, "index")(case.set_up(folder)))


def _write(case: Case, implementation: Any, folder: Path) -> Answer:
    return write_case(case, implementation, folder)


def _lifecycle(case: Case, implementation: Any, folder: Path) -> Answer:
    assert case.action is not None
    path = case.set_up(folder)
    # Readers that look for a change by the file's time could miss one within a tick of the clock.
    old = time.time() - 3600
    os.utime(path, (old, old))
    handle: Any = None
    taken: tuple[str, Any] | None = None
    try:
        for step in case.action["script"]:
            if step["step"] == "open":
                handle = _method(implementation, "hold")(path)
            elif step["step"] == "tensor":
                taken = (step["tensor"], handle.tensor(step["tensor"]))
            elif step["step"] == "close":
                handle.close()
            else:
                change(path, step)
    finally:
        if handle is not None and not any(s["step"] == "close" for s in case.action["script"]):
            with contextlib.suppress(NotImplementedError):
                handle.close()
    # Looked at only now: a tensor that is a view of the file shows what became of the file.
    return accepted([] if taken is None else _one(*taken))


_ACTIONS = {
    "read": _read,
    "resource": _read,
    "slice": _slice,
    "index": _index,
    "write": _write,
    "lifecycle": _lifecycle,
}


def change(path: Path, step: Mapping[str, Any]) -> None:
    """Change a file the way one step of a lifecycle script says. Raises OSError."""
    what = step["step"]
    if what == "unlink":
        path.unlink()
    elif what == "truncate":
        with path.open("r+b") as file:
            file.truncate(step["size"])
    elif what == "replace":
        other = path.with_name(path.name + ".new")
        other.unlink(missing_ok=True)  # a FIFO that a reader put there would be waited for
        recipe.write(step["bytes"], other)
        other.replace(path)
    else:
        with path.open("r+b") as file:
            if what == "rewrite":
                file.seek(step["at"])
            else:
                file.seek(0, 2)
            file.write(recipe.expand(step["bytes"]))


def _one(name: str, answer: Any) -> list[Any]:
    """Return the rows for one tensor: ``(dtype, shape, data)``, a row, or a call that gives one."""
    if callable(answer):
        answer = answer()
    return [answer if isinstance(answer, dict) else (name, *answer)]


def _method(implementation: Any, name: str) -> Any:
    method = getattr(implementation, name, None)
    if method is None:
        raise NotImplementedError(f"has no {name}")
    return method


def accepted(answer: Any) -> Answer:
    """Return an answer in the manifest's form, with digests in place of data."""
    told = answer if isinstance(answer, Mapping) else {"tensors": answer}
    rows = [row if isinstance(row, dict) else _row(row) for row in told["tensors"]]
    return Answer("accept", "", rows, told.get("metadata"), "metadata" in told)


def _row(row: Sequence[Any]) -> dict[str, Any]:
    name, dtype, shape, *rest = row
    out = {"name": name, "dtype": dtype, "shape": None if shape is None else list(shape)}
    if rest and rest[0] is not None:
        data = bytes(rest[0])
        out |= {"nbytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return out


def permitted(case: Case) -> list[Expectation]:
    """Return the answers that a case permits: one, or those of all options of an open choice."""
    if case.expect is not None:
        return [case.expect]
    required = rule_book().choices[case.choice or ""].required
    return list(case.options.values()) if required is None else [case.options[required]]


def failure(case: Case, answer: Answer) -> str | None:
    """Say why an answer is not one that the case permits; None when it is, or when it is no answer.

    What misses a recommendation is no such answer either, nor is a refusal of what a reader need not have:
    who is asked here has all of it.
    """
    step = "open" if case.steps == ("open",) else case.steps[-1]
    judged = judge_step(case, step, {step: answer})
    refused = judged.verdict == "unsupported" and answer.outcome == "reject"
    wrong = refused or fails(judged.verdict, strict=True)
    return judged.detail or judged.verdict if wrong else None
