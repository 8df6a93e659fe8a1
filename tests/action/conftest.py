"""The corpora that jobs run, each made once, and a job that many look at."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..conformance.suite_runs import corpus_of
from .job import LENIENT, Job, pull_request

FEW = (
    "layout/hole-between-two",
    "layout/trailing-32-kib",
    "header/name-twice-adjacent",
    "layout/file-size-4096",
    "metadata/null",
    "slice/rank-1",
    "index/two-shards",
)


@pytest.fixture(scope="session")
def few_cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cases of every kind that show every kind of result, beside those with which every run begins."""
    return corpus_of(tmp_path_factory.mktemp("few") / "corpus", *FEW)


@pytest.fixture(scope="session")
def lenient(tmp_path_factory: pytest.TempPathFactory, few_cases: Path) -> Job:
    """A whole job for a pull request, with a reader that takes nearly everything."""
    folder = tmp_path_factory.mktemp("lenient")
    job = Job(folder, "pull_request", pull_request(), corpus=few_cases)
    return job.run(implementation=LENIENT, fuzz_executions="10", upload_sarif="true", comment="true")
