"""Markdown documents of the checkout as pages, with links to other pages of the site."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors_reference.rules.book import rule_book
from safetensors_reference.rules.pages import AREAS

from .links import rule_page

if TYPE_CHECKING:
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

    @property
    def markdown(self) -> str:
        """The source without the number of a decision in its title."""
        return re.sub(r"^# \d+\. ", "# ", self.source, count=1, flags=re.MULTILINE)

    @property
    def title(self) -> str:
        match = re.search("^# (.+)", self.markdown, re.MULTILINE)
        return match[1].replace("`", "") if match is not None else self.path

    def target(self, href: str, to: Links) -> str:
        """Return the address in the site for a link of the source."""
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
