"""Pages as assistive programs see them: axe finds nothing, with all parts closed and with all open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from safetensors_reports.page.html import comparison_html, report_html

from .browser import NARROW, WIDE, open_all, opened, violations, written
from .samples import ALL

# Colours depend on the scheme and layout on the width, so that two windows show all of both.
WINDOWS = [(NARROW, "dark"), (WIDE, "light")]
EVERY_WINDOW = [*WINDOWS, (NARROW, "light"), (WIDE, "dark")]


def by_night(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.nightly)


# By day: the page with most parts, and one in the other colours.
OPEN = [("one", *WINDOWS[0]), ("public", *WINDOWS[1])]


@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [
        *OPEN,
        *(by_night(name, *window) for name in ALL for window in WINDOWS if (name, *window) not in OPEN),
    ],
)
def test_axe_finds_nothing_wrong(
    browser: Browser, tmp_path: Path, name: str, width: int, scheme: str
) -> None:
    with opened(browser, written(tmp_path, report_html(ALL[name]())), width, scheme=scheme) as seen:
        # axe skips closed parts. Open ones take a while, and hold all that closed pages show.
        open_all(seen.page)
        assert violations(seen.page) == []


@pytest.mark.nightly
@pytest.mark.parametrize(("width", "scheme"), EVERY_WINDOW)
def test_axe_finds_nothing_wrong_with_all_parts_closed(
    browser: Browser, tmp_path: Path, width: int, scheme: str
) -> None:
    path = written(tmp_path, report_html(ALL["one"]()))
    with opened(browser, path, width, scheme=scheme) as seen:
        assert violations(seen.page) == []


@pytest.mark.parametrize(
    ("width", "scheme"), [*WINDOWS, *(by_night(*window) for window in EVERY_WINDOW if window not in WINDOWS)]
)
def test_axe_finds_nothing_wrong_with_a_comparison(
    browser: Browser, tmp_path: Path, width: int, scheme: str
) -> None:
    path = written(tmp_path, comparison_html(ALL["several"](), {}, ["A sentence."], "policy.md"))
    with opened(browser, path, width, scheme=scheme) as seen:
        open_all(seen.page)
        assert violations(seen.page) == []
        if width == WIDE:
            seen.page.locator("#basis-official").check()
            assert violations(seen.page) == []


def test_axe_finds_what_is_wrong(browser: Browser, tmp_path: Path) -> None:
    bad = '</h1><p style="color:#999;background:#aaa">pale</p><h6>deep</h6>'
    path = written(tmp_path, report_html(ALL["clean"]()).replace("</h1>", bad))
    with opened(browser, path) as seen:
        assert {text.partition(":")[0] for text in violations(seen.page)} == {
            "color-contrast",
            "heading-order",
        }
