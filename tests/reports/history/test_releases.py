"""Changes by release, as numbers and as named cases; ``stc publish --check`` compares the pages of all."""

from __future__ import annotations

from safetensors_reports.history.ledger import Ledger
from safetensors_reports.history.releases import Passage, history_page
from safetensors_reports.page.html import release_changes

from ..samples import OLD, fails, line


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


def test_cases_are_named_where_nothing_else_can_be() -> None:
    for before, after, fixed, broken in (
        # All that fail are named, so a case that is not named does not fail.
        ((2, "a", "b"), (1, "b"), ("a",), ()),
        ((1, "a"), (1, "b"), ("a",), ("b",)),
        ((1, "a"), None, ("a",), ()),
        # One without a name may be any.
        ((2, "a", "b"), (2, "b"), (), ()),
        ((2, "a"), (1, "b"), ("a",), ()),
        ((5,), (2, "b"), (), ()),
    ):
        made = passage([fails("OFF-07", *before)], [fails("OFF-07", *after)] if after else [])
        found = {(c.fixed, c.broken) for c in made.changes} or {((), ())}
        assert found == {(fixed, broken)}, (before, after)


def test_what_was_asked_and_which_options_were_taken_counts_too() -> None:
    before = line("1", asked=90, steps=("open",), choices={"a": "x", "b": "y"})
    made = Passage(before, line("2", asked=100, steps=("read",), choices={"b": "z"}))
    assert (made.steps, made.choices) == ((["read"], ["open"]), {"a": ("x", ""), "b": ("y", "z")})
    text = history_page(Ledger("lib", "lib", (made.before, made.after)))
    assert "Cases run: 90 before, 100 after; new steps: `read`; removed steps: `open`." in text
    assert "- `a`: `x` → unknown\n- `b`: `y` → `z`" in text
    for more in ({"asked": 90}, {"steps": ("read",)}, {"choices": {"a": "x"}}):
        assert [Passage(line("1"), line("2", **extra)).same for extra in ({}, more)] == [True, False]


def test_only_runs_over_one_corpus_are_compared_the_newest_first() -> None:
    told = [line("1", fails("OFF-07", 9), corpus=OLD), line("3", fails("OFF-07", 2, "layout/a", "layout/b"))]
    told += [line("2", fails("OFF-07", 3)), line("3", entry="lib:fast")]
    told += [line(version, fails("OFF-07", 1, "layout/a")) for version in ("10", "11", "12")]
    text = history_page(Ledger("lib", "lib", tuple(told)), "../lib/report.html")
    assert "[Report of the newest release](../lib/report.html)" in text
    assert [row for row in text.split("\n") if row.startswith(("## ", "### ", "| `"))] == [
        f"## `lib` · corpus `2026.11 ({'1' * 16})`",
        *(f"| `{version}` | 2026-11-21 | 100 | {count} |" for version, count in (
            ("12", 1), ("11", 1), ("10", 1), ("3", 2), ("2", 3)
        )),
        "### `10` → `12`", "### `3` → `10`", "### `2` → `3`",
        f"## `lib` · corpus `2026.10 ({'0' * 16})`", "| `1` | 2026-11-21 | 100 | 9 |",
        f"## `lib:fast` · corpus `2026.11 ({'1' * 16})`", "| `3` | 2026-11-21 | 100 |",
    ]  # fmt: skip
    assert "difference, including the releases that were run in between: `11`." in text
    assert "wrong-accept 2 -> 1\n  - fixed: `layout/b`\n" in text
    assert "disclosure.md" in text
    assert "disclosure.md" not in history_page(Ledger("reference", "reference", tuple(told)))


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
