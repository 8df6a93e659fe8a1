"""Changes by release, as numbers and as named cases."""

from __future__ import annotations

import pytest

from safetensors_reports.history.ledger import Ledger
from safetensors_reports.history.releases import Passage, RuleChange, history_page, series
from safetensors_reports.page.html import release_changes

from .samples import OLD, fails, line


def passage(before: list[object], after: list[object], **more: object) -> Passage:
    return Passage(line("1", *before), line("2", *after, **more))  # type: ignore[arg-type]


def test_fewer_is_fixed_more_is_broken_and_as_many_fails_otherwise() -> None:
    same = fails("DTY-01", 2)
    now = [fails("OFF-07", 3), fails("OFF-07", 1, verdict="deviation"), fails("HDR-09", 4)]
    made = passage(
        [fails("OFF-07", 12), fails("HDR-09", 1), fails("SHP-01", 5), same],
        [*now, fails("SHP-01", 5, verdict="wrong-reject"), same],
    )
    assert {change.rule: (change.turn, change.difference) for change in made.changes} == {
        "OFF-07": ("fixed", -8),
        "HDR-09": ("broken", 3),
        "SHP-01": ("otherwise", 0),
    }
    assert [change.rule for change in made.changes] == ["OFF-07", "HDR-09", "SHP-01"]
    assert made.changes[0].moves == "wrong-accept 12 -> 3, deviation 0 -> 1"
    assert made.counts == {"wrong-accept": (20, 9), "wrong-reject": (0, 5), "deviation": (0, 1)}


@pytest.mark.parametrize(
    ("before", "after", "fixed", "broken"),
    [
        # All that fail are named, so a case that is not named does not fail.
        ((2, "a", "b"), (1, "b"), ("a",), ()),
        ((1, "a"), (1, "b"), ("a",), ("b",)),
        ((1, "a"), None, ("a",), ()),
        # One without a name may be any.
        ((2, "a", "b"), (2, "b"), (), ()),
        ((2, "a"), (1, "b"), ("a",), ()),
        ((5,), (2, "b"), (), ()),
    ],
)
def test_cases_are_named_where_nothing_else_can_be(
    before: tuple[int], after: tuple[int] | None, fixed: tuple[str, ...], broken: tuple[str, ...]
) -> None:
    made = passage([fails("OFF-07", *before)], [fails("OFF-07", *after)] if after else [])
    found = {(c.fixed, c.broken) for c in made.changes} or {((), ())}
    assert found == {(fixed, broken)}


def test_only_runs_over_one_corpus_are_compared_the_newest_first() -> None:
    told = [
        line("1", fails("OFF-07", 9), corpus=OLD),
        line("3", fails("OFF-07", 1)),
        line("2", fails("OFF-07", 2)),
        line("3", entry="lib:fast"),
        line("10", fails("OFF-07", 1)),
    ]
    found = series(told)
    assert [(one.entry, [x.version for x in one.lines]) for one in found] == [
        ("lib", ["10", "3", "2"]),
        ("lib", ["1"]),
        ("lib:fast", ["3"]),
    ]
    assert [(p.before.version, p.after.version) for p in found[0].passages] == [("3", "10"), ("2", "3")]
    assert [p.same for p in found[0].passages] == [True, False]
    assert found[1].corpus == f"2026.10 ({'0' * 16})"


def test_what_was_asked_and_which_options_were_taken_counts_too() -> None:
    made = Passage(
        line("1", asked=90, steps=("open",), choices={"a": "x", "b": "y"}),
        line("2", asked=100, steps=("read",), choices={"b": "z"}),
    )
    assert not made.same
    assert (made.steps, made.choices) == ((["read"], ["open"]), {"a": ("x", ""), "b": ("y", "z")})
    text = history_page(Ledger("lib", "lib", (made.before, made.after)))
    assert "Cases run: 90 before, 100 after; new steps: `read`; removed steps: `open`." in text
    assert "- `b`: `y` → `z`" in text
    assert "- `a`: `x` → unknown" in text


def test_a_page_tells_releases_and_changes() -> None:
    told = (
        line("1", fails("OFF-07", 2, "layout/a", "layout/b")),
        line("2", fails("OFF-07", 1, "layout/a")),
        line("3", fails("OFF-07", 1, "layout/a")),
    )
    text = history_page(Ledger("lib", "lib", told), "../lib/report.html")
    assert text.startswith("# `lib`, release by release\n")
    assert "[Report of the newest release](../lib/report.html)" in text
    assert "| `3` | 2026-11-21 | 100 | 1 |" in text
    assert "### `2` → `3`\n\nThere is no published difference.\n" in text
    assert "wrong-accept 2 -> 1\n  - fixed: `layout/b`\n" in text
    assert text.index("`2` → `3`") < text.index("`1` → `2`")
    assert "disclosure.md" in text
    assert "disclosure.md" not in history_page(Ledger("reference", "reference", told))


def test_releases_that_changed_nothing_stand_together_and_long_lists_say_what_they_leave_out() -> None:
    told = tuple(line(str(n), *([fails("OFF-07", 1)] if n > 3 else [])) for n in range(1, 8))
    text = history_page(Ledger("lib", "lib", told))
    heads = [row for row in text.split("\n") if row.startswith("### ")]
    assert heads == ["### `4` → `7`", "### `3` → `4`", "### `1` → `3`"]
    for between in ("`5`, `6`", "`2`"):
        assert f"difference, including the releases that were run in between: {between}." in text
    cases = [f"layout/case-{number:02}" for number in range(30)]
    before, after = line("1", fails("OFF-07", 30, *cases)), line("2")
    text = history_page(Ledger("lib", "lib", (before, after)))
    assert "`layout/case-11` and 18 more" in text
    assert "and 18 more" in str(release_changes(Passage(before, after)))
    assert RuleChange("ZZZ-01", {}, {}).title == ""


BAD = "</code><script>x</script>|`\n@everybody\u202e"


def test_words_from_outside_break_no_page_and_a_fragment_says_the_same() -> None:
    told = [
        line("1", fails("OFF-07", 1, BAD), entry=BAD, choices={BAD: BAD}, steps=(BAD,)),
        line("2" + BAD, fails("XXX-99", 1), entry=BAD),
    ]
    text = history_page(Ledger(BAD, "lib", tuple(told)))
    assert "\u202e" not in text
    outside = [part for row in text.split("\n") for part in row.split("`")[::2]]
    assert not any("script" in part or "everybody" in part for part in outside)
    html = str(release_changes(Passage(*told)))
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "\u202e" not in html
    html = str(release_changes(passage([fails("OFF-07", 2, "layout/a")], [], asked=120)))
    shown = ("wrong-accept 2 → 0", "<strong>Fixed</strong>", "OFF-07", "<code>layout/a</code>", "120 after")
    assert all(part in html for part in shown)
    assert "no published difference" in str(release_changes(passage([], [])))
