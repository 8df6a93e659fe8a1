"""Lines of histories: their contents, appending, and files that cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from safetensors_corpus.judging.verdicts import VERDICTS
from safetensors_reports.audit.inputs import AuditError, BaselineEntry
from safetensors_reports.history.ledger import MAX_LINE, FailureRow, append_lines, lines_of, load_ledgers

from ...published_schemas import schema_error
from ..samples import HOLE, NEW, OLD, TWICE, corpus, failing, fails, line, lines, report, run

ISSUE = "https://example.org/issue/1"
CRASHES, PASSES = (c.id for c in corpus().cases[:2])


def write(folder: Path, name: str, *texts: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(texts), "utf-8")
    return folder


def test_a_line_holds_what_the_published_report_tells() -> None:
    rows = [failing(HOLE), failing(TWICE), failing(CRASHES, "unsafe", outcome="crash")]
    record = run(*rows, failing(PASSES, "pass"), name="lib", version="1.2")
    known = [BaselineEntry(TWICE, (TWICE,), {"read": "wrong-accept"}, "why", ISSUE, "2027-01-01")]
    (made,) = lines(record, known={0: known})
    assert (made.program, made.entry, made.version, made.date) == ("lib", "lib", "1.2", "2026-11-21")
    assert (made.asked, made.counts) == (4, {"wrong-accept": 2})
    # The line names a case only if a public report describes it, and does not mention other crashes.
    assert made.failures == (
        FailureRow("HDR-09", "wrong-accept", 1, (TWICE,)),
        FailureRow("OFF-07", "wrong-accept", 1),
    )
    assert made.corpus.sha256 == corpus().digest[:16]
    assert schema_error("history", json.loads(made.text)) is None
    # Of our own reader everything is told, and nothing of a report that is not for publication.
    (own,) = lines(run(failing(HOLE), failing(TWICE, "unsafe", outcome="hang"), name="reference"))
    assert {row.verdict: row.named for row in own.failures} == {"wrong-accept": (HOLE,), "unsafe": (TWICE,)}
    with pytest.raises(AuditError, match="only be made from published reports"):
        lines_of(report(record))


def test_a_long_line_loses_names_and_no_number() -> None:
    ids = [c.id for c in corpus().cases if c.rules[0].startswith(("HDR", "OFF"))][:900]
    (made,) = lines(run(*map(failing, ids), name="reference"))
    assert len(made.text) <= MAX_LINE
    assert sum(row.cases for row in made.failures) == len(ids)
    assert 0 < sum(len(row.named) for row in made.failures) < len(ids)


def test_the_version_of_a_selector_is_no_part_of_the_entry() -> None:
    record = run(failing(HOLE), name="mlx", version="0.31.2")
    record.header["implementation"] |= {"selector": "mlx==0.31.2", "kind": "reader"}
    unknown = run(failing(HOLE), name="their", version="1")
    unknown.header["implementation"]["selector"] = "cmd:./read a==b\n"
    assert [made.entry for made in lines(record, unknown)] == ["cmd:./read a==b\\n", "mlx"]


def test_a_run_that_is_there_adds_nothing_and_replaces_nothing() -> None:
    first = line("1", fails("OFF-07", 3))
    ledgers = append_lines({}, [first])
    again = replace(first, counts={"wrong-accept": 9}, date="2027-01-01")
    assert append_lines(ledgers, [again]) == ledgers
    for other in (line("2"), line("1", entry="lib:fast"), line("1", corpus=OLD), line("1", profile="text")):
        assert append_lines(ledgers, [other, again])["lib"].lines == (first, other)
    assert set(append_lines(ledgers, [line("1", program="other")])) == {"lib", "other"}


def test_programs_whose_names_look_alike_have_files_of_their_own() -> None:
    ledgers = append_lines({}, [line("1", program=name) for name in ("lib-x", "lib.x", "../..")])
    assert {name: ledger.stem for name, ledger in ledgers.items()} == {
        "../..": "program",
        "lib-x": "lib-x",
        "lib.x": "lib-x-2",
    }


names = st.text(max_size=12)
rows = st.builds(
    FailureRow, st.sampled_from(["", "OFF-07"]), st.sampled_from(sorted(VERDICTS)), st.integers(0, 99),
    st.lists(names, max_size=3).map(tuple),
)  # fmt: skip


@settings(max_examples=40)
@given(st.lists(st.tuples(names, names, st.lists(rows, max_size=3)), min_size=1, max_size=4))
def test_a_history_reads_back_as_it_was(tmp_path_factory: Any, made: list[tuple[str, str, Any]]) -> None:
    folder = tmp_path_factory.mktemp("history")
    told = [line(v, *f, entry=e, corpus=NEW) for v, e, f in made]
    ledgers = append_lines({}, told)
    write(folder, f"{ledgers['lib'].stem}.jsonl", ledgers["lib"].text)
    assert load_ledgers(folder) == ledgers
    assert load_ledgers(folder / "none") == {}


GOOD = line("1", fails("OFF-07", 3)).text


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        ([GOOD, GOOD], "contains the same run twice"),
        ([GOOD, line("1", program="other").text], "line 2: this line is about a different program"),
        ([GOOD[:-20]], "line 1: "),
        ([""], "contains no run"),
        ([GOOD.replace('"asked"', '"due"')], "line 1: "),
        ([GOOD.replace('"wrong-accept":3}', '"fine":3}')], "each verdict must be one of unsafe"),
        ([GOOD.replace('"history":1', '"history":2')], "line 1: history"),
        ([GOOD.replace(":", ": ", 1)], "not in the format that stc publish writes"),
        ([GOOD.replace("lib", "l\u00efb", 1)], "line 1: "),
        ([line("1" * MAX_LINE).text], "more than 20,000 bytes"),
        (["[" * 90_000 + "\n"], "line 1: "),
    ],
)
def test_what_is_no_history_is_named_with_the_line(texts: list[str], says: str, tmp_path: Path) -> None:
    with pytest.raises(AuditError) as caught:
        load_ledgers(write(tmp_path / "h", "lib.jsonl", *texts))
    assert says in str(caught.value)
    assert "lib.jsonl" in str(caught.value)
    assert len(str(caught.value)) < 700
    folder = write(tmp_path / "two", "lib.jsonl", GOOD)
    with pytest.raises(AuditError, match=r"libx\.jsonl: this is a second history of lib"):
        load_ledgers(write(folder, "libx.jsonl", GOOD))
