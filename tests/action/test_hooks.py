"""The hooks for pre-commit, run by the real program over a repository; only the installation is left out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from .job import ROOT

pytest.importorskip("pre_commit")

MANIFEST = ROOT / ".pre-commit-hooks.yaml"
HOOKS: list[dict[str, Any]] = yaml.safe_load(MANIFEST.read_text(encoding="utf-8"))
VALID = (2).to_bytes(8, "little") + b"{}"
BROKEN = (7).to_bytes(8, "little") + b'{"w":1}'


def pre_commit(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PRE_COMMIT_HOME": str(folder.parent / "home"), "NO_COLOR": "1"}
    # The installation of the hooks, which is that of the package, is what these tests run in.
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    line = [sys.executable, "-m", "pre_commit", *args]
    return subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    hooks = [{**hook, "language": "system"} for hook in HOOKS]
    config = {"repos": [{"repo": "local", "hooks": hooks}]}
    (folder / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


def run(folder: Path, hook: str, files: dict[str, bytes]) -> tuple[int, str]:
    """Stage files and run one hook; returns its exit status and what was printed."""
    for name, data in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
    subprocess.run(["git", "add", "-A"], cwd=folder, check=True)
    done = pre_commit(folder, "run", hook)
    return done.returncode, done.stdout + done.stderr


def test_the_manifest_is_one() -> None:
    done = pre_commit(ROOT, "validate-manifest", str(MANIFEST))
    assert done.returncode == 0, done.stdout
    assert all(hook["language"] == "python" for hook in HOOKS)


def test_files_are_checked_by_their_ending(repository: Path) -> None:
    files = {"good.safetensors": VALID, "other.bin": b"?", "safetensors.txt": b"?"}
    status, told = run(repository, "safetensors-check", files)
    assert status == 0, told
    status, told = run(repository, "safetensors-check", {"sub/bad.safetensors": BROKEN})
    assert status == 1
    assert "sub/bad.safetensors: 1 fault: ENT_NOT_OBJECT" in told
    status, told = run(
        repository, "safetensors-check", {"sub/bad.safetensors": VALID, "m.safetensors.index.json": b"["}
    )
    assert status == 1
    assert "m.safetensors.index.json: " in told


def test_a_name_like_an_option_is_a_file(repository: Path) -> None:
    files = {"-q.safetensors": VALID, "--sarif=x.safetensors": BROKEN, "x.safetensors": VALID}
    status, told = run(repository, "safetensors-check", files)
    assert status == 1
    assert "--sarif=x.safetensors: 1 fault: ENT_NOT_OBJECT" in told


def test_nothing_of_ours_is_no_work(repository: Path) -> None:
    status, told = run(repository, "safetensors-check", {"other.bin": b"?"})
    assert status == 0
    assert "no files to check" in told


def test_models_are_judged_as_one(repository: Path) -> None:
    files = {"m/model-00001-of-00002.safetensors": VALID}
    status, told = run(repository, "safetensors-check-models", files)
    assert status == 1
    assert "m/model: model is not whole: 1 fault: IDX_SHARD_MISSING" in told
    assert run(repository, "safetensors-check", {})[0] == 0
    status, told = run(repository, "safetensors-check-models", {"m/model-00002-of-00002.safetensors": VALID})
    assert status == 0, told
