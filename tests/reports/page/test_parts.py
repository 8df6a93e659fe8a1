"""Parts of a page, whose numbers are those of the report."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from safetensors_corpus.typed import typed
from safetensors_reports.audit.report import Report
from safetensors_reports.comment import summary_markdown
from safetensors_reports.page.design import MAX_TEXT
from safetensors_reports.page.html import blocks, causes, commands, comparison_html, report_html
from safetensors_reports.record.device_checks import CHECKS
from safetensors_reports.record.run import Row

from ...published_schemas import schema_error
from ..samples import HOLE, TWICE, Make, as_json, failing, report, run
from .samples import ALL, many, one, several

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
    for _, rows in causes(sample[0]):
        for row in rows:
            for words in (row.what, row.said, row.mend, row.reproducer or ""):
                assert " ".join(words.split()) in text


def test_the_grid_counts_every_finding_once_and_every_input_is_drawn_once(sample: tuple[Report, str]) -> None:
    document, page = sample
    found = blocks(document)
    drawn = [b.shown.evidence.input for b in found if b.drawing is not None and b.shown and b.shown.evidence]
    assert part(page, "findings").count("<svg") == len(drawn) == len(set(drawn))
    rows = re.findall(r"<tr><th.*?</tr>", part(page, "grid"), re.DOTALL)[1:]
    numbers = [re.findall(r'<td class="num[^"]*">([\d,]+)</td>', row) for row in rows]
    count = Counter((f.severity, f.difficulty) for f in document.findings)
    scales = document.scales
    expected = [[str(count[level, d]) for d in scales.difficulty] for level in scales.severity]
    shown = document.findings and not document.public
    assert [row for row in numbers if row] == (expected if shown else [])


def test_reports_of_older_versions_have_no_causes_and_no_answers() -> None:
    old = as_json(one())
    for who in old["implementations"]:
        del who["causes"]
    assert schema_error("report", old) is None
    for who in old["implementations"]:
        del who["roles"]
    loaded = typed(old, Report)
    page = report_html(loaded)
    assert Parsed(page).sections == [name for name in PARTS if name != "causes"]
    for text in (page, comparison_html(loaded, {}, [], "")):
        assert "This report was created by an older version" in text


def test_what_depends_on_the_number_of_implementations_and_cases() -> None:
    letters, words = (part(report_html(document), "support") for document in (many(), several()))
    assert ("narrow" in letters, "narrow" in words) == (True, False)
    apart = report(*(run(failing(case), name=case, version="1") for case in (HOLE, TWICE)))
    assert "No case was answered by two implementations." in part(report_html(apart), "agreement")
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


def test_expected_failures_costs_changes_and_commands_are_those_of_the_report() -> None:
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
