"""Real readers of files on a server, if they are installed here."""

from __future__ import annotations

import importlib.util

import pytest

from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.run.cases import CaseRunner
from safetensors_conformance.run.session import Session
from safetensors_conformance.worker.worker import Limits

from ..support import committed

CASES = {
    "three-tensors-long": "pass",
    "header-longer-than-the-file-a-tebibyte": "pass",
    "answer-short-long": "choice:content",
    "later-answer-cut-short-after-2": "choice:error",
    "later-answer-shifted-short-after-2": "deviation:content",  # fsspec takes any range for the one asked for
}


@pytest.mark.skipif(importlib.util.find_spec("aiohttp") is None, reason="needs the extra remote")
def test_the_strict_reader_over_fsspec() -> None:
    cases = [committed().by_id[f"remote/{name}"] for name in CASES]
    with Session(CaseRunner(resolve("reference:fsspec"), Limits(10.0, 1 << 30))) as session:
        assert session.start().steps == ("remote",)
        assert {case.id.partition("/")[2]: session.judge(case).verdict for case in cases} == CASES
