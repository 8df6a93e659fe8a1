"""Pages ask for nothing, run nothing but their own script, and tell everything without it."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from safetensors_reports.page.html import report_html
from safetensors_reports.page.publish import comparison_svg

from .browser import NARROW, WIDE, open_all, opened, written
from .samples import ALL, HOSTILE, hostile, many, one


@pytest.mark.by_day(5)
@pytest.mark.parametrize("name", ALL)
def test_a_page_asks_for_nothing_says_nothing_and_fits_its_window(
    browser: Browser, tmp_path: Path, name: str
) -> None:
    with opened(browser, written(tmp_path, report_html(ALL[name]()))) as seen:
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


def test_what_a_page_asks_for_would_be_seen(browser: Browser, tmp_path: Path) -> None:
    """A picture from elsewhere is refused by the page's policy, and asked for without it."""
    page = report_html(ALL["clean"]()).replace("</h1>", '</h1><img alt="" src="https://example.org/x.png">')
    with opened(browser, written(tmp_path, page)) as seen:
        assert any("Content Security Policy" in text for text in seen.said)
    page = page.replace("http-equiv", "data-off")
    with opened(browser, written(tmp_path, page)) as seen:
        assert "https://example.org/x.png" in seen.requests


def test_hostile_texts_are_texts(browser: Browser, tmp_path: Path) -> None:
    path = written(tmp_path, report_html(hostile()))
    with opened(browser, path) as seen, opened(browser, path, java_script_enabled=False) as silent:
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
        assert (
            silent.page.locator("#findings article").count() == seen.page.locator("article.finding").count()
        )


@pytest.mark.parametrize("document", [one, many])
def test_without_scripts_everything_is_there_but_the_filter(
    browser: Browser, tmp_path: Path, document: object
) -> None:
    assert callable(document)
    report = document()
    with opened(browser, written(tmp_path, report_html(report)), java_script_enabled=False) as seen:
        assert [s.get_attribute("id") for s in seen.page.locator("main > section").all()] == [
            "verdict", "causes", "run", "support", "grid", "findings", "agreement", "inputs", "choices",
            "coverage", "expected", "cost", "changes", "again"]  # fmt: skip
        assert seen.page.locator("#filter").is_hidden()
        blocks = {(f.rule, f.verdict) for f in report.findings}
        assert seen.page.locator("article.finding:visible").count() == len(blocks)
        # Closed parts open without scripts.
        part = seen.page.locator("#support details.area").first
        part.locator("summary").first.click()
        assert part.locator("table").first.is_visible()


def test_dark_pages_are_dark(browser: Browser, tmp_path: Path) -> None:
    path = written(tmp_path, report_html(one()))
    grounds = []
    for scheme in ("light", "dark"):
        with opened(browser, path, scheme=scheme) as seen:
            grounds.append(seen.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(255, 255, 255)", "rgb(13, 17, 23)"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["many", "hostile", "public"])
def test_the_picture_opens_by_itself(browser: Browser, tmp_path: Path, scheme: str, name: str) -> None:
    path = written(tmp_path, comparison_svg(ALL[name]()), "comparison.svg")
    with opened(browser, path, scheme=scheme) as seen:
        assert seen.quiet(), (seen.requests, seen.said)
        assert seen.page.evaluate("window.__pwned") is None
        assert seen.page.evaluate("document.documentElement.tagName") == "svg"
        ground = seen.page.evaluate("getComputedStyle(document.querySelector('rect.g')).fill")
        assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"}[scheme]
        # A text is as wide as its letters are; none leaves the picture.
        outside = seen.page.evaluate(
            """() => { const all = document.documentElement.viewBox.baseVal;
            return [...document.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()])
                .filter(([, box]) => box.x < 0 || box.x + box.width > all.width
                    || box.y < 0 || box.y + box.height > all.height).map(([text]) => text); }"""
        )
        assert outside == []
