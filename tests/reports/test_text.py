"""Texts made safe and short."""

from __future__ import annotations

import pytest

from safetensors_reports.text import listed, report_key, visible


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, ""), (2, "a, b"), (3, "a, b, c"), (4, "a, b and 2 more"), (1_502, "a, b and 1,500 more")],
)
def test_a_list_never_leaves_one_out(count: int, text: str) -> None:
    items = [*"abcd", *map(str, range(count))][:count]
    assert listed(items, 2) == text


def test_one_report_has_one_key_under_all_its_names() -> None:
    names = [
        "o/lib#40",
        "other/lib#40",
        "https://github.com/o/lib/issues/40",
        "https://github.com/o/lib/pull/40/",
    ]
    assert {report_key(name) for name in names} == {"lib#40"}
    assert report_key("A review 2023") == "A review 2023"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("::error file=a::b", "\\u003a:error file=a::b"),
        ("it said ::stop-commands::x", "it said \\u003a:stop-commands::x"),
        ("see ##[group]x", "see \\u0023#[group]x"),
        ("std::bad_alloc", "std::bad_alloc"),
    ],
)
def test_no_line_of_a_log_can_become_a_command(text: str, shown: str) -> None:
    assert visible(text) == shown
