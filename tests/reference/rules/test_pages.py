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
from safetensors_reference.rules.cli import PAGES, docs_folder
from safetensors_reference.rules.pages import AREAS, WHITESPACE, disputed_page, escape, rules_page, state

BOOK = rule_book()
DOCS = Path(__file__).parents[3] / "docs"
MARKDOWN = MarkdownIt("commonmark").enable("table")


def plain(markdown: str) -> str:
    """The text that a reader of the rendered Markdown sees."""
    lines = [token.children or [] for token in MARKDOWN.parse(markdown) if token.type == "inline"]
    content = {"text": "{}", "code_inline": "{}", "softbreak": "\n"}
    return "".join(
        "".join(content.get(child.type, "").format(child.content) for child in line) + "\n" for line in lines
    )


def test_every_rule_choice_and_code_has_one_anchor() -> None:
    """The test of all pages follows the links to them."""
    anchors = re.findall(r'<a id="([^"]+)"></a>', rules_page())
    expected = [*AREAS, *BOOK.rules, *BOOK.codes, *(f"choice-{c}" for c in BOOK.choices)]
    assert sorted(anchors) == sorted(map(str.lower, expected))


def test_why_two_demands_of_the_text_are_choices_is_true_of_the_book() -> None:
    """The paragraph names all choices where the text refuses and the official library does not."""
    assert plain(WHITESPACE).strip() in plain(disputed_page())
    assert re.findall(r"[A-Z]{3}-\d\d", WHITESPACE) == ["HDR-02", "HDR-03"]
    apart = [c for c in BOOK.choices.values() if c.positions["text"] == "reject" != c.positions["official"]]
    demanded = [c for c in apart if BOOK.rules[c.rule].basis == "text"]
    assert [c.rule for c in demanded if state(c) == "open"] == ["HDR-02", "HDR-03"]
    # Repeated keys, of tensors and of metadata.
    assert [c.rule for c in apart if state(c) == "required"] == ["HDR-09", "HDR-13"]


@given(st.text(st.characters(exclude_categories=["Cc", "Cs", "Zs", "Zl", "Zp"]), min_size=1))
def test_escaped_text_is_seen_as_it_was(text: str) -> None:
    assert plain(f"x{escape(text)}x") == f"x{text}x\n"
    for odd in ("__metadata__", "a|b", "`x`", "[a](b)", "<b>", "*x*", "\\u00e9", "&lt;", "_x_"):
        table = f"| a | b |\n| --- | --- |\n| {escape(odd)} | end |"
        assert plain(table).split("\n")[2:] == [odd, "end", ""]


def run(*args: str | Path) -> Result:
    result = CliRunner().invoke(main, ["rules", *map(str, args)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_build_writes_what_is_missing_or_stale_and_check_only_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "docs"
    checked = run("build", "--check", "-o", folder)
    assert (checked.exit_code, folder.exists()) == (1, False)
    assert checked.stdout.count("is out of date; run: stc rules build") == len(PAGES)
    assert run("build", "-o", folder).exit_code == 0
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == {n: (DOCS / n).read_bytes() for n in PAGES}
    (folder / "rules.md").write_text("x")
    for status, text in (
        (1, f"wrote {folder}/rules.md\n"),
        (0, f"current: {', '.join(PAGES)} in {folder}\n"),
    ):
        assert run("build", "--check", "-o", folder).exit_code == status
        assert run("build", "-o", folder).stdout == text
    assert run("build", "-o", folder / "rules.md" / "x").exit_code == 2


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
    result = run("show", what)
    assert result.exit_code == status
    assert [part for part in parts if part not in result.output] == []
