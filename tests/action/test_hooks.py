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


def test_the_manifest_is_one() -> None:
    done = pre_commit(ROOT, "validate-manifest", str(MANIFEST))
    assert done.returncode == 0, done.stdout
    assert all(hook["language"] == "python" for hook in HOOKS)


CHECK, MODELS = "safetensors-check", "safetensors-check-models"
FIRST, SECOND = ({f"m/model-0000{number}-of-00002.safetensors": VALID} for number in (1, 2))


@pytest.mark.parametrize(
    ("hook", "files", "status", "words"),
    [
        (CHECK, {"good.safetensors": VALID, "other.bin": b"?", "safetensors.txt": b"?"}, 0, ""),
        (CHECK, {"sub/bad.safetensors": BROKEN}, 1, "sub/bad.safetensors: 1 fault: ENT_NOT_OBJECT"),
        (CHECK, {"m.safetensors.index.json": b"["}, 1, "m.safetensors.index.json: "),
        # Names like options.
        (CHECK, {"-q.safetensors": VALID, "--sarif=x.safetensors": BROKEN, "x.safetensors": VALID}, 1,
         "--sarif=x.safetensors: 1 fault: ENT_NOT_OBJECT"),
        (CHECK, {"other.bin": b"?"}, 0, "no files to check"),
        (MODELS, FIRST, 1, "m/model: model is not whole: 1 fault: IDX_SHARD_MISSING"),
        (CHECK, FIRST, 0, ""),
        (MODELS, FIRST | SECOND, 0, ""),
    ],
)  # fmt: skip
def test_hooks_check_the_files_that_are_theirs(
    tmp_path: Path, hook: str, files: dict[str, bytes], status: int, words: str
) -> None:
    folder = tmp_path / "repository"
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    hooks = [{**hook, "language": "system"} for hook in HOOKS]
    config = {"repos": [{"repo": "local", "hooks": hooks}]}
    (folder / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    for command in ("init -q", "add -A"):
        subprocess.run(["git", *command.split()], cwd=folder, check=True)
    done = pre_commit(folder, "run", hook)
    assert (done.returncode, words in done.stdout) == (status, True), done.stdout + done.stderr
