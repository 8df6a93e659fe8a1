"""Runs of the suite, over the corpus or a part of it, in a subprocess or in this process."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from safetensors_conformance.cli import common, report
from safetensors_conformance.pytest_suite import suite as pytest_suite
from safetensors_corpus import Case, Manifest, load_manifest

from .support import REPOSITORY, SUITE, committed

BASICS = ("framing/no-bytes", "framing/one-tensor", "layout/hole-between-two", "layout/two-dtypes")
"""Cases that the fakes act up on, or that stand beside those."""


def load_once(monkeypatch: pytest.MonkeyPatch, corpus: Path | None = None) -> None:
    """Let commands and runs of this process take the corpus as it was loaded before, or another one."""
    manifest = functools.cache(lambda: committed() if corpus is None else load_manifest(corpus))

    def load(path: Path | None = None) -> Manifest:
        return manifest() if path is None else load_manifest(path)

    monkeypatch.setattr(common, "load_manifest", load)
    monkeypatch.setattr(report, "load_manifest", load)
    monkeypatch.setattr(pytest_suite, "load_manifest", load)


def one_of_each(cases: Iterable[Case]) -> list[Case]:
    """Return the smallest case for each kind, rule, choice and expectation."""
    found: dict[tuple[object, ...], Case] = {}
    for case in sorted(cases, key=lambda case: case.size):
        options = [case.expect] if case.expect is not None else case.options.values()
        wanted = tuple((o.outcome, o.codes[:1], o.properties) for o in options if o is not None)
        found.setdefault((case.kind, case.rules[:1], case.level, case.heavy, case.choice, wanted), case)
    return list(found.values())


def corpus_of(folder: Path, *beginnings: str) -> Path:
    """Create a corpus of the smoke cases and those with this prefix; return its folder."""
    root, raw = committed().root, committed().raw
    cases = [c for c in raw["cases"] if c["smoke"] or c["id"].startswith(beginnings)]
    names = {text for text in json.dumps(cases).split('"') if text.startswith("files/")}
    for name in names:
        if not (root / name).exists():  # the manifest describes the files of this case by recipes
            continue
        if (root / name).is_dir():
            shutil.copytree(root / name, folder / name)
        else:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / name, folder / name)
    folder.mkdir(exist_ok=True)
    (folder / "corpus.json").write_text(json.dumps({**raw, "cases": cases}), encoding="utf-8")
    return folder


def argv_of(target: Path | None) -> list[str]:
    return ["-q", "--color=no", *([str(target)] if target else ["--pyargs", "safetensors_conformance"])]


def suite(
    *arguments: str, cwd: Path = REPOSITORY, target: Path | None = SUITE
) -> subprocess.CompletedProcess[str]:
    """Run the suite as its users do and return what it printed and its exit status.

    The plugin of hypothesis stays out, which has nothing to do there and takes long to import.
    """
    argv = [sys.executable, "-m", "pytest", *argv_of(target), "-pno:cacheprovider", "-pno:hypothesispytest"]
    return subprocess.run(
        [*argv, *arguments], cwd=cwd, capture_output=True, text=True, timeout=300, check=False
    )


OTHERS = (
    *("anyio", "cacheprovider", "faulthandler", "hypothesispytest"),
    *("threadexception", "unraisableexception", "xdist", "xdist.looponfail"),
)
"""Plugins that a run in this process does without: they are at work around it, or cost time."""


def suite_here(
    *arguments: str, cwd: Path = REPOSITORY, target: Path | None = SUITE
) -> subprocess.CompletedProcess[str]:
    """Run the suite in this process, which saves the start of one; return the same."""
    argv = [*argv_of(target), *(f"-pno:{name}" for name in OTHERS), *arguments]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = pytest.main(argv)
    return subprocess.CompletedProcess(argv, int(status), out.getvalue(), err.getvalue())
