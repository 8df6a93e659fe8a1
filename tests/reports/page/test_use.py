"""Pages by keyboard, through their filter, and on paper."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from safetensors_reports.audit.report import Finding, Report
from safetensors_reports.page.html import comparison_html, report_html

from .browser import NARROW, WIDE, opened, written
from .samples import forty, one, public, several

PAPER = 718
"""Width of A4 in pixels without its margins."""


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Iterator[Page]:
    with opened(browser, written(tmp_path, report_html(several()))) as seen:
        yield seen.page


FOCUS = """() => { const e = document.activeElement, s = getComputedStyle(e), b = e.getBoundingClientRect();
    return {name: ['skip', 'copy', 'bars'].includes(e.className) ? e.className :
            e.closest('nav') ? 'nav' : e.name ||
            (e.classList.contains('scroll') ? 'scroll' : e.tagName.toLowerCase()),
        lit: s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) > 0 || e.className === 'skip',
        shown: b.right > 0 && b.bottom > 0 && b.left < innerWidth && b.top < innerHeight,
        last: e === document.body}; }"""


def tabbed(page: Page, most: int = 2_000) -> list[dict[str, Any]]:
    """Return what the tab key reaches, in order, up to the end of the page."""
    found: list[dict[str, Any]] = []
    for _ in range(most):
        page.keyboard.press("Tab")
        found.append(page.evaluate(FOCUS))
        if found[-1]["last"]:
            return found[:-1]
    raise AssertionError("the tab key never leaves the page")


def test_the_tab_key_reaches_everything_in_order_and_shows_where_it_is(
    browser: Browser, tmp_path: Path
) -> None:
    with opened(browser, written(tmp_path, report_html(one()))) as seen:
        reached = tabbed(seen.page)
        names = [stop["name"] for stop in reached]
        assert names[0] == "skip"
        assert names[1:14] == ["nav"] * 13
        assert [n for n in names if n in ("q", "s", "v", "button")] == ["q", "s", "v", "button"]
        assert names.count("scroll") == seen.page.locator(".scroll:visible").count() > 5
        assert names.count("summary") == seen.page.locator("summary:visible").count() > 5
        assert [stop for stop in reached if not (stop["lit"] and stop["shown"])] == []


def test_the_skip_link_leads_to_the_report(page: Page) -> None:
    page.keyboard.press("Tab")
    assert page.locator(".skip").bounding_box()["x"] >= 0  # type: ignore[index]
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#main"
    page.keyboard.press("Tab")
    assert page.evaluate("document.querySelector('main').contains(document.activeElement)")


def test_enter_opens_a_part(page: Page) -> None:
    part = page.locator("details.area").first
    assert not part.evaluate("e => e.open")
    part.locator("summary").first.focus()
    page.keyboard.press("Enter")
    assert part.evaluate("e => e.open")


def test_a_link_into_a_closed_part_opens_it(page: Page) -> None:
    name = page.locator("details:not([open]) th[id]").last.get_attribute("id")
    inside = page.locator(f'[id="{name}"]')
    assert inside.is_hidden()
    page.evaluate("name => { location.hash = name }", name)
    inside.wait_for(state="visible")
    page.wait_for_function(
        "name => { const b = document.getElementById(name).getBoundingClientRect();"
        " const form = document.getElementById('filter').getBoundingClientRect();"
        " return b.top >= form.bottom && b.bottom <= innerHeight }",
        arg=name,
    )
    # The address may be sent around.
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    assert inside.is_visible()


def expected(document: Report, fits: Any) -> int:
    """Return how many blocks a filter must leave."""
    order = list(document.scales.severity)
    blocks: dict[tuple[str | None, str], list[Finding]] = {}
    for finding in document.findings:
        blocks.setdefault((finding.rule, finding.verdict), []).append(finding)
    worst = {key: min(members, key=lambda f: order.index(f.severity)) for key, members in blocks.items()}
    return sum(bool(fits(worst[key], members)) for key, members in blocks.items())


def visible(page: Page) -> int:
    return page.locator("article.finding:visible").count()


def test_the_filter_by_severity_verdict_and_implementation(page: Page) -> None:
    document = several()
    total = expected(document, lambda worst, members: True)
    said = page.locator("#shown")
    assert said.get_attribute("role") == "status"
    assert said.inner_text() == f"{total} of {total} shown"
    who = document.implementations[1].label
    tried = [
        ("s", ["high", "medium", "low"], lambda value, worst, members: worst.severity == value),
        ("v", ["wrong-accept", "wrong-reject"], lambda value, worst, members: worst.verdict == value),
        ("i", [who], lambda value, worst, members: value in {m.implementation for m in members}),
    ]
    for field, values, fits in tried:
        for value in values:
            page.locator(f"#filter [name={field}]").select_option(label=value)
            left = expected(document, lambda w, m, fits=fits, value=value: fits(value, w, m))
            assert 0 < left < total, (field, value)
            assert (visible(page), said.inner_text()) == (left, f"{left} of {total} shown"), (field, value)
        page.locator("#filter button").click()
        page.wait_for_function(
            "total => document.querySelectorAll('article.finding:not([hidden])').length === total", arg=total
        )
    # Heads of levels without any finding left go with them.
    page.locator("#filter [name=s]").select_option("high")
    assert [h.inner_text().partition(":")[0] for h in page.locator(".level h3:visible").all()] == ["High"]


def test_filters_hold_together_and_search_takes_all_words(page: Page) -> None:
    document = several()
    finding = next(f for f in document.findings if f.verdict == "wrong-reject")
    assert finding.rule is not None
    assert finding.evidence is not None
    page.locator("[name=q]").fill(f"{finding.rule.lower()}  REJECTS")
    found = page.locator("article.finding:visible")
    assert found.count() >= 1
    for article in found.all():
        assert finding.rule in article.inner_text()
        assert "rejects" in article.inner_text().lower()
    page.locator("[name=v]").select_option("wrong-accept")
    assert visible(page) == 0
    assert page.locator("#shown").inner_text().startswith("0 of ")
    page.locator("[name=v]").select_option("wrong-reject")
    page.locator("[name=q]").fill(finding.evidence.case)
    assert page.locator(f"#{finding.rule.lower()}-wrong-reject").is_visible()
    page.locator("[name=q]").fill("no such words at all")
    page.keyboard.press("Enter")
    assert visible(page) == 0
    page.locator("#filter button").click()
    page.locator("article.finding").first.wait_for(state="visible")
    assert page.locator("[name=q]").input_value() == ""


def test_a_link_to_a_finding_that_the_filter_hides_takes_the_filter_off(page: Page) -> None:
    total = page.locator("article.finding").count()
    page.locator("[name=q]").fill("no such words at all")
    assert visible(page) == 0
    page.evaluate("location.hash = document.querySelector('article.finding:last-of-type').id")
    page.wait_for_function(
        "total => document.querySelectorAll('article.finding:not([hidden])').length === total", arg=total
    )
    # The finding is where one looks, although everything above it came back.
    page.wait_for_function(
        "() => { const b = document.querySelector(location.hash).getBoundingClientRect();"
        " const form = document.getElementById('filter').getBoundingClientRect();"
        " return b.top >= form.bottom - 1 && b.top < innerHeight }"
    )
    assert page.locator("#shown").inner_text() == f"{total} of {total} shown"


def sheets(pdf: bytes) -> int:
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


@pytest.mark.by_day(2)
@pytest.mark.parametrize("document", [one, several, public])
def test_a_report_prints_on_six_sheets_and_says_what_it_leaves_out(
    browser: Browser, tmp_path: Path, document: Any
) -> None:
    with opened(browser, written(tmp_path, report_html(document())), PAPER) as seen:
        assert seen.page.locator("nav").is_visible()
        assert seen.page.get_by_text("printed version leaves out").is_hidden()
        seen.page.emulate_media(media="print")
        for gone in ("nav", "#filter", ".skip", "#findings"):
            assert seen.page.locator(gone).is_hidden(), gone
        assert seen.page.get_by_text("printed version leaves out").is_visible()
        assert seen.page.locator(".card").first.is_visible()
        assert seen.page.locator("#causes").is_visible()
        wide = seen.page.eval_on_selector_all(
            "table", "all => all.map(t => t.getBoundingClientRect().right - innerWidth)"
        )
        assert max(wide, default=0) <= 0
        assert 1 <= sheets(seen.page.pdf(format="A4")) <= 6


def test_a_comparison_prints_on_four_sheets(browser: Browser, tmp_path: Path) -> None:
    path = written(tmp_path, comparison_html(forty(), {}, ["A sentence."], ""))
    with opened(browser, path, PAPER) as seen:
        seen.page.emulate_media(media="print")
        assert seen.page.locator(".cmp table").first.is_visible()
        assert 1 <= sheets(seen.page.pdf(format="A4")) <= 4


def test_the_switch_tells_by_what_programs_are_judged_without_scripts(
    browser: Browser, tmp_path: Path
) -> None:
    path = written(tmp_path, comparison_html(several(), {}, [], ""))
    with opened(browser, path, java_script_enabled=False) as seen:
        text, official = (seen.page.locator(f"tbody td .by-{key}.tone").first for key in ("t", "o"))
        assert (text.is_visible(), official.is_visible()) == (True, False)
        seen.page.locator("#basis-text").focus()
        seen.page.keyboard.press("ArrowRight")
        assert (text.is_visible(), official.is_visible()) == (False, True)
        assert [seen.page.locator(f".cmp > p.by-{key}").first.is_visible() for key in "tou"] == [
            False, True, False]  # fmt: skip


def test_a_cell_tells_its_number_by_keyboard(browser: Browser, tmp_path: Path) -> None:
    path = written(tmp_path, comparison_html(several(), {"lib0 0.0": "lib0/report.html"}, [], ""))
    with opened(browser, path) as seen:
        cell = seen.page.locator(".bars[href*='lib0/report.html#area-']").first
        assert " cases against the text" in (cell.get_attribute("aria-label") or "")
        seen.page.locator(".bars").first.focus()
        seen.page.keyboard.press("Tab")
        shown = seen.page.evaluate("getComputedStyle(document.activeElement, '::after').content")
        assert " cases against the text" in shown


def test_a_narrow_window_shows_cards_and_a_wide_one_tables(browser: Browser, tmp_path: Path) -> None:
    path = written(tmp_path, comparison_html(several(), {}, [], ""))
    for width, card, table in ((NARROW, True, False), (WIDE, False, True)):
        with opened(browser, path, width) as seen:
            assert seen.page.locator(".card").first.is_visible() is card
            assert seen.page.locator(".cmp table").first.is_visible() is table
            assert seen.page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
