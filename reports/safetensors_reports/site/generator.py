"""Generate the static site with Sphinx and its theme Furo, including the search.

Templates make the HTML and escape all values. A Sphinx parser looks up the page for a file and passes it on.
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
from furo.navigation import get_navigation_tree
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.domains import Domain, ObjType
from sphinx.parsers import Parser

from ..page.cards import DISPUTE
from ..page.design import style_sheet
from ..text import visible
from .data import PUBLISHED
from .pages import DISPUTED, all_pages, fault_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sphinx.environment import BuildEnvironment
    from sphinx.util.typing import ExtensionMetadata

    from .data import SiteData
    from .pages import Page

KINDS = ("rule", "fault", "program", "choice", "bug", "releases", "page", "case")
RANKS = {"bug": 1, "case": 2}
"""Ranks of the kinds that come last in search results, as in ``theme/scorer.js``."""
_LIKE = str.maketrans({"<": "‹", ">": "›", '"': "”", "'": "’", "&": "+"})
"""Similar characters to use instead of those that Sphinx escapes twice in search results."""
MARK = "searchindex.js"
"""A file that every site contains; a folder that contains it may be overwritten."""
_PAGES = "stc_pages"
_CARDS = "cards.css"
_OPTIONS: dict[str, Any] = {
    "extensions": [__name__],
    "project": "safetensors conformance",
    "html_title": "safetensors conformance",
    "html_theme": "furo",
    "html_copy_source": False,
    "html_show_sourcelink": False,
    "html_show_copyright": False,
    # Sphinx would fetch every result to show a summary, but browsers refuse to fetch local files.
    "html_show_search_summary": False,
    "html_permalinks_icon": "#",
    "html_css_files": [_CARDS, "site.css"],
    "html_static_path": [str(Path(__file__).parent / "static")],
    "templates_path": [str(Path(__file__).parent / "theme")],
    "html_search_scorer": str(Path(__file__).parent / "theme" / "scorer.js"),
    "html_domain_indices": False,
    "html_use_index": False,
    "language": "en",
    "smartquotes": False,
    # The pages of combined cases have their own lists.
    "suppress_warnings": ["toc.not_included"],
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
        for name in pages:
            path = source / f"{name}.page"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        _sphinx(pages, source, target)
        for path in [*target.rglob("*.map"), target / "objects.inv", target / ".buildinfo"]:
            path.unlink(missing_ok=True)
        (target / ".nojekyll").touch()
        css = style_sheet("compare")
        light, dark = re.findall(r":root(\{.*?\})", css)[:2]
        (target / "_static" / _CARDS).write_text(
            f"{css}\nbody[data-theme=light]{light}\nbody[data-theme=dark]{dark}\n", "utf-8"
        )
        _copy(data, target)
        if output.exists():
            shutil.rmtree(output)
        shutil.copytree(target, output)
    return len(pages)


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


class PageParser(Parser):
    """Parser that looks up a page by its name and builds its document; the source file is empty."""

    supported: ClassVar[tuple[str, ...]] = ("page",)

    def parse(self, inputstring: str, document: nodes.document) -> None:  # noqa: ARG002 - as Sphinx has it
        env: BuildEnvironment = document.settings.env
        name = env.current_document.docname
        page: Page = env.config[_PAGES][name]
        top = nodes.section("", _title(page.title), ids=["top"], names=["top"])
        if page.lead:
            top += _raw(page.lead)
        if page.children:
            top += _contents(name, page.children)
        open_: list[nodes.section] = [top]
        for part in page.sections:
            del open_[max(part.level - 1, 1) :]
            section = nodes.section("", _title(part.title), ids=[part.anchor], names=[part.anchor])
            section += _raw(part.html)
            open_[-1] += section
            open_.append(section)
        document += top


def _title(text: str) -> nodes.title:
    return nodes.title("", visible(text, 300))


def _raw(html: str) -> nodes.raw:
    return nodes.raw("", html, format="html")


def _contents(name: str, below: Sequence[str]) -> nodes.Node:
    tree = addnodes.toctree(
        parent=name,
        entries=[(None, page) for page in below],
        includefiles=list(below),
        maxdepth=-1,
        caption=None,
        glob=False,
        hidden=True,
        includehidden=False,
        numbered=0,
        titlesonly=True,
    )
    return nodes.compound("", tree, classes=["toctree-wrapper"])


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
                words = re.sub(r"\.(?=\S)", "․", entry.name).replace(". ", " ").rstrip(".").translate(_LIKE)
                yield words, words, entry.kind, name, entry.anchor or "top", RANKS.get(entry.kind, 0)


def _leave_out(_app: Sphinx, env: BuildEnvironment) -> None:
    for name, page in env.config[_PAGES].items():
        if not page.indexed:
            env.metadata[name]["nosearch"] = "yes"


def _near(
    _app: Sphinx, _name: str, _template: str, context: dict[str, Any], _doctree: nodes.document | None
) -> None:
    """Show only nearby pages in the navigation, because the whole tree would dominate every page."""
    tree = context["toctree"](collapse=True, titles_only=True, maxdepth=-1, includehidden=True)
    context["furo_navigation_tree"] = get_navigation_tree(tree)


def setup(app: Sphinx) -> ExtensionMetadata:
    app.add_config_value(_PAGES, {}, "", types=frozenset({dict}))
    app.add_source_suffix(".page", "page")
    app.add_source_parser(PageParser)
    app.add_domain(Names)
    app.connect("env-updated", _leave_out)
    app.connect("html-page-context", _near, priority=900)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
