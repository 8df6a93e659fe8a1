"""``stc run --case``: suggestions for misspelt cases, and the answer to a case of a choice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from safetensors_conformance.cli.run import run

from ..suite_runs import load_once
from ..support import QUICK, REPOSITORY


@pytest.fixture(autouse=True)
def loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    load_once(monkeypatch)


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(run, arguments)
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("layout/hole-between-tow", "layout/hole-between-two"),
        ("hole-between-two", "layout/hole-between-two"),
        ("layuot/*", "layout/"),
    ],
)
def test_an_unknown_case_is_guessed(given: str, meant: str) -> None:
    status, out = call("--case", given)
    assert status == 2
    assert f"did you mean {meant}" in out


def test_an_unusable_baseline_is_refused_before_anything_runs(tmp_path: Path) -> None:
    started = tmp_path / "started"
    adapter = tmp_path / "adapter.py"
    adapter.write_text(f"open({str(started)!r}, 'w')\nclass A:\n  def read(self, path): return []\n")
    status, out = call("--impl", f"py:{adapter}:A", "--baseline", str(tmp_path / "none.toml"))
    assert status == 2
    assert "none.toml: No such file" in out
    assert not started.exists()


def test_the_failure_in_the_readme_is_real(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    selector = "py:docs/examples/mylib_adapter.py:Adapter"
    _, out = call("--impl", selector, "--case", "layout/hole-between-two")
    failure, _, _ = out.partition("\n\n")
    assert failure.startswith(selector)
    assert f"```\n{failure}\n```\n" in (REPOSITORY / "README.md").read_text(encoding="utf-8")


CHOICE = ("--case", "header/leading-whitespace-tab")


def test_the_answer_to_a_choice_is_shown() -> None:
    status, out = call("--impl", "reference", *CHOICE)
    assert status == 0
    for words in (
        "CHOICE:REJECT",
        "choice    leading-whitespace: Whitespace before the opening brace",
        "answer    reject: reject the file",
        "or        accept: skip the whitespace and read on",
        "profiles  text, hardened: reject; official: accept",
    ):
        assert words in out
    for chosen in ((*CHOICE, "--quiet"), ("--case", f"{CHOICE[1]}*"), ("--case", "framing/one-tensor")):
        assert "answer" not in call("--impl", "reference", *chosen, "--no-smoke")[1]


def test_a_run_without_any_case_is_no_success(few_cases: Path, tmp_path: Path) -> None:
    raw = json.loads((few_cases / "corpus.json").read_text("utf-8"))
    (tmp_path / "corpus.json").write_text(json.dumps({**raw, "cases": []}), "utf-8")
    status, output = call("--impl", QUICK, "--corpus", str(tmp_path))
    assert (status, "the corpus is empty" in output) == (2, True), output
    status, output = call("--impl", QUICK, "--case", "resource/opened-only-2p4?")
    assert (status, "all matching cases are heavy; add --heavy" in output) == (2, True), output
