"""The reader underlying the fakes answers like the reference."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from safetensors_conformance.implementations.reference.adapter import Reference as Whole
from safetensors_corpus import Case

from .hostile_support import IDS
from .quick_reader import InvalidFileError, NotPlainError, Reference, plain
from .support import NEIGHBOURS, TRIGGER, cases, committed


def told(reader: Any, path: str) -> Any:
    """Return the answer of a reader to a file, None for no."""
    try:
        header, content = reader.open(path), reader.read(path)
    except ValueError:
        return None
    rows = [(name, dtype, tuple(shape), bytes(data)) for name, dtype, shape, data in content["tensors"]]
    return header["tensors"], rows, content["metadata"]


def how(case: Case) -> str:
    """Return whether a file is plain, and the answer then."""
    try:
        plain(case.path.read_bytes())
    except NotPlainError:
        return "not plain"
    except InvalidFileError:
        return "refused"
    return "read"


@pytest.mark.parametrize("every", [17, pytest.param(1, marks=pytest.mark.nightly)])
def test_what_is_read_at_once_is_what_the_reference_reads(every: int) -> None:
    some = [case for case in committed().reading if case.size < 1 << 16][::every]
    seen: Counter[str] = Counter()
    for case in some:
        path = str(case.path)
        assert told(Reference(), path) == told(Whole(), path), case.id
        seen[how(case)] += 1
    # Fakes are asked about these under a short limit.
    assert "not plain" not in {how(case) for case in cases(*IDS, *NEIGHBOURS, TRIGGER)}
    assert min(seen["read"], seen["refused"], seen["not plain"]) > 5, seen
