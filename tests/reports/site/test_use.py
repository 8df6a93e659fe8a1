"""The site in a real browser, opened from its folder: found, read and searched, with scripts and without."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from ..page.browser import NARROW, WIDE, launched, opened, violations
from .conftest import RENAMED
from .test_folder import FIRST_PAGE


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as found:
        yield found


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("page", "width", "scheme"),
    [
        *((page, NARROW, "light") for page in ("programs/index", "faults", "releases/mlx")),
        *((page, NARROW, "dark") for page in ("index", "features", "programs/mlx", "docs/compare")),
        *((page, WIDE, "light") for page in ("index", "cases/data", "search")),
        ("rules/met", WIDE, "dark"),
        ("cases/surroundings", NARROW, "dark"),
    ],
)
def test_pages_are_accessible_and_as_wide_as_the_window(
    browser: Browser, site: Path, page: str, width: int, scheme: str
) -> None:
    with opened(browser, site / f"{page}.html", width, scheme=scheme) as seen:
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
        assert [address for address in seen.requests if not address.startswith(site.as_uri())] == []
        # Before axe, which asks for style sheets in ways that a browser refuses for files.
        assert seen.said == []
        assert violations(seen.page) == []


def test_the_first_page_is_light_and_pages_can_be_used_without_scripts(browser: Browser, site: Path) -> None:
    with opened(browser, site / "index.html") as seen:
        files = {Path(address.removeprefix("file://").partition("?")[0]) for address in seen.requests}
        assert site / "index.html" in files
        assert sum(path.stat().st_size for path in files) <= FIRST_PAGE
    with opened(browser, site / "index.html", WIDE, scheme="dark", java_script_enabled=False) as seen:
        page = seen.page
        page.get_by_role("link", name=re.compile("^mlx ")).click()
        assert page.get_by_role("heading", name="Untrusted files").is_visible()
        page.get_by_role("link", name="HDR-09").first.click()
        page.wait_for_url(lambda url: url.endswith("rules/hdr.html#HDR-09"))
        part = page.locator("[id='HDR-09'] details")
        assert not part.locator("li").first.is_visible()
        part.locator("summary").click()
        assert "accepts wrongly" in part.locator("li").first.inner_text()


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("words", "found", "address"),
    [
        ("off_hole", "OFF_HOLE", "faults.html#OFF_HOLE"),
        ("OFF-07", "OFF-07 no holes", "rules/off.html#OFF-07"),
        ("four bytes between two tensors", "layout/hole-between-two", "cases/layout.html#hole-between-two"),
        ("mlx", "mlx", "programs/mlx.html#top"),
    ],
)
def test_the_search_finds_what_has_a_name(
    browser: Browser, site: Path, words: str, found: str, address: str
) -> None:
    with opened(browser, site / "index.html") as seen:
        seen.page.get_by_label("Search rules, cases, faults, programs").fill(words)
        seen.page.get_by_role("button", name="Search").click()
        first = seen.page.locator("#search-results li a").first
        first.wait_for()
        assert found in first.inner_text()
        first.click()
        seen.page.wait_for_url(lambda url: url.endswith(f"/{address}"))
        assert seen.said == []


def test_what_others_worded_does_nothing(browser: Browser, site: Path) -> None:
    with opened(browser, site / "index.html") as seen:
        for page in ("programs/mlx.html", "cases/framing.html", "faults.html", f"search.html?q={RENAMED}"):
            seen.page.goto(f"{site.as_uri()}/{page}")
            words = seen.page.get_by_text("owned").locator("visible=true").first
            words.wait_for()
            assert "<script>" in words.inner_text() or "‹script›" in words.inner_text()
            assert seen.page.locator("article img").count() == 0
            assert seen.page.title() not in ("owned", "1")
        assert seen.said == []
