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
``save_sharded`` ``(folder, tensors, metadata, max_shard_size)``: save in shards
``hold``       ``(path)``: a handle with ``tensor(name)`` like ``slice`` and ``close()``
``remote``     ``(url)``: like ``read`` or ``open``, of a file behind a server
``share``      ``(path)``: such a handle, for several threads and forked processes at the same time
``concurrent`` ``(path, action)``: like ``read``, for whoever carries out the action without ``share``
=============  ==============================================================================================

A refusal is any exception; ``NotImplementedError`` means not supported, ``MemoryError`` exhausted.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from safetensors_reference import explain, rule_book
from safetensors_reference.source import read_whole

from . import recipe
from .author.file import tensor_row
from .author.index import MODEL
from .author.slice import index_items
from .judging.answer import Answer, Flaw, Outcome
from .judging.judge import judge_step
from .judging.verdicts import fails
from .judging.written_file import MODE, flaws_of, snapshot
from .judging.written_folder import SavedFolder, aged_snapshot, flaws_of_folder
from .manifest import LARGEST_IN_MEMORY, Case, Expectation
from .server import FileServer
from .sharing import run_concurrent

MAX_FLAWS = 5
"""Rules told at most of those that a written file breaks."""


def run_case(case: Case, implementation: Any, folder: Path) -> Answer:
    """Do what ``case`` says in the empty ``folder``. Raises what is not an ``Exception`` only."""
    try:
        return _ACTIONS[case.kind](case, implementation, folder)
    except Exception as err:
        return _failed(err)


def _failed(err: BaseException) -> Answer:
    if isinstance(err, NotImplementedError):
        return Answer("unsupported", message=str(err))
    if isinstance(err, (MemoryError, RecursionError)):
        return Answer("exhausted", message=f"{type(err).__name__}: {err}")
    if isinstance(err, TimeoutError):
        return Answer("hang", message=str(err))
    outcome: Outcome = "reject" if isinstance(err, Exception) else "crash"
    return Answer(outcome, message=f"{type(err).__name__}: {err}")


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
            elif step["step"] == "try":
                _try_to_open(implementation, path)
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


def _remote(case: Case, implementation: Any, folder: Path) -> Answer:
    assert case.action is not None
    method = _method(implementation, "remote")
    path = case.set_up(folder)
    other = recipe.expand(case.action["bytes"]) if "bytes" in case.action else None
    data = read_whole(path, LARGEST_IN_MEMORY)
    with FileServer(data, case.action["server"], after=case.action.get("after", 0), other=other) as server:
        answer = accepted(method(server.url))
    count = len(server.log)
    requests = "1 request" if count == 1 else f"{count:,} requests"
    # No verdict hangs on it: the format does not say how much a reader may fetch.
    return replace(answer, message=f"{requests}, {server.sent:,} bytes sent of a file of {len(data):,}")


def _try_to_open(implementation: Any, path: Path) -> None:
    """Open and close a file that may be refused. Raises NotImplementedError."""
    hold = _method(implementation, "hold")
    try:
        handle = hold(path)
    except NotImplementedError:
        raise
    except Exception:
        return
    with contextlib.suppress(Exception):
        handle.close()


class _Shared:
    """An implementation with ``share`` as ``sharing`` asks it."""

    def __init__(self, implementation: Any, path: Path) -> None:
        self._share = _method(implementation, "share")
        self._path = path

    def open(self) -> Any:
        return self._share(self._path)

    def take(self, handle: Any, name: str) -> Any:
        return handle.tensor(name)

    def look(self, name: str, taken: Any) -> dict[str, Any]:
        row = _one(name, taken)[0]
        return row if isinstance(row, dict) else _row(row)

    def close(self, handle: Any) -> None:
        handle.close()

    def failed(self, err: BaseException) -> dict[str, Any]:
        answer = _failed(err)
        return {"outcome": answer.outcome, "message": answer.message}


def _concurrent(case: Case, implementation: Any, folder: Path) -> Answer:
    assert case.action is not None
    path = case.set_up(folder)
    if hasattr(implementation, "concurrent"):
        return accepted(implementation.concurrent(path, case.action))
    return Answer(**run_concurrent(case.action, _Shared(implementation, path)))


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


@dataclass(frozen=True)
class GivenTensor:
    """A tensor as a view into memory.

    Attributes:
        name: a string, or something that must be refused.
        dtype: code of the format, or an element type that it does not have.
        shape: dimensions in elements.
        storage: the memory; tensors that share memory have the same object here.
        offset: position of the first element, in bytes.
        strides: bytes between neighbours along each dimension; None for contiguous row-major order.
        byteorder: ``little`` or ``big``, of the elements in memory.
        nbytes: how many bytes from ``offset`` on are handed over, where that is not what dtype and shape
            need; None where it is. Such a tensor exists only for writers that take buffers, others cannot
            be asked (NotImplementedError).
    """

    name: Any
    dtype: str
    shape: tuple[int, ...]
    storage: bytearray
    offset: int
    strides: tuple[int, ...] | None
    byteorder: str
    nbytes: int | None = None


def given_tensors(action: Mapping[str, Any]) -> list[GivenTensor]:
    memory = {name: bytearray(recipe.expand(parts)) for name, parts in action["storages"].items()}
    return [
        GivenTensor(
            given_text(t["name"]),
            t["dtype"],
            tuple(t["shape"]),
            memory[t["storage"]],
            t["offset"],
            None if t["strides"] is None else tuple(t["strides"]),
            t["byteorder"],
            t.get("nbytes"),
        )
        for t in action["tensors"]
    ]


def given_text(value: Any) -> Any:
    """Return a name or metadata text of a write action; one that JSON cannot carry is spelled in parts.

    The parts make the text in UTF-8, lone surrogates encoded like other characters. Everything that is not
    spelled so is returned as it is.
    """
    return recipe.text_of(value) if isinstance(value, Mapping) and value.keys() == {"parts"} else value


def given_metadata(value: Any) -> Any:
    return recipe.map_of(value, given_text) if isinstance(value, Mapping) else value


def _write(case: Case, implementation: Any, folder: Path) -> Answer:
    """Write, and return what the file holds and what is wrong about it.

    Raises NotImplementedError and MemoryError of the implementation.
    """
    action = case.action
    assert action is not None
    target = _prepare(case, folder)
    before = snapshot(folder)
    # An implementation in a process of its own is limited there.
    itself = getattr(implementation, "limits_file_size", False)
    answer = Answer("accept")
    try:
        with _file_size_limit(None if itself else action.get("file_size_limit")):
            save(implementation, action, target)
    except (NotImplementedError, MemoryError):
        raise
    except Exception as err:
        answer = Answer("reject", f"{type(err).__name__}: {err}")
    else:
        answer = written_file(target)
    flaws = flaws_of(_wanted(case), answer.outcome, implementation, action, target, before, save)
    return replace(answer, flaws=(*answer.flaws, *flaws))


def _sharded(case: Case, implementation: Any, folder: Path) -> Answer:
    """Save in shards, and return the model that the folder holds and what is wrong about it.

    Raises NotImplementedError and MemoryError of the implementation.
    """
    action = case.action
    assert action is not None
    case.set_up(folder)
    model = folder / MODEL
    model.mkdir(exist_ok=True)
    before = aged_snapshot(folder)
    method = _method(implementation, "save_sharded")
    itself = getattr(implementation, "limits_file_size", False)
    outcome, message = "accept", ""
    try:
        with _file_size_limit(None if itself else action.get("file_size_limit")):
            given = given_tensors(action), given_metadata(action["metadata"])
            method(model, *given, action["max_shard_size"])
    except (NotImplementedError, MemoryError):
        raise
    except Exception as err:
        outcome, message = "reject", f"{type(err).__name__}: {err}"
    saved = SavedFolder(folder, before, action, outcome, written_file)
    answer = saved.answer()
    flaws = (*answer.flaws, *flaws_of_folder(_wanted(case), saved))
    return replace(answer, message=message, flaws=flaws)


def save(implementation: Any, action: Mapping[str, Any], target: Path) -> None:
    """Have the implementation do what the action says, to ``target``. Raises what it raises."""
    if action["target"] == "input":
        method = getattr(implementation, "resave", None)
        if method is None:
            raise NotImplementedError("has no resave")
        method(target)
        return
    method = getattr(implementation, "write", None)
    if method is None:
        raise NotImplementedError("has no write")
    method(target, given_tensors(action), given_metadata(action["metadata"]))


def _prepare(case: Case, folder: Path) -> Path:
    assert case.action is not None
    target = case.action["target"]
    if target == "missing-folder":
        return folder / "missing" / "file.safetensors"
    path = case.set_up(folder)
    if path.exists():
        path.chmod(MODE)
    if target == "link":
        link = folder / "link.safetensors"
        link.symlink_to(path.name)
        return link
    return path


def _wanted(case: Case) -> list[str]:
    return list(dict.fromkeys(p for demand in case.demands for p in demand.properties))


@contextlib.contextmanager
def _file_size_limit(limit: int | None) -> Iterator[None]:
    """Let this process write no file larger than ``limit`` bytes, as a full disk would."""
    if limit is None:
        yield
        return
    import resource

    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


def written_file(path: Path) -> Answer:
    """Read a written file strictly: what it holds, and the rules that it breaks.

    The content is told as far as a reader can have it who takes the most tolerant option of each open choice,
    so that such a fault says nothing about the rest of the file.
    """
    try:
        data = read_whole(path, LARGEST_IN_MEMORY)
    except OSError as err:
        why = str(err).removeprefix(f"{path}: ")
        return Answer("accept", flaws=(Flaw("missing", "", f"no file was written: {why}"),))
    found = explain(data, "text")
    header = found.header
    if found.faults:
        open_ones = all(f.choice is not None and _open(f.choice) for f in found.faults)
        header = explain(data, "official").header if open_ones else None
    first = {fault.rule: fault for fault in reversed(found.faults)}
    flaws = tuple(
        Flaw("valid", rule, f"the file breaks {rule} ({fault.code}): {fault.message}", fault.choice)
        for rule, fault in list(reversed(first.items()))[:MAX_FLAWS]
    )
    if header is None:
        return Answer("accept", flaws=flaws)
    rows = []
    for tensor in header.tensors.values():
        part = data[header.data_start + tensor.begin : header.data_start + tensor.end]
        rows.append(tensor_row(tensor.name, tensor.dtype, tensor.shape, part))
    metadata = None if header.metadata is None else dict(header.metadata)
    return Answer("accept", tensors=rows, metadata=metadata, has_metadata=True, flaws=flaws)


def _open(choice: str) -> bool:
    return rule_book().choices[choice].required is None


_ACTIONS = {
    "read": _read,
    "resource": _read,
    "slice": _slice,
    "index": _index,
    "write": _write,
    "sharded": _sharded,
    "lifecycle": _lifecycle,
    "remote": _remote,
    "concurrent": _concurrent,
}


def permitted_expectations(case: Case) -> list[Expectation]:
    """Return the answers that a case permits: one, or those of all options of an open choice."""
    if case.expect is not None:
        return [case.expect]
    required = rule_book().choices[case.choice or ""].required
    return list(case.options.values()) if required is None else [case.options[required]]


def mismatch(case: Case, answer: Answer) -> str | None:
    """Say why an answer is not one that the case permits; None when it is, or when it is no answer.

    What misses a recommendation is no such answer either, nor is a refusal of what a reader need not have:
    who is asked here has all of it.
    """
    step = "open" if case.steps == ("open",) else case.steps[-1]
    judged = judge_step(case, step, {step: answer})
    refused = judged.verdict == "unsupported" and answer.outcome == "reject"
    wrong = refused or fails(judged.verdict, strict=True)
    return judged.detail or judged.verdict if wrong else None
