"""The order of versions in lists."""

from __future__ import annotations

from safetensors_reports.history.directory import directory
from safetensors_reports.history.ledger import Ledger
from safetensors_reports.page.results import tables
from safetensors_reports.text import label_key, version_key
from safetensors_reports.trophies.model import Expectations, trophies

from .history.samples import line
from .samples import HOLE, corpus, failing, report, run

SHUFFLED = ["1.20.1", "1.31.0", "2.0.0", "0.10.0", "2.4.0", "0.9.0", "1.9.0", "0.10.0rc1", "0.3.0b4", "0.3.0"]
ORDERED = ["0.3.0b4", "0.3.0", "0.9.0", "0.10.0rc1", "0.10.0", "1.9.0", "1.20.1", "1.31.0", "2.0.0", "2.4.0"]
COMMITS = ["f" * 40, "0a" * 20]


def test_releases_are_sorted_by_number_behind_commits_that_keep_their_place() -> None:
    assert sorted([*SHUFFLED, *COMMITS], key=version_key) == [*COMMITS, *ORDERED]
    assert sorted([*COMMITS[::-1], "1"], key=version_key) == [*COMMITS[::-1], "1"]
    assert sorted(["2", "1" * 5000], key=version_key) == ["1" * 5000, "2"]


def test_labels_are_sorted_by_the_alphabet_and_one_entry_point_by_version() -> None:
    labels = ["Lib 10.0", "lib 9.0", "lib:fast 0.10", "lib:fast 0.9", "a command --that is=none", "mlib"]
    ordered = ["a command --that is=none", "lib 9.0", "Lib 10.0", "lib:fast 0.9", "lib:fast 0.10", "mlib"]
    assert sorted(labels, key=label_key) == ordered


def test_a_history_and_trophies_list_versions_in_their_order() -> None:
    ledger = Ledger("lib", "lib", tuple(line(version) for version in [*SHUFFLED, "1.9.0"]))
    assert ledger.versions == ORDERED
    runs = [Expectations("lib", version, ()) for version in SHUFFLED]
    assert list(trophies(corpus().raw, [], runs).versions["lib"]) == ORDERED


def test_reports_and_comparisons_list_versions_in_their_order() -> None:
    made = report(*(run(failing(HOLE), name="lib", version=version) for version in SHUFFLED), public=True)
    assert [who.version for who in made.implementations] == ORDERED
    shuffled = [made.implementations[ORDERED.index(version)] for version in SHUFFLED]
    made.implementations[:] = shuffled  # as a report from before may hold them
    for table in tables(made):
        assert [row.who.version for row in table.rows] == ORDERED
    (program,) = directory({"report.json": made, "lib/report.json": made}, {}, "report.html").programs
    assert [row.version for row in program.versions] == ORDERED
    assert [row.version for row in program.entries] == ORDERED
