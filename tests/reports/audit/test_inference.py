"""What published files tell of results that are held back: nothing, whoever reads however many of them."""

from __future__ import annotations

import copy
import json
from collections import Counter
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from safetensors_conformance.cli.report import report as command
from safetensors_conformance.implementations.descriptor import descriptors
from safetensors_conformance.outcome import Implementation
from safetensors_conformance.run.driver import scope
from safetensors_corpus import Case, Manifest
from safetensors_corpus.document import Document
from safetensors_corpus.judging.judge import Failure
from safetensors_corpus.judging.verdicts import STRICT_FAILING, kind_of
from safetensors_reference.rules.pages import AREAS
from safetensors_reports.audit.build import build_report, report_text
from safetensors_reports.audit.disclosure import OWN
from safetensors_reports.audit.inputs import AuditError, BaselineEntry
from safetensors_reports.comment import summary_markdown
from safetensors_reports.exports import badges, sarif_log, statements
from safetensors_reports.history.known_bugs import lines_of_trend, published_version, trend_of
from safetensors_reports.history.ledger import Ledger, append_lines
from safetensors_reports.history.trend import VersionRun, notes_of, trend
from safetensors_reports.page.html import report_html
from safetensors_reports.page.publish import history, history_texts, publication
from safetensors_reports.record.run import Row, RunRecord
from safetensors_reports.text import bug_affects
from safetensors_reports.trophies.model import render, trophies

from ..samples import Make, called, corpus, failing, run, write_record

ROOT = Path(__file__).parents[3]
PUBLISHED = ROOT / "reports" / "published"
ISSUE = "https://example.org/issue/1"
STEPS = {"open": ("open", "read"), "read": ("open", "read")}


def _picked() -> list[Case]:
    """Cases of every kind, and for some choices enough of each to decide it."""
    cases = [c for c in corpus().cases if not c.heavy]
    out = [c for c in cases if c.kind == "read" and c.expect and c.expect.outcome == "reject"][:400:100]
    out += [c for c in cases if c.kind == "read" and c.expect and c.expect.outcome == "accept"][:200:100]
    for kind in ("write", "slice", "index", "lifecycle", "resource"):
        out.append(next(c for c in cases if c.kind == kind and c.expect is not None))
    out += [c for c in cases if c.choice == "leading-whitespace" and c.kind == "read"][:3]
    out += [c for c in cases if c.smoke and c.kind == "read" and c.expect and c.expect.content][:1]
    for area in AREAS:  # the pages have a column for each
        out.append(next(c for c in cases if c.rules[0].startswith(area) and c.expect is not None))
    return list({c.id: c for c in out}.values())


@cache
def small() -> Manifest:
    """A corpus of a few cases, so that everything that is published can be made in no time."""
    whole, chosen = corpus(), _picked()
    ids = {c.id for c in chosen}
    raw = {**whole.raw, "cases": [row for row in whole.raw["cases"] if row["id"] in ids]}
    document = Document(whole.document.path, json.dumps(raw).encode())
    return Manifest(whole.version, whole.root, tuple(chosen), document)


PLACES = [(c.id, step) for c in _picked() for step in (("open", "read") if c.kind == "read" else c.steps)]
"""Every case and step of the small corpus."""


def right(case: Case, step: str, **more: Any) -> Row:
    """A result without a fault: as demanded, or the first option of a choice."""
    if case.choice is None:
        assert case.expect is not None
        row = failing(case.id, "pass", step=step, outcome=case.expect.outcome)
    else:
        option, demand = next(iter(case.options.items()))
        row = failing(case.id, f"choice:{option}", step=step, outcome=demand.outcome, options=[option])
    return {**row, "choice": case.choice, **more}


def wrong(case: Case, step: str, verdict: str) -> Row:
    outcome = {"wrong-reject": "reject", "unsupported": "unsupported"}.get(verdict, "accept")
    return failing(case.id, verdict, step=step, outcome=outcome, choice=case.choice, message="said")


def died(case: Case, step: str, end: str) -> Row:
    """A result that nobody may learn of: dead, hung, out of memory, panicked, or far beyond its budget."""
    outcome = {"panic": "crash", "budget": "accept"}.get(end, end)
    row = failing(case.id, "unsafe", step=step, outcome=outcome, choice=case.choice, detail="SECRET")
    row |= {"message": "SECRET", "wall_ms": 9_999.0, "peak_bytes": 9 << 30}
    if end == "panic":
        row["exception"] = "PanicException"
    if end == "budget":
        row["failures"] = [
            Failure(v, case.rules[0], "text", "cost", "SECRET").__dict__ for v in ("unsafe", "wrong-accept")
        ]
    return row


def recorded(rows: list[Row], selector: str, **more: Any) -> RunRecord:
    name = selector.partition(":")[0]
    record = run(*rows, name=name, version="1", baseline="lib.toml", **more)
    record.header["implementation"]["selector"] = selector
    answers: dict[str, list[set[str]]] = {}
    asked = {str(row["choice"]) for row in rows if row.get("choice")}
    for row in rows:
        if row.get("choice") and row["options"]:
            answers.setdefault(str(row["choice"]), []).append(set(row["options"]))
    for choice in sorted(asked):
        common = set.intersection(*answers[choice]) if choice in answers else set()
        verdict = f"choice:{'|'.join(sorted(common))}" if common else "choice-inconsistent"
        record.choices.append({"choice": choice, "verdict": verdict if choice in answers else "pass"})
    return record


def everything(*records: RunRecord) -> dict[str, str]:
    """Everything that can be published about some runs, by name: the pages, and every form of a report."""
    hole = PLACES[0][0]
    known = {i: [BaselineEntry(hole, (hole,), {"read": "wrong-accept"}, "why", ISSUE, "2027-01-01")]
        for i in range(len(records))}  # fmt: skip
    texts = publication(records, small(), known)
    for number, record in enumerate(records):
        made = build_report([record], small(), known={0: known[0]}, public=True)
        forms: dict[str, Any] = {
            "json": report_text(made),
            "html": report_html(made),
            "md": summary_markdown(made),
            "sarif": sarif_log(made),
            "badge": badges(made),
            "intoto": statements(made, {who.label: "a" * 64 for who in made.implementations}),
        }
        texts |= {f"{number}.{form}": json.dumps(text) for form, text in forms.items()}
    return texts


def differing(one: dict[str, str], other: dict[str, str]) -> list[str]:
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


QUICK = settings(max_examples=5, phases=[Phase.generate])
"""Each example makes two whole sets of pages, so that shrinking one takes minutes."""
places = st.sampled_from(PLACES)
verdicts = st.sampled_from(["wrong-accept", "wrong-reject", "wrong-content", "not-strict", "unsupported"])
ends = st.sampled_from(["crash", "hang", "exhausted", "panic", "budget"])


@QUICK
@given(
    bad=st.dictionaries(places, verdicts, max_size=8),
    secret=st.dictionaries(places, ends, min_size=1, max_size=12),
    expected=st.booleans(),
    slow=st.floats(0.1, 9e3),
)
def test_what_is_held_back_is_published_as_if_it_had_passed(
    bad: dict[tuple[str, str], str], secret: dict[tuple[str, str], str], expected: bool, slow: float
) -> None:
    def row(case: Case, step: str, hide: bool) -> Row:
        place = (case.id, step)
        if place in secret and hide:
            return died(case, step, secret[place])
        if place in secret:
            return failing(case.id, "pass", step=step, choice=case.choice, wall_ms=slow, message="fine")
        if place in bad:
            return wrong(case, step, bad[place]) | {"expected_failure": expected}
        return right(case, step, wall_ms=slow / 2)

    def rows(hide: bool) -> list[Row]:
        return [row(small().by_id[case], step, hide) for case, step in PLACES]

    def published_trend(hide: bool) -> dict[str, str]:
        whole, plain = rows(hide), [right(small().by_id[c], s) for c, s in PLACES]
        more: dict[str, Any] = {"started": f"2026-11-21T0{3 + hide}:00:00Z"}
        return everything(
            recorded(whole, "lib", **more),
            recorded(plain, "lib:fast"),
            recorded(whole, "elsewhere", **more),
            recorded(plain, "reference"),
        )

    held = published_trend(hide=True)
    assert differing(held, published_trend(hide=False)) == []
    assert not any("SECRET" in text or "PanicException" in text for text in held.values())


@QUICK
@given(
    before=st.dictionaries(places, verdicts, max_size=8),
    secret=st.dictionaries(places, ends, max_size=12),
    basic=ends,
    misses=st.booleans(),
)
def test_what_a_release_changed_tells_nothing_of_what_is_held_back(
    before: dict[tuple[str, str], str], secret: dict[tuple[str, str], str], basic: str, misses: bool
) -> None:
    """Neither that a version dies where the one before it failed, nor that it dies over the basic files."""
    secret |= {(case.id, "read"): basic for case in small().cases if case.smoke and case.kind == "read"}

    missing = {"outcome": "reject", "exception": "TypeError", "message": "takes 1 positional argument"}

    def row(case: Case, step: str, hide: bool, bad: dict[tuple[str, str], str]) -> Row:
        place = (case.id, step)
        if place in secret:
            return died(case, step, secret[place]) if hide else right(case, step)
        if place in bad:
            return wrong(case, step, bad[place]) | (missing if misses else {})
        return right(case, step)

    def rows(hide: bool, bad: dict[tuple[str, str], str]) -> list[Row]:
        return [row(small().by_id[case], step, hide, bad) for case, step in PLACES]

    def told(hide: bool) -> dict[str, str]:
        versions = []
        for number, bad in enumerate((before, {}, before)):
            version = recorded(rows(hide and number > 0, bad), "lib")
            version.header["implementation"]["version"] = f"1.{number}"
            versions.append(version)
        try:
            return history_texts(append_lines({}, history(versions, small())), {})
        except AuditError as err:
            return {"refused": str(err)}

    assert differing(told(hide=True), told(hide=False)) == []


BUGS = {bug["id"]: bug for bug in corpus().raw["field_bugs"]}
NOTES = {case: note for case, note in notes_of(corpus().raw, "safetensors").items() if note.bugs}
"""Cases that show reported bugs of one project, as a trend of its versions is told of them."""
RELEASES = ("0.3.0", "0.3.1", "0.5.3", "0.8.0", "0.9.0")


def _unreported(case: str, version: str) -> bool:
    return not any(bug_affects(BUGS[bug.id], version) for bug in NOTES[case].bugs)


@settings(QUICK, max_examples=10)
@given(st.integers(0, 1 << 32), ends)
def test_trends_and_trophies_tell_nothing_of_what_is_held_back(seed: int, end: str) -> None:
    """The table of reported bugs says of which versions they are; in others nobody may learn of an end."""
    chance = Random(seed)
    cases = [corpus().by_id[case] for case in chance.sample(sorted(NOTES), 30)]
    bad = {(c.id, v): chance.choice(["pass", "pass", "wrong-accept", "wrong-reject", "unsafe"])
        for c in cases for v in RELEASES}  # fmt: skip

    def rows_of(case: Case, version: str, hide: bool) -> list[Row]:
        *before, last = case.steps if case.kind != "read" else ("open", "read")
        verdict = bad[case.id, version]
        late = bool(before) and case.expect is not None and case.expect.outcome == "reject"
        if verdict != "unsafe":
            return [wrong(case, last, verdict) if verdict != "pass" else right(case, last)]
        dies = hide or not _unreported(case.id, version)
        opened = "wrong-accept" if dies else "late-reject"
        opens = [failing(case.id, opened, step=s) if late else right(case, s) for s in before]
        if dies:
            return [*opens, died(case, last, end)]
        options = {bug.option for bug in NOTES[case.id].bugs}
        harmless = [option for option in case.options if option not in options]
        return [*opens, right(case, last) | ({"verdict": f"choice:{harmless[0]}"} if harmless else {})]

    def rows(version: str, hide: bool) -> list[Row]:
        return [row for case in cases for row in rows_of(case, version, hide)]

    def told(hide: bool) -> dict[str, str]:
        runs = {v: recorded(rows(v, hide), "safetensors") for v in RELEASES}
        shown = [
            VersionRun.of(v, *published_version(v, run, {}, NOTES, corpus().raw)) for v, run in runs.items()
        ]
        lines = lines_of_trend(trend("safetensors", "1", "2027", shown, NOTES), corpus().raw)
        made = trend_of("safetensors", Ledger("safetensors", "safetensors", tuple(lines)), corpus().raw)
        return {
            "history": "".join(line.text for line in lines),
            "docs/trophies.md": render(trophies(corpus().raw, [made], [])),
        }

    assert any(bad[c, v] == "unsafe" and _unreported(c, v) for c, v in bad)
    held = told(hide=True)
    assert differing(held, told(hide=False)) == []
    assert not any("SECRET" in text for text in held.values())


@settings(QUICK, max_examples=3)
@given(st.integers(0, 2), ends)
def test_a_case_of_a_choice_that_is_held_back_is_published_as_the_option_that_is_taken(
    number: int, end: str
) -> None:
    """Its other cases decide the option, so that one which passed would have had it, too."""
    rows = [right(small().by_id[c], s) for c, s in PLACES]
    places = [i for i, row in enumerate(rows) if row["choice"]][2 * number : 2 * number + 2]
    hidden = copy.deepcopy(rows)
    for i in places:
        hidden[i] = died(small().by_id[rows[i]["case"]], rows[i]["step"], end)
    other = recorded(copy.deepcopy(rows), "other")
    assert (
        differing(everything(recorded(hidden, "lib"), other), everything(recorded(rows, "lib"), other)) == []
    )


def test_who_dies_at_reading_what_it_opened_is_published_as_who_refuses_it_there() -> None:
    """A broken file that is opened counts as late when reading refuses it, and as accepted when it dies."""
    case = next(c for c in _picked() if c.expect and c.expect.outcome == "reject")
    late = failing(case.id, "late-reject", step="open", rule="OFF-15", detail="accepted at open")
    late |= {"failures": [{"verdict": "late-reject", "rule": "OFF-15", "basis": "official",
        "property": "outcome", "detail": "accepted at open"}]}  # fmt: skip
    accepted = failing(case.id, "wrong-accept", step="open", expected_failure=False)
    dies = recorded([accepted, died(case, "read", "crash")], "lib")
    refuses = recorded([late, right(case, "read")], "lib")
    assert differing(everything(dies), everything(refuses)) == []


@pytest.mark.parametrize("change", [{"footer": None}, {"footer": Make.CUT}, {"cases": 99}])
def test_a_run_that_lacks_something_is_not_published(change: dict[str, Any], tmp_path: Path) -> None:
    """A run stopped by --max-hangs lacks what would have come after so many hangs."""
    rows = [right(small().by_id[c], s) for c, s in PLACES]
    part = run(*rows, name="lib", version="1", **change)
    with pytest.raises(AuditError, match="published pages need complete runs"):
        build_report([part], small(), public=True)
    path = write_record(tmp_path / "a.jsonl", part)
    done = called(command, path, "-o", tmp_path / "out", "--public")
    assert (done.exit_code, "--max-hangs 0" in done.output) == (2, True)
    assert not (tmp_path / "out").exists()
    build_report([part], small())
    build_report([run(*rows, name=OWN, version="1", **change)], small(), public=True)


COMMITTED = {
    path: json.loads(path.read_text("utf-8"))
    for path in (PUBLISHED / "report.json", *PUBLISHED.glob("*/report.json"))
}


@cache
def due(name: str, selector: str, steps: tuple[str, ...]) -> tuple[int, dict[str, int], Counter[str]]:
    """Return the number of due cases, the cases that are not asked, and the due cases by rule."""
    claimed = {d.selector(entry): entry.areas for d in descriptors().values() for entry in d.entries}
    areas = frozenset(claimed.get(selector.partition("==")[0], ()))
    who = Implementation(name, "", "", steps, frozenset(), selector, areas)
    mine = [case for case in corpus().cases if not case.heavy and who.steps_of(case)]
    return len(mine), scope(who, corpus(), heavy=False)[1], Counter(rule for c in mine for rule in c.rules)


def test_what_is_committed_counts_what_anybody_can_compute() -> None:
    """What is due is a pure function of the corpus and of what a program says of itself."""
    for path, document in COMMITTED.items():
        # Cases that are newer than a report may be due now. Without such cases, the numbers are exact.
        newer = range(len(corpus().cases) - document["corpus"]["cases"] + 1)
        assert newer, "the corpus has lost cases: stc publish writes the reports anew"
        cells = [rule for area in document["matrix"] for rule in area["rules"]]
        for number, row in enumerate(document["implementations"]):
            count, asked, rules = due(row["name"], row["selector"], tuple(row["steps"]))
            assert count - row["due"] in newer, (path, row["label"])
            assert row["not_asked"].keys() <= asked.keys(), (path, row["label"])
            assert all(n - row["not_asked"].get(why, 0) in newer for why, n in asked.items()), row["label"]
            # A case that fails counts for the rules that it is charged to, not for all that it carries.
            failed = sum(n for kind, n in row["counts"].items() if kind in STRICT_FAILING)
            for cell in cells:
                least = rules[cell["rule"]] - failed - newer[-1]
                assert cell["known"][number] >= least, (path, row["label"], cell["rule"])


def test_what_is_committed_holds_no_measurement_no_pass_and_nothing_unsafe_of_others() -> None:
    for path, document in COMMITTED.items():
        pages = [p.read_text("utf-8") for p in path.parent.iterdir() if p.suffix in (".html", ".json", ".md")]
        for word in ("slowest", "Slowest", "hungriest", "duration_s", "wall_ms", "peak_bytes"):
            assert not any(word in page for page in pages), (path, word)
        for row in document["run"]["runs"]:
            assert row.keys() == {"implementation", "started", "platform", "python"}, path
            assert len(row["started"] or "") in (0, len("2026-11-21")), path
        others = {row["label"]: row for row in document["implementations"] if row["name"] != OWN}
        for row in others.values():
            assert (row["cases"], row["not_run"]) == (row["due"], 0), row["label"]
            assert {"pass", "choice"}.isdisjoint(row["counts"]), row["label"]
        shown = {f["verdict"] for f in document["findings"] if f["implementation"] in others}
        rows = [row for area in document["matrix"] for row in (area, *area["rules"])]
        shown |= {kind for row in others.values() for kind in row["counts"]}
        shown |= {kind_of(kind or "") for row in rows for kind in row["worst"]}
        assert "unsafe" not in shown or path.parent != PUBLISHED
