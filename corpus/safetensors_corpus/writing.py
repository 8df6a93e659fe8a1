"""Handing a write case to a writer, and reading strictly what it wrote."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors_reference import explain, rule_book
from safetensors_reference.source import read_whole

from . import recipe
from .author.file import tensor_row
from .judging.answer import Answer, Flaw
from .judging.written_file import MODE, flaws_of, snapshot
from .manifest import LARGEST_IN_MEMORY

if TYPE_CHECKING:
    from .manifest import Case

MOST_FLAWS = 5
"""Rules told at most of those that a written file breaks."""


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
    """Return the tensors of a write action, storages shared as it says."""
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
    """Return the metadata of a write action, texts as by ``given_text``."""
    if not isinstance(value, Mapping):
        return value
    items = value["items"] if isinstance(value.get("items"), list) else value.items()
    return {given_text(key): given_text(text) for key, text in items}


def write_case(case: Case, implementation: Any, folder: Path) -> Answer:
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
    """Make what stands at the target before and return the path to write to."""
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
    expectations = [case.expect] if case.expect is not None else list(case.options.values())
    return list(dict.fromkeys(p for e in expectations for p in e.properties))


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
        for rule, fault in list(reversed(first.items()))[:MOST_FLAWS]
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
    """Return whether several answers to a choice are legitimate."""
    return rule_book().choices[choice].required is None
