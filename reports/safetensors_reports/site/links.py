"""Addresses of the site, and links to them from pages and from the Markdown documents of the checkout.

Links to unknown targets remain plain text.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup, escape

from safetensors_corpus.field_bugs import reference_url
from safetensors_corpus.manifest import COMBINED, Case
from safetensors_reference.rules.book import rule_book
from safetensors_reference.rules.pages import AREAS, OFFICIAL_REPOSITORY

from ..text import slug, visible
from .data import SiteData

RULE_ID = re.compile(r"\b[A-Z]{3}-\d\d\b")


def rule_page(rule: str) -> str:
    return f"rules/{rule[:3].lower()}"


def case_page(case: Case) -> str:
    if case.area == COMBINED:
        return f"cases/{COMBINED}-{case.rules[0].lower()}"
    return f"cases/{case.area}"


def case_anchor(case: Case) -> str:
    return case.id.split("/", 1)[1].replace("/", "-")


class Links:
    """Factory for the links of one page."""

    def __init__(self, data: SiteData, page: str) -> None:
        self.data = data
        self._up = "../" * page.count("/")

    def address(self, address: str) -> str:
        return self._up + address

    def page(self, address: str, text: str) -> Markup:
        return Markup('<a href="{}">{}</a>').format(self.address(address), visible(text, 400))

    def outside(self, url: str, text: str = "") -> Markup:
        shown = visible(text or url, 200)
        if not url.startswith("https://"):
            return escape(shown)
        return Markup('<a href="{}">{}</a>').format(visible(url, 500), shown)

    def rule(self, rule: str, text: str = "") -> Markup:
        if rule not in self.data.book.rules:
            return escape(visible(text or rule))
        return self.page(f"{rule_page(rule)}.html#{rule}", text or rule)

    def case(self, case_id: str, text: str = "") -> Markup:
        case = self.data.manifest.by_id.get(case_id)
        if case is None:
            return Markup("<code>{}</code>").format(visible(case_id))
        return self.page(f"{case_page(case)}.html#{case_anchor(case)}", text or case_id)

    def code(self, code: str) -> Markup:
        return self.page(f"faults.html#{code}", code) if code in self.data.book.codes else escape(code)

    def choice(self, choice: str) -> Markup:
        return self.page(f"choices.html#choice-{choice}", choice)

    def bug(self, bug: str) -> Markup:
        return self.page(f"bugs.html#{bug}", bug)

    def program(self, name: str, text: str = "") -> Markup:
        if name not in self.data.reports:
            return escape(visible(text or name))
        return self.page(f"programs/{slug(name)}.html", text or name)

    def reference(self, reference: str) -> Markup:
        url = reference_url(reference)
        return escape(visible(reference)) if url is None else self.outside(url, reference)

    def file(self, path: str) -> Markup:
        shown = Markup("<code>{}</code>").format(visible(path))
        link = Markup('<a href="{}">{}</a>').format(f"{self.data.repository}/blob/main/{path}", shown)
        return link if self.data.repository else shown

    def text(self, text: str) -> Markup:
        return self.markup(escape(visible(text, 4000)))

    def markup(self, text: Markup) -> Markup:
        return Markup(RULE_ID.sub(lambda match: str(self.rule(match.group())), str(text)))  # noqa: S704 - is HTML

    def source(self, source: str) -> Markup:
        """Return the source of a rule with links to threads (in the official repository by default)."""
        out = []
        for part in source.split(";"):
            named = re.search(r"([\w.-]+/[\w.-]+)#\d", part)
            threads = f"https://github.com/{named[1] if named else OFFICIAL_REPOSITORY}/issues"
            pieces = re.split(r"((?:[\w.-]+/[\w.-]+)?(?<!&)#\d+)", str(self.text(part)))
            for i in range(1, len(pieces), 2):
                pieces[i] = str(self.outside(f"{threads}/{pieces[i].rpartition('#')[2]}", pieces[i]))
            out.append("".join(pieces))
        return Markup(";".join(out))  # noqa: S704 - each part is escaped by text()


GENERATED = {
    "docs/rules.md": "rules/index",
    "docs/disputed.md": "disputed",
    "docs/field-bugs.md": "bugs",
    "docs/trophies.md": "trophies",
    "reports/published/README.md": "programs/index",
    "reports/published/features.md": "features",
    "reports/published": "programs/index",
    "README.md": "index",
}
"""File of the checkout -> page of the site with the same data."""
BESIDE = {
    "CONTRIBUTING.md": "docs/contributing",
    "SECURITY.md": "docs/security-policy",
    "CHANGELOG.md": "docs/changelog",
}


def page_of(path: str) -> str | None:
    folder, name = posixpath.split(path)
    own = f"docs/{name[:-3]}" if folder in ("docs", "docs/decisions") and name.endswith(".md") else None
    return (GENERATED | BESIDE).get(path, own)


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

    @property
    def markdown(self) -> str:
        """The source, without the number in its title if it is a decision."""
        return re.sub(r"^# \d+\. ", "# ", self.source, count=1, flags=re.MULTILINE)

    def target(self, href: str, to: Links) -> str:
        """Return the address in the site for a link of the source."""
        if "://" in href or href.startswith(("#", "mailto:")):
            return href
        name, _, anchor = href.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(self.path), name))
        page = page_of(path)
        if page is None:
            repository = to.data.repository
            return f"{repository}/blob/main/{path}" if repository else to.address("docs/index.html")
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
