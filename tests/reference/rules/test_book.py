"""The rule book: complete, consistent, and refused when it contradicts itself."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, cast

import pytest

from safetensors_reference import DTYPE_BITS, PROFILES, rule_book
from safetensors_reference.rules import book as rules
from safetensors_reference.rules.book import BASES

BOOK = rule_book()
RULE_ID = r"[A-Z]{3}-\d\d"
OF_READING = {
    choice.id
    for choice in BOOK.choices.values()
    if choice.rule[:3] not in ("WRT", "API", "IDX", "NET", "EXP")
}
"""Choices that a reader of one file's header meets."""


def test_the_rules_of_a_family_have_consecutive_numbers() -> None:
    families = Counter(rule_id[:3] for rule_id in BOOK.rules)
    assert [*BOOK.rules] == [
        f"{family}-{n:02}" for family, count in families.items() for n in range(1, count + 1)
    ]


def test_a_rule_says_everything_that_is_printed_about_it() -> None:
    for rule in BOOK.rules.values():
        for text in (rule.title, rule.statement, rule.source, rule.text, rule.official, rule.hardened):
            assert text.strip() == text != "", rule.id
            assert "\n" not in text, rule.id
        assert rule.statement.endswith("."), rule.id
        assert rule.choice is None or BOOK.choices[rule.choice].rule == rule.id, rule.id


def test_only_what_the_text_asks_for_is_based_on_it() -> None:
    """A silent text can be a basis only when the same field says what the statement follows from."""
    assert {rule.basis for rule in BOOK.rules.values()} == set(BASES)
    for rule in BOOK.rules.values():
        # The index is a convention of others.
        assert rule.basis == "ours" or not rule.id.startswith("IDX-"), rule.id
        if rule.basis == "text":
            derived = re.search(rf"follows from ({RULE_ID}|JSON)|README prose", rule.text)
            assert "silent" not in rule.text or derived, rule.text
            named = re.findall(RULE_ID, rule.text.partition("follows from")[2])
            assert {BOOK.rules[name].basis for name in named} <= {"text"}, rule.id
        else:
            claims = ("requires it", "implies it", "the rule follows from", "allows it")
            assert not rule.text.startswith(claims), rule.text


def test_a_choice_has_options_for_every_profile_and_belongs_to_its_rule() -> None:
    for choice in BOOK.choices.values():
        assert {p: choice.expected(p) for p in PROFILES} == choice.positions, choice.id
        if choice.id in OF_READING:
            # The reference has to answer it, and hardened is what it takes by default.
            assert choice.positions["official"] is not None, choice.id
            assert choice.positions["hardened"] is not None, choice.id
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", choice.id), choice.id
        assert choice.title, choice.id
        assert choice.description.endswith("."), choice.id


def test_an_option_is_demanded_without_a_profile_only_on_the_basis_of_its_rule() -> None:
    for choice in BOOK.choices.values():
        assert choice.expected(None) == choice.required
        if choice.settled:
            assert {choice.positions["text"], choice.positions["hardened"]} <= {choice.required, None}
            assert not choice.limit
        elif choice.required is not None:
            basis = BOOK.rules[choice.rule].basis
            assert choice.required == choice.positions["hardened" if basis == "ours" else basis]
            assert choice.positions["text"] == (choice.required if basis == "text" else None)


def test_the_disputed_points_are_36_and_each_has_its_choices() -> None:
    assert sorted(BOOK.points) == list(range(1, 37))
    answered = {point for choice in BOOK.choices.values() for point in choice.points}
    assert answered == set(BOOK.points)
    assert all(title.strip() == title != "" for title in BOOK.points.values())


def test_every_code_belongs_to_a_rule_and_is_explained() -> None:
    used = {code for rule in BOOK.rules.values() for code in rule.codes}
    # What cannot be read or classified breaks no rule of the format.
    assert set(BOOK.codes) - used <= {"IO_ERROR", "UNCLASSIFIED"}
    assert all(re.fullmatch(r"[A-Z]{2,3}_[A-Z0-9_]+|UNCLASSIFIED", code) for code in BOOK.codes)
    assert all(BOOK.codes.values())


@pytest.mark.parametrize(
    ("table", "changes", "words"),
    [
        ("rule", {"choice": "no-such"}, "unknown choice 'no-such'"),
        ("rule", {"codes": ["NO_SUCH"]}, "unknown code 'NO_SUCH'"),
        ("choice", {"rule": "NOP-01"}, "unknown rule 'NOP-01'"),
        ("choice", {"required": "maybe"}, "no option 'maybe'"),
        ("choice", {"settled": ["NOP-01"], "required": "reject"}, "unknown rule 'NOP-01'"),
        ("choice", {"settled": ["HDR-02"]}, "settled, but does not require an option"),
        ("choice", {"points": [37]}, "unknown point 37"),
        ("choice", {"options": {"reject": "refuse"}}, "has only one option"),
        ("choice", {"positions": {"official": "maybe"}}, "no option 'maybe'"),
        ("rule", {"id": "FRM-02"}, "rules.toml: rule FRM-02 appears twice"),
        ("choice", {"id": "trailing-whitespace"}, "choices.toml: choice trailing-whitespace appears twice"),
        ("rule", {"level": "shall"}, r"rules.toml: .*\$\[0\]\.level"),
        ("rule", {"basis": "custom"}, r"rules.toml: .*\$\[0\]\.basis"),
        ("rule", {"codes": "HDR_DUP_KEY"}, r"rules.toml: .*\$\[0\]\.codes"),
        ("rule", {"title": None}, r"rules.toml: .*\$\[0\]\.title"),
    ],
)
def test_data_files_that_are_malformed_or_contradict_each_other_are_refused(
    table: str, changes: dict[str, object], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = rules._read

    def read(name: str) -> dict[str, Any]:
        raw = load(name)
        if table in raw:
            raw[table][0].update(changes)
        return raw

    monkeypatch.setattr(rules, "_read", read)
    with pytest.raises(ValueError, match=words):
        rule_book.__wrapped__()


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        cast(Any, DTYPE_BITS)["F128"] = 128
