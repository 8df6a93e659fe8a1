"""Published reports: what is unsafe and not public yet leaves no trace in them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from safetensors_corpus.field_bugs import field_bugs
from safetensors_reports.audit.build import report_text
from safetensors_reports.audit.disclosure import UNSAFE_FAMILIES, is_unsafe, published_run
from safetensors_reports.audit.inputs import BaselineEntry, load_fuzz_finding
from safetensors_reports.audit.report import ReferenceRow, Report
from safetensors_reports.comment import summary_markdown
from safetensors_reports.exports import badges
from safetensors_reports.page.html import report_html
from safetensors_reports.page.publish import comparison_svg
from safetensors_reports.page.results import tally
from safetensors_reports.record.run import RunRecord

from ..samples import HOLE, TWICE, corpus, failing, report, run, without_run, write_finding

ISSUE = "https://example.org/issue/1"


def texts(*records: RunRecord, **more: Any) -> str:
    """Everything that is published about some runs."""
    document = report(*records, public=True, **more)
    return report_text(document) + report_html(document) + comparison_svg(document)


def test_each_sign_of_an_unsafe_end_is_enough() -> None:
    signs: list[dict[str, Any]] = [{"outcome": end} for end in ("crash", "hang", "exhausted")]
    signs += [{"verdict": "unsafe"}, {"failures": [{"verdict": "unsafe"}]}]
    assert all(is_unsafe(failing(HOLE) | sign) for sign in signs)
    assert not is_unsafe(failing(HOLE))


def test_only_what_is_shown_whole_is_called_conformant() -> None:
    """Nobody is to read *conformant* where crashes may be held back, and our own reader hides nothing."""
    right = failing(HOLE, "pass")
    runs = [run(right, name=name, version="1") for name in ("lib", "reference")]
    assert [who.word for who in report(*runs).implementations] == ["conformant", "conformant"]
    public = report(*runs, public=True)
    assert [who.word for who in public.implementations] == ["no fault shown", "conformant"]
    assert [who["color"] for who in badges(public).values()] == ["lightgrey", "brightgreen"]
    (area,) = (row for row in public.matrix if row.area == "OFF")
    assert (area.worst, area.known) == (["pass"] * 2, [1, 1])
    who = public.implementations[0]
    assert (who.counts, who.due, who.cases, who.not_run, who.not_asked) == ({}, 1, 1, 0, {})
    assert tally(who).fine == 1
    record = run(failing(HOLE, "unsafe", outcome="crash"), name="reference", version="1")
    assert published_run(record, corpus(), ()) is record
    public = report(record, public=True)
    assert public.findings == report(record).findings
    assert public.implementations[0].counts == {"unsafe": 1}
    # Crashes that are public give no word, whatever step shows them.
    record = run(failing(HOLE, "unsafe", step="lifecycle", outcome="crash"), name="lib", version="1")
    before = copy.deepcopy(record)
    known = [BaselineEntry(HOLE, (HOLE,), {"lifecycle": "unsafe"}, "known", ISSUE, "2027-01-01")]
    (private,) = report(record).implementations
    (told,) = report(record, public=True, known={0: known}).implementations
    assert (private.word, private.counts) == ("unguarded", {"unsafe": 1})
    assert (told.word, told.counts) == ("no fault shown", {"unsafe": 1})
    assert report(record, public=True).implementations[0].counts == {}
    assert record == before


def test_causes_tell_no_more_than_findings_do() -> None:
    """HOLE is told by a public report; of all else there are verdict, rule and number."""
    name, size = "openasr", corpus().by_id[HOLE].size
    (bug,) = [bug for bug in corpus().by_id[HOLE].affects if bug["project"] == name]
    assert bug["versions"] == ""

    def untold(rule: str, outcome: str) -> list[str]:
        """Cases that no report of that project is about, none of which is the smallest of its rule."""
        return [
            c.id
            for c in corpus().reading
            if c.rules[0] == rule and c.expect and c.expect.outcome == outcome and c.size >= size
            if not any(bug["project"] == name for bug in c.affects)
        ]

    hidden = [*untold("OFF-07", "reject")[:2], TWICE, untold("DAT-06", "accept")[0]]
    rows = [
        failing(HOLE),
        *(failing(case, message="SECRET") for case in hidden[:3]),
        failing(hidden[3], "wrong-reject", outcome="reject", message="SECRET"),
        failing("framing/no-bytes", "harness-error", outcome="harness-error", message="SECRET"),
        failing("layout/two-dtypes", "unsafe", outcome="crash", message="SECRET"),
    ]
    record = run(*rows, name=name, version="0.8.0")
    document = report(record, public=True)
    (who,) = document.implementations
    told = [(c.redacted, c.verdict, c.rule, c.case_count, c.cases) for c in who.causes]
    assert told == [
        (False, "wrong-accept", "OFF-07", 1, [HOLE]),
        (True, "wrong-accept", "HDR-09", 1, []),
        (True, "wrong-reject", "DAT-06", 1, []),
    ]
    for cause in who.causes[1:]:
        assert (cause.example, cause.reproducer, cause.said, cause.steps) == (None, None, "", [])
    published = texts(record) + summary_markdown(document)
    for word in ("SECRET", *hidden):
        assert word not in published
    private = report(record).implementations[0].causes
    assert {c.verdict for c in private} == {"wrong-accept", "wrong-reject", "harness-error", "unsafe"}
    assert any(c.said == "SECRET" for c in private)


def told_by_bug() -> list[tuple[str, str, bool]]:
    """Case, project, and whether the bug is one of safety: one of either sort."""
    found: dict[bool, tuple[str, str, bool]] = {}
    for case in corpus().cases:
        for bug in case.affects:
            sorts = {field_bugs()[b["bug"]].family in UNSAFE_FAMILIES for b in case.affects}
            if bug["versions"].startswith("<") and bug["versions"].count(",") == 0 and len(sorts) == 1:
                (unsafe,) = sorts
                found.setdefault(unsafe, (case.id, bug["project"], unsafe))
    return [found[False], found[True]]


@pytest.mark.parametrize(("case", "project", "unsafe"), told_by_bug())
def test_a_reported_bug_of_safety_is_shown_for_its_versions(case: str, project: str, unsafe: bool) -> None:
    row = failing(case, "unsafe", outcome="crash", message="killed by SIGSEGV")
    before, after = (run(row, name=project, version=v) for v in ("0.0.1", "999.0"))
    found = report(before, public=True).findings
    assert [f.verdict for f in found] == (["unsafe"] if unsafe else [])
    assert report(after, public=True).findings == []
    assert report(run(row, name=f"{project}-other", version="0.0.1"), public=True).findings == []


def test_a_baseline_tells_with_a_report_about_safety_only() -> None:
    for issue, verdict, shown in (
        (ISSUE, "unsafe", True),
        (ISSUE, "wrong-accept", False),
        ("unreported", "unsafe", False),
        ("", "unsafe", False),
    ):
        record = run(failing(HOLE, "unsafe", outcome="hang"), failing(TWICE, "pass"), name="lib", version="1")
        known = {0: [BaselineEntry(HOLE, (HOLE,), {"read": verdict}, "why", issue, "2027-01-01")]}
        document = report(record, public=True, known=known)
        assert bool(document.findings) is shown
        assert document.implementations[0].counts == ({"unsafe": 1} if shown else {})
        assert tally(document.implementations[0]).fine == (1 if shown else 2)
        if shown:
            (finding,) = document.findings
            assert finding.references == [ReferenceRow(ISSUE, True, [HOLE])]
            assert not finding.redacted
            assert HOLE in texts(record, known=known)


@pytest.mark.parametrize("verdict", ["pass", "unsafe"])
def test_what_may_have_passed_or_be_held_back_is_not_told(verdict: str) -> None:
    """A listed failure that is gone may have ended in a way that is held back, so it is not said to pass."""
    known = {0: [BaselineEntry(HOLE, (HOLE,), {"read": "wrong-accept"}, "why", ISSUE, "2027-01-01")]}
    row = failing(HOLE, verdict, outcome="reject" if verdict == "pass" else "crash")
    case = next(c for c in corpus().cases if c.choice == "leading-whitespace")
    died = failing(case.id, "unsafe", outcome="crash", choice=case.choice)
    said = {"choice": case.choice, "verdict": "pass", "detail": "no case of this choice gave an answer"}
    record = run(row, died, name="lib", version="1", baseline="lib.toml", choices=[said])
    document = report(record, public=True, known=known)
    (who,) = document.implementations
    assert [(entry.state, entry.verdict) for entry in who.expected_failures] == [("no verdict", None)]
    assert (document.choices, who.choices) == ({}, [])


def test_beside_other_projects_nothing_unsafe_is_told_even_if_it_is_public() -> None:
    known = [BaselineEntry(HOLE, (HOLE,), {"read": "unsafe"}, "known", ISSUE, "2027-01-01")]
    open_tracker = run(failing(HOLE, "unsafe", outcome="crash"), failing(TWICE), name="lib", version="1")
    others = [run(failing(HOLE, "pass"), failing(TWICE), name=name, version="1") for name in ("a", "z")]
    compared = report(open_tracker, *others, public=True, known={0: known})
    assert {f.verdict for f in compared.findings} == {"wrong-accept"}
    assert [who.counts for who in compared.implementations] == [{"wrong-accept": 1}] * 3
    assert "unsafe" not in {kind for area in compared.matrix for kind in area.worst}
    alone = report(open_tracker, public=True, known={0: known})
    assert [f.verdict for f in alone.findings] == ["unsafe", "wrong-accept"]
    assert alone.findings[0].references == [ReferenceRow(ISSUE, True, [HOLE])]
    # Its own page tells of it, without a colour or a word that a comparison would not have.
    assert alone.implementations[0].word == compared.implementations[1].word == "lenient"
    assert [area.worst[0] for area in alone.matrix] == [area.worst[1] for area in compared.matrix]


def test_findings_of_fuzzing_are_held_back_alike(tmp_path: Path) -> None:
    died = {"verdict": "unsafe", "got": {"lib": "crash: killed by SIGSEGV"}}
    own = {"verdict": "unsafe", "got": {"reference": "hang"}, "versions": {"reference": "1"}}
    both = {"verdict": "unsafe", "got": {"reference": "hang", "lib": "hang"}}
    changes: list[dict[str, Any]] = [died, {}, own, both]
    crash, lenient, mine, mixed = (
        load_fuzz_finding(write_finding(tmp_path / str(number), **change))
        for number, change in enumerate(changes)
    )
    record = run(failing(TWICE, "pass"), name="lib", version="1.0")

    def published(*items: Any) -> Report:
        return without_run(report(record, fuzz=list(items), public=True))

    assert published(crash) == published()
    assert published(mixed) == published()
    assert published(crash, lenient) == published(lenient)
    (shown,) = published(lenient).findings
    assert (shown.redacted, shown.fuzz, shown.evidence) == (True, [], None)
    assert [f.verdict for f in published(mine).findings] == ["unsafe"]
    assert "0011aabb" not in report_text(published(crash, lenient))
