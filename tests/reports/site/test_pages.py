"""Pages as Markdown: escaping, links, required answers and published findings."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from safetensors_reports.history.ledger import Ledger
from safetensors_reports.site.data import Program, SiteData, passage_anchor
from safetensors_reports.site.links import Document, Links, page_of
from safetensors_reports.site.pages import Page, all_pages, demands
from safetensors_reports.text import visible

from ..samples import line

HOSTILE = "<script>alert(1)</script> \"' {{ 7 * 7 }} \u202e\x1b[31m"


@pytest.fixture(scope="module")
def pages(data: SiteData) -> dict[str, Page]:
    return {page.name: page for page in all_pages(data)}


def parts(found: Page) -> dict[str, str]:
    """Return the HTML below each heading of a page, by anchor."""
    texts = re.split(r"^#+ .*$", found.markdown, flags=re.MULTILINE)[1:]
    return dict(zip(found.anchors, texts, strict=True))


def test_outside_headings_pages_are_html_that_markdown_leaves_alone(pages: dict[str, Page]) -> None:
    kinds = {"heading_open", "inline", "heading_close", "html_block"}
    for page in pages.values():
        if page.anchors:
            found = {token.type for token in MarkdownIt("commonmark").parse(page.markdown)}
            assert found <= kinds, page.name
            # In a section of HTML, a heading stays HTML.
            assert page.name == "index" or not re.search('<h2 id="[^"]+">[^<]*</h2>', page.markdown)


def test_what_others_worded_is_escaped_and_visible(data: SiteData) -> None:
    case = replace(data.manifest.by_id["layout/hole-between-two"], title=HOSTILE)
    manifest = replace(data.manifest, cases=(case,))
    title = "*M* [x](javascript:1) `c` {a}`b` {{ 7 * 7 }} <i> &amp; \\ #\u202e\n# x #"
    program = Program("mlx", title, HOSTILE, HOSTILE, "javascript:alert(1)", "https://x/'\"><b>", HOSTILE)
    hostile = replace(data, manifest=manifest, programs={"mlx": program})
    pages = {page.name: page for page in all_pages(hostile)}
    for name in ("cases/layout", "programs/mlx", "faults"):
        text = pages[name].markdown
        assert "alert(1)" in text
        assert "<script" not in text
        assert "'\"><b>" not in text
        assert not {"\u202e", "\x1b"} & set(text)
        assert 'href="javascript' not in text
        assert "{{ 7 * 7 }}" in text  # and not 49
    children = MarkdownIt("commonmark").parse(pages["programs/mlx"].markdown)[1].children or ()
    assert {child.type for child in children} <= {"text", "text_special"}
    assert "".join(child.content for child in children) == visible(title)
    assert not {"\u202e", "\x1b"} & set(
        "".join(entry.words for entry in pages["cases/layout"].search_entries)
    )


def test_links_start_from_their_page_and_lead_only_to_what_is_there(data: SiteData) -> None:
    assert Links(data, "index").rule("OFF-07") == '<a href="rules/off.html#OFF-07">OFF-07</a>'
    to = Links(data, "a/b")
    assert to.rule("OFF-07") == '<a href="../rules/off.html#OFF-07">OFF-07</a>'
    assert to.case("layout/hole-between-two").startswith('<a href="../cases/layout.html#hole-between-two">')
    assert to.case("no/such") == "<code>no/such</code>"
    assert to.rule("XXX-99") == "XXX-99"
    assert to.program("nobody<") == "nobody&lt;"
    assert to.file("a/b") == "<code>a/b</code>"
    with_one = Links(replace(data, repository="https://example.org/r"), "index")
    assert 'href="https://example.org/r/blob/main/a/b"' in with_one.file("a/b")
    source = str(Links(data, "index").source("text's #253; ml-explore/mlx#43 and OFF-07"))
    assert "https://github.com/huggingface/safetensors/issues/253" in source
    assert "https://github.com/ml-explore/mlx/issues/43" in source
    assert 'href="rules/off.html#OFF-07"' in source
    assert "issues/39" not in source  # of the escaped apostrophe


def test_demands_say_what_must_happen_and_the_smallest_case_has_one_fault(
    data: SiteData,
) -> None:
    cases, choices = data.manifest.by_id, data.book.choices
    assert demands(cases["layout/hole-between-two"], data) == ("reject", "reject", ("OFF_HOLE",))
    first, *_ = data.smallest["OFF_HOLE"]
    holes = [c for c in cases.values() if c.expect and c.expect.codes == ("OFF_HOLE",) and c.kind == "read"]
    plain = [c.size for c in holes if c.area != "surroundings" and c.input.file]
    assert (first in holes, first.input.file is not None, first.size) == (True, True, min(plain))
    for required in (False, True):
        case = next(c for c in cases.values() if c.choice and bool(choices[c.choice].required) is required)
        assert (demands(case, data)[0] == "choice") is not required


def test_charges_come_from_published_findings_and_crashes_are_only_on_the_page_of_their_program(
    data: SiteData, pages: dict[str, Page]
) -> None:
    shared = [*data.charges_by_rule.values(), *data.charges_by_case.values()]
    assert {name for found in shared for name in found} == {"mlx", "safetensors", "transformers"}
    assert "unsafe" not in {f.verdict for charges in shared for found in charges.values() for f in found}
    told = {c for f in data.reports["mlx"][1].findings if f.verdict != "unsafe" for c in f.cases}
    assert {case for case, charges in data.charges_by_case.items() if "mlx" in charges} == told
    for found in data.reports["safetensors"][1].findings:
        assert found.verdict != "unsafe" or f"#{found.rule}" in pages["programs/safetensors"].markdown


def test_a_rule_that_the_text_does_not_ask_for_is_no_accusation(pages: dict[str, Page]) -> None:
    rule = parts(pages["rules/shp"])["SHP-02"]
    assert "Differs in" in rule
    assert "tone-bad" not in rule
    text = parts(pages["rules/off"])["OFF-07"]
    assert "Broken by" in text
    assert "tone-bad" in text


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("rules.md#off-07", "../rules/off.html#OFF-07"),
        ("rules.md#off", "../rules/off.html"),
        ("rules.md#off_hole", "../faults.html#OFF_HOLE"),
        ("rules.md#choice-metadata-null", "../choices.html#choice-metadata-null"),
        ("rules.md#choices", "../choices.html"),
        ("rules.md#fault-codes", "../faults.html"),
        ("disputed.md#point-3", "../disputed.html#point-3"),
        ("field-bugs.md", "../bugs.html"),
        ("run-it.md#verdicts", "../docs/run-it.html#verdicts"),
        ("../CONTRIBUTING.md", "../docs/contributing.html"),
        ("decisions/0002-case-ids.md", "../docs/0002-case-ids.html"),
        ("../corpus/corpus.json", "../docs/index.html"),
        ("https://example.org", "https://example.org"),
        ("#here", "#here"),
    ],
)
def test_links_of_documents_lead_to_the_site(data: SiteData, link: str, target: str) -> None:
    document = Document("docs/sample.md", "")
    assert document.target(link, Links(data, document.page)) == target
    # Titles have no number.
    document = Document("docs/decisions/0002-t.md", "<!-- made -->\n# 2. The `T`\n\nText\n\n# 3. More\n")
    assert document.page == "docs/0002-t"
    assert document.markdown == "<!-- made -->\n# The `T`\n\nText\n\n# 3. More\n"
    assert page_of("tools/x.md") is None


def test_releases_are_listed_by_version(data: SiteData) -> None:
    lines = tuple(line(v, program="mlx") for v in ("1.20.1", "1.31.0", "2.0.0", "2.4.0", "1.9.0", "2.4.0rc1"))
    ledgers = {"mlx": Ledger("mlx", "mlx", lines)}
    pages = {page.name: page for page in all_pages(replace(data, ledgers=ledgers, trends=()))}
    for text in (pages["releases/index"].markdown, parts(pages["programs/mlx"])["releases"]):
        assert "1.9.0, 1.20.1, 1.31.0, 2.0.0, 2.4.0rc1, 2.4.0<" in text
    assert passage_anchor("0.31.1", "a" * 40) == "from-0-31-1-to-aaaaaaaaaa"


def test_the_front_page_has_the_verdict_of_every_entry_point(data: SiteData, pages: dict[str, Page]) -> None:
    rows = re.findall(r"<tr><th scope=\"row\">.*?</tr>", pages["index"].markdown, re.DOTALL)
    labels = [who.label for who in data.whole.implementations if who.name != "reference"]
    assert [re.findall(r">([^<>]+)</a>", row)[0] for row in rows] == sorted(labels, key=str.casefold)
    (mlx,) = (row for row in rows if ">mlx 0" in row)
    assert "Only after a strict check" in mlx
    (saves,) = (row for row in rows if ">safetensors 0" in row)
    assert (
        '<td data-head="Files that it saves"><span class="tone tone-bad">writes wrong files</span>' in saves
    )
    assert 'href="programs/index.html#k-writer"' in pages["index"].markdown


def test_features_say_since_when(data: SiteData, pages: dict[str, Page]) -> None:
    part = parts(pages["features"])["floats-of-8-bits-and-less"]
    column = re.findall(r"<th scope=\"col\">(?:<a [^>]*>)?([^<]+)", part).index("F8_E8M0")
    row = next(r for r in re.findall(r"<tr>.*?</tr>", part, re.DOTALL) if ">safetensors</a>" in r)
    cell = re.findall(r"<td>(.*?)</td>", row, re.DOTALL)[column - 1]
    (entry,) = (one for one in data.features.table if one.entry == "safetensors")
    found = entry.cells["dtype-f8-e8m0"]
    assert f">{found.first}</span>" in cell
    assert found.after
    page = parts(pages["programs/safetensors"])["features"]
    assert all(f"#{case.partition('/')[2]}" in page for case in found.cases if case in data.manifest.by_id)
