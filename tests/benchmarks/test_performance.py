"""The page of performance says of each row what was measured, or why it was not; counts are committed."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from benchmarks import counts, performance
from benchmarks.performance import Results, Row


def results(*rows: Row) -> Results:
    return Results("2026-01-02", "a machine, 2 cores, Linux", {"Python": "3.11.7"}, rows)


def test_rows_are_held_against_their_goals() -> None:
    rows = (
        Row("a", "x", 2.0, 1.5, "so"), Row("b", "ms", 10, 12.5, "so"),
        Row("c", "inputs/s", 10_000, 12_000, "so", least=True), Row("d", "s", 8, None, "no records"),
    )  # fmt: skip
    lines = performance.page(results(*rows)).splitlines()
    assert "| a | 1.5 | 2 | reached | so |" in lines
    assert "| b | 12.5 ms | 10 ms | missed | so |" in lines
    assert "| c | 12,000 inputs/s | at least 10,000 inputs/s | reached | so |" in lines
    assert "| d | – | 8 s | not run | no records |" in lines


def test_a_goal_that_is_missed_says_where_the_time_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(performance, "LEFT", {"late": "in waiting.", "early": "nowhere."})
    rows = (Row("late", "s", 1, 2, "so"), Row("early", "s", 1, 1, "so"), Row("none", "s", 1, None, "so"))
    text = performance.page(results(*rows))
    assert "\n- late: in waiting.\n" in text
    assert "nowhere" not in text
    assert "All goals were reached." in performance.page(results(rows[1]))
    assert f"- other: {performance.UNKNOWN}" in performance.page(results(Row("other", "s", 1, 2, "so")))


def test_a_load_is_held_against_the_quickest_that_reads_first_and_later_loads_apart() -> None:
    seconds = {
        "reference": (1.0, 3.0, 5.0), "safetensors-pread": (4.0, 6.0, 6.0), "torch-load": (2.0, 9.0, 9.0),
        "torch-load-mmap": (0.1, 0.1, 0.1),
    }  # fmt: skip
    samples = [
        {"loader": name, "kind": "warm" if at else "first", "seconds": took}
        for name, all_of_it in seconds.items()
        for at, took in enumerate(all_of_it)
    ]
    run = {"files": [{"kind": "llm", "samples": samples}]}
    assert performance._over_best(run, False) == {"llm": 0.5}
    assert performance._over_best(run, True) == {"llm": pytest.approx(4 / 6)}
    assert performance._worst([{"llm": 0.5, "small": 0.7}, {"llm": 0.6, "small": 0.1}]) == 0.55


def test_what_is_committed_is_explained_and_whole() -> None:
    missed = [row.work for row in performance.load_results().rows if row.verdict == "missed"]
    assert [work for work in missed if work not in performance.LEFT] == []
    known = json.loads(counts.COMMITTED.read_text(encoding="utf-8"))
    assert all(set(one) == set(counts.PROGRAMS) for one in known.values())
    assert known


def test_a_count_that_grew_by_a_fifth_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    known = dict.fromkeys(counts.PROGRAMS, 100)
    monkeypatch.setattr(counts, "committed", lambda: known)
    monkeypatch.setattr(counts, "count", lambda name: 120)
    assert CliRunner().invoke(counts.counts, ["--check"]).exit_code == 0
    worse = next(iter(known))
    monkeypatch.setattr(counts, "count", lambda name: 121 if name == worse else 50)
    done = CliRunner().invoke(counts.counts, ["--check"])
    assert done.exit_code == 1
    assert f"{worse}  more than a fifth above" in done.output
    monkeypatch.setattr(counts, "committed", dict)
    done = CliRunner().invoke(counts.counts, ["--check"])
    assert (done.exit_code, "nothing was checked" in done.output) == (0, True)
