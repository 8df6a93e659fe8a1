"""The mode of the action for repositories that hold model files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from .job import Job, pull_request

SECOND = "my models/model-00002-of-00002.safetensors"


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A job in a repository with a model of two shards and no index."""
    job = Job(tmp_path, "pull_request", pull_request())
    models = job.repository / "my models"
    models.mkdir()
    for number in (1, 2):
        shard = models / f"model-{number:05}-of-00002.safetensors"
        save_file({f"t{number}": np.zeros(2, np.float32)}, shard)
    return job


def test_whole_models_pass_without_a_comment(job: Job) -> None:
    job.run(check="my models", upload_sarif="true", comment="true")
    assert job.ok, job.log
    assert job.outputs["outcome"] == {"result": "passed", "findings": "0"}
    assert [job.outcome[key] for key in ("run", "Fuzz", "files")] == ["skipped", "skipped", "success"]
    assert "### safetensors-conformance: all files are valid" in job.summary
    assert "whole model, 2 tensors in 2 files" in job.summary
    sarif = Path(job.used["github/codeql-action/upload-sarif"]["sarif_file"])
    assert json.loads(sarif.read_bytes())["runs"][0]["invocations"][0]["exitCode"] == 0
    assert "actions/upload-artifact" in job.used
    assert job.annotations("notice") == ["comment: skipped, because it is available only for implementations"]


def test_a_missing_shard_fails(job: Job) -> None:
    (job.repository / SECOND).unlink()
    job.run(check="my models")
    assert not job.ok
    assert job.outputs["outcome"] == {"result": "failed", "findings": "1"}
    (error,) = job.annotations("error")
    assert error == "safetensors-conformance: files are invalid, or a model is incomplete"
    assert "IDX_SHARD_MISSING" in (job.report / "report.txt").read_text()
    log = json.loads((job.report / "report.sarif").read_bytes())
    (fault,) = [r for r in log["runs"][0]["results"] if r["level"] == "error"]
    place = fault["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert place == "my%20models/model-00002-of-00002.safetensors"


def test_it_may_only_report(job: Job) -> None:
    (job.repository / SECOND).write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    job.run(check="my models", fail_on="never")
    assert job.ok
    assert (job.outputs["outcome"]["result"], job.outputs["outcome"]["findings"]) == ("passed", "1")


def test_what_cannot_be_read_fails_always(job: Job) -> None:
    job.run(check="my models\n  nowhere  \n--help", fail_on="never")
    assert not job.ok
    assert job.outputs["outcome"]["result"] == "not-run"
    assert "nowhere: No such file" in job.summary
    assert "--help: No such file" in job.summary
