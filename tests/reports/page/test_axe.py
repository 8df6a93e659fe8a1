"""Pages as assistive programs see them: axe finds nothing, with all parts closed and with all open."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from safetensors_reports.page.html import comparison_html, report_html

from .browser import NARROW, WIDE, open_all, opened, violations, written
from .samples import ALL

# Colours hang on the scheme and layout on the width, so that two windows show all of both.
WINDOWS = [(NARROW, "dark"), (WIDE, "light")]
# What only one width shows has both colours at night.
OTHERS = [(NARROW, "light"), (WIDE, "dark")]
EVERY_WINDOW = [*WINDOWS, *(pytest.param(*window, marks=pytest.mark.nightly) for window in OTHERS)]


LARGE = ("many", "several")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=pytest.mark.skipif(
                name in LARGE and os.environ.get("STC_SLOW") != "1", reason="large pages; STC_SLOW=1 does it"
            ),
        )
        for name in ALL
    ],
)
def test_axe_finds_nothing_wrong(browser: Browser, tmp_path: Path, name: str) -> None:
    path = written(tmp_path, report_html(ALL[name]()))
    # Most that could be wrong is in these; others get one window unless there is time for two.
    whole = name in ("one", "hostile") or os.environ.get("STC_SLOW") == "1"
    for width, scheme in WINDOWS if whole else WINDOWS[:1]:
        with opened(browser, path, width, scheme=scheme) as seen:
            # Closed parts are not looked at. Open ones take a while, and hold all that closed pages show.
            open_all(seen.page)
            assert violations(seen.page) == [], (width, scheme)


@pytest.mark.parametrize(("width", "scheme"), EVERY_WINDOW)
def test_axe_finds_nothing_wrong_with_all_parts_closed(
    browser: Browser, tmp_path: Path, width: int, scheme: str
) -> None:
    path = written(tmp_path, report_html(ALL["one"]()))
    with opened(browser, path, width, scheme=scheme) as seen:
        assert violations(seen.page) == []


@pytest.mark.parametrize(("width", "scheme"), EVERY_WINDOW)
def test_axe_finds_nothing_wrong_with_a_comparison(
    browser: Browser, tmp_path: Path, width: int, scheme: str
) -> None:
    path = written(tmp_path, comparison_html(ALL["several"](), {}, ["A sentence."], "policy.md"))
    with opened(browser, path, width, scheme=scheme) as seen:
        open_all(seen.page)
        for basis in ("text", "official"):
            if width == WIDE:
                seen.page.locator(f"#basis-{basis}").check()
            assert violations(seen.page) == [], basis


def test_axe_finds_what_is_wrong(browser: Browser, tmp_path: Path) -> None:
    bad = '</h1><p style="color:#999;background:#aaa">pale</p><h6>deep</h6>'
    path = written(tmp_path, report_html(ALL["clean"]()).replace("</h1>", bad))
    with opened(browser, path) as seen:
        assert {text.partition(":")[0] for text in violations(seen.page)} == {
            "color-contrast",
            "heading-order",
        }
