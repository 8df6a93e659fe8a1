"""What the tests of slice, write, index and lifecycle cases share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from safetensors_corpus import Case, Manifest
from safetensors_corpus.broken.variant import Variant
from safetensors_corpus.judging.answer import Answer
from safetensors_corpus.perform import failure, perform


def of_kind(manifest: Manifest, kind: str) -> list[Case]:
    """Return the cases of a kind."""
    return [case for case in manifest.cases if case.kind == kind]


def done(case: Case, implementation: Any) -> tuple[Answer, str | None]:
    """Do a case in a folder of its own; return the result and why it fails."""
    with TemporaryDirectory() as folder:
        result = perform(case, implementation, Path(folder))
    return result, failure(case, result)


def failures(cases: Iterable[Case], make: Callable[[], Any]) -> dict[str, str]:
    """Return the cases that an implementation fails, id -> why."""
    found = {case.id: done(case, make())[1] for case in cases}
    return {case: why for case, why in found.items() if why is not None}


def uncaught(cases: Sequence[Case], variants: Iterable[Variant]) -> tuple[set[str], set[str]]:
    """Return the variants that no case catches and the cases that no variant fails.

    Each variant is tried on the cases that nobody has failed yet, and on the others only until one fails it.
    """
    missed: set[str] = set()
    open_cases = {case.id: case for case in cases}
    for variant in variants:
        caught = failures(open_cases.values(), variant.make)
        rest = (case for case in cases if case.id not in open_cases)
        if not caught and not any(done(case, variant.make())[1] for case in rest):
            missed.add(variant.name)
        for case_id in caught:
            del open_cases[case_id]
    return missed, set(open_cases)
