"""Changes by release that no published page shows; ``stc publish --check`` compares the pages of all."""

from __future__ import annotations

from safetensors_reports.history.ledger import Ledger
from safetensors_reports.history.releases import Passage, history_page
from safetensors_reports.page.html import release_changes

from ..samples import fails, line


def passage(before: list[object], after: list[object], **more: object) -> Passage:
    return Passage(line("1", *before), line("2", *after, **more))  # type: ignore[arg-type]


def test_as_many_cases_that_fail_otherwise_are_neither_fixed_nor_broken() -> None:
    (change,) = passage([fails("SHP-01", 5)], [fails("SHP-01", 5, verdict="wrong-reject")]).changes
    assert (change.turn, change.difference) == ("otherwise", 0)


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
