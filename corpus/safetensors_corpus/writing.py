"""Handing a write case to a writer, and reading strictly what it wrote."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors_reference import explain

from . import recipe
from .builder import tensor_row
from .write_properties import MODE, lacking, snapshot

if TYPE_CHECKING:
    from .manifest import Case


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
    if isinstance(value, Mapping) and value.keys() == {"parts"}:
        return recipe.expand(value["parts"]).decode("utf-8", "surrogatepass")
    return value


def given_metadata(value: Any) -> Any:
    """Return the metadata of a write action, texts as by ``given_text``."""
    if not isinstance(value, Mapping):
        return value
    items = value["items"] if isinstance(value.get("items"), list) else value.items()
    return {given_text(key): given_text(text) for key, text in items}


def write_case(
    case: Case, implementation: Any, folder: Path
) -> tuple[str, dict[str, Any] | None, str, tuple[str, ...]]:
    """Write; return outcome, content of the file, message and the demanded properties that it lacks.

    Raises NotImplementedError and MemoryError of the implementation.
    """
    action = case.action
    assert action is not None
    target = _prepare(case, folder)
    before = snapshot(folder)
    content: dict[str, Any] | None = None
    # An implementation in a process of its own is limited there.
    itself = getattr(implementation, "limits_file_size", False)
    try:
        with _file_size_limit(None if itself else action.get("file_size_limit")):
            save(implementation, action, target)
    except (NotImplementedError, MemoryError):
        raise
    except Exception as err:
        outcome, message = "reject", f"{type(err).__name__}: {err}"
    else:
        outcome = "accept"
        content, message = file_content(target)
    wanted = _wanted(case)
    return outcome, content, message, lacking(wanted, outcome, implementation, action, target, before, save)


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


def file_content(path: Path) -> tuple[dict[str, Any] | None, str]:
    """Read a written file strictly: its content, or None and what is wrong with it."""
    try:
        data = path.read_bytes()
    except OSError as err:
        return None, f"no file was written: {err}"
    found = explain(data, "text")
    if found.faults or found.header is None:
        return None, "the file breaks rules: " + ", ".join(f"{f.code} ({f.rule})" for f in found.faults[:5])
    header = found.header
    rows = []
    for tensor in header.tensors.values():
        part = data[header.data_start + tensor.begin : header.data_start + tensor.end]
        rows.append(tensor_row(tensor.name, tensor.dtype, tensor.shape, part))
    return {"tensors": rows, "metadata": header.metadata}, ""
