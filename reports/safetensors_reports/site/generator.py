"""Generate the static site with Sphinx, MyST and the Furo theme, including the search.

The names of rules, cases, faults and programs become objects in the search index with their own addresses.
"""

from __future__ import annotations

import io
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.domains import Domain, ObjType

from ..page.design import style_sheet
from ..page.results import DISPUTE
from .data import PUBLISHED
from .pages import DISPUTED, all_pages, fault_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sphinx.util.typing import ExtensionMetadata

    from .data import SiteData
    from .pages import Page

KINDS = ("rule", "fault", "program", "choice", "bug", "releases", "page", "case")
RANKS = {"bug": 1, "case": 2}
"""Ranks of the kinds that come last in search results, as in ``theme/scorer.js``."""
MARK = "searchindex.js"
"""A file that every site contains; a folder that contains it may be overwritten."""
_TABLE = '<div class="table-wrapper colwidths-auto docutils container"'
_ACCESSIBLE = {
    "<pre>": '<pre tabindex="0">',
    f"{_TABLE}>": f'{_TABLE} tabindex="0" role="group" aria-label="Table">',
    '<th class="head"><p></p></th>': "<td></td>",
}
"""HTML of documents -> replacement that allows scrolling with a keyboard and has no empty headings."""
_PAGES = "stc_pages"
_SHARED = "shared.css"
_OPTIONS: dict[str, Any] = {
    "extensions": ["myst_parser", "sphinx.ext.githubpages", __name__],
    "project": "safetensors conformance",
    "html_title": "safetensors conformance",
    "html_theme": "furo",
    "html_copy_source": False,
    "html_show_sourcelink": False,
    "html_show_copyright": False,
    # Sphinx would fetch every result to show a summary, but browsers refuse to fetch local files.
    "html_show_search_summary": False,
    "html_permalinks_icon": "#",
    "html_css_files": [_SHARED, "site.css"],
    "html_static_path": [str(Path(__file__).parent / "static")],
    "templates_path": [str(Path(__file__).parent / "theme")],
    "html_search_scorer": str(Path(__file__).parent / "theme" / "scorer.js"),
    "html_domain_indices": False,
    "html_use_index": False,
    "language": "en",
    "smartquotes": False,
    "highlight_language": "none",
    "myst_all_links_external": True,
    "myst_heading_anchors": 6,
    # The pages of combined cases have their own lists, and Pygments does not know Mermaid.
    "suppress_warnings": ["toc.not_included", "misc.highlighting_failure"],
}


class SiteError(Exception):
    """The site cannot be built; the message gives the reason and the fix."""


def build_site(data: SiteData, output: Path) -> int:
    """Write the site into a folder and return the number of pages; an older site is replaced."""
    if output.exists() and any(output.iterdir()) and not (output / MARK).exists():
        raise SiteError(f"{output}: this folder contains something other than a site; choose another folder")
    pages = {page.name: page for page in all_pages(data)}
    with tempfile.TemporaryDirectory() as made:
        source, target = Path(made, "source"), Path(made, "site")
        for page in pages.values():
            path = source / f"{page.name}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_with_navigation(page), "utf-8")
        _sphinx(pages, source, target)
        for path in [*target.rglob("*.map"), target / "objects.inv", target / ".buildinfo"]:
            path.unlink(missing_ok=True)
        css = style_sheet("base", "comparison_table")
        light, dark = re.findall(r":root(\{--.*?\})", css)[:2]
        (target / "_static" / _SHARED).write_text(
            f"{css}\nbody[data-theme=light]{light}\nbody[data-theme=dark]{dark}\n", "utf-8"
        )
        _copy(data, target)
        if output.exists():
            shutil.rmtree(output)
        shutil.copytree(target, output)
    return len(pages)


def _with_navigation(page: Page) -> str:
    text = page.markdown
    if page.children:
        pages = "\n".join(f"/{name}" for name in page.children)
        title, below = text.split("\n\n", 1)
        text = f"{title}\n\n```{{toctree}}\n:hidden:\n\n{pages}\n```\n\n{below}"
    return text if page.indexed else f"---\nnosearch: true\n---\n{text}"


def _sphinx(pages: Mapping[str, Page], source: Path, target: Path) -> None:
    warnings = io.StringIO()
    app = Sphinx(
        source,
        None,
        target,
        target.parent / "doctrees",
        "html",
        {**_OPTIONS, _PAGES: dict(pages)},
        status=None,
        warning=warnings,
    )
    app.build()
    if warnings.getvalue() or app.statuscode:
        raise SiteError(f"Sphinx reports: {warnings.getvalue()[:2000]}")


def _copy(data: SiteData, target: Path) -> None:
    shutil.copytree(data.root / PUBLISHED, target / "reports", ignore=shutil.ignore_patterns("*.md"))
    for path in (target / "reports").rglob("*.html"):
        text = path.read_text("utf-8")
        path.write_text(text.replace(f"../{DISPUTE}", DISPUTED), "utf-8")
    for name, case in fault_files(data):
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(case.read_input())


class Names(Domain):
    """Everything that the search finds by name."""

    name = "stc"
    label = "safetensors conformance"
    object_types: ClassVar[dict[str, ObjType]] = {kind: ObjType(kind) for kind in KINDS}

    def get_type_name(self, type: ObjType, primary: bool = False) -> str:  # noqa: A002, ARG002 - as Sphinx has it
        return str(type.lname)

    def get_objects(self) -> Iterator[tuple[str, str, str, str, str, int]]:
        for name, page in self.env.config[_PAGES].items():
            for entry in page.search_entries:
                yield entry.words, entry.words, entry.kind, name, entry.anchor, RANKS.get(entry.kind, 0)


def _set_addresses(app: Sphinx, document: nodes.document) -> None:
    page: Page = app.config[_PAGES][app.env.current_document.docname]
    sections = list(document.findall(nodes.section))
    anchors = page.anchors or ["top", *(section.get("slug", section["ids"][0]) for section in sections[1:])]
    for section, anchor in zip(sections, anchors, strict=True):
        section["ids"] = [anchor]
    for link in document.findall(nodes.reference):
        link["refuri"] = page.target(link["refuri"])


def _adapt_page(
    _app: Sphinx, _name: str, _template: str, context: dict[str, Any], _doctree: nodes.document | None
) -> None:
    # Furo asks for the whole navigation, which would dominate every page, so show only nearby pages.
    toctree = context["toctree"]
    context["toctree"] = lambda **options: toctree(**options | {"collapse": True})
    for old, new in _ACCESSIBLE.items():
        context["body"] = context.get("body", "").replace(old, new)


def setup(app: Sphinx) -> ExtensionMetadata:
    app.add_config_value(_PAGES, {}, "", types=frozenset({dict}))
    app.add_domain(Names)
    app.connect("doctree-read", _set_addresses, priority=100)  # before the table of contents is made
    app.connect("html-page-context", _adapt_page, priority=100)  # before Furo makes the navigation
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
