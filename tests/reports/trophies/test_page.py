"""The published trends, the page of trophies, and the command that writes it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from safetensors_corpus import load_manifest
from safetensors_reports.trophies import cli

from ...published_schemas import schema_error

ROOT = Path(__file__).parents[3]
TRENDS = ROOT / "reports" / "published" / "trends"


def test_published_trends_keep_to_their_schema_and_hold_nothing_of_a_machine() -> None:
    for path in TRENDS.glob("*.json"):
        text = path.read_text("ascii")
        document = json.loads(text)
        assert schema_error("trend", document) is None, path
        assert text == json.dumps(document, indent=1) + "\n"
        assert not re.search(r"/(?:tmp|home|root|work|Users)/|20\d\d-\d\d-\d\d|\b\d+(?:\.\d+)? ?m?s\b", text)


def test_the_page_speaks_of_every_bug_that_cases_show_and_of_no_other() -> None:
    shown = {a["bug"] for c in load_manifest().raw["cases"] if c["status"] == "active" for a in c["affects"]}
    rows = [x for x in (ROOT / "docs" / "trophies.md").read_text("utf-8").splitlines() if x.startswith("| ")]
    named = [bug for line in rows for bug in re.findall(r"\bFB-\d+\b", line)]
    assert sorted(named) == sorted(shown)


def _run(*args: str | Path) -> Result:
    result = CliRunner().invoke(cli.trophies, [str(a) for a in args])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_adding_writing_and_checking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a checkout with docs and nothing else; those of ``stc corpus bugs`` test more of writing a page."""
    (tmp_path / "docs").mkdir()
    monkeypatch.setattr(cli, "docs_folder", lambda: tmp_path / "docs")
    empty = _run("--check")
    assert (empty.exit_code, "no trends" in empty.output) == (2, True)
    (tmp_path / "reports").write_text("in the way")
    refused = _run("--add", TRENDS / "mlx.json")
    assert (refused.exit_code, "mlx.json: " in refused.output) == (2, True)
    (tmp_path / "reports").unlink()
    target = tmp_path / "reports" / "published" / "trends" / "mlx.json"
    assert _run("--add", TRENDS / "mlx.json").output == f"wrote {target}\n"
    assert target.read_bytes() == (TRENDS / "mlx.json").read_bytes()
    page = tmp_path / "docs" / "trophies.md"
    stale = _run("--check")
    assert (stale.exit_code, stale.output) == (1, f"{page} is out of date; run: stc trophies --write\n")
    assert _run("--write").output == f"wrote {page}\n"
    assert _run("--check").output == f"up to date: {page}\n"
    assert "FB-43   mlx" in _run().output
    assert _run("--write", "--check").exit_code == 2
    monkeypatch.setattr(cli, "docs_folder", lambda: None)
    assert "run in a checkout" in _run().output
