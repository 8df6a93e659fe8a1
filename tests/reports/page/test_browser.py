"""Pages in a browser: they do nothing by themselves, and work by keyboard, on paper and for everybody."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from safetensors_reports.page.html import comparison_html, report_html
from safetensors_reports.page.publish import comparison_svg

from ..samples import report
from .browser import NARROW, WIDE, Seen, launched, open_all, opened, violations
from .samples import ALL, HOSTILE, hostile, many, one, public, records, several

PAPER = 718
"""Width of A4 in pixels without its margins."""
LARGEST = 2_000_000
"""Most bytes of the page of 25 implementations over 1,000 cases."""
# Colours depend on the scheme and layout on the width, so that two windows show all of both.
WINDOWS = [(NARROW, "dark"), (WIDE, "light")]
Show = Callable[..., AbstractContextManager[Seen]]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as found:
        yield found


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Show:
    """Open a text as a page in its own window."""

    def show(text: str, *window: int, name: str = "report.html", **options: Any) -> Any:
        path = tmp_path / name
        path.write_text(text, "utf-8")
        return opened(browser, path, *window, **options)

    return show


@pytest.fixture
def page(show: Show) -> Iterator[Page]:
    with show(report_html(several())) as seen:
        yield seen.page


@pytest.mark.by_day(3)
@pytest.mark.parametrize("name", ALL)
def test_a_page_asks_for_nothing_says_nothing_and_fits_its_window(show: Show, name: str) -> None:
    with show(report_html(ALL[name]())) as seen:
        for all_open in (False, True):
            if all_open:
                open_all(seen.page)
            for width in (NARROW, WIDE):
                seen.page.set_viewport_size({"width": width, "height": 900})
                assert seen.page.evaluate("innerWidth") == width
                assert seen.page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
                # Nothing is cut off instead: what is wider than the window is in a part that scrolls.
                cut = seen.page.eval_on_selector_all(
                    "main :not(option)",
                    """all => all.filter(e => e.getBoundingClientRect().right > innerWidth + 1
                        && !e.closest('.scroll')).map(e => e.outerHTML.slice(0, 120))""",
                )
                assert cut == []
        seen.page.mouse.wheel(0, 100_000)
        seen.page.wait_for_timeout(100)
        assert seen.quiet(), (seen.requests, seen.said)


def test_what_a_page_asks_for_would_be_seen(show: Show) -> None:
    """A picture from elsewhere is refused by the page's policy, and asked for without it."""
    page = report_html(ALL["clean"]()).replace("</h1>", '</h1><img alt="" src="https://example.org/x.png">')
    with show(page) as seen:
        assert any("Content Security Policy" in text for text in seen.said)
    with show(page.replace("http-equiv", "data-off")) as seen:
        assert "https://example.org/x.png" in seen.requests


def test_hostile_texts_are_texts(show: Show) -> None:
    text = report_html(hostile())
    with show(text) as seen, show(text, java_script_enabled=False) as silent:
        open_all(seen.page)
        assert seen.page.evaluate("window.__pwned") is None
        assert seen.quiet()
        assert seen.page.locator("script").count() == 1
        assert seen.page.locator("main img, main iframe, main object, [onerror], [onload]").count() == 0
        # Links lead to parts of the page, to the public or to the inputs carried along.
        targets = seen.page.eval_on_selector_all("[href]", "all => all.map(a => a.getAttribute('href'))")
        assert {t.partition(":")[0] for t in targets if not t.startswith("#")} <= {"https", "data"}
        assert all(t.startswith("data:application/octet-stream;base64,") for t in targets if t[:5] == "data:")
        text = seen.page.locator("main").inner_text()
        assert HOSTILE[0] in text
        assert not any(bad in text for bad in "\u202e\u2066\u200f\x00\x1b\u2028\ufffd")
        assert "\\ud800 lone \\udfff" in text
        assert "\\u202egpj.exe" in text
        assert all("x" * 2_001 not in line for line in text.splitlines() if not line.startswith("stc "))
        # Without scripts everything is there but the filter, and closed parts open.
        found = seen.page.locator("article.finding").count()
        assert silent.page.locator("article.finding:visible").count() == found > 0
        assert silent.page.locator("#filter").is_hidden()
        area = silent.page.locator("#support details.area").first
        area.locator("summary").first.click()
        assert area.locator("table").first.is_visible()


@pytest.mark.by_day(2)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["many", "hostile", "public"])
def test_the_picture_opens_by_itself_and_a_page_has_its_colours(show: Show, scheme: str, name: str) -> None:
    ground = {"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"}[scheme]
    with show(report_html(one()), scheme=scheme) as seen:
        assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == ground
    with show(comparison_svg(ALL[name]()), name="comparison.svg", scheme=scheme) as seen:
        assert seen.quiet(), (seen.requests, seen.said)
        assert seen.page.evaluate("window.__pwned") is None
        assert seen.page.evaluate("document.documentElement.tagName") == "svg"
        assert seen.page.evaluate("getComputedStyle(document.querySelector('rect.g')).fill") == ground
        # A text is as wide as its letters are; none leaves the picture.
        outside = seen.page.evaluate(
            """() => { const all = document.documentElement.viewBox.baseVal;
            return [...document.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()])
                .filter(([, box]) => box.x < 0 || box.x + box.width > all.width
                    || box.y < 0 || box.y + box.height > all.height).map(([text]) => text); }"""
        )
        assert outside == []


@pytest.mark.nightly
def test_a_large_report_is_a_small_file() -> None:
    document = report(*records(25, 1000))
    assert 20 * 25 < len(document.findings) < 40 * 25
    assert len(report_html(document).encode()) <= LARGEST


@pytest.mark.by_day(3)  # "one" when narrow and dark, the comparison when wide and light, and "clean"
@pytest.mark.parametrize(("width", "scheme"), WINDOWS)
@pytest.mark.parametrize("name", [*[*ALL][:2], "comparison", *[*ALL][2:]])
def test_axe_finds_nothing_wrong(show: Show, name: str, width: int, scheme: str) -> None:
    many = name == "comparison"
    text = comparison_html(several(), {}, ["A sentence."], "policy.md") if many else report_html(ALL[name]())
    with show(text, width, scheme=scheme) as seen:
        if name == "clean":
            assert violations(seen.page) == []
        # axe skips closed parts. Open ones take a while, and hold all that closed pages show.
        open_all(seen.page)
        assert violations(seen.page) == []
        if many and width == WIDE:
            seen.page.locator("#basis-official").check()
            assert violations(seen.page) == []


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


def test_the_tab_key_reaches_everything_in_order_and_shows_where_it_is(show: Show) -> None:
    with show(report_html(one())) as seen:
        reached = tabbed(seen.page)
        names = [stop["name"] for stop in reached]
        assert names[0] == "skip"
        assert names[1:14] == ["nav"] * 13
        assert [n for n in names if n in ("q", "s", "v", "button")] == ["q", "s", "v", "button"]
        assert names.count("scroll") == seen.page.locator(".scroll:visible").count() > 5
        assert names.count("summary") == seen.page.locator("summary:visible").count() > 5
        assert [stop for stop in reached if not (stop["lit"] and stop["shown"])] == []


BELOW_FILTER = """name => { const b = document.getElementById(name).getBoundingClientRect();
    const form = document.getElementById('filter').getBoundingClientRect();
    return b.top >= form.bottom - 1 && b.top < innerHeight }"""
ALL_SHOWN = "total => document.querySelectorAll('article.finding:not([hidden])').length === total"


def test_links_lead_to_what_is_closed_or_filtered_and_enter_opens_a_part(page: Page) -> None:
    page.keyboard.press("Tab")
    assert page.locator(".skip").bounding_box()["x"] >= 0  # type: ignore[index]
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#main"
    page.keyboard.press("Tab")
    assert page.evaluate("document.querySelector('main').contains(document.activeElement)")
    part = page.locator("details.area").first
    assert not part.evaluate("e => e.open")
    part.locator("summary").first.focus()
    page.keyboard.press("Enter")
    assert part.evaluate("e => e.open")
    # A link to a finding that the filter hides takes the filter off.
    articles = page.locator("article.finding")
    total, last = articles.count(), articles.last.get_attribute("id")
    page.locator("[name=q]").fill("no such words at all")
    assert visible(page) == 0
    page.evaluate("name => { location.hash = name }", last)
    page.wait_for_function(ALL_SHOWN, arg=total)
    # The finding is where one looks, although everything above it came back.
    page.wait_for_function(BELOW_FILTER, arg=last)
    assert page.locator("#shown").inner_text() == f"{total} of {total} shown"
    # A link into a closed part opens it, also when the address is sent around.
    name = page.locator("details:not([open]) th[id]").last.get_attribute("id")
    inside = page.locator(f'[id="{name}"]')
    assert inside.is_hidden()
    page.evaluate("name => { location.hash = name }", name)
    inside.wait_for(state="visible")
    page.wait_for_function(BELOW_FILTER, arg=name)
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    assert inside.is_visible()


def visible(page: Page) -> int:
    return page.locator("article.finding:visible").count()


def test_the_filter_by_severity_verdict_and_implementation(page: Page) -> None:
    said, who = page.locator("#shown"), several().implementations[1].label
    total = len({(found.rule, found.verdict) for found in several().findings})
    assert said.get_attribute("role") == "status"
    assert said.inner_text() == f"{total} of {total} shown"
    tried = [("s", level, f".key:text-is('{level} severity')") for level in ("high", "medium", "low")]
    tried += [("v", verdict, f".key:text-is('{verdict}')") for verdict in ("wrong-accept", "wrong-reject")]
    for field, value, has in [*tried, ("i", who, f"*:has-text('{who}')")]:
        page.locator(f"#filter [name={field}]").select_option(label=value)
        left = page.locator(f"article.finding:has({has})").count()
        assert 0 < left < total, value
        assert (visible(page), said.inner_text()) == (left, f"{left} of {total} shown"), value
        page.locator("#filter button").click()
        page.wait_for_function(ALL_SHOWN, arg=total)
    # Heads of levels without any finding left go with them.
    page.locator("#filter [name=s]").select_option("high")
    assert [h.inner_text().partition(":")[0] for h in page.locator(".level h3:visible").all()] == ["High"]


def test_filters_hold_together_and_search_takes_all_words(page: Page) -> None:
    finding = next(f for f in several().findings if f.verdict == "wrong-reject")
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


def sheets(page: Page) -> int:
    return len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4")))


@pytest.mark.by_day(1)
@pytest.mark.parametrize("document", [one, several, public])
def test_a_report_prints_on_six_sheets_and_says_what_it_leaves_out(show: Show, document: Any) -> None:
    with show(report_html(document()), PAPER) as seen:
        left_out = seen.page.get_by_text("printed version leaves out")
        assert seen.page.locator("nav").is_visible()
        assert left_out.is_hidden()
        seen.page.emulate_media(media="print")
        for gone in ("nav", "#filter", ".skip", "#findings"):
            assert seen.page.locator(gone).is_hidden(), gone
        assert left_out.is_visible()
        assert seen.page.locator(".card").first.is_visible()
        assert seen.page.locator("#causes").is_visible()
        wide = seen.page.eval_on_selector_all(
            "table", "all => all.map(t => t.getBoundingClientRect().right - innerWidth)"
        )
        assert max(wide, default=0) <= 0
        assert 1 <= sheets(seen.page) <= 6


@pytest.mark.nightly
def test_a_comparison_prints_on_three_sheets(show: Show) -> None:
    with show(comparison_html(many(), {}, ["A sentence."], ""), PAPER) as seen:
        seen.page.emulate_media(media="print")
        assert seen.page.locator(".cmp table").first.is_visible()
        assert 1 <= sheets(seen.page) <= 3


def test_a_comparison_switches_without_scripts_tells_its_numbers_and_has_cards_if_narrow(show: Show) -> None:
    text = comparison_html(several(), {"lib0 0.0": "lib0/report.html"}, [], "")
    with show(text, java_script_enabled=False) as seen:
        words, official = (seen.page.locator(f"tbody td .by-{key}.tone").first for key in ("t", "o"))
        assert (words.is_visible(), official.is_visible()) == (True, False)
        cell = seen.page.locator(".bars[href*='lib0/report.html#area-']").first
        assert " cases against the text" in (cell.get_attribute("aria-label") or "")
        seen.page.locator("#basis-text").focus()
        seen.page.keyboard.press("ArrowRight")
        assert (words.is_visible(), official.is_visible()) == (False, True)
        shown = [seen.page.locator(f".cmp > p.by-{key}").first.is_visible() for key in "tou"]
        assert shown == [False, True, False]
    with show(text) as seen:
        seen.page.locator(".bars").first.focus()
        seen.page.keyboard.press("Tab")
        told = seen.page.evaluate("getComputedStyle(document.activeElement, '::after').content")
        assert " cases against the text" in told
        for width, card, table in ((NARROW, True, False), (WIDE, False, True)):
            seen.page.set_viewport_size({"width": width, "height": 900})
            assert seen.page.locator(".card").first.is_visible() is card
            assert seen.page.locator(".cmp table").first.is_visible() is table
            assert seen.page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
