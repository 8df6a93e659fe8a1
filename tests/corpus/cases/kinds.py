"""Run implementations on the cases of one kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from proof.broken import matrix
from proof.planted import Planted
from safetensors_corpus import Case, Manifest, load_manifest
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


@cache
def _known() -> dict[str, frozenset[str]]:
    """The committed matrix: variant -> the cases that it fails."""
    return {row.name: frozenset(row.fails) for row in matrix.committed(load_manifest()).rows}


def _fails(case: Case, variant: Planted) -> bool:
    with TemporaryDirectory(dir=None if case.heavy else folder_in_memory()) as folder:
        return matrix.why(variant.make(), case, Path(folder)) is not None


def is_caught(variant: Planted, cases: Iterable[Case]) -> bool:
    """Say whether a variant fails one of the cases.

    The committed matrix only says where to look first: what counts is what the variant does.
    """
    known = _known().get(variant.name, frozenset())
    return any(_fails(case, variant) for case in sorted(cases, key=lambda case: case.id not in known))


def cannot_fail(cases: Iterable[Case], variants: Sequence[Planted]) -> set[str]:
    """Return the ids of the cases that no variant fails; where to look first is taken as in ``is_caught``."""
    missed = set()
    for case in cases:
        likely = sorted(variants, key=lambda v: case.id not in _known().get(v.name, ()))
        if not any(_fails(case, variant) for variant in likely):
            missed.add(case.id)
    return missed


def uncaught(cases: Sequence[Case], variants: Sequence[Planted]) -> tuple[set[str], set[str]]:
    """Return the variants that no case catches and the cases that no variant fails."""
    return {v.name for v in variants if not is_caught(v, cases)}, cannot_fail(cases, variants)
