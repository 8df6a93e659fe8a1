"""The folder of a site: links, addresses and sizes."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from safetensors_corpus import load_manifest
from safetensors_reference.rules.book import rule_book
from safetensors_reports.site.data import SiteData
from safetensors_reports.site.links import case_anchor, case_page

from ..page.browser import NARROW, launched, violations
from .conftest import made, site_data
from .folder import lost_links, read

FIRST_PAGE = 300_000
WHOLE_SITE = 32_000_000


def test_every_link_leads_somewhere_and_no_page_asks_the_network(site: Path, tmp_path: Path) -> None:
    assert list(lost_links(site)) == []
    links = '<a href="b.html#y"></a><a href="c.html"></a>'
    (tmp_path / "a.html").write_text(f'<p id="x"></p><p id="x"></p>{links}')
    (tmp_path / "b.html").write_text("<p></p>")
    assert len(list(lost_links(tmp_path))) == 3, "a lost link is noticed"
    for path in site.rglob("*.html"):
        text = path.read_text("utf-8")
        assert not any(bad in text for bad in ('src="http', 'rel="stylesheet" href="http')), path


def test_everything_with_a_name_has_an_address(site: Path, data: SiteData) -> None:
    anchors = cache(lambda page: set(read(site / f"{page}.html").anchors))
    book = rule_book()
    assert all(rule in anchors(f"rules/{rule[:3].lower()}") for rule in book.rules)
    assert set(book.codes) <= anchors("faults")
    assert {f"choice-{name}" for name in book.choices} <= anchors("choices")
    assert {f"point-{number}" for number in book.points} <= anchors("disputed")
    assert set(data.bugs) <= anchors("bugs")
    assert [c.id for c in data.manifest.cases if case_anchor(c) not in anchors(case_page(c))] == []
    assert "hole-between-two" in anchors("cases/layout")
    assert "k-writer" in anchors("programs/index")
    assert "floats-of-8-bits-and-less" in anchors("features")


@pytest.mark.parametrize(
    ("page", "links"),
    [
        # A visitor decides within two clicks: the answers are on a page that the front page links to.
        ("index", ["programs/mlx", "features", "programs/index.html#k-writer", "docs/plug-in"]),
        # A rule leads to its cases, the programs that break it and bugs, and a case leads back.
        ("rules/off", ["../cases/layout.html#of-off-07", "../programs/mlx", "../bugs.html#FB-43"]),
        ("cases/layout", ["../rules/off.html#OFF-07", "../faults.html#OFF_HOLE"]),
        ("bugs", ["cases/layout.html#offset-negative"]),
        ("programs/mlx", ["../releases/mlx"]),
    ],
)
def test_pages_lead_to_one_another(site: Path, page: str, links: list[str]) -> None:
    shown = set(read(site / f"{page}.html").links)
    assert {link if ".html" in link else f"{link}.html" for link in links} <= shown


def test_a_fault_offers_its_smallest_file(site: Path, data: SiteData) -> None:
    links = [link for link in read(site / "faults.html").links if link.startswith("files/")]
    assert len(links) > 40
    for link in links:
        case = data.manifest.by_id[link.removeprefix("files/").removesuffix(".safetensors")]
        assert (site / link).read_bytes() == case.read_input()


def test_combined_cases_are_not_in_the_search_index(site: Path) -> None:
    text = (site / "searchindex.js").read_text("utf-8")
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    names = {row[4].split(" ")[0] for rows in index["objects"].values() for row in rows}
    assert "layout/hole-between-two" in names
    assert not [name for name in names if name.startswith("surroundings/")]


@pytest.mark.nightly
def test_the_whole_site(tmp_path: Path) -> None:
    pytest.importorskip("myst_parser")
    manifest = load_manifest()
    folder = tmp_path / "site"
    made(site_data(manifest, ()), folder)
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) <= WHOLE_SITE
    assert list(lost_links(folder)) == []
    pages = {page: set(read(folder / f"{page}.html").anchors) for page in set(map(case_page, manifest.cases))}
    assert [case.id for case in manifest.cases if case_anchor(case) not in pages[case_page(case)]] == []
    with launched() as browser:
        page = browser.new_page(viewport={"width": NARROW, "height": 900}, color_scheme="dark")
        for path in sorted(folder.rglob("*.html")):
            if (folder / "reports") not in path.parents:
                page.goto(path.as_uri())
                assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path
                if path.stat().st_size < 150_000:  # axe takes minutes for the largest lists
                    assert violations(page) == [], path
