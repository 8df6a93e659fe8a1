"""Reported bugs: the table, the cases that name them, and the page made of both."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from safetensors_corpus import field_bugs as table_module
from safetensors_corpus.cli import bugs as docs
from safetensors_corpus.field_bugs import affected, field_bugs, reference_url
from safetensors_corpus.templates import reference_link

from .small import run as run_corpus

BUGS = list(field_bugs().values())
REFERENCE = re.compile(r"[\w.-]+/[\w.-]+#[1-9]\d*|Trail of Bits review 2023-05")
DATE = re.compile(r"20\d\d(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?")
VERSIONS = re.compile(r"(<|<=|==|>|>=)\d+(\.\d+)*(rc\d+)?")


run = partial(run_corpus, "bugs")


@pytest.fixture(scope="module")
def few(raw: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The manifest with the cases of some bugs."""
    folder = tmp_path_factory.mktemp("few")
    bugs = {"FB-43", "FB-59", "FB-117"}
    cases = [row for row in raw["cases"] if bugs & {affects["bug"] for affects in row["affects"]}]
    (folder / "corpus.json").write_text(json.dumps({**raw, "cases": cases}))
    return folder


def test_every_entry_is_well_formed_and_no_report_stands_twice_within_a_project() -> None:
    numbers = [int(bug.id.removeprefix("FB-")) for bug in BUGS]
    assert numbers == sorted(set(numbers))
    first = [(bug.project, bug.references[0]) for bug in BUGS]
    assert len(first) == len(set(first))
    for bug in BUGS:
        assert re.fullmatch(r"FB-\d{2,3}", bug.id)
        assert all((bug.project, bug.language, bug.references)), bug.id
        assert all(REFERENCE.fullmatch(r) for r in bug.references), bug.id
        assert DATE.fullmatch(bug.date), bug.id
        assert not bug.versions or all(VERSIONS.fullmatch(v) for v in bug.versions.split(",")), bug.id
        assert re.fullmatch(r"\S.*\.", bug.trigger), bug.id
        for text in (bug.project, bug.trigger, bug.fixed, bug.not_shown):
            assert text == " ".join(text.split()), bug.id


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
    run("-c", few, status=0, out=f"\n{len(BUGS)} bugs, ")
    some = run("-c", few, "modelaudit")
    assert "FB-117" in some.output
    assert "FB-43" not in some.output
    one = run("-c", few, "fb-43").output
    assert one.startswith("FB-43: MLX (C++), 2026-04-03\n")
    assert "affected  <0.31.2\n" in one
    assert "case      layout/offset-negative\n" in one
    run("-c", few, "FB-21", out="not shown Needs Windows")
    run("-c", few, "no such thing", status=1, err="Error: no bug matches 'no such thing'\n")
    rows = [json.loads(line) for line in run("-c", few, "--json").output.splitlines()]
    assert [row["id"] for row in rows] == [bug.id for bug in BUGS]
    assert "layout/hole-between-two" in next(row for row in rows if row["id"] == "FB-59")["cases"]


def test_writing_and_checking_the_page(few: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = tmp_path / docs.PAGE
    monkeypatch.setattr(docs, "docs_folder", lambda: tmp_path)
    stale = run("-c", few, "--check", status=1)
    assert stale.output.endswith("is out of date; run: stc corpus bugs --write\n")
    assert not page.exists()
    assert run("-c", few, "--write").output == f"wrote {page}\n"
    for option in ("--check", "--write"):
        run("-c", few, option, status=0, out=f"up to date: {page}\n")
    for extra in ("--json", "FB-43", "--check"):
        run("-c", few, "--write", extra, status=2)
    page.unlink()
    page.mkdir()
    run("-c", few, "--write", status=2, err=str(page))
    monkeypatch.setattr(docs, "docs_folder", lambda: None)
    run("-c", few, "--check", err="not in a checkout")


def test_references_have_addresses() -> None:
    for reference, url in (
        ("o/lib#40", "https://github.com/o/lib/issues/40"),
        ("https://example.org/40", "https://example.org/40"),
        ("A review 2023", None),
        ("o/lib#x", None),
        ("lib#40", None),
    ):
        assert reference_url(reference) == url
        assert reference_link(reference) == (reference if url is None else f"[{reference}]({url})")
