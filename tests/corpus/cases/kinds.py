"""Run implementations on the cases of one kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from safetensors_corpus import Case, Manifest
from safetensors_corpus.in_process import mismatch, run_case
from safetensors_corpus.judging.answer import Answer
from safetensors_fuzz.loop.subjects import folder_in_memory


def of_kind(manifest: Manifest, kind: str) -> list[Case]:
    """Return the cases of a kind."""
    return [case for case in manifest.cases if case.kind == kind]


def done(case: Case, implementation: Any) -> tuple[Answer, str | None]:
    """Do a case in a folder of its own; return the result and why it fails."""
    with TemporaryDirectory(dir=None if case.heavy else folder_in_memory()) as folder:
        result = run_case(case, implementation, Path(folder))
    return result, mismatch(case, result)


def failures(cases: Iterable[Case], make: Callable[[], Any]) -> dict[str, str]:
    """Return the cases that an implementation fails, id -> why."""
    found = {case.id: done(case, make())[1] for case in cases}
    return {case: why for case, why in found.items() if why is not None}
