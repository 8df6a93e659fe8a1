"""Parts of a page, whose numbers are those of the report."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from safetensors_corpus.judging.verdicts import STRICT_FAILING
from safetensors_corpus.typed import typed
from safetensors_reports.audit.report import Report
from safetensors_reports.comment import summary_markdown
from safetensors_reports.page.design import MAX_TEXT
from safetensors_reports.page.html import areas, blocks, causes, commands, comparison_html, report_html
from safetensors_reports.record.device_checks import CHECKS
from safetensors_reports.record.run import Row
from safetensors_reports.severity import NO_WEAKNESS
from safetensors_reports.text import plural

from ...published_schemas import schema_error
from ..samples import HOLE, TWICE, Make, as_json, failing, report, run
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
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        row = {name: value or "" for name, value in attrs}
        assert len(row) == len(attrs), (tag, attrs)
        if tag in OPEN_ENDED and self.open[-1] in OPEN_ENDED and self.open[-1] != "tr":
            self.open.pop()
        if tag not in VOID:
            self.open.append(tag)
        self.ids += [row["id"]] if "id" in row else []
        self.links += [row["href"]] if "href" in row else []
        self.sections += [row["id"]] if tag == "section" and "id" in row else []

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


@pytest.fixture(scope="module", params=list(ALL))
def sample(request: pytest.FixtureRequest) -> tuple[Report, str]:
    document = ALL[request.param]()
    return document, report_html(document)


def part(page: str, name: str) -> str:
    return page.partition(f'<section id="{name}"')[2].partition("</section>")[0]


def texts(html: str) -> str:
    return " ".join(re.sub("<[^>]+>", " ", html).split())


def test_parts_are_in_order_and_linked_names_unique_and_colours_worded(sample: tuple[Report, str]) -> None:
    document, html = sample
    page = Parsed(html)
    wrong = any(who.causes for who in document.implementations)
    shown = {"causes": wrong, "cost": not document.public, "grid": not document.public}
    parts = [part for part in PARTS if shown.get(part, True)]
    assert [name for name in page.sections if name in PARTS] == parts
    assert [link for link in page.links if link[1:] in PARTS][: len(parts)] == [f"#{p}" for p in parts]

    assert len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    for finding in document.findings:
        held = document.public and finding.redacted
        assert finding.id in page.ids or held or len(finding.id) > MAX_TEXT

    source = html.partition("</style>")[2]
    coloured = re.findall(r'<(\w+)[^>]*\bclass="?[^">]*\b[vs]-[\w]+[^>]*>(.*?)(?=<(?:td|tr|/\1)\b)', source)
    assert len(coloured) > 20
    assert [html for _, html in coloured if not re.sub("<[^>]+>", "", html).strip()] == []


def test_causes_say_what_to_fix_and_how_to_see_them(sample: tuple[Report, str]) -> None:
    text = " ".join(Parsed(sample[1]).text.split())
    shown = causes(sample[0])
    assert [who.label for who, _ in shown] == [who.label for who in sample[0].implementations if who.causes]
    for who, rows in shown:
        assert rows == who.causes[: len(rows)]
        more = len(who.causes) - len(rows)
        assert not more or plural(more, "more cause") + (" is" if more == 1 else " are") in text
        for row in rows:
            for words in (row.what, row.said, row.mend, row.reproducer or ""):
                assert " ".join(words.split()) in text


def test_blocks_and_the_grid_hold_every_finding_once_and_every_input_is_drawn_once(
    sample: tuple[Report, str],
) -> None:
    document, page = sample
    found = blocks(document)
    assert sorted(m.id for block in found for m in block.members) == sorted(f.id for f in document.findings)
    order = list(document.scales.severity)
    ranks = [order.index(block.severity) for block in found]
    assert ranks == sorted(ranks)
    for block in found:
        assert {(m.rule, m.verdict) for m in block.members} == {(block.rule, block.verdict)}
        assert order.index(block.severity) == min(order.index(m.severity) for m in block.members)
    drawn = [b.shown.evidence.input for b in found if b.drawing is not None and b.shown and b.shown.evidence]
    assert len(drawn) == len(set(drawn))
    assert part(page, "findings").count("<svg") == len(drawn)
    assert {b.drawn_at for b in found if b.drawn_at} <= {b.anchor for b in found if b.drawing is not None}
    rows = re.findall(r"<tr><th.*?</tr>", part(page, "grid"), re.DOTALL)[1:]
    numbers = [re.findall(r'<td class="num[^"]*">([\d,]+)</td>', row) for row in rows]
    count = Counter((f.severity, f.difficulty) for f in document.findings)
    expected = [[str(count[level, d]) for d in document.scales.difficulty] for level in order]
    shown = document.findings and not document.public
    assert [row for row in numbers if row] == (expected if shown else [])


def test_reports_of_older_versions_have_no_causes_and_pages_of_a_collection_are_linked() -> None:
    old = as_json(one())
    for who in old["implementations"]:
        del who["causes"]
    assert schema_error("report", old) is None
    page = Parsed(report_html(typed(old, Report), home="../index.html"))
    assert page.sections == [name for name in PARTS if name != "causes"]
    assert "../index.html" in page.links
    assert "../index.html" not in Parsed(report_html(one())).links
    places = {who.label: f"{who.label[:4]}/p.html" for who in several().implementations}
    links = Parsed(comparison_html(several(), places, [], "../policy.md")).links
    assert set(places.values()) | {"../policy.md"} <= set(links)


def test_what_depends_on_the_number_of_implementations_and_cases() -> None:
    letters, words = (part(report_html(document), "support") for document in (many(), several()))
    assert 'table class="sticky cells narrow"' in letters
    assert "narrow" not in words
    assert "accepts wrongly" in texts(words)
    apart = report(*(run(failing(case), name=case, version="1") for case in (HOLE, TWICE)))
    for document, said in (
        (several(), "Agreement tree"),
        (one(), "There is only one implementation."),
        (apart, "No case was answered by two implementations."),
    ):
        assert said in part(report_html(document), "agreement")
    (who,) = one().implementations
    band = part(report_html(one()), "verdict")
    assert (who.due, who.not_run) == (74, 37)
    assert "37 of 74 cases were not run" in texts(band)
    assert [texts(row) for row in re.findall(r'<li class="v-0 apart">(.*?)</li>', band)] == ["37 not run"]


@pytest.mark.parametrize("limits", [{}, {"time_s": None, "memory_bytes": None}, {"memory_bytes": -1}])
def test_limits_and_costs_may_be_missing_or_negative(limits: dict[str, object]) -> None:
    made = run(failing(HOLE, peak_bytes=-1, wall_ms=-1.0), failing(TWICE, peak_bytes=None, wall_ms=None))
    made.header["limits"] = limits
    document = report(made)
    assert (document.run.runs[0].slowest, document.run.runs[0].hungriest) == ([], [])
    assert report_html(document)


ACCEPTED, OTHER = "dtype/scalar-of-f64", "dtype/scalar-of-f8-e4m3"


@pytest.mark.parametrize(
    ("row", "praise"),
    [
        (failing(ACCEPTED, "pass", outcome="accept"), "tone-good"),
        (failing(ACCEPTED, "not-strict", outcome="accept"), "meets all requirements"),
        (failing(ACCEPTED, "wrong-reject", outcome="reject"), "accepts nothing"),
        (failing("header/metadata-key-twice-both-empty", "wrong-accept"), "no failure with a broken layout"),
    ],
)
@pytest.mark.parametrize(("footer", "ended"), [(Make.CUT | {"not_run": 7}, "partial"), (None, "truncated")])
def test_a_run_that_did_not_finish_gets_no_praise(row: Row, praise: str, footer: Any, ended: str) -> None:
    rows = [failing(HOLE, "pass", outcome="reject"), failing(OTHER, "pass"), row]
    assert praise in report_html(report(run(*rows, name="lib", version="1")))
    made = report(run(*rows, name="lib", version="1", cases=10, footer=footer))
    for page in (report_html(made), comparison_html(made, {}, [], "")):
        shown = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
        for word in (praise, "tone-good", "class=good", "No fault of this kind shown"):
            assert word not in shown
        assert f"Not fully known ({ended} run): 7 of 10 cases did not run." in shown
    assert f"**not fully known** ({ended} run)" in summary_markdown(made) or praise != "tone-good"


def test_promises_of_loading_onto_a_device_are_counted() -> None:
    def told(**statuses: str) -> list[dict[str, str]]:
        return [{"name": name, "status": status, "message": ""} for name, status in statuses.items()]

    rows = [
        failing(HOLE, "not-strict", step="device", checks=told(alignment="fail", stream="unknown")),
        failing(TWICE, "pass", step="device", checks=told(alignment="pass", stream="unknown")),
    ]
    with_device = run(*rows, name="lib", version="1", device="cuda:1")
    asked_in_vain = run(failing(HOLE), name="other", version="1", device="cuda:1")
    document = report(with_device, asked_in_vain)
    assert schema_error("report", as_json(document)) is None
    first, second = document.implementations
    assert second.device is UNSET
    assert first.device is not UNSET
    assert first.device.files == 2
    assert first.device.checks["alignment"] == {"pass": 1, "fail": 1, "unknown": 0}
    shown = texts(part(report_html(document), "run"))
    for words in ("cuda:1", "1 kept, 1 broken", "unknown", *(p.about for p in CHECKS.values())):
        assert words in shown
    assert "Loading onto a device" not in report_html(report(asked_in_vain))


def test_failing_areas_and_rules_come_first() -> None:
    shown = areas(several())
    broken = [any(kind in STRICT_FAILING for kind in area.row.worst) for area in shown]
    assert broken == sorted(broken, reverse=True)
    assert True in broken
    for area in shown:
        rules = [any(kind in STRICT_FAILING for kind in rule.worst) for rule in area.rules]
        assert rules == sorted(rules, reverse=True)
        assert area.failing == sum(rules)
    assert {a.row.area for a in shown} == {row.area for row in several().matrix}


def articles(page: str) -> list[str]:
    return [text.partition("</article>")[0] for text in page.split('<article id="')[1:]]


def test_every_finding_says_what_a_reader_needs() -> None:
    found, shown = blocks(one()), articles(report_html(one()))
    assert len(shown) == len(found) >= 3
    for block, html in zip(found, shown, strict=True):
        text = texts(html)
        finding = block.shown
        assert finding is not None
        assert html.startswith(f'{block.anchor}"')
        assert f"{block.rule} (" in text
        assert finding.outcome in NO_WEAKNESS or re.search(r"CWE-\d+", text), text[:200]
        for word in ("expected", "got", "input", "reproduce", "fix"):
            (told,) = re.findall(rf"<dt>{word}</dt><dd>(.*?)</dd>", html)
            assert texts(told), (word, block.anchor)
        assert f"stc run --impl {(finding.reproducer or '').split()[3]}" in text
        if finding.evidence and finding.evidence.size:
            assert re.search(r"<dt>where</dt><dd>bytes? [\d,]+", html), block.anchor
        assert all(member.implementation in text for member in block.members)


def test_held_back_findings_stand_among_the_causes_by_verdict_and_rule_alone() -> None:
    page = report_html(public())
    held = [b for b in blocks(public()) if b.shown is None]
    assert held
    assert {html.partition('"')[0] for html in articles(page)}.isdisjoint(b.anchor for b in held)
    number = sum(len(block.members) for block in held)
    assert f"{number} findings without a public report are listed under likely causes" in texts(page)
    causes = [cause for who in public().implementations for cause in who.causes]
    assert not any(cause.redacted and cause.reproducer for cause in causes)


def test_expected_failures_costs_changes_coverage_choices_and_commands_are_those_of_the_report() -> None:
    page = report_html(one())
    expected = part(page, "expected")
    rows = [texts(row) for row in re.findall("<tr>(.*?)</tr>", expected)[1:]]
    assert [re.split(r"[ (]", row)[1] for row in rows] == ["passes", "fails", "fails"]
    assert ["no date" in rows[0], "2026-12-24" in rows[1], "2027-01-01" in rows[2]] == [True] * 3
    assert (TWICE in rows[1], "unreported" in rows[1], HOLE in rows[2]) == (True, True, True)
    assert 'href="https://example.org/1"' in expected

    slowest, hungriest = part(page, "cost").split("Hungriest</caption>")
    costs = [[float(n) for n in re.findall(r'"num">([\d.]+)<', text)] for text in (slowest, hungriest)]
    assert costs[0][:2] == [812.5, 26.0]
    assert costs[1] == sorted(costs[1], reverse=True)
    assert len(costs[1]) == 10
    coverage = texts(part(page, "coverage"))
    assert f"{one().coverage.both} rules have both cases to accept and cases to reject" in coverage
    assert all(gap.rule in coverage for gap in one().coverage.gaps)
    assert "contradicts itself" in part(page, "choices")
    assert list(commands(one())) == [
        "stc run --impl lib --heavy --report runs",
        "stc report runs -o audit --html",
    ]
    hostile = replace(one().implementations[0], selector="a b", profile="x; touch MARK")
    assert next(commands(replace(one(), implementations=[hostile]))) == (
        "stc run --impl 'a b' --profile 'x; touch MARK' --heavy --report runs"
    )
    assert "Compared with the baselines: 5 new, 1 fixed, 2 unchanged" in texts(part(page, "changes"))
    fixed = report(run(failing(HOLE, "pass"), name="lib", version="2"))
    before = report(run(failing(HOLE), name="lib", version="1"))
    changes = texts(part(report_html(fixed, before), "changes"))
    assert "Compared with an older report: 0 new, 1 fixed" in changes
    assert "lib-off-07-wrong-accept" in changes
    assert "no older report or baseline" in part(report_html(fixed), "changes")
