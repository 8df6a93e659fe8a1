"""What each role of a program shows: its own cases alone, where it claims something, and on which basis."""

from __future__ import annotations

from typing import Any

import pytest

from safetensors_corpus import Case
from safetensors_corpus.typed import typed
from safetensors_reports.audit.inputs import BaselineEntry
from safetensors_reports.audit.report import Implementation, Report, RoleRow
from safetensors_reports.labels import QUESTIONS
from safetensors_reports.page.html import comparison_html, report_html
from safetensors_reports.page.results import card_parts, failing_cases, role_part, table_word, tables
from safetensors_reports.record.run import Row

from ..samples import HOLE, TWICE, as_json, broken, corpus, failing, report, run


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


def test_the_kind_or_the_steps_give_the_role_in_which_files_are_opened() -> None:
    roles = {"reader": "reader", "header": "lister", "validator": "checker", "scanner": "checker"}
    roles |= {"device": "device", "": "reader"}
    for kind, step, expected in (
        *((kind, "read", role) for kind, role in roles.items()),
        ("", "open", "lister"),
    ):
        found = who(failing(HOLE, step=step), kind=kind, steps=[step])
        assert [row.role for row in found.roles] == [expected], kind


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


def test_bases_are_never_added_up_and_only_the_text_gives_a_red_word() -> None:
    row = role(who(broken(HOLE, "deviation:accept", "DTY-01", "official")), "reader")
    assert row.failed == {"official": {"deviation": 1}}
    words = [table_word(row, basis) for basis in ("text", "official", "ours")]
    assert words == ["keeps to the text", "differs", "complies"]
    shown = role_part(row, {})
    assert shown.tone == "calm"
    assert "meets all requirements of the written format" in shown.answer
    assert {line.tone for line in shown.lines} <= {"calm", "good"}
    advice = lib(broken(HOLE, "not-strict", "FRM-08", "text"))
    missed = role(advice.implementations[0], "reader")
    assert (missed.failed, failing_cases(missed, "text")) == ({"text": {"not-strict": 1}}, 0)
    assert (role_part(missed, {}).tone, table_word(missed, "text")) == ("calm", "keeps to the text")
    assert role_part(missed, {}).answer.endswith("it does not follow 1 recommendation of the written format.")
    (line,) = tables(advice)[0].rows
    assert (line.every.advice, [bar.failed for bar in line.every.bars]) == (1, [0, 0, 0])


def of_rules(*rules: str) -> RoleRow:
    rows = [broken(HOLE, "wrong-accept", rule, "text") for rule in rules]
    failures = [failure for row in rows for failure in row["failures"]]
    return role(who({**rows[0], "failures": failures}), "reader")


def test_what_does_no_harm_by_itself_is_told_from_a_broken_layout() -> None:
    for rules, tone, said in (
        (("HDR-09",), "mild", "accepts duplicate keys"),
        (("HDR-12", "HDR-13"), "mild", "accepts duplicate keys"),
        (("HDR-07",), "mild", "accepts forbidden files"),
        (("HDR-09", "HDR-07"), "mild", "accepts forbidden files"),
        (("OFF-07",), "bad", "accepts broken files"),
        (("HDR-09", "OFF-04"), "bad", "accepts broken files"),
    ):
        found = of_rules(*rules)
        shown = role_part(found, {})
        assert (shown.tone, table_word(found, "text")) == (tone, said), rules
        starts = {"bad": "Only after a strict check", "mild": "With care: it accepts what the text forbids"}
        assert shown.answer.startswith(starts[tone])


def test_a_row_of_a_card_names_only_what_was_accepted() -> None:
    for rule, words in {
        "HDR-11": "Duplicate metadata",
        "HDR-12": "Duplicate fields in an entry",
        "HDR-13": "Duplicate metadata keys",
        "OFF-03": "Reversed ranges",
        "HDR-03": "Headers with other bytes around the JSON object",
    }.items():
        lines = role_part(of_rules(rule), {}).lines
        assert [line.words for line in lines if line.tone == "bad"] == [words]


TWICE_ACCEPTED = broken(TWICE, "wrong-accept", "HDR-09", "text")
VALID = corpus().reading[0].id


@pytest.mark.parametrize(
    ("rows", "tone", "said", "unsaid"),
    [
        # No program that was not asked about layouts gets a mild word.
        ([{**TWICE_ACCEPTED, "step": "open"}], "bad", "", "layout"),
        # No wrong value is said to be shown only where none is.
        (
            [
                TWICE_ACCEPTED,
                failing(HOLE, "pass", outcome="reject"),
                broken(VALID, "deviation:content", "DTY-14", "official"),
            ],
            "mild",
            "other values for 1 valid file",
            "wrong value",
        ),
        (
            [broken(VALID, "wrong-reject", "DAT-06", "text", outcome="reject")],
            "bad",
            "It accepts nothing that is forbidden here, but it rejects 1 of 1 valid files.",
            "!",
        ),
    ],
)
def test_a_card_says_exactly_what_was_found(rows: list[Row], tone: str, said: str, unsaid: str) -> None:
    lists = {"kind": "header", "steps": ["open"], "areas": ["header"]} if rows[0]["step"] == "open" else {}
    (row,) = who(*rows, **lists).roles
    shown = role_part(row, {})
    assert (shown.tone, said in shown.answer, unsaid in shown.answer) == (tone, True, False)


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


def test_a_scanner_misses_and_a_reader_accepts() -> None:
    for kind, word, summary, verb, answer in (
        ("scanner", "misses", "misses faults", "misses", "missed: 1 of 1"),
        ("reader", "lenient", "accepts broken files", "accepts", "accepted: 1 of 1"),
    ):
        found = who(failing(HOLE), kind=kind)
        shown = role_part(found.roles[0], {})
        assert (found.word, table_word(found.roles[0], "text")) == (word, summary)
        assert f"{verb} holes between tensors" in shown.answer
        assert [line.answer for line in shown.lines if line.name == "holes"] == [answer]


def test_what_a_program_says_of_itself_is_taken_only_where_it_is_known_and_escaped() -> None:
    found = who(failing(HOLE), issues="javascript:x", homepage="https://a.example", kind="x")
    assert (found.homepage, found.issues, found.kind) == ("https://a.example", "", "")
    assert 'class="note">Parser only' not in report_html(lib(failing(HOLE)))
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


def test_an_older_report_has_a_card_without_answers() -> None:
    old = as_json(lib(failing(HOLE), failing(TWICE)))
    for row in old["implementations"]:
        del row["roles"]
    loaded = typed(old, Report)
    assert card_parts(loaded, loaded.implementations[0]) == []
    assert tables(loaded) == []
    assert "This report was created by an older version" in report_html(loaded)
    assert "This report was created by an older version" in comparison_html(loaded, {}, [], "")
