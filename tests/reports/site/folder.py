"""Reads the pages of a site as text: their addresses and links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote


class PageText(NamedTuple):
    """Ids of a page, in order, and addresses in its ``href`` and ``src`` attributes."""

    anchors: list[str]
    links: list[str]


def read(path: Path) -> PageText:
    tags = " ".join(re.findall(r"<[a-z][^>]*>", path.read_text("utf-8")))
    anchors, links = (
        [unescape(value) for value in re.findall(rf'\s(?:{names})="([^"]+)"', tags)]
        for names in ("id", "href|src")
    )
    return PageText(anchors, links)


def lost_links(site: Path) -> Iterator[str]:
    """Yield links without a target, and ids that occur twice on a page."""
    pages = {path.resolve(): read(path) for path in site.rglob("*.html")}
    anchors = {path: set(page.anchors) for path, page in pages.items()}
    for path, page in pages.items():
        if len(page.anchors) > len(anchors[path]):
            yield f"{path.name}: some id stands twice"
        for link in set(page.links):
            where, _, anchor = link.partition("#")
            if "://" in link or link.startswith(("data:", "mailto:")):
                continue
            target = (path.parent / unquote(where.partition("?")[0])).resolve() if where else path
            if not target.is_file():
                yield f"{path.name}: {link} is no file"
            elif anchor and target.suffix == ".html" and anchor not in anchors.get(target, ()):
                yield f"{path.name}: {link} is no anchor"
