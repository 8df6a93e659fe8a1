"""What is generated from the rules: pages that say the same, and the JSON Schema of the header."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from markdown_it import MarkdownIt

from safetensors_corpus import load_manifest
from safetensors_reference import DTYPE_BITS, explain, rule_book
from safetensors_reference.main import main
from safetensors_reference.rules.cli import PAGES, docs_folder
from safetensors_reference.rules.pages import (
    AREAS,
    WHITESPACE,
    disputed_page,
    escape,
    header_schema,
    rules_page,
    state,
)

from ..strategies import mutants

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


SCHEMA = header_schema()
VALIDATOR = Draft202012Validator(SCHEMA)
CASES = {case.id: case for case in load_manifest().reading}
SCHEMA_CODES = {
    "HDR_NOT_OBJECT",
    "ENT_NOT_OBJECT",
    "ENT_MISSING_FIELD",
    "ENT_UNKNOWN_FIELD",
    "ENT_BAD_INTEGER",
    "DTY_BAD_TYPE",
    "DTY_UNKNOWN",
    "SHP_BAD_TYPE",
    "OFF_BAD_PAIR",
    "MET_NOT_MAP",
    "MET_VALUE_NOT_STRING",
}
"""Fault codes that the schema detects. It rejects a parsed header if and only if the header has one of these
faults.

There are two exceptions. For ENT_BAD_INTEGER, the schema checks values but not their spelling (1.0 and -0 are
integers to a schema). Unlike a reader, the schema does not limit the nesting depth.
"""
NO_JSON = {"FRM_TOO_SHORT", "FRM_HEADER_EMPTY", "HDR_TOO_DEEP"}
"""Fault codes of files that hold no value for a schema, however forgiving the parser is."""


class Seen:
    """What a forgiving program makes of a header: a schema never sees the bytes, only a value like this.

    Bytes that are not UTF-8 are replaced, a byte-order mark, whitespace in front and anything behind the
    first value are ignored. ``hidden`` lists what the parser does not hand on: integers that are spelled as
    other numbers, and repeated keys.
    """

    def __init__(self, data: bytes) -> None:
        self.codes = {fault.code for fault in explain(data).faults}
        self.hidden: list[str] = []
        text = data[8 : 8 + int.from_bytes(data[:8], "little")].decode("utf-8", "replace")
        decoder = json.JSONDecoder(
            parse_constant=self._refuse,
            parse_int=self._number,
            parse_float=self._number,
            object_pairs_hook=self._object,
        )
        try:
            value = decoder.raw_decode(text.lstrip("\ufeff \t\r\n"))[0]
            self.taken: bool | None = VALIDATOR.is_valid(value)
        except (ValueError, RecursionError):
            self.taken = None

    def _refuse(self, word: str) -> None:
        raise ValueError(word)

    def _number(self, text: str) -> int | float:
        number, plain = float(text), re.fullmatch("-?[1-9][0-9]*|0", text)
        if number.is_integer() and not plain:
            self.hidden.append(text)
        # Python refuses to convert and to print longer numbers; here it only matters that they are huge.
        return int(text) if plain and len(text) < 100 else number

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        self.hidden += [key for number, (key, _) in enumerate(pairs) if key in dict(pairs[:number])]
        return dict(pairs)


def test_the_schema_is_a_schema_and_speaks_the_words_of_the_rule_book() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    definitions: Any = SCHEMA["$defs"]
    assert definitions["dtype"]["enum"] == list(DTYPE_BITS)
    assert BOOK.rules["OFF-01"].statement in definitions["data_offsets"]["description"]


def shows(code: str) -> list[str]:
    """A few cases of which the expectation has the code alone."""
    alone = [case.id for case in CASES.values() if case.expect is not None and case.expect.codes == (code,)]
    return alone[:: max(len(alone) // 5, 1)]


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.nightly)])
def test_schema_and_reader_agree_over_the_corpus(step: int) -> None:
    chosen = {*list(CASES)[::step], *(case for code in BOOK.codes for case in shows(code))}
    seen = {case_id: Seen(CASES[case_id].read_input()) for case_id in chosen}
    compared = {case_id: found for case_id, found in seen.items() if found.taken is not None}
    assert len(compared) > 500
    apart = {i: s for i, s in compared.items() if s.taken is bool(s.codes & SCHEMA_CODES)}
    assert [case_id for case_id, found in apart.items() if not found.hidden] == []
    assert len(apart) < 80
    # Each code of the schema is refused where it is alone, so that the refusal can have no other reason.
    # Every other code is accepted where it is alone.
    alone: dict[bool | None, set[str]] = {True: set(), False: set()}
    for found in compared.values():
        if len(found.codes) == 1 and (found.taken is False or "ENT_BAD_INTEGER" not in found.codes):
            alone[found.taken] |= found.codes
    families = ("FRM", "HDR", "ENT", "DTY", "SHP", "OFF", "MET")
    codes = {code for code in BOOK.codes if code.startswith(families)} - NO_JSON
    assert alone == {True: codes - SCHEMA_CODES, False: SCHEMA_CODES}


@given(mutants())
def test_schema_and_reader_agree_on_random_headers(data: bytes) -> None:
    seen = Seen(data)
    stopped = seen.codes & {"HDR_NOT_JSON", "HDR_NOT_UTF8", "HDR_TOO_DEEP"}
    framed = not any(code.startswith("FRM") for code in seen.codes)
    if seen.taken is not None and framed and not (seen.hidden or stopped):
        assert seen.taken is not bool(seen.codes & SCHEMA_CODES), seen.codes
