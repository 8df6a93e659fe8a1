"""The generated page of the rules: current, complete, and saying what the rule book says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from safetensors_reference import rule_book
from safetensors_reference.main import main
from safetensors_reference.rules.cli import PAGES, docs_folder, rules
from safetensors_reference.rules.pages import (
    AREAS,
    WHITESPACE,
    disputed_page,
    escape,
    linked,
    rules_page,
    source_links,
    state,
)

BOOK = rule_book()
PAGE = rules_page()
DOCS = Path(__file__).parents[3] / "docs"
DISPUTED = disputed_page()
MARKDOWN = MarkdownIt("commonmark").enable("table")


def plain(markdown: str) -> str:
    """The text that a reader of the rendered Markdown sees."""
    out = []
    for token in MARKDOWN.parse(markdown):
        for child in token.children or ():
            if child.type in ("text", "code_inline"):
                out.append(child.content)
            elif child.type == "softbreak":
                out.append("\n")
        if token.type == "inline":
            out.append("\n")
    return "".join(out)


def test_every_rule_choice_and_code_has_one_anchor_and_every_link_leads_to_one() -> None:
    anchors = re.findall(r'<a id="([^"]+)"></a>', PAGE)
    assert len(anchors) == len(set(anchors))
    expected = {a.lower() for a in (*AREAS, *BOOK.rules, *BOOK.codes, *(f"choice-{c}" for c in BOOK.choices))}
    assert set(anchors) == expected
    headings = {"choices", "fault-codes"}
    targets = set(re.findall(r"\]\(#([^)]+)\)", PAGE))
    there = set(re.findall(r"\]\(disputed.md#([^)]+)\)", PAGE))
    assert there <= set(re.findall(r'<a id="([^"]+)"></a>', DISPUTED))
    assert set(re.findall(r"\]\(rules.md#([^)]+)\)", DISPUTED)) <= expected
    assert targets <= expected | headings
    assert {c.lower() for c in BOOK.codes if any(c in r.codes for r in BOOK.rules.values())} <= targets


def test_why_two_demands_of_the_text_are_choices_is_true_of_the_book() -> None:
    """The paragraph names all choices where the text refuses and the official library does not."""
    assert plain(WHITESPACE).strip() in plain(DISPUTED)
    assert re.findall(r"[A-Z]{3}-\d\d", WHITESPACE) == ["HDR-02", "HDR-03"]
    apart = [c for c in BOOK.choices.values() if c.positions["text"] == "reject" != c.positions["official"]]
    demanded = [c for c in apart if BOOK.rules[c.rule].basis == "text"]
    assert [c.rule for c in demanded if state(c) == "open"] == ["HDR-02", "HDR-03"]
    # Repeated keys, of tensors and of metadata.
    assert [c.rule for c in apart if state(c) == "required"] == ["HDR-09", "HDR-13"]


@given(st.text(st.characters(exclude_categories=["Cc", "Cs", "Zs", "Zl", "Zp"]), min_size=1))
def test_escaped_text_is_seen_as_it_was(text: str) -> None:
    assert plain(f"x{escape(text)}x") == f"x{text}x\n"


@pytest.mark.parametrize(
    "text", ["__metadata__", "a|b", "`x`", "[a](b)", "<b>", "*x*", "\\u00e9", "&lt;", "_x_"]
)
def test_what_looks_like_markdown_is_escaped_in_tables_too(text: str) -> None:
    row = f"| {escape(text)} | end |"
    assert plain(f"| a | b |\n| --- | --- |\n{row}").split("\n")[2:] == [text, "end", ""]


def test_words_and_rules_in_texts() -> None:
    """The rest of the pages is what ``stc rules build --check`` compares byte for byte."""
    assert escape("MAX_HEADER_SIZE") == "MAX_HEADER_SIZE"
    assert linked("follows from OFF-08") == "follows from [OFF-08](#off-08)"
    assert linked("finding TOB-SFTN-1") == "finding TOB-SFTN-1"


def test_sources_lead_to_the_thread_in_the_right_repository() -> None:
    text = "issues #1 and #2 of the official repository; bug fix a/b#3 and #4 (c_d); derived from HDR-06"
    assert source_links(text) == (
        "issues [#1](https://github.com/huggingface/safetensors/issues/1) and "
        "[#2](https://github.com/huggingface/safetensors/issues/2) of the official repository; bug fix "
        "[a/b#3](https://github.com/a/b/issues/3) and [#4](https://github.com/a/b/issues/4) (c_d); "
        "derived from [HDR-06](#hdr-06)"
    )


def run(*args: str | Path) -> Result:
    result = CliRunner().invoke(rules, [str(a) for a in args])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_build_writes_what_is_missing_or_stale_and_check_only_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "docs"
    checked = run("build", "--check", "-o", folder)
    assert checked.exit_code == 1
    assert checked.stdout.count("is out of date; run: stc rules build") == len(PAGES)
    assert not folder.exists()
    assert run("build", "-o", folder).exit_code == 0
    assert {p.name for p in folder.iterdir()} == set(PAGES)
    assert run("build", "--check", "-o", folder).exit_code == 0
    (folder / "rules.md").write_text(PAGE + "x")
    assert run("build", "--check", "-o", folder).exit_code == 1
    rebuilt = run("build", "-o", folder)
    assert rebuilt.exit_code == 0
    assert "rules.md" in rebuilt.stdout
    assert "header.schema.json" not in rebuilt.stdout
    assert (folder / "rules.md").read_text(encoding="utf-8") == PAGE
    failed = run("build", "-o", folder / "rules.md" / "x")
    assert failed.exit_code == 2
    assert "rules.md" in failed.stderr


def test_an_installed_package_has_no_docs_to_build(monkeypatch: pytest.MonkeyPatch) -> None:
    assert docs_folder() == DOCS
    monkeypatch.setattr("safetensors_reference.rules.cli.docs_folder", lambda: None)
    result = run("build")
    assert result.exit_code == 2
    assert "--output" in result.stderr


@pytest.mark.parametrize(
    ("what", "status", "parts"),
    [
        ("OFF-07", 0, ["OFF-07 (must): no holes", "basis     text: the written", "OFF_HOLE", "hardened"]),
        ("off-07", 0, ["OFF-07 (must): no holes"]),
        ("MET-02", 0, ["choice    metadata-null"]),
        ("metadata-null", 0, ["MET-02", "reject: reject the file (text, hardened)", "(official)"]),
        ("duplicate-tensor-names", 0, ["(text, hardened, required)"]),
        ("integer-spelling", 0, ["no project supports a different answer; see the cases of SHP-02, OFF-02"]),
        ("OFF_HOLE", 0, [BOOK.codes["OFF_HOLE"], "OFF-07", "OFF-12"]),
        ("Overlap", 0, ["OFF-06  ranges do not overlap\n"]),
        ("a", 0, [f"\n… {len(BOOK.rules) - 10:,} more\n"]),
        ("OFF-7", 2, ["there is no rule, choice or code 'OFF-7'; did you mean OFF-07"]),
        ("zzz", 2, ["there is no rule, choice or code 'zzz'\n"]),
    ],
)
def test_show_prints_a_rule_a_choice_or_a_code_and_looks_for_words(
    what: str, status: int, parts: list[str]
) -> None:
    result = CliRunner().invoke(main, ["rules", "show", what])
    assert result.exit_code == status
    assert [part for part in parts if part not in result.output] == []
