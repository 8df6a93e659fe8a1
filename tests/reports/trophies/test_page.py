"""The page of trophies: current, every claim as in the data, and the command that writes it."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from safetensors_corpus.cli.common import load
from safetensors_reports.history.published import file_name, load_trends
from safetensors_reports.trophies import cli
from safetensors_reports.trophies.model import IMPLEMENTATIONS, load_baselines, render, trophies
from safetensors_reports.versions import bug_affects, short

from ...published_schemas import schema_error

ROOT = Path(__file__).parents[3]
TRENDS = ROOT / "reports" / "published" / "trends"
ROW = re.compile(r"\| (FB-\d+) \| .* \| (.*) \| (.*) \|")
GONE = re.compile(r"(\S+), (?:(\d+) of \d+ cases|its case)")
THERE = re.compile(r"still there in (\S+), (?:(\d+) of \d+ cases|its case)")


@pytest.fixture(scope="module")
def manifest() -> dict[str, Any]:
    return load(ROOT / "corpus").raw


@pytest.fixture(scope="module")
def page(manifest: dict[str, Any]) -> str:
    return render(trophies(manifest, load_trends(TRENDS, manifest), load_baselines(ROOT)))


def test_published_trends_keep_to_their_schema_and_hold_nothing_of_a_machine() -> None:
    for path in TRENDS.glob("*.json"):
        text = path.read_text("ascii")
        document = json.loads(text)
        assert schema_error("trend", document) is None, path
        assert text == json.dumps(document, indent=1) + "\n"
        assert not re.search(r"/(?:tmp|home|root|work|Users)/|20\d\d-\d\d-\d\d|\b\d+(?:\.\d+)? ?m?s\b", text)


def _claims(page: str) -> list[tuple[str, str, str, str]]:
    """Return (bug, implementation, cell about seen, cell about gone) of every line of the page's tables."""
    out = []
    for line in page.splitlines():
        match = ROW.fullmatch(line)
        if match:
            bug, seen, gone = match.groups()
            for one, other in zip(seen.split("<br>"), gone.split("<br>"), strict=True):
                name, _, rest = one.partition(" ")
                assert other.startswith(f"{name} ")
                out.append((bug, name.strip("`"), rest, other.removeprefix(f"{name} ")))
    return out


def test_every_fix_on_the_page_is_one_of_the_data(page: str) -> None:
    checked = 0
    for bug, name, seen, said in _claims(page):
        for part in said.split("; "):
            match = GONE.fullmatch(part)
            if match is None:
                continue
            version, count = match[1], int(match[2] or 1)
            (passage,) = [
                p
                for p in json.loads((TRENDS / file_name(name)).read_bytes())["passages"]
                if short(p["after"]) == version
            ]
            fixed = [
                c
                for c in passage["changes"]
                if c["turn"] in ("fixed", "gained")
                and (c["after"] == "pass" or c["after"].startswith("choice:"))
                and any(b["bug"] == bug and b["turns_here"] is not False for b in c["bugs"])
            ]
            assert len(fixed) == count > 0, (bug, name)
            assert short(passage["before"]) in seen
            checked += 1
    assert checked >= 8


def test_every_bug_that_is_called_still_there_fails_in_the_newest_by_a_baseline_or_a_run(
    page: str, manifest: dict[str, Any]
) -> None:
    checked = 0
    table = {bug["id"]: bug for bug in manifest["field_bugs"]}
    shown = {c["id"]: {a["bug"] for a in c["affects"]} for c in manifest["cases"]}
    for bug, name, seen, said in _claims(page):
        match = THERE.search(said)
        if match is None:
            continue
        project, _, entry = name.replace("-", "_").partition(":")
        folder = ROOT / IMPLEMENTATIONS / project
        file = folder / f"expected_failures{entry and '_'}{entry}.toml"
        baseline = tomllib.loads(file.read_text("utf-8")) if file.exists() else {"expected": []}
        trend = TRENDS / file_name(name)
        ran = json.loads(trend.read_bytes())["versions"] if trend.exists() else []
        shows = {
            row["case"]
            for version in ran
            if short(version["version"]) == match[1]
            for row in version.get("shows", ())
            if bug in row["bugs"] and bug_affects(table[bug], version["version"])
        }
        numbers = {r.rpartition("#")[2] for r in table[bug]["references"]}
        listed = {
            row["case"]
            for row in baseline["expected"]
            if bug in shown.get(row["case"], ()) and row.get("issue", "").rpartition("/")[2] in numbers
        }
        assert match[1] in seen
        assert len(listed | shows) == int(match[2] or 1), (bug, name)
        checked += 1
    assert checked >= 4


def test_the_page_speaks_of_every_bug_that_cases_show_and_of_no_other(
    page: str, manifest: dict[str, Any]
) -> None:
    shown = {a["bug"] for c in manifest["cases"] if c["status"] == "active" for a in c["affects"]}
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    named = [bug for line in rows for bug in re.findall(r"\bFB-\d+\b", line)]
    assert sorted(named) == sorted(shown)


def _run(*args: str | Path) -> Result:
    result = CliRunner().invoke(cli.trophies, [str(a) for a in args])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A checkout with docs and nothing else."""
    (tmp_path / "docs").mkdir()
    monkeypatch.setattr(cli, "docs_folder", lambda: tmp_path / "docs")
    return tmp_path


def test_adding_writing_and_checking(checkout: Path) -> None:
    empty = _run("--check")
    assert (empty.exit_code, "no trends" in empty.output) == (2, True)
    added = _run("--add", TRENDS / "mlx.json")
    target = checkout / "reports" / "published" / "trends" / "mlx.json"
    assert added.output == f"wrote {target}\n"
    assert target.read_bytes() == (TRENDS / "mlx.json").read_bytes()
    page = checkout / "docs" / "trophies.md"
    stale = _run("--check")
    assert (stale.exit_code, stale.output) == (1, f"{page} is not current; run: stc trophies --write\n")
    assert not page.exists()
    assert _run("--write").output == f"wrote {page}\n"
    for option in ("--check", "--write"):
        again = _run(option)
        assert (again.exit_code, again.output) == (0, f"current: {page}\n")
    assert "FB-43   mlx" in _run().output
    assert _run("--write", "--check").exit_code == 2


def test_what_cannot_be_written_or_is_no_checkout(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (checkout / "reports").write_text("in the way")
    refused = _run("--add", TRENDS / "mlx.json")
    assert (refused.exit_code, "mlx.json: " in refused.output) == (2, True)
    (checkout / "reports").unlink()
    _run("--add", TRENDS / "mlx.json")
    (checkout / "docs" / "trophies.md").mkdir()
    assert _run("--write").exit_code == 2
    monkeypatch.setattr(cli, "docs_folder", lambda: None)
    assert "run in a checkout" in _run().output
