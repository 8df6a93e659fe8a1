"""Reported bugs: the table, the cases that name them, and the page made of both."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from safetensors_corpus import field_bugs as table_module
from safetensors_corpus.cli import bugs as docs
from safetensors_corpus.field_bugs import affected, field_bugs, reference_url
from safetensors_corpus.templates import reference_link

BUGS = list(field_bugs().values())
REFERENCE = re.compile(r"[\w.-]+/[\w.-]+#[1-9]\d*|Trail of Bits review 2023-05")
DATE = re.compile(r"20\d\d(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?")
VERSIONS = re.compile(r"(<|<=|==|>|>=)\d+(\.\d+)*(rc\d+)?")


def run(*args: str | Path) -> Result:
    result = CliRunner().invoke(docs.bugs, [str(a) for a in args], env={"NO_COLOR": "1"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture(scope="module")
def few(raw: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The manifest with the cases of some bugs."""
    folder = tmp_path_factory.mktemp("few")
    bugs = {"FB-43", "FB-59", "FB-117"}
    cases = [row for row in raw["cases"] if bugs & {affects["bug"] for affects in row["affects"]}]
    (folder / "corpus.json").write_text(json.dumps({**raw, "cases": cases}))
    return folder


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The page in a folder that a test may change."""
    monkeypatch.setattr(docs, "docs_folder", lambda: tmp_path)
    return tmp_path / docs.PAGE


def test_every_entry_is_well_formed() -> None:
    for bug in BUGS:
        assert re.fullmatch(r"FB-\d{2,3}", bug.id)
        assert bug.project, bug.id
        assert bug.language, bug.id
        assert bug.references, bug.id
        assert all(REFERENCE.fullmatch(r) for r in bug.references), bug.id
        assert DATE.fullmatch(bug.date), bug.id
        assert not bug.versions or all(VERSIONS.fullmatch(v) for v in bug.versions.split(",")), bug.id
        assert re.fullmatch(r"\S.*\.", bug.trigger), bug.id
        for text in (bug.project, bug.trigger, bug.fixed, bug.not_shown):
            assert text == text.strip(), bug.id
            assert "\n" not in text, bug.id


def test_ids_are_in_order_and_no_report_stands_twice_within_a_project() -> None:
    numbers = [int(bug.id.removeprefix("FB-")) for bug in BUGS]
    assert numbers == sorted(set(numbers))
    first = [(bug.project, bug.references[0]) for bug in BUGS]
    assert len(first) == len(set(first))


def test_every_bug_is_shown_by_cases_or_has_a_reason_but_never_both(raw: dict[str, Any]) -> None:
    shown = docs.cases_of(raw)
    neither = [bug.id for bug in BUGS if not shown[bug.id] and not bug.not_shown]
    both = [bug.id for bug in BUGS if shown[bug.id] and bug.not_shown]
    assert (neither, both) == ([], [])


@pytest.mark.parametrize("unknown", ["FB-0", "mlx@<0.31.2"])
def test_a_case_of_an_unknown_bug_is_refused(unknown: str) -> None:
    with pytest.raises(ValueError, match="unknown field bug"):
        affected(unknown)


COMPLETE = """
[[bug]]
id = "FB-01"
project = "p"
language = "C"
references = ["a/b#1"]
date = "2024"
family = "dtype"
trigger = "Something."
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (COMPLETE + COMPLETE, "FB-01 appears twice"),
        (COMPLETE.replace('family = "dtype"', 'family = "odd"'), "FB-01: unknown family 'odd'"),
        (COMPLETE.replace('date = "2024"\n', ""), "FB-01: has no 'date'"),
    ],
)
def test_a_broken_table_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "field_bugs.toml").write_text(text)
    monkeypatch.setattr(table_module, "__file__", str(tmp_path / "field_bugs.py"))
    with pytest.raises(ValueError, match=re.escape(message)):
        field_bugs.__wrapped__()


def test_listing_and_looking_up(few: Path) -> None:
    everything = run("-c", few)
    assert everything.exit_code == 0
    assert f"\n{len(BUGS)} bugs, " in everything.output
    some = run("-c", few, "modelaudit")
    assert "FB-117" in some.output
    assert "FB-43" not in some.output
    one = run("-c", few, "fb-43").output
    assert one.startswith("FB-43: MLX (C++), 2026-04-03\n")
    assert "affected  <0.31.2\n" in one
    assert "case      layout/offset-negative\n" in one
    assert "not shown Needs Windows" in run("-c", few, "FB-21").output
    nothing = run("-c", few, "no such thing")
    assert (nothing.exit_code, nothing.output) == (1, "Error: no bug matches 'no such thing'\n")


def test_bugs_as_json(few: Path) -> None:
    rows = [json.loads(line) for line in run("-c", few, "--json").output.splitlines()]
    assert [row["id"] for row in rows] == [bug.id for bug in BUGS]
    assert "layout/hole-between-two" in next(row for row in rows if row["id"] == "FB-59")["cases"]


def test_writing_and_checking_the_page(few: Path, page: Path) -> None:
    stale = run("-c", few, "--check")
    assert stale.exit_code == 1
    assert stale.output.endswith("is out of date; run: stc corpus bugs --write\n")
    assert not page.exists()
    assert run("-c", few, "--write").output == f"wrote {page}\n"
    for option in ("--check", "--write"):
        again = run("-c", few, option)
        assert (again.exit_code, again.output) == (0, f"up to date: {page}\n")
    for extra in ("--json", "FB-43", "--check"):
        assert run("-c", few, "--write", extra).exit_code == 2


def test_a_page_that_cannot_be_written(few: Path, page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page.mkdir()
    refused = run("-c", few, "--write")
    assert refused.exit_code == 2
    assert str(page) in refused.output
    monkeypatch.setattr(docs, "docs_folder", lambda: None)
    assert "not in a checkout" in run("-c", few, "--check").output


@pytest.mark.parametrize(
    ("reference", "url"),
    [
        ("o/lib#40", "https://github.com/o/lib/issues/40"),
        ("https://example.org/40", "https://example.org/40"),
        ("A review 2023", None),
        ("o/lib#x", None),
        ("lib#40", None),
    ],
)
def test_references_have_addresses(reference: str, url: str | None) -> None:
    assert reference_url(reference) == url
    assert reference_link(reference) == (reference if url is None else f"[{reference}]({url})")
