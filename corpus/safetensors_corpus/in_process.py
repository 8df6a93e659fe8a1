"""Run cases on an implementation in this process.

The harness runs implementations in separate processes. This module is for implementations that do not crash.
The tests of the cases use it. The proof that every case can fail also uses it, with deliberately broken
implementations.

An implementation is any object with some of these methods:

=============  ==============================================================================================
``open``       ``(path)``: return the same result as ``read``, but without the data
``read``       ``(path)``: return ``{"tensors": rows, "metadata": map or None}`` or only the rows; a row is
               ``(name, dtype, shape, data)`` or a dict in the form of the manifest
``slice``      ``(path, tensor, index)``: return ``(dtype, shape, data)``; ``index`` is a tuple of Python
               index items
``write``      ``(path, tensors, metadata)``: write a file; the tensors are ``GivenTensor`` values
``resave``     ``(path)``: load the file and save its content to the same path
``index``      ``(path)``: like ``read``, but through an index file
``save_sharded`` ``(folder, tensors, metadata, max_shard_size)``: save in shards
``export``     ``(path, folder)``: write the tensors to files in a folder
``hold``       ``(path)``: return a handle with ``tensor(name)``, which is like ``slice``, and ``close()``
``remote``     ``(url)``: like ``read`` or ``open``, but from a server
``share``      ``(path)``: like ``hold``, but threads and forked processes share the handle
``concurrent`` ``(path, action)``: like ``read``; performs the whole action, so ``share`` is not needed
``usage``      ``()``: return the resources of its process as ``repeating.Usage``, if it is another process
``write_at_once`` ``(path, actions)``: perform several write actions at the same time, each in its own process
=============  ==============================================================================================

Any exception means reject, except ``NotImplementedError`` (unsupported) and ``MemoryError`` (exhausted).
"""

from __future__ import annotations

import contextlib
import hashlib
import multiprocessing
import os
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from safetensors_reference import explain, rule_book
from safetensors_reference.source import read_whole
from safetensors_reference.text import plural

from . import recipe
from .author.actions import index_items
from .author.index import MODEL
from .judging.answer import Answer, Flaw, Outcome
from .judging.content import tensor_row
from .judging.exported_folder import entries, flaws_of_export, set_up_export
from .judging.judge import judge_step
from .judging.verdicts import fails
from .judging.written_file import MODE, SavedFile, flaws_of_file, snapshot
from .judging.written_folder import (
    MAX_FLAWS,
    NOTHING_LEFT,
    SavedFolder,
    aged_snapshot,
    flaws_of_folder,
)
from .manifest import LARGEST_IN_MEMORY, Case
from .placing import PLACES, put
from .repeating import usage_of, what_stays
from .server import FileServer
from .sharing import run_concurrent

Action = Mapping[str, Any]


def run_case(case: Case, implementation: Any, folder: Path) -> Answer:
    """Run a case in the empty ``folder``. If an ``Exception`` is raised, it becomes part of the answer."""
    try:
        return _ACTIONS[case.kind](case, case.action or {}, implementation, folder)
    except Exception as err:
        return _failed(err)


def _failed(err: BaseException) -> Answer:
    if isinstance(err, NotImplementedError):
        return Answer("unsupported", message=str(err))
    if isinstance(err, (MemoryError, RecursionError)):
        return Answer("exhausted", message=f"{type(err).__name__}: {err}")
    if isinstance(err, TimeoutError):
        return Answer("hang", message=str(err))
    if isinstance(err, ReplacedInputError):
        return Answer("harness-error", message=str(err))
    outcome: Outcome = "reject" if isinstance(err, Exception) else "crash"
    return Answer(outcome, message=f"{type(err).__name__}: {err}")


def _read(case: Case, action: Action, implementation: Any, folder: Path) -> Answer:
    if action:
        return _slice(case, action, implementation, folder)
    # Without an ``open`` step, the function measures the cost of reading the file, as the harness does.
    candidates = ("read", *case.steps) if case.kind == "resource" else case.steps
    steps = [s for s in candidates if hasattr(implementation, s)]
    if not steps:
        raise NotImplementedError("does not implement any of the steps")
    return accepted(getattr(implementation, steps[-1])(case.path))


def _slice(case: Case, action: Action, implementation: Any, folder: Path) -> Answer:  # noqa: ARG001
    name, index = action["tensor"], index_items(action["index"])
    return accepted(_one(name, _method(implementation, "slice")(case.path, name, index)))


def _lifecycle(case: Case, action: Action, implementation: Any, folder: Path) -> Answer:
    path = case.set_up(folder)
    # A reader that detects changes by timestamp could miss a change within one tick of the clock.
    old = time.time() - 3600
    os.utime(path, (old, old))
    handle: Any = None
    taken: tuple[str, Any] | None = None
    # The program may replace the folder by a link before the harness changes the file.
    inside = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for step in action["script"]:
            if step["step"] == "open":
                handle = _method(implementation, "hold")(path)
            elif step["step"] == "try":
                _try_to_open(implementation, path)
            elif step["step"] == "tensor":
                taken = (step["tensor"], handle.tensor(step["tensor"]))
            elif step["step"] == "close":
                handle.close()
            else:
                change(path.name, inside, step)
    finally:
        os.close(inside)
        if handle is not None and not any(s["step"] == "close" for s in action["script"]):
            with contextlib.suppress(NotImplementedError):
                handle.close()
    # Convert the result only now, because a tensor may be a view of the file.
    return accepted([] if taken is None else _one(*taken))


def _remote(case: Case, action: Action, implementation: Any, folder: Path) -> Answer:
    method = _method(implementation, "remote")
    path = case.set_up(folder)
    other = recipe.expand(action["bytes"]) if "bytes" in action else None
    data = read_whole(path, LARGEST_IN_MEMORY)
    with FileServer(data, action["server"], after=action.get("after", 0), other=other) as server:
        answer = accepted(method(server.url))
    requests = plural(len(server.log), "request")
    # This is for information only, because the format does not limit how much a reader may fetch.
    return replace(
        answer,
        message=f"{requests}; the server sent {server.sent:,} of {len(data):,} bytes",
    )


def _try_to_open(implementation: Any, path: Path) -> None:
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
    """Adapts an implementation with ``share`` to ``sharing.Subject``."""

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


def _concurrent(case: Case, action: Action, implementation: Any, folder: Path) -> Answer:
    path = case.set_up(folder)
    if hasattr(implementation, "concurrent"):
        return accepted(implementation.concurrent(path, action))
    return Answer(**run_concurrent(action, _Shared(implementation, path)))


def _placed(case: Case, action: Action, implementation: Any, folder: Path) -> Answer:
    path = put(case.set_up, PLACES[action["place"]], folder)
    return accepted(_method(implementation, case.steps[-1])(path))


def _repeated(case: Case, action: Action, implementation: Any, folder: Path) -> Answer:
    path = case.set_up(folder)
    handle: Any = None
    answer = Answer("reject")

    def run() -> None:
        nonlocal handle, answer
        try:
            for step in action["requests"]:
                if step == "read":
                    answer = accepted(_method(implementation, "read")(path))
                elif step == "hold":
                    handle = _method(implementation, "hold")(path)
                elif step == "tensor":
                    answer = accepted(_one(action["tensor"], handle.tensor(action["tensor"])))
                else:
                    handle.close()
        except NotImplementedError:
            raise
        except Exception as err:
            answer = _failed(err)

    usage = getattr(implementation, "usage", usage_of)
    stays = what_stays(run, action["times"], case.size, usage)
    return replace(answer, flaws=(Flaw(NOTHING_LEFT, "", stays),) if stays else ())


class ReplacedInputError(Exception):
    """The file that the harness has to change is not its own any more."""


def change(name: str, folder: int, step: Action) -> None:
    """Apply a step of a lifecycle script to a file in an open folder. Raises OSError, ReplacedInputError."""
    kind = step["step"]
    if kind == "unlink":
        os.unlink(name, dir_fd=folder)
    elif kind == "replace":
        new = f"{name}.new"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new, dir_fd=folder)
        created = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=folder)
        with os.fdopen(created, "wb") as file:
            recipe.write(step["bytes"], file)
        os.replace(new, name, src_dir_fd=folder, dst_dir_fd=folder)
    else:
        with _own_file(name, folder) as file:
            if kind == "truncate":
                file.truncate(step["size"])
                return
            if kind == "rewrite":
                file.seek(step["at"])
            else:
                file.seek(0, os.SEEK_END)
            file.write(recipe.expand(step["bytes"]))


def _own_file(name: str, folder: int) -> BinaryIO:
    """Open a file for changes, unless a program replaced it by a link to a file of somebody else."""
    try:
        descriptor = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError as err:
        raise ReplacedInputError(f"the program replaced its input: {err.strerror}") from err
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        os.close(descriptor)
        raise ReplacedInputError("the program replaced its input by a link or a special file")
    return os.fdopen(descriptor, "r+b")


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
    """Convert the result of an implementation to an answer with digests in place of data."""
    content = answer if isinstance(answer, Mapping) else {"tensors": answer}
    rows = content["tensors"]
    if rows is not None:
        rows = [row if isinstance(row, dict) else _row(row) for row in rows]
    return Answer("accept", "", rows, content.get("metadata"), "metadata" in content)


def _row(row: Sequence[Any]) -> dict[str, Any]:
    name, dtype, shape, *rest = row
    out = {"name": name, "dtype": dtype, "shape": None if shape is None else list(shape)}
    if rest and rest[0] is not None:
        data = bytes(rest[0])
        out |= {"nbytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return out


@dataclass(frozen=True)
class GivenTensor:
    """A tensor as a view of memory, with the fields of ``WriteBuilder.tensor``.

    Tensors that share memory have the same ``storage`` object. A writer that does not accept buffers raises
    NotImplementedError if ``nbytes`` is set.
    """

    name: Any
    dtype: str
    shape: tuple[int, ...]
    storage: bytearray
    offset: int
    strides: tuple[int, ...] | None
    byteorder: str
    nbytes: int | None = None


def given_tensors(action: Action) -> list[GivenTensor]:
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
    """Expand a string that a write action specifies in parts. Returns other values unchanged."""
    return recipe.text_of(value) if isinstance(value, Mapping) and value.keys() == {"parts"} else value


def given_metadata(value: Any) -> Any:
    return recipe.map_of(value, given_text) if isinstance(value, Mapping) else value


def _write(case: Case, action: Action, implementation: Any, folder: Path) -> Answer:
    target = _prepare(case, action["target"], folder)
    before = snapshot(folder)
    perform, rounds = (save_at_once, ROUNDS) if case.kind == "contended" else (save, 1)
    for _ in range(rounds):
        refusal = _refusal(implementation, action, lambda: perform(implementation, action, target))
        answer = Answer("reject", refusal) if refusal else written_file(target)
        saved = SavedFile(answer.outcome, implementation, action, target, before, save)
        answer = replace(answer, flaws=(*answer.flaws, *flaws_of_file(_wanted(case), saved)))
        if refusal or answer.flaws:
            break
    return answer


ROUNDS = 4
"""How often to repeat saves at the same time, because it is a matter of chance whether they overlap."""


def save_at_once(implementation: Any, action: Action, target: Path) -> None:
    """Perform each save of a write action in a separate process. Raises RuntimeError if a save fails."""
    parts = [
        {**action, "tensors": [t for t in action["tensors"] if t["name"] in names]}
        for names in action["savers"]
    ]
    if hasattr(implementation, "write_at_once"):
        implementation.write_at_once(target, parts)
        return
    processes = multiprocessing.get_context("fork")
    results = processes.SimpleQueue()

    def run(part: Action) -> None:
        try:
            save(implementation, part, target)
            results.put("")
        except Exception as err:
            results.put(f"{type(err).__name__}: {err}")

    savers = [processes.Process(target=run, args=(part,)) for part in parts]
    for saver in savers:
        saver.start()
    failures = [failure for failure in [results.get() for _ in savers] if failure]
    for saver in savers:
        saver.join()
    if failures:
        raise RuntimeError(f"{len(failures)} of {len(savers)} saves fail; {failures[0]}")


def _sharded(case: Case, action: Action, implementation: Any, folder: Path) -> Answer:
    case.set_up(folder)
    model = folder / MODEL
    model.mkdir(exist_ok=True)
    before = aged_snapshot(folder)
    method = _method(implementation, "save_sharded")

    def run() -> None:
        given = given_tensors(action), given_metadata(action["metadata"])
        method(model, *given, action["max_shard_size"])

    refusal = _refusal(implementation, action, run)
    saved = SavedFolder(folder, before, action, "reject" if refusal else "accept", written_file)
    answer = saved.answer()
    flaws = (*answer.flaws, *flaws_of_folder(_wanted(case), saved))
    return replace(answer, message=refusal, flaws=flaws)


def _export(case: Case, action: Action, implementation: Any, folder: Path) -> Answer:
    source, target = set_up_export(case, folder)
    method = _method(implementation, "export")
    before = entries(folder)
    try:
        refusal = _refusal(implementation, action, lambda: method(source, target))
    except NotImplementedError as err:
        if not flaws_of_export(folder, before, action, refused=True):
            raise
        refusal = f"unsupported: {err}"
    flaws = flaws_of_export(folder, before, action, refused=bool(refusal))
    return Answer("reject" if refusal else "accept", refusal, flaws=tuple(flaws))


def save(implementation: Any, action: Action, target: Path) -> None:
    """Execute a write action on ``target``. Raises any error of the implementation."""
    if action["target"] == "input":
        _method(implementation, "resave")(target)
    else:
        method = _method(implementation, "write")
        method(target, given_tensors(action), given_metadata(action["metadata"]))


def _prepare(case: Case, target: str, folder: Path) -> Path:
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


def _refusal(implementation: Any, action: Action, save: Callable[[], None]) -> str:
    """Save, and return the exception that the writer raises to reject the input, or an empty string."""
    with contextlib.ExitStack() as stack:
        # The limit simulates a full disk. An implementation in another process sets the limit there.
        if "file_size_limit" in action and not getattr(implementation, "limits_file_size", False):
            import resource

            old = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (action["file_size_limit"], old[1]))
            stack.callback(resource.setrlimit, resource.RLIMIT_FSIZE, old)
        try:
            save()
        except (NotImplementedError, MemoryError):
            raise
        except Exception as err:
            return f"{type(err).__name__}: {err}"
    return ""


def written_file(path: Path) -> Answer:
    """Return the rules that a file breaks, and its content if all of its faults concern open choices."""
    try:
        data = read_whole(path, LARGEST_IN_MEMORY)
    except OSError as err:
        why = str(err).removeprefix(f"{path}: ")
        return Answer("accept", flaws=(Flaw("missing", "", f"no file was written: {why}"),))
    explanation = explain(data, "text")
    header = explanation.header
    if explanation.faults:
        choices = rule_book().choices
        tolerable = all(f.choice and choices[f.choice].required is None for f in explanation.faults)
        header = explain(data, "official").header if tolerable else None
    first = {fault.rule: fault for fault in reversed(explanation.faults)}
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


_ACTIONS = {
    "read": _read,
    "resource": _read,
    "slice": _slice,
    "index": lambda case, _, impl, folder: accepted(_method(impl, "index")(case.set_up(folder))),
    "write": _write,
    "sharded": _sharded,
    "export": _export,
    "lifecycle": _lifecycle,
    "remote": _remote,
    "concurrent": _concurrent,
    "placed": _placed,
    "repeated": _repeated,
    "contended": _write,
}


def mismatch(case: Case, answer: Answer) -> str | None:
    """Return the reason why a case does not permit an answer, or None. Missed recommendations count too."""
    step = "open" if case.steps == ("open",) else case.steps[-1]
    judged = judge_step(case, step, {step: answer})
    rejected = judged.verdict == "unsupported" and answer.outcome == "reject"
    return judged.detail or judged.verdict if rejected or fails(judged.verdict, strict=True) else None
