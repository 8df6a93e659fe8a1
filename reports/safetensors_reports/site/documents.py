"""Turn Markdown documents of the checkout into pages with links to other pages of the site."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt

from safetensors_reference.rules.book import rule_book
from safetensors_reference.rules.pages import AREAS

from .links import rule_page

if TYPE_CHECKING:
    from markdown_it.token import Token

    from .links import Links

GENERATED = {
    "docs/rules.md": "rules/index.html",
    "docs/disputed.md": "disputed.html",
    "docs/field-bugs.md": "bugs.html",
    "docs/trophies.md": "trophies.html",
    "reports/published/README.md": "programs/index.html",
    "reports/published": "programs/index.html",
    "README.md": "index.html",
}
"""File of the checkout -> page of the site with the same data."""
GROUPS = {
    "Run it": ("first-run", "run-it", "compare", "corpus", "formats", "site", "glossary"),
    "Plug in a reader": ("plug-in", "action"),
    "What is published; safety": ("disclosure", "native-readers", "security", "security-policy"),
    "The reference": ("check", "audit", "reference", "device", "device-bench", "performance"),
    "Fuzzing and coverage": ("fuzz", "fuzz-bench", "covering"),
    "Work on the suite": (
        "contributing", "architecture", "add-a-case", "add-a-rule", "add-an-implementation", "add-a-step",
        "changelog",
    ),
}  # fmt: skip
"""Documents by heading in the list of documents. Documents with a number in their name are decisions."""
BESIDE = {"CONTRIBUTING.md": "contributing", "SECURITY.md": "security-policy", "CHANGELOG.md": "changelog"}


@dataclass(frozen=True)
class Section:
    """A part of a page with a heading and an anchor."""

    anchor: str
    title: str
    html: str
    level: int = 2


def group_of(page: str) -> str:
    name = page.rpartition("/")[2]
    return next(
        (title for title, names in GROUPS.items() if name in names),
        "Decisions" if name[:1] == "0" else "Others",
    )


def page_of(path: str) -> str | None:
    if path in GENERATED:
        return GENERATED[path].removesuffix(".html")
    if path in BESIDE:
        return f"docs/{BESIDE[path]}"
    folder, name = posixpath.split(path)
    return f"docs/{name[:-3]}" if folder in ("docs", "docs/decisions") and name.endswith(".md") else None


@dataclass(frozen=True)
class Document:
    """A Markdown document; ``path`` is relative to the checkout."""

    path: str
    source: str

    @property
    def page(self) -> str:
        name = page_of(self.path)
        assert name is not None
        return name

    @cached_property
    def _tokens(self) -> list[Token]:
        return MarkdownIt("commonmark", {"html": True}).enable("table").parse(self.source)

    @cached_property
    def title(self) -> str:
        for token, inline in zip(self._tokens, self._tokens[1:], strict=False):
            if token.type == "heading_open":
                return re.sub(r"^\d+\. ", "", _plain(inline))
        return self.path

    def content(self, to: Links) -> tuple[str, list[Section]]:
        """Return the text before the second heading as HTML, and the sections, with links into the site."""
        markdown = MarkdownIt("commonmark", {"html": True}).enable("table")
        parts: list[tuple[str, str, int, list[Token]]] = [("", "", 1, [])]
        seen = Counter[str]()
        tokens = iter(self._tokens)
        for token in tokens:
            if token.type == "heading_open":
                inline = next(tokens)
                next(tokens)
                level = int(token.tag[1])
                if level > 1:
                    anchor = anchor_of(_plain(inline))
                    number = seen[anchor]
                    seen[anchor] += 1
                    anchor += f"-{number}" if number else ""
                    parts.append((anchor, _plain(inline), level, []))
                continue
            for child in token.children or ():
                if child.type == "link_open":
                    child.attrs["href"] = self._target(str(child.attrs["href"]), to)
            parts[-1][3].append(token)
        html = [_scrolling(markdown.renderer.render(part[3], markdown.options, {})) for part in parts]
        sections = [Section(p[0], p[1], text, p[2]) for p, text in zip(parts[1:], html[1:], strict=True)]
        return html[0], sections

    def _target(self, href: str, to: Links) -> str:
        if "://" in href or href.startswith(("#", "mailto:")):
            return href
        name, _, anchor = href.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(self.path), name))
        page = page_of(path)
        if page is None:
            return f"{to.repository}/blob/main/{path}" if to.repository else to.address("docs/index.html")
        if path == "docs/rules.md":
            return to.address(_in_rules(anchor))
        kept = anchor and (path not in GENERATED or anchor.startswith("point-"))
        return to.address(f"{page}.html#{anchor}" if kept else f"{page}.html")


def _in_rules(anchor: str) -> str:
    name = anchor.upper()
    if name in rule_book().rules:
        return f"{rule_page(name)}.html#{name}"
    if name in rule_book().codes:
        return f"faults.html#{name}"
    if anchor.startswith("choice"):
        return f"choices.html#{anchor}" if "-" in anchor else "choices.html"
    if name in AREAS:
        return f"{rule_page(name)}.html"
    return "faults.html" if anchor == "fault-codes" else "rules/index.html"


def documents_of(root: Path) -> Iterator[Document]:
    paths = [*sorted((root / "docs").glob("*.md")), *sorted((root / "docs" / "decisions").glob("*.md"))]
    for path in [*paths, *(root / name for name in BESIDE)]:
        name = path.relative_to(root).as_posix()
        if name not in GENERATED:
            yield Document(name, path.read_text(encoding="utf-8"))


def _scrolling(html: str) -> str:
    html = re.sub(r"<th([^>]*)></th>", r"<td\1></td>", html)  # axe rejects empty header cells
    html = html.replace("<pre>", '<pre tabindex="0">').replace("</table>", "</table></div>")
    return html.replace("<table>", '<div class="scroll" tabindex="0" role="group" aria-label="Table"><table>')


def anchor_of(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _plain(inline: Token) -> str:
    return "".join(child.content for child in inline.children or () if child.type in ("text", "code_inline"))
