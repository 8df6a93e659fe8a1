"""``implementations.json``, which ``stc publish --check`` compares: its form, and no unsafe results."""

from __future__ import annotations

import json

from safetensors_reports.history.directory import directory
from safetensors_reports.history.ledger import append_lines
from safetensors_reports.page.publish import publication

from ...published_schemas import schema_error
from ..samples import HOLE, OLD, corpus, failing, line, report, run


def test_a_version_has_the_day_of_its_newest_run() -> None:
    before = append_lines({}, [line("1.9", corpus=OLD, date="2026-10-01"), line("1.10", date="2026-12-02")])
    texts = publication([run(failing(HOLE), name="lib", version="1.10")], corpus(), ledgers=before)
    document = json.loads(texts["implementations.json"])
    assert schema_error("implementations", document) is None
    (lib,) = document["programs"]
    days = {row["version"]: row["date"] for row in lib["versions"]}
    assert list(days.items()) == [("1.9", "2026-10-01"), ("1.10", "2026-12-02")]
    assert (lib["newest"], lib["entries"][0]["date"]) == ("1.10", "2026-11-21")
    assert {lib[name] for name in ("report", "data", "history", "ledger")} <= texts.keys()


def test_reports_from_before_that_count_more_pass_on_no_more() -> None:
    made = report(run(failing(HOLE), name="lib"), run(failing(HOLE), name="reference"), public=True)
    for who in made.implementations:
        who.counts |= {"pass": 7, "choice": 3, "unsafe": 2}
    found = directory({"report.json": made, "a/report.json": made}, {}, "report.html").programs
    assert [row.entries[0].counts for row in found] == [{"wrong-accept": 1}]


def test_versions_that_are_not_numbers_are_sorted_by_day() -> None:
    ledgers = append_lines({}, [line("zz", date="2026-01-01"), line("aa", date="2026-02-01")])
    made = report(run(failing(HOLE), name="lib", version="mm"), public=True)
    (program,) = directory({"report.json": made, "lib/report.json": made}, ledgers, "report.html").programs
    assert ([row.version for row in program.versions], program.newest) == (["zz", "aa", "mm"], "mm")
