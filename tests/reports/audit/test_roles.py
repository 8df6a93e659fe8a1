"""What each role of a program shows: its own cases alone, where it claims something, and on which basis."""

from __future__ import annotations

from typing import Any

import pytest

from safetensors_corpus import Case
from safetensors_corpus.typed import typed
from safetensors_reports.audit.inputs import BaselineEntry
from safetensors_reports.audit.report import Implementation, Report, RoleRow
from safetensors_reports.labels import QUESTIONS
from safetensors_reports.page.cards import card_parts, failing_cases, role_part, table_word, tables
from safetensors_reports.page.html import comparison_html, report_html
from safetensors_reports.record.run import RunRecord

from ..samples import HOLE, TWICE, as_json, broken, corpus, failing, report, run


def case(kind: str) -> Case:
    return next(c for c in corpus().cases if c.kind == kind and not c.heavy)


def who(record: RunRecord, *, public: bool = False, **about_it: Any) -> Implementation:
    record.header["implementation"] |= about_it
    (found,) = report(record, public=public).implementations
    return found


def role(found: Implementation, name: str) -> RoleRow:
    (row,) = (row for row in found.roles if row.role == name)
    return row


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("reader", "reader"), ("header", "lister"), ("validator", "checker"), ("scanner", "checker"),
        ("device", "device"), ("", "reader")],
)  # fmt: skip
def test_the_kind_gives_the_role_in_which_files_are_opened(kind: str, expected: str) -> None:
    found = who(run(failing(HOLE), name="lib", version="1"), kind=kind)
    assert [row.role for row in found.roles] == [expected]


def test_who_only_opens_and_has_no_descriptor_lists_headers() -> None:
    record = run(failing(HOLE, step="open"), name="lib", version="1")
    assert [row.role for row in who(record, steps=["open"]).roles] == ["lister"]


def test_a_program_of_several_roles_is_judged_in_each_by_its_own_cases() -> None:
    write, index = case("write"), case("index")
    rows = [
        failing(HOLE),
        broken(write.id, "wrong-content", "WRT-01", "text", step="write"),
        broken(index.id, "deviation:accept", "IDX-04", "ours", step="index"),
    ]
    found = who(run(*rows, name="lib", version="1"), kind="reader")
    assert {row.role: (row.asked, row.failed) for row in found.roles} == {
        "reader": (1, {"text": {"wrong-accept": 1}}),
        "writer": (1, {"text": {"wrong-content": 1}}),
        "index": (1, {"ours": {"deviation": 1}}),
    }
    assert [table.role for table in tables(report(run(*rows, name="lib", version="1")))] == [
        "reader", "writer", "index"]  # fmt: skip


def test_bases_are_never_added_up_and_only_the_text_gives_a_red_word() -> None:
    silent = who(run(broken(HOLE, "deviation:accept", "DTY-01", "official"), name="lib", version="1"))
    row = role(silent, "reader")
    assert row.failed == {"official": {"deviation": 1}}
    assert [table_word(row, basis) for basis in ("text", "official", "ours")] == [
        "keeps to the text", "differs", "complies"]  # fmt: skip
    shown = role_part(row, {})
    assert shown.tone == "calm"
    assert "meets all requirements of the written format" in shown.answer
    assert {line.tone for line in shown.lines} <= {"calm", "good"}
    advice = who(run(broken(HOLE, "not-strict", "FRM-08", "text"), name="lib", version="1"))
    missed = role(advice, "reader")
    assert (missed.failed, failing_cases(missed, "text")) == ({"text": {"not-strict": 1}}, 0)
    assert (role_part(missed, {}).tone, table_word(missed, "text")) == ("calm", "keeps to the text")
    assert role_part(missed, {}).answer.endswith("it does not follow 1 recommendation of the written format.")
    again = run(broken(HOLE, "not-strict", "FRM-08", "text"), name="lib", version="1")
    (line,) = tables(report(again))[0].rows
    assert (line.every.advice, [bar.failed for bar in line.every.bars]) == (1, [0, 0, 0])


def of_rules(*rules: str) -> RoleRow:
    rows = [broken(HOLE, "wrong-accept", rule, "text") for rule in rules]
    failures = [failure for row in rows for failure in row["failures"]]
    return role(who(run({**rows[0], "failures": failures}, name="lib", version="1")), "reader")


@pytest.mark.parametrize(
    ("rules", "tone", "said"),
    [
        (("HDR-09",), "mild", "accepts duplicate keys"),
        (("HDR-12", "HDR-13"), "mild", "accepts duplicate keys"),
        (("HDR-07",), "mild", "accepts forbidden files"),
        (("HDR-09", "HDR-07"), "mild", "accepts forbidden files"),
        (("OFF-07",), "bad", "accepts broken files"),
        (("HDR-09", "OFF-04"), "bad", "accepts broken files"),
    ],
)
def test_what_does_no_harm_by_itself_is_told_from_a_broken_layout(
    rules: tuple[str, ...], tone: str, said: str
) -> None:
    found = of_rules(*rules)
    assert (role_part(found, {}).tone, table_word(found, "text")) == (tone, said)
    start = "Only after a strict check" if tone == "bad" else "With care: it accepts what the text forbids"
    assert role_part(found, {}).answer.startswith(start)


def test_who_is_not_asked_about_layouts_gets_no_mild_word() -> None:
    twice = broken(TWICE, "wrong-accept", "HDR-09", "text", step="open")
    found = who(run(twice, name="lib", version="1"), kind="header", steps=["open"], areas=["header"])
    shown = role_part(role(found, "lister"), {})
    assert (shown.tone, "layout" in shown.answer) == ("bad", False)


def test_no_wrong_value_is_said_to_be_shown_only_where_none_is() -> None:
    wrong = broken(corpus().reading[0].id, "deviation:content", "DTY-14", "official")
    twice, refused = broken(TWICE, "wrong-accept", "HDR-09", "text"), failing(HOLE, "pass", outcome="reject")
    found = who(run(twice, refused, wrong, name="lib", version="1"))
    shown = role_part(role(found, "reader"), {})
    assert shown.tone == "mild"
    assert "wrong value" not in shown.answer
    assert "other values for 1 valid file" in shown.answer


def test_a_card_says_that_only_valid_files_are_rejected() -> None:
    refused = broken(corpus().reading[0].id, "wrong-reject", "DAT-06", "text", outcome="reject")
    shown = role_part(role(who(run(refused, name="lib", version="1")), "reader"), {})
    text = "It accepts nothing that is forbidden here, but it rejects 1 of 1 valid files."
    assert (shown.tone, shown.answer) == ("bad", text)


@pytest.mark.parametrize(
    ("rule", "words"),
    [("HDR-11", "Duplicate metadata"), ("HDR-12", "Duplicate fields in an entry"),
        ("HDR-13", "Duplicate metadata keys"), ("OFF-03", "Reversed ranges"),
        ("HDR-03", "Headers with other bytes around the JSON object")],
)  # fmt: skip
def test_a_row_of_a_card_names_only_what_was_accepted(rule: str, words: str) -> None:
    bad = [line.words for line in role_part(of_rules(rule), {}).lines if line.tone == "bad"]
    assert bad == [words]


def test_a_lister_is_not_judged_where_it_claims_nothing() -> None:
    rows = [failing(TWICE, step="open")]
    found = who(run(*rows, name="lib", version="1"), kind="header", steps=["open"], areas=["header"])
    row = role(found, "lister")
    assert "OFF" in row.unclaimed
    assert "OFF" not in {cell.area for cell in row.cells}
    assert not {"holes", "overlaps"} & {answer.question for answer in row.answers}
    lister = run(*rows, name="lib", version="1")
    lister.header["implementation"] |= {"kind": "header", "areas": ["header"]}
    reader = run(failing(HOLE), name="other", version="1")
    reader.header["implementation"] |= {"kind": "header"}
    (table,) = tables(report(lister, reader))
    cells = {cell.area: cell for cell in table.rows[0].cells}
    assert (cells["OFF"].bars, "not claimed" in cells["OFF"].text) == ([], True)


def test_a_page_says_what_unclaimed_areas_rest_on() -> None:
    record = run(failing(TWICE, step="open"), name="lib", version="1")
    record.header["implementation"] |= {
        "kind": "header",
        "areas": ["header"],
        "claim": '"<b>header</b>\u202e"',
    }
    page = report_html(report(record))
    assert "data and values. Its documentation says: &#34;&lt;b&gt;header&lt;/b&gt;\\u202e&#34;.</p>" in page
    assert "Its documentation" not in report_html(report(run(failing(HOLE), name="lib", version="1")))


def test_a_scanner_misses_and_a_reader_accepts() -> None:
    for kind, expected, verb in (
        ("scanner", "misses faults", "misses"),
        ("reader", "accepts broken files", "accepts"),
    ):
        found = who(run(failing(HOLE), name="lib", version="1"), kind=kind)
        shown = role_part(found.roles[0], {})
        assert table_word(found.roles[0], "text") == expected
        assert found.word == ("misses" if kind == "scanner" else "lenient")
        assert f"{verb} holes between tensors" in shown.answer
        (line,) = (line for line in shown.lines if line.name == "holes")
        assert line.answer == ("missed: 1 of 1" if kind == "scanner" else "accepted: 1 of 1")


def test_cells_and_answers_count_shares_of_what_was_asked() -> None:
    cases = [c for c in corpus().reading if c.rules[0] == "OFF-07" and c.expect and c.expect.codes][:20]
    rows = [failing(c.id, "wrong-accept" if i < 5 else "pass") for i, c in enumerate(cases)]
    row = role(who(run(*rows, name="lib", version="1")), "reader")
    (cell,) = (cell for cell in row.cells if cell.area == "OFF")
    assert (cell.asked, cell.failed) == (20, {"text": {"wrong-accept": 5}})
    (answer,) = (answer for answer in row.answers if answer.question == "holes")
    assert (answer.asked, answer.failed) == (20, {"text": {"wrong-accept": 5}})


@pytest.mark.parametrize("outcome", ["crash", "hang", "exhausted"])
def test_what_is_held_back_changes_nothing_that_roles_tell(outcome: str) -> None:
    def roles(verdict: str, said: str) -> list[RoleRow]:
        return who(run(failing(HOLE, verdict, outcome=said), failing(TWICE), name="lib", version="1"),
            public=True).roles  # fmt: skip

    assert roles("unsafe", outcome) == roles("pass", "reject")


def test_a_crash_with_a_public_report_colours_nothing_of_others_and_is_told_of_our_own() -> None:
    known = {0: [BaselineEntry(HOLE, (HOLE,), {"read": "unsafe"}, "", "https://example.org/1")]}

    def failed(name: str) -> Any:
        record = run(failing(HOLE, "unsafe", outcome="crash"), name=name, version="1")
        return report(record, public=True, known=known).implementations[0].roles[0].failed

    assert failed("lib") == {}
    assert [*failed("reference").values()] == [{"unsafe": 1}]


def test_which_of_two_tensors_is_kept_is_told_only_where_it_is_public() -> None:
    twice = corpus().by_id[TWICE]
    last = twice.options["last-wins"].content
    assert last is not None
    row = failing(TWICE, content={"tensors": last["tensors"]})
    for name, public, note in (
        ("lib", False, "keeps the last"),
        ("lib", True, ""),
        ("reference", True, "keeps the last"),
    ):
        found = who(run(row, name=name, version="1"), public=public)
        (answer,) = (a for a in found.roles[0].answers if a.question == "names")
        assert answer.note == note, (name, public)


def test_every_failure_by_the_text_stands_in_an_answer() -> None:
    rules = {q.name: q for q in QUESTIONS}
    assert rules["other"].rules == frozenset()
    for name in ("reader", "lister", "checker", "device"):
        for effect in ("accept", "content", "reject"):
            covered = [q for q in QUESTIONS if q.covers(name, "read", effect, "XXX-01")]
            assert covered or (name, effect) == ("checker", "content")


def test_addresses_are_taken_from_descriptors_alone() -> None:
    record = run(failing(HOLE), name="lib", version="1")
    record.header["implementation"] |= {
        "issues": "javascript:x",
        "homepage": "https://a.example",
        "kind": "x",
    }
    found = who(record)
    assert (found.homepage, found.issues, found.kind) == ("https://a.example", "", "")


def test_nothing_is_said_about_the_values_of_a_reader_that_tells_none() -> None:
    for steps, known in ((["open", "read"], True), (["open"], False)):
        found = who(
            run(failing(HOLE, step="open"), name="lib", version="1"), public=True, kind="reader", steps=steps
        )
        assert ("values" in {answer.question for answer in role(found, "reader").answers}) == known


def test_a_card_says_what_the_public_entry_point_does() -> None:
    record = run(failing(HOLE), name="lib", version="1")
    assert 'class="note">Parser only' not in report_html(report(record))
    record.header["implementation"]["scope"] = "Parser only: the public <f> refuses 9 more of 300 files."
    document = report(record)
    assert "Parser only: the public &lt;f&gt; refuses 9 more of 300 files." in report_html(document)


def test_an_older_report_has_a_card_without_answers() -> None:
    old = as_json(report(run(failing(HOLE), failing(TWICE), name="lib", version="1")))
    for row in old["implementations"]:
        del row["roles"]
    loaded = typed(old, Report)
    assert card_parts(loaded, loaded.implementations[0]) == []
    assert tables(loaded) == []
    assert "This report was created by an older version" in report_html(loaded)
    assert "This report was created by an older version" in comparison_html(loaded, {}, [], "")
