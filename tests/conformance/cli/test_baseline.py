"""``stc baseline`` (show, explain and update) with the official library."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from safetensors_conformance.cli.baseline import baseline
from safetensors_conformance.cli.run import run

from ..suite_runs import corpus_of, load_once
from ..support import QUICK, REPOSITORY, fake

pytestmark = pytest.mark.usefixtures("loaded_once")

STALE = '[[expected]]\ncase = "framing/one-tensor"\nread = "wrong-reject"\nwhy = "old"\n'


def call(*args: str) -> tuple[int, str]:
    result = CliRunner().invoke(baseline, args)
    return result.exit_code, result.output


def test_explaining_runs_the_cases_and_shows_reason_and_issue() -> None:
    pytest.importorskip("safetensors")
    status, out = call("explain", "safetensors", "--case", "reserved-name-alone")
    assert status == 0
    for words in (
        "WRONG-ACCEPT",
        "WRT-06 (must)",
        "why       The library writes a tensor with the reserved name",
        "/issues/849",
    ):
        assert words in out
    assert out.endswith("1 entry; steps that no longer fail as listed: 0\n")


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        ("show reference --file {}/none.toml", 2, "none.toml: No such file"),
        ("explain reference --file {}/none.toml", 2, "stc baseline update SELECTOR --file"),
        ("show no-such-program --file {}/b.toml", 2, "unknown implementation 'no-such-program'"),
        ("explain reference --file {}/b.toml", 1, "listed as wrong-reject, but the verdict is now pass"),
        ("explain py:no_such_module:Reader", 2, "cannot start"),
    ],
)
def test_what_cannot_be_shown_or_passes_now_is_told(
    words: str, status: int, says: str, tmp_path: Path
) -> None:
    (tmp_path / "b.toml").write_text(STALE)
    done, out = call(*words.format(tmp_path).split())
    assert (done, says in out, "--no-baseline" in out) == (status, True, False)


def test_updating_writes_what_fails_now_and_refuses_a_broken_adapter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_once(monkeypatch, corpus_of(tmp_path / "corpus", "framing/length-prefix", "layout/hole-between"))
    file = ("--file", str(tmp_path / "b.toml"))
    status, out = call("update", f"py:{REPOSITORY}/docs/examples/mylib_adapter.py:Adapter", *file)
    assert (status, "added" in out) == (0, True)
    assert 'case = "layout/hole-between-two"' in (tmp_path / "b.toml").read_text()
    status, out = call("update", fake("AlwaysRejects"), *file)
    assert (status, "probably wrong" in out) == (2, True)


@pytest.mark.parametrize(
    ("selector", "says"),
    [
        (QUICK, "2 entries of the baseline pass now"),
        (fake("AlwaysRejects"), "1 entry of the baseline passes now"),
        (fake("AlwaysDies"), "2 entries of the baseline fail differently now"),
    ],
)
def test_a_quiet_run_says_why_it_fails(selector: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    cases = {"framing/no-bytes": "wrong-accept", "framing/one-tensor": "wrong-reject"}
    entries = [f"{{case = '{case}', open = '{word}', read = '{word}'}}" for case, word in cases.items()]
    defaults = "why = 'not analysed'\nissue = 'unreported'\nreview_by = 2099-01-01\n"
    path.write_text(f"{defaults}expected = [{', '.join(entries)}]\n", encoding="utf-8")
    chosen = [*(word for case in cases for word in ("--case", case)), "--no-smoke", "--quiet"]
    result = CliRunner().invoke(run, ["--impl", selector, "--baseline", str(path), *chosen])
    assert result.exit_code == 1
    assert f"{says}; the first one is framing/no-bytes; {path}" in result.output
