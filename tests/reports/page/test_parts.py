"""Parts of a page, whose numbers are those of the report."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from safetensors_corpus.judging.verdicts import STRICT_FAILING
from safetensors_corpus.typed import typed
from safetensors_reports.audit.report import Report
from safetensors_reports.comment import summary_markdown
from safetensors_reports.page.design import MAX_TEXT
from safetensors_reports.page.html import (
    areas,
    blocks,
    by_severity,
    causes,
    choices,
    commands,
    comparison_html,
    costly,
    expected_failures,
    grid,
    report_html,
)
from safetensors_reports.record.device_checks import CHECKS
from safetensors_reports.record.run import Row
from safetensors_reports.severity import NO_WEAKNESS
from safetensors_reports.text import plural

from ...published_schemas import schema_error
from ..samples import HOLE, TWICE, as_json, failing, report, run
from .samples import ALL, many, one, public, several

PARTS = ["verdict", "causes", "run", "support", "grid", "findings", "agreement", "inputs", "choices",
    "coverage", "expected", "cost", "changes", "again"]  # fmt: skip
VOID = {"meta", "link", "input", "br", "img"}
OPEN_ENDED = {"td", "tr", "option"}
"""Elements whose end HTML lets one leave out, and pages do."""


class Parsed(HTMLParser):
    """A page taken apart. Raises AssertionError for an end that fits no beginning."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.sections: list[str] = []
        self.cells: list[tuple[str, str]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        row = {name: value or "" for name, value in attrs}
        assert len(row) == len(attrs), (tag, attrs)
        if tag in ("td", "tr", "option") and self.open[-1] in OPEN_ENDED and self.open[-1] != "tr":
            self.open.pop()
        if tag not in VOID:
            self.open.append(tag)
        if "id" in row:
            self.ids.append(row["id"])
        if tag == "section" and "id" in row:
            self.sections.append(row["id"])
        if "href" in row:
            self.links.append(row["href"])
        self.cells.append((row.get("class", ""), ""))

    def handle_endtag(self, tag: str) -> None:
        while self.open[-1] in OPEN_ENDED and self.open[-1] != tag:
            self.open.pop()
        assert self.open.pop() == tag, (tag, self.getpos())

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_data(self, data: str) -> None:
        self.text += data
        if data.strip() and self.cells:
            style, text = self.cells[-1]
            self.cells[-1] = (style, text + data)


@pytest.fixture(scope="module", params=list(ALL))
def sample(request: pytest.FixtureRequest) -> tuple[Report, str]:
    document = ALL[request.param]()
    return document, report_html(document)


def test_the_parts_are_there_in_order_and_linked(sample: tuple[Report, str]) -> None:
    page = Parsed(sample[1])
    wrong = any(who.causes for who in sample[0].implementations)
    shown = {"causes": wrong, "cost": not sample[0].public, "grid": not sample[0].public}
    parts = [part for part in PARTS if shown.get(part, True)]
    assert [name for name in page.sections if name in PARTS] == parts
    assert [link for link in page.links if link[1:] in PARTS][: len(parts)] == [f"#{p}" for p in parts]


def test_causes_stand_before_the_findings_with_what_to_mend_and_how_to_see_them(
    sample: tuple[Report, str],
) -> None:
    text = " ".join(Parsed(sample[1]).text.split())
    shown = causes(sample[0])
    assert [who.label for who, _ in shown] == [who.label for who in sample[0].implementations if who.causes]
    for who, rows in shown:
        assert rows == who.causes[: len(rows)]
        more = len(who.causes) - len(rows)
        assert not more or plural(more, "more cause") + (" is" if more == 1 else " are") in text
        for row in rows:
            for part in (row.what, row.said, row.mend, row.reproducer or ""):
                assert " ".join(part.split()) in text


def test_a_report_from_before_there_were_causes_makes_the_page_that_it_made() -> None:
    old = as_json(one())
    for who in old["implementations"]:
        del who["causes"]
    assert schema_error("report", old) is None
    assert Parsed(report_html(typed(old, Report))).sections == [part for part in PARTS if part != "causes"]


def test_names_are_unique_and_every_link_within_the_page_has_its_target(
    sample: tuple[Report, str],
) -> None:
    page = Parsed(sample[1])
    assert len(page.ids) == len(set(page.ids))
    inside = {link[1:] for link in page.links if link.startswith("#")}
    assert inside <= set(page.ids)
    for finding in sample[0].findings:
        held = sample[0].public and finding.redacted
        assert finding.id in page.ids or held or len(finding.id) > MAX_TEXT


def test_every_colour_has_words_or_letters_beside_it(sample: tuple[Report, str]) -> None:
    source = sample[1].partition("</style>")[2]
    coloured = re.findall(r'<(\w+)[^>]*\bclass="?[^">]*\b[vs]-[\w]+[^>]*>(.*?)(?=<(?:td|tr|/\1)\b)', source)
    assert len(coloured) > 20
    assert [html for _, html in coloured if not re.sub("<[^>]+>", "", html).strip()] == []


def test_pages_of_a_collection_lead_to_one_another() -> None:
    labels = [who.label for who in several().implementations]
    places = {label: f"{label[:4]}/p.html" for label in labels}
    links = Parsed(comparison_html(several(), places, [], "../policy.md")).links
    assert set(places.values()) | {"../policy.md"} <= set(links)
    assert "../index.html" in Parsed(report_html(one(), home="../index.html")).links
    assert "../index.html" not in Parsed(report_html(one())).links


def part(page: str, name: str) -> str:
    return page.partition(f'<section id="{name}"')[2].partition("</section>")[0]


def texts(html: str) -> str:
    return " ".join(re.sub("<[^>]+>", " ", html).split())


def test_not_run_is_told_apart_from_everything_else() -> None:
    (who,) = one().implementations
    band = part(report_html(one()), "verdict")
    assert (who.due, who.not_run) == (74, 37)
    assert f"{who.not_run} of {who.due} cases were not run" in texts(band)
    (apart,) = re.findall(r'<li class="v-0 apart">(.*?)</li>', band)
    assert texts(apart) == "37 not run"


@pytest.mark.parametrize("limits", [{}, {"time_s": None, "memory_bytes": None}, {"memory_bytes": -1}])
def test_limits_and_costs_may_be_missing_or_negative(limits: dict[str, object]) -> None:
    made = run(failing(HOLE, peak_bytes=-1, wall_ms=-1.0), failing(TWICE, peak_bytes=None, wall_ms=None))
    made.header["limits"] = limits
    document = report(made)
    assert (document.run.runs[0].slowest, document.run.runs[0].hungriest) == ([], [])
    assert report_html(document)


@pytest.mark.parametrize(
    ("footer", "ended"),
    [
        ({"type": "footer", "complete": False, "duration_s": 1.0, "not_run": 8}, "partial"),
        (None, "truncated"),
    ],
)
def test_a_run_that_did_not_finish_is_good_on_no_card(footer: dict[str, object] | None, ended: str) -> None:
    rows = [failing(HOLE, "pass", outcome="reject"), failing("dtype/scalar-of-f64", "pass", outcome="accept")]
    made = report(run(*rows, name="lib", version="1", cases=10, footer=footer))
    whole = report(run(*rows, name="lib", version="1"))
    assert "tone-good" in report_html(whole)
    for page in (report_html(made), comparison_html(made, {}, [], "")):
        shown = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
        assert "tone-good" not in shown
        assert "class=good" not in shown
        assert "No fault of this kind shown" not in shown
        assert f"Not fully known ({ended} run): 8 of 10 cases did not run." in shown
    assert f"**not fully known** ({ended} run)" in summary_markdown(made)


@pytest.mark.parametrize(
    ("row", "praise"),
    [
        (failing("dtype/scalar-of-f64", "not-strict", outcome="accept"), "meets all requirements"),
        (failing("dtype/scalar-of-f64", "wrong-reject", outcome="reject"), "accepts nothing"),
        (failing("header/metadata-key-twice-both-empty", "wrong-accept"), "no failure with a broken layout"),
    ],
)
def test_a_run_that_did_not_finish_gets_no_praise(row: Row, praise: str) -> None:
    rows = [failing(HOLE, "pass", outcome="reject"), failing("dtype/scalar-of-f8-e4m3", "pass"), row]
    footer = {"type": "footer", "complete": False, "duration_s": 1.0, "not_run": 7}
    assert praise in report_html(report(run(*rows, name="lib", version="1")))
    made = report(run(*rows, name="lib", version="1", cases=10, footer=footer))
    for page in (report_html(made), comparison_html(made, {}, [], "")):
        assert praise not in page
        assert "Not fully known (partial run): 7 of 10 cases did not run." in page


def test_promises_of_loading_onto_a_device_are_counted() -> None:
    def told(**statuses: str) -> list[dict[str, str]]:
        return [{"name": name, "status": status, "message": ""} for name, status in statuses.items()]

    rows = [
        failing(HOLE, "not-strict", step="device", checks=told(alignment="fail", stream="unknown")),
        failing(TWICE, "pass", step="device", checks=told(alignment="pass", stream="unknown")),
    ]
    with_device = run(*rows, name="lib", version="1")
    with_device.header["device"] = "cuda:1"
    asked_in_vain = run(failing(HOLE), name="other", version="1")
    asked_in_vain.header["device"] = "cuda:1"
    document = report(with_device, asked_in_vain)
    assert schema_error("report", as_json(document)) is None
    first, second = document.implementations
    assert "device" not in as_json(document)["implementations"][1]
    assert second.device is UNSET
    assert first.device is not UNSET
    assert first.device.files == 2
    assert first.device.checks["alignment"] == {"pass": 1, "fail": 1, "unknown": 0}
    shown = texts(part(report_html(document), "run"))
    for words in ("cuda:1", "1 kept, 1 broken", "unknown", *(p.about for p in CHECKS.values())):
        assert words in shown
    assert "Loading onto a device" not in report_html(report(asked_in_vain))


def test_the_grid_counts_the_findings(sample: tuple[Report, str]) -> None:
    document, page = sample
    rows = grid(document)
    assert [severity for severity, _ in rows] == list(document.scales.severity)
    for severity, numbers in rows:
        for level, number in zip(document.scales.difficulty, numbers, strict=True):
            found = [f for f in document.findings if (f.severity, f.difficulty) == (severity, level)]
            assert number == len(found)
    if document.public:
        assert part(page, "grid") == ""
        return
    shown = re.findall(r'<td class="num[^"]*">([\d,]+)</td>', part(page, "grid"))
    assert sum(int(number.replace(",", "")) for number in shown) == len(document.findings)


def test_blocks_hold_every_finding_once_and_draw_every_input_once(
    sample: tuple[Report, str],
) -> None:
    document, page = sample
    found = blocks(document)
    members = [m.id for block in found for m in block.members]
    assert sorted(members) == sorted(f.id for f in document.findings)
    order = list(document.scales.severity)
    ranks = [order.index(block.severity) for block in found]
    assert ranks == sorted(ranks)
    for block in found:
        assert {(m.rule, m.verdict) for m in block.members} == {(block.rule, block.verdict)}
        assert order.index(block.severity) == min(order.index(m.severity) for m in block.members)
    assert [b for _, group in by_severity(found) for b in group] == found
    drawn = [b.shown.evidence.input for b in found if b.drawing is not None and b.shown and b.shown.evidence]
    assert len(drawn) == len(set(drawn))
    assert part(page, "findings").count("<svg") == len(drawn)
    anchors = {b.anchor for b in found if b.drawing is not None}
    assert {b.drawn_at for b in found if b.drawn_at} <= anchors


def test_failing_areas_rules_and_implementations_come_first() -> None:
    shown = areas(several())
    broken = [any(kind in STRICT_FAILING for kind in area.row.worst) for area in shown]
    assert broken == sorted(broken, reverse=True)
    assert True in broken
    for area in shown:
        rules = [any(kind in STRICT_FAILING for kind in rule.worst) for rule in area.rules]
        assert rules == sorted(rules, reverse=True)
        assert area.failing == sum(rules)
    assert {a.row.area for a in shown} == {row.area for row in several().matrix}


def articles(page: str) -> Iterator[str]:
    for text in page.split('<article id="')[1:]:
        yield text.partition("</article>")[0]


def test_every_finding_says_what_a_reader_needs() -> None:
    document = one()
    page = report_html(document)
    found = blocks(document)
    shown = list(articles(page))
    assert len(shown) == len(found) >= 3
    for block, html in zip(found, shown, strict=True):
        text = texts(html)
        finding = block.shown
        assert finding is not None
        assert html.startswith(f'{block.anchor}"')
        assert f"{block.rule} (" in text
        if finding.outcome not in NO_WEAKNESS:
            assert re.search(r"CWE-\d+", text), text[:200]
        for word in ("expected", "got", "input", "reproduce", "fix"):
            (told,) = re.findall(rf"<dt>{word}</dt><dd>(.*?)</dd>", html)
            assert texts(told), (word, block.anchor)
        assert f"stc run --impl {(finding.reproducer or '').split()[3]}" in text
        if finding.evidence and finding.evidence.size:
            assert re.search(r"<dt>where</dt><dd>bytes? [\d,]+", html), block.anchor
        for member in block.members:
            assert member.implementation in text


def test_held_back_findings_stand_among_the_causes_by_verdict_and_rule_alone() -> None:
    page = report_html(public())
    held = [b for b in blocks(public()) if b.shown is None]
    assert held
    assert {html.partition('"')[0] for html in articles(page)}.isdisjoint(b.anchor for b in held)
    number = sum(len(block.members) for block in held)
    assert f"{number} findings without a public report are listed under likely causes" in texts(page)
    for who in public().implementations:
        for cause in who.causes:
            assert not (cause.redacted and cause.reproducer)


def test_expected_failures_stand_with_their_review_date_and_what_became_of_them() -> None:
    rows = expected_failures(one())
    assert [(reason.state, reason.review) for reason, _ in rows] == [
        ("passes", ""), ("fails", "2026-12-24"), ("fails", "2027-01-01")]  # fmt: skip
    html = part(report_html(one()), "expected")
    for word in ("2026-12-24", "2027-01-01", HOLE, TWICE, "unreported", "no date"):
        assert word in html
    assert 'href="https://example.org/1"' in html


def test_costs_changes_coverage_choices_and_commands_are_those_of_the_report() -> None:
    document = one()
    page = report_html(document)
    slowest = costly(document, "slowest", "wall_ms")
    assert [cost for _, _, cost in slowest[:2]] == [812.5, 26]
    assert "812.5" in part(page, "cost")
    peaks = [cost for _, _, cost in costly(document, "hungriest", "peak_bytes")]
    assert peaks == sorted(peaks, reverse=True)
    assert len(peaks) == 10
    coverage = texts(part(page, "coverage"))
    assert f"{document.coverage.both} rules have both cases to accept and cases to reject" in coverage
    for gap in document.coverage.gaps:
        assert gap.rule in coverage
    ((_, (taken,)),) = choices(document)
    assert "contradict" in taken.option
    assert list(commands(document)) == [
        "stc run --impl lib --heavy --report runs",
        "stc report runs -o audit --html",
    ]
    hostile = replace(document.implementations[0], selector="a b", profile="x; touch MARK")
    assert next(commands(replace(document, implementations=[hostile]))) == (
        "stc run --impl 'a b' --profile 'x; touch MARK' --heavy --report runs"
    )
    assert "Compared with the baselines: 5 new, 1 fixed, 2 unchanged" in texts(part(page, "changes"))
    fixed = report(run(failing(HOLE, "pass"), name="lib", version="2"))
    before = report(run(failing(HOLE), name="lib", version="1"))
    changes = texts(part(report_html(fixed, before), "changes"))
    assert "Compared with an older report: 0 new, 1 fixed" in changes
    assert "lib-off-07-wrong-accept" in changes
    assert "no older report or baseline" in part(report_html(fixed), "changes")


def test_many_implementations_get_letters_and_few_get_words() -> None:
    letters, words = (part(report_html(d), "support") for d in (many(), several()))
    assert 'table class="sticky cells narrow"' in letters
    assert "narrow" not in words
    assert "accepts wrongly" in texts(words)
