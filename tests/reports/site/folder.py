"""Reads the pages of a site as text: their addresses, links and words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote


@dataclass
class PageText(HTMLParser):
    """Ids of a page, in order, and addresses in its ``href`` and ``src`` attributes."""

    anchors: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.append(value)
            if name in ("href", "src") and value:
                self.links.append(value)


def read(path: Path) -> PageText:
    """Return what a page has."""
    page = PageText()
    page.feed(path.read_text("utf-8"))
    return page


def lost_links(site: Path) -> Iterator[str]:
    """Yield links without a target, and ids that occur twice on a page."""
    pages = {path: read(path) for path in site.rglob("*.html")}
    anchors = {path.resolve(): set(page.anchors) for path, page in pages.items()}
    for path, page in pages.items():
        name = path.relative_to(site)
        twice = (
            {anchor for anchor in page.anchors if page.anchors.count(anchor) > 1}
            if len(set(page.anchors)) != len(page.anchors)
            else set()
        )
        yield from (f"{name}: #{anchor} stands twice" for anchor in sorted(twice))
        for link in set(page.links):
            where, _, anchor = link.partition("#")
            if "://" in link or link.startswith(("data:", "mailto:")):
                continue
            target = (path.parent / unquote(where.partition("?")[0])).resolve() if where else path.resolve()
            if not target.is_file():
                yield f"{name}: {link} is no file"
            elif anchor and target.suffix == ".html" and anchor not in anchors.get(target, ()):
                yield f"{name}: {link} is no anchor"
