"""What each role of a program shows: its own cases alone, where it claims something, and on which basis."""

from __future__ import annotations

from typing import Any

from safetensors_corpus import Case
from safetensors_reports.audit.inputs import BaselineEntry
from safetensors_reports.audit.report import Implementation, Report, RoleRow
from safetensors_reports.labels import BASES, QUESTIONS
from safetensors_reports.page.html import report_html
from safetensors_reports.page.results import failing_cases, role_part, table_word, tables
from safetensors_reports.record.run import Row

from ..samples import HOLE, TWICE, broken, corpus, failing, report, run


def case(kind: str) -> Case:
    return next(c for c in corpus().cases if c.kind == kind and not c.heavy)


def lib(*rows: Row, public: bool = False, name: str = "lib", **about_it: Any) -> Report:
    record = run(*rows, name=name, version="1")
    record.header["implementation"] |= about_it
    return report(record, public=public)


def who(*rows: Row, **more: Any) -> Implementation:
    (found,) = lib(*rows, **more).implementations
    return found


def role(found: Implementation, name: str) -> RoleRow:
    (row,) = (row for row in found.roles if row.role == name)
    return row


def test_the_kind_or_the_steps_give_the_role_and_the_word() -> None:
    for kind, step, expected, word in (
        *((kind, "read", "reader", "lenient") for kind in ("reader", "")),
        ("header", "read", "lister", "lenient"),
        *((kind, "read", "checker", "misses") for kind in ("validator", "scanner")),
        ("device", "read", "device", "lenient"),
        ("", "open", "lister", "lenient"),
    ):
        found = who(failing(HOLE, step=step), kind=kind, steps=[step])
        assert ([row.role for row in found.roles], found.word) == ([expected], word), kind


def test_a_program_of_several_roles_is_judged_in_each_by_its_own_cases() -> None:
    write, index = case("write"), case("index")
    rows = [
        failing(HOLE),
        broken(write.id, "wrong-content", "WRT-01", "text", step="write"),
        broken(index.id, "deviation:accept", "IDX-04", "ours", step="index"),
    ]
    made = lib(*rows, kind="reader")
    assert {row.role: (row.asked, row.failed) for row in made.implementations[0].roles} == {
        "reader": (1, {"text": {"wrong-accept": 1}}),
        "writer": (1, {"text": {"wrong-content": 1}}),
        "index": (1, {"ours": {"deviation": 1}}),
    }
    assert [table.role for table in tables(made)] == ["reader", "writer", "index"]


def test_bases_are_never_added_up_and_a_missed_recommendation_is_no_failure() -> None:
    row = role(who(broken(HOLE, "deviation:accept", "DTY-01", "official")), "reader")
    assert row.failed == {"official": {"deviation": 1}}
    assert [table_word(row, basis) for basis in BASES] == ["keeps to the text", "differs", "complies"]
    missed = role(who(broken(HOLE, "not-strict", "FRM-08", "text")), "reader")
    assert (missed.failed, failing_cases(missed, "text")) == ({"text": {"not-strict": 1}}, 0)
    assert role_part(missed, {}).answer.endswith("it does not follow 1 recommendation of the written format.")


def test_a_row_of_a_card_names_only_what_failed() -> None:
    accepted = {
        "HDR-07": "Headers that are not strict JSON",
        "HDR-09": "Duplicate tensor names",
        "HDR-11": "Duplicate metadata",
        "HDR-12": "Duplicate fields in an entry",
        "HDR-13": "Duplicate metadata keys",
        "OFF-03": "Reversed ranges",
        "OFF-04": "Ranges outside the file",
        "OFF-07": "Holes between tensors",
        "HDR-03": "Headers with other bytes around the JSON object",
    }
    for verdict, rule, words in (
        *(("wrong-accept", rule, words) for rule, words in accepted.items()),
        ("wrong-content", "DAT-06", "Wrong values for valid files"),
        ("wrong-reject", "DAT-06", "Valid files rejected"),
    ):
        case = HOLE if verdict == "wrong-accept" else corpus().reading[0].id
        lines = role_part(role(who(broken(case, verdict, rule, "text")), "reader"), {}).lines
        assert [line.words for line in lines if line.tone == "bad"] == [words]


def test_a_lister_is_not_judged_where_it_claims_nothing_and_its_page_says_why() -> None:
    claims = {"kind": "header", "steps": ["open"], "areas": ["header"], "claim": '"<b>header</b>\u202e"'}
    row = role(who(failing(TWICE, step="open"), **claims), "lister")
    assert "OFF" in row.unclaimed
    assert "OFF" not in {cell.area for cell in row.cells}
    assert not {"holes", "overlaps"} & {answer.question for answer in row.answers}
    lister = run(failing(TWICE, step="open"), name="lib", version="1")
    lister.header["implementation"] |= claims
    other = run(failing(HOLE), name="other", version="1")
    other.header["implementation"] |= {"kind": "header"}
    made = report(lister, other)
    (table,) = tables(made)
    cells = {cell.area: cell for cell in table.rows[0].cells}
    assert (cells["OFF"].bars, "not claimed" in cells["OFF"].text) == ([], True)
    said = "data and values. Its documentation says: &#34;&lt;b&gt;header&lt;/b&gt;\\u202e&#34;.</p>"
    page = report_html(made)
    assert (page.count(said), page.count("Its documentation")) == (1, 1)


def test_what_a_program_says_of_itself_is_taken_only_where_it_is_known_and_escaped() -> None:
    found = who(failing(HOLE), issues="javascript:x", homepage="https://a.example", kind="x")
    assert (found.homepage, found.issues, found.kind) == ("https://a.example", "", "")
    page = report_html(lib(failing(HOLE), scope="Parser only: the public <f> refuses 9 more of 300 files."))
    assert "Parser only: the public &lt;f&gt; refuses 9 more of 300 files." in page


def test_rows_count_shares_of_what_was_asked_and_no_crash_of_others() -> None:
    cases = [c for c in corpus().reading if c.rules[0] == "OFF-07" and c.expect and c.expect.codes][:20]
    rows = [failing(c.id, "wrong-accept" if i < 5 else "pass") for i, c in enumerate(cases)]
    row = role(who(*rows), "reader")
    (cell,) = (cell for cell in row.cells if cell.area == "OFF")
    (answer,) = (answer for answer in row.answers if answer.question == "holes")
    for part in (cell, answer):
        assert (part.asked, part.failed) == (20, {"text": {"wrong-accept": 5}})
    known = {0: [BaselineEntry(HOLE, (HOLE,), {"read": "unsafe"}, "", "https://example.org/1")]}
    for name, failed in (("lib", {}), ("reference", {"text": {"unsafe": 1}})):
        record = run(failing(HOLE, "unsafe", outcome="crash"), name=name, version="1")
        made = report(record, public=True, known=known)
        assert list(made.implementations[0].roles[0].failed.values()) == list(failed.values())


def test_which_of_two_tensors_is_kept_is_told_only_where_it_is_public() -> None:
    last = corpus().by_id[TWICE].options["last-wins"].content
    assert last is not None
    for name, public in (("lib", False), ("lib", True), ("reference", True)):
        found = who(failing(TWICE, content={"tensors": last["tensors"]}), name=name, public=public)
        note = "" if public and name == "lib" else "keeps the last"
        assert [a.note for a in found.roles[0].answers if a.question == "names"] == [note], name


def test_every_failure_by_the_text_stands_in_an_answer() -> None:
    rules = {q.name: q for q in QUESTIONS}
    assert rules["other"].rules == frozenset()
    for name in ("reader", "lister", "checker", "device"):
        for effect in ("accept", "content", "reject"):
            covered = [q for q in QUESTIONS if q.covers(name, "read", effect, "XXX-01")]
            assert covered or (name, effect) == ("checker", "content")


def test_nothing_is_said_about_the_values_of_a_reader_that_tells_none() -> None:
    for steps, known in ((["open", "read"], True), (["open"], False)):
        found = who(failing(HOLE, step="open"), public=True, kind="reader", steps=steps)
        assert ("values" in {answer.question for answer in role(found, "reader").answers}) == known, steps
