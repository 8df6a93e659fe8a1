"""Opens pages in a real browser: a Chromium of this machine, without a window and without a network."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
NEEDED = "STC_BROWSER"
"""Environment variable; with ``required`` a machine without a browser fails the tests and does not skip."""
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]
NARROW, WIDE = 400, 1400


def executable() -> str:
    """Return the browser's path; skip or fail the test without one."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        why = f"no browser: none of {', '.join(NAMES)} is on PATH; install one"
        if os.environ.get(NEEDED) == "required":
            pytest.fail(why, pytrace=False)
        pytest.skip(why)
    return found


@contextmanager
def launched() -> Iterator[Browser]:
    """Run a browser."""
    path = executable()
    # Its sandbox refuses to run as root, as containers of CI do.
    args = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=args)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Seen:
    """An open page with its requests, that of the file itself first, and its messages on the console."""

    page: Page
    requests: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def quiet(self) -> bool:
        """True when nothing but the file was asked for, and nothing was said."""
        return self.requests == [self.page.url.partition("#")[0]] and not self.said


@contextmanager
def opened(
    browser: Browser, path: Path, width: int = WIDE, *, scheme: Any = "light", **options: Any
) -> Iterator[Seen]:
    """Open a page or picture in its own window, ``width`` pixels wide, in a ``light`` or ``dark`` scheme."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, **options)
    try:
        seen = Seen(context.new_page())
        _watch(context, seen)
        seen.page.goto(path.as_uri())
        yield seen
    finally:
        context.close()


def _watch(context: BrowserContext, seen: Seen) -> None:
    def only_files(route: Route) -> None:
        if route.request.url.startswith(("file:", "data:")):
            route.continue_()
        else:
            route.abort()

    context.route("**/*", only_files)
    context.on("request", lambda request: seen.requests.append(request.url))
    seen.page.on("console", lambda message: seen.said.append(message.text))
    seen.page.on("pageerror", lambda error: seen.said.append(str(error)))


def open_all(page: Page) -> None:
    """Open every closed part."""
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")


@cache
def _axe() -> str:
    return (files("axe_playwright_python") / "axe.min.js").read_text("utf-8")


def violations(page: Page) -> list[str]:
    """Return what axe finds wrong with a page as it stands, a line per rule with the first elements."""
    page.evaluate(_axe())
    options = {"runOnly": {"type": "tag", "values": TAGS}, "resultTypes": ["violations"]}
    found = page.evaluate("options => axe.run(document, options)", options)
    assert len(found["passes"]) > 20  # an axe that looked at nothing finds nothing
    return [
        f"{row['id']}: {row['help']}; {len(row['nodes'])} times: "
        + " | ".join(f"{node['html'][:160]} [{node['failureSummary'][-160:]}]" for node in row["nodes"][:4])
        for row in found["violations"]
    ]
