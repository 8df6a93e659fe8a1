"""Whom the libFuzzer target asks: in its own process where that is safe or wished, else behind a worker."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.worker.worker import Limits
from safetensors_corpus.author.file import tensor_row
from safetensors_corpus.broken.correct.json import Refused
from safetensors_reference.rules.book import ProfileName

from ...loop.reference_subjects import INNER, CheckSubject, ProveSubject
from ...loop.subjects import CallSubject, Slots, Subject, WorkerSubject, told_apart

HERE = "here:"
"""Prefix of a selector that is asked in this process: fast, and its death is the target's death."""
_OFFICIAL = "safetensors"
_REFERENCE = "reference"


class NoSlots(Slots):
    """Stands for the files of inputs where nobody reads one."""

    def __init__(self) -> None:
        """Make no folder."""
        self.paths = []

    def put(self, data: bytes) -> str:  # noqa: ARG002 - as the protocol has it
        """Keep nothing."""
        return ""

    def close(self) -> None:
        """It holds nothing."""


def subjects_of(
    selectors: Sequence[str], steps: Sequence[str], profile: ProfileName | None, limits: Limits
) -> list[Subject]:
    """Start everyone who is asked.

    Args:
        selectors: as ``--impl`` takes them. ``here:safetensors`` is asked in this process, and so is
            ``here:MODULE_OR_FILE:FUNCTION``, a function that returns the content of a file's bytes in the
            form of the manifest or raises ``Refused``. ``reference`` means its proving path: the other half
            of its reading is the judge.
        steps: what they are asked; ``prove`` and ``check`` are asked of the reference, whoever else is there.
        profile: whose options the reference takes.
        limits: time and memory of one answer of a worker.

    Raises:
        StartError, SelectorError, ValueError: one of them cannot be asked; the text says why.
    """
    out: list[Subject] = []
    outer = [step for step in steps if step not in INNER]
    for selector in selectors if outer else ():
        if selector == _REFERENCE:
            steps = (*steps, "prove")
        elif selector.startswith(HERE):
            out.append(_here(selector.removeprefix(HERE)))
        else:
            out.append(WorkerSubject(resolve(selector), outer, limits, profile))
    for subject, name in zip(out, told_apart([s.plain for s in out], [s.name for s in out]), strict=True):
        subject.plain = name
    if "prove" in steps:
        out.append(ProveSubject())
    if "check" in steps:
        out.append(CheckSubject())
    if not out:
        raise ValueError("nobody is asked anything: give an implementation, or the step prove or check")
    return out


def slots_for(subjects: Sequence[Subject]) -> Slots:
    """Return where inputs are put for those who read files."""
    reads_files = any(not isinstance(subject, (CallSubject, ProveSubject)) for subject in subjects)
    return Slots(2) if reads_files else NoSlots()


def folder_of(slots: Slots) -> str:
    """Return the folder in which inputs are put, nothing when there is none."""
    return str(Path(slots.paths[0]).parent) if slots.paths else ""


def _here(text: str) -> CallSubject:
    if text == _OFFICIAL:
        return _official()
    where, colon, name = text.rpartition(":")
    if not colon:
        raise ValueError(f"{HERE}{text}: give {HERE}{_OFFICIAL}, or {HERE}MODULE_OR_FILE:FUNCTION")
    try:
        function: Callable[[bytes], Mapping[str, Any]] = getattr(_module(where), name)
    except (ImportError, AttributeError, OSError) as err:
        raise ValueError(f"{HERE}{text}: {err}") from err
    return CallSubject(f"{HERE}{text}", function, (Refused,))


def _module(where: str) -> ModuleType:
    if not where.endswith(".py"):
        return importlib.import_module(where)
    spec = importlib.util.spec_from_file_location(Path(where).stem, where)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _official() -> CallSubject:
    try:
        import safetensors
    except ImportError as err:
        raise ValueError(f"{HERE}{_OFFICIAL}: install it with: pip install safetensors") from err
    refusal = cast(type[BaseException], safetensors.SafetensorError)

    def read(data: bytes) -> Mapping[str, Any]:
        rows = safetensors.deserialize(data)  # type: ignore[no-untyped-call]
        # This call says nothing about metadata.
        return {"tensors": [tensor_row(n, i["dtype"], i["shape"], bytes(i["data"])) for n, i in rows]}

    subject = CallSubject(_OFFICIAL, read, (refusal,))
    subject.version = safetensors.__version__
    return subject
