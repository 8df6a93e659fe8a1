"""The generated page of the rules: current, complete, and saying what the rule book says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from safetensors_reference import PROFILES, rule_book
from safetensors_reference.main import main
from safetensors_reference.rules.book import BASES
from safetensors_reference.rules.cli import PAGES, docs_folder, rules
from safetensors_reference.rules.pages import (
    AREAS,
    WHITESPACE,
    choices_of,
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


SEEN = plain(PAGE)


@cache
def sections() -> dict[str, str]:
    """Rendered text of the section of each rule and choice."""
    parts = re.split(r'^<a id="([a-z0-9_-]+)"></a>$', PAGE, flags=re.MULTILINE)
    return {name: plain(body) for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def test_a_build_in_a_process_with_another_hash_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    code = "from safetensors_reference.main import main; main()"
    argv = [sys.executable, "-c", code, "rules", "build", "-o", str(tmp_path)]
    subprocess.run(argv, capture_output=True, check=True, env={**os.environ, "PYTHONHASHSEED": "1"})
    for name, generate in PAGES.items():
        assert (tmp_path / name).read_bytes() == generate().encode()


def test_every_rule_choice_and_code_has_one_anchor_and_every_link_leads_to_one() -> None:
    anchors = re.findall(r'<a id="([^"]+)"></a>', PAGE)
    assert len(anchors) == len(set(anchors))
    expected = {a.lower() for a in (*AREAS, *BOOK.rules, *BOOK.codes, *(f"choice-{c}" for c in BOOK.choices))}
    assert set(anchors) == expected
    headings = {"choices", "fault-codes"}
    targets = set(re.findall(r"\]\(#([^)]+)\)", PAGE))
    there = set(re.findall(r"\]\(disputed.md#([^)]+)\)", PAGE))
    assert there <= set(re.findall(r'<a id="([^"]+)"></a>', DISPUTED))
    assert targets <= expected | headings
    assert {c.lower() for c in BOOK.codes if any(c in r.codes for r in BOOK.rules.values())} <= targets


def test_the_areas_are_those_of_the_rules_in_their_order() -> None:
    assert list(dict.fromkeys(rule_id[:3] for rule_id in BOOK.rules)) == list(AREAS)


@pytest.mark.parametrize("area", AREAS)
def test_an_area_counts_its_rules_by_level_and_basis(area: str) -> None:
    (row,) = (line for line in PAGE.splitlines() if line.startswith(f"| [{area}](#{area.lower()})"))
    ours = [rule for rule in BOOK.rules.values() if rule.id.startswith(area)]
    counts = [int(cell) for cell in row.strip("| ").split(" | ")[2:]]
    assert counts[:3] == [sum(r.level == level for r in ours) for level in ("must", "should", "may")]
    assert counts[3:] == [sum(r.basis == basis for r in ours) for basis in ("text", "official", "ours")]


def test_a_rule_says_all_that_the_book_says() -> None:
    for rule_id, rule in BOOK.rules.items():
        text = sections()[rule_id.lower()]
        assert f"{rule.id} ({rule.level}): {rule.title}" in text, rule_id
        assert rule.statement in text, rule_id
        assert f"basis: {rule.basis} ({BASES[rule.basis]})" in text, rule_id
        assert f"source: {rule.source}" in text, rule_id
        for profile in PROFILES:
            assert f"{profile}: {getattr(rule, profile)}" in text, rule_id
        assert all(code in text for code in rule.codes), rule_id
        choices = [choice.id for choice in BOOK.choices.values() if choice.rule == rule_id]
        label = "choices: " if len(choices) > 1 else "choice: "
        assert (
            (label + ", ".join(choices) in text) if choices else ("choice" not in text.split("source:")[0])
        ), rule_id


@pytest.mark.parametrize("rule_id", ["HDR-09", "HDR-13"])
def test_the_text_about_repeated_keys_is_quoted_whole(rule_id: str) -> None:
    """Its second sentence is the first thing that somebody who is charged with the rule will quote."""
    quote = '"Duplicate keys are disallowed. Not all parsers may respect this."'
    assert quote in sections()[rule_id.lower()]
    points = re.split(r'<a id="point-(\d+)"></a>', DISPUTED)[1:]
    about = [n for n, body in zip(points[::2], points[1::2], strict=True) if quote in body]
    assert about == ["1", "2", "15"]


def test_why_two_demands_of_the_text_are_choices_is_true_of_the_book() -> None:
    """The paragraph names all choices where the text refuses and the official library does not."""
    assert plain(WHITESPACE).strip() in plain(DISPUTED)
    assert re.findall(r"[A-Z]{3}-\d\d", WHITESPACE) == ["HDR-02", "HDR-03"]
    apart = [c for c in BOOK.choices.values() if c.positions["text"] == "reject" != c.positions["official"]]
    demanded = [c for c in apart if BOOK.rules[c.rule].basis == "text"]
    assert [c.rule for c in demanded if state(c) == "open"] == ["HDR-02", "HDR-03"]
    # Repeated keys, of tensors and of metadata.
    assert [c.rule for c in apart if state(c) == "required"] == ["HDR-09", "HDR-13"]


def test_a_choice_says_its_options_and_who_takes_them() -> None:
    for choice_id, choice in BOOK.choices.items():
        text = sections()[f"choice-{choice_id}"]
        assert choice.title in text, choice_id
        assert choice.description in text, choice_id
        rows = [line for line in PAGE.split(f"(#choice-{choice_id})")[-1].splitlines() if line]
        position = rows[0].split(" | ")
        assert [cell.strip(" |") for cell in position[2:]] == [
            *(choice.positions[p] or "-" for p in PROFILES),
            choice.required or "-",
        ]
        body = PAGE.split(f'<a id="choice-{choice_id}"></a>')[1].split("<a id=")[0]
        for option, meaning in choice.options.items():
            (row,) = (line for line in body.splitlines() if line.startswith(f"| `{option}`"))
            assert plain(meaning).strip() in row, choice_id
            takers = row.split("|")[-2].split(",")
            assert {t.strip() for t in takers} - {""} == {
                p for p in PROFILES if choice.positions[p] == option
            }, choice_id
            assert ("(required)" in row) == (choice.required == option), choice_id


def test_a_disputed_point_shows_its_choices_with_options_positions_and_rules() -> None:
    for number in BOOK.points:
        section = DISPUTED.split(f'<a id="point-{number}"></a>')[1].split('<a id="point')[0]
        title = BOOK.points[number]
        assert f"{number}. {title[0].upper()}{title[1:]}" in plain(section), number
        (row,) = (
            line for line in DISPUTED.splitlines() if line.startswith(f"| [{number}](#point-{number}) ")
        )
        for choice in choices_of(BOOK, number):
            assert f"(rules.md#choice-{choice.id}) ({state(choice)})" in row, number
            body = section.split(f"### [{choice.id}]")[1].split("\n### ")[0]
            assert choice.title in plain(body), number
            assert f"(basis: {BOOK.rules[choice.rule].basis})" in body, number
            assert {choice.rule, *choice.settled} <= set(
                re.findall(r"\[([A-Z]{3}-\d\d)\]\(rules.md#", body)
            ), number
            for option in choice.options:
                assert f"| `{option}`" in body, number
            left_open = choice.required is None and None in choice.positions.values()
            assert ("leave the choice open" in body) == left_open, number


def test_links_to_the_page_of_the_rules_lead_somewhere() -> None:
    anchors = set(re.findall(r'<a id="([^"]+)"></a>', PAGE))
    assert set(re.findall(r"\]\(rules.md#([^)]+)\)", DISPUTED)) <= anchors
    assert all(f"(rules.md#choice-{choice})" in DISPUTED for choice in BOOK.choices)


def test_a_choice_says_that_it_is_settled_and_by_which_rules() -> None:
    assert any(choice.settled for choice in BOOK.choices.values())
    for choice in BOOK.choices.values():
        text = sections()[f"choice-{choice.id}"]
        assert ("Settled: no project defends another answer" in text) == bool(choice.settled)
        assert all(rule_id in text for rule_id in choice.settled)


def test_a_code_says_its_meaning_and_its_rules() -> None:
    for code in BOOK.codes:
        (row,) = (line for line in PAGE.splitlines() if f"`{code}` |" in line)
        assert BOOK.codes[code] in plain(row), code
        assert set(re.findall(r"\[([A-Z]{3}-\d\d)\]", row)) == {
            r.id for r in BOOK.rules.values() if code in r.codes
        }


@given(st.text(st.characters(exclude_categories=["Cc", "Cs", "Zs", "Zl", "Zp"]), min_size=1))
def test_escaped_text_is_seen_as_it_was(text: str) -> None:
    assert plain(f"x{escape(text)}x") == f"x{text}x\n"


@pytest.mark.parametrize(
    "text", ["__metadata__", "a|b", "`x`", "[a](b)", "<b>", "*x*", "\\u00e9", "&lt;", "_x_"]
)
def test_what_looks_like_markdown_is_escaped_in_tables_too(text: str) -> None:
    row = f"| {escape(text)} | end |"
    assert plain(f"| a | b |\n| --- | --- |\n{row}").split("\n")[2:] == [text, "end", ""]


def test_words_with_underscores_stay_readable() -> None:
    assert escape("MAX_HEADER_SIZE") == "MAX_HEADER_SIZE"


def test_rules_named_in_texts_are_linked() -> None:
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


def test_build_works_on_the_docs_of_this_project() -> None:
    assert docs_folder() == DOCS
    assert run("build", "--check").exit_code == 0


def test_build_says_what_stands_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "docs").write_text("a file")
    result = run("build", "-o", tmp_path / "docs" / "x")
    assert result.exit_code == 2
    assert "docs" in result.stderr


def test_an_installed_package_has_no_docs_to_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("safetensors_reference.rules.cli.docs_folder", lambda: None)
    result = run("build")
    assert result.exit_code == 2
    assert "--output" in result.stderr


@pytest.mark.parametrize(
    ("what", "parts"),
    [
        ("OFF-07", ["OFF-07 (must): no holes", "basis     text: the written", "OFF_HOLE", "hardened"]),
        ("off-07", ["OFF-07 (must): no holes"]),
        ("MET-02", ["choice    metadata-null"]),
        ("metadata-null", ["MET-02", "reject: reject the file (text, hardened)", "(official)"]),
        ("duplicate-tensor-names", ["(text, hardened, required)"]),
        (
            "integer-spelling",
            ["no project supports a different answer; see the cases of SHP-02, OFF-02"],
        ),
        ("OFF_HOLE", [BOOK.codes["OFF_HOLE"], "OFF-07", "OFF-12"]),
    ],
)
def test_show_prints_a_rule_a_choice_or_a_code(what: str, parts: list[str]) -> None:
    result = run("show", what)
    assert result.exit_code == 0
    assert all(part in result.stdout for part in parts)


def test_show_helps_with_a_slip() -> None:
    result = run("show", "OFF-7")
    assert result.exit_code == 2
    assert "OFF-07" in result.stderr


def test_show_finds_rules_by_a_word() -> None:
    result = run("show", "Overlap")
    assert result.exit_code == 0
    assert "OFF-06  ranges do not overlap\n" in result.stdout
    assert f"\n… {len(BOOK.rules) - 10:,} more\n" in run("show", "a").stdout
    assert run("show", "zzz").exit_code == 2


def test_stc_offers_the_command() -> None:
    assert CliRunner().invoke(main, ["rules", "show", "FRM-01"]).stdout.startswith("FRM-01 (must)")
