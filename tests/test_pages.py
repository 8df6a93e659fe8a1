"""Pages written by hand: their links lead somewhere, and the changelog knows the newest versions."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from safetensors_corpus.publish.build import CORPUS_VERSION
from safetensors_reference.main import VERSION

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors of a page: those that stand in it, and those that GitHub gives its headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain} | {
        *re.findall(r'<a (?:id|name)="([^"]+)"', text)
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_files_and_headings(page: Path) -> None:
    lost = []
    for link in re.findall(r"\]\(([^)\s]+)\)", CODE.sub("`", page.read_text())):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if "://" not in link and (not target.exists() or (anchor and anchor not in anchors(target))):
            lost.append(link)
    assert lost == []


def test_every_page_is_reached_from_the_index_of_documents() -> None:
    assert "(docs/index.md)" in (ROOT / "README.md").read_text()
    index = (ROOT / "docs" / "index.md").read_text()
    links = {(ROOT / "docs" / link).resolve() for link in re.findall(r"\]\(([^)\s]+)\)", index)}
    assert {page for page in PAGES if page not in links} == {ROOT / "README.md", ROOT / "docs" / "index.md"}


def test_the_changelog_knows_the_versions_of_suite_and_corpus() -> None:
    suite, corpus = (ROOT / "CHANGELOG.md").read_text().split("\n## Corpus\n")
    newest = [re.findall(r"^### ([\d.]+)", part, re.MULTILINE)[0].rstrip(".") for part in (suite, corpus)]
    assert newest == [VERSION, CORPUS_VERSION]
