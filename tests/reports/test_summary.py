"""The summary of a run."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetensors_corpus.judging.verdicts import VERDICTS
from safetensors_reports.record.device_checks import CHECKS
from safetensors_reports.record.run import summary_lines

from .samples import Make


def test_a_complete_run() -> None:
    verdicts = {"pass": 180, "wrong-content": 3, "wrong-accept": 41, "late-reject": 2, "wrong-reject": 5}
    verdicts |= {"deviation:accept": 1, "choice:accept": 24, "not-strict": 3, "unsupported": 9}
    rows = [Make.result(f"{v}/{i}", v) for v, count in verdicts.items() for i in range(count)]
    record = Make.run(*rows, name="mlx", version="0.32.4", lacks=["dtype-f6", "dtype-f4"])
    record.implementation["language"] = "C++"
    assert summary_lines(record) == [
        "mlx 0.32.4 (C++) · corpus 2026.11 · 268 cases in 3.1 s · profile: none",
        "  unsafe 0   wrong-content 3   wrong-accept 41   wrong-reject 5   deviation 1   late-reject 2",
        "  pass 180 · choices 24 · not strict 3 · unsupported 9 (F4, F6) · not run 0 · expected failures 0",
    ]


def test_failed_steps_and_contradictions_are_failures() -> None:
    for step, choice, failures in (
        ("pass", "pass", False),
        ("choice:accept", "choice:accept", False),
        ("unsupported", "pass", False),
        ("not-strict", "pass", True),
        ("harness-error", "pass", True),
        ("choice:accept", "choice-inconsistent", True),
    ):
        choices = [{"choice": "c", "verdict": choice, "detail": ""}]
        assert Make.run(Make.result("a/b", step), choices=choices).has_failures is failures, (step, choice)


def test_rare_counts_show_up_when_they_occur() -> None:
    record = Make.run(
        Make.result("a/b", "harness-error"),
        *(Make.result(f"a/{i}", "choice-inconsistent", choice="c") for i in range(3)),
        Make.result("a/known", "wrong-accept", expected_failure=True),
        Make.result("a/new", "wrong-accept"),
        choices=[{"choice": "c", "verdict": "choice-inconsistent", "detail": "both"}],
        profile="hardened",
    )
    lines = summary_lines(record)
    assert lines[0].endswith("profile: hardened")
    assert lines[1].endswith("late-reject 0   choice-inconsistent 1   harness-error 1")
    assert "wrong-accept 2 (1 expected) " in lines[1]
    assert lines[2].startswith("  pass 0 · choices 3 · ")
    assert lines[2].endswith("expected failures 1")


@pytest.mark.parametrize(
    ("footer", "took", "ended", "caveat"),
    [
        (None, "", "TRUNCATED", "truncated run: the record has no footer"),
        (Make.CUT, " in 1.0 s", "PARTIAL", "partial run: filtered or interrupted"),
    ],
)
def test_an_incomplete_run_says_so_and_passes_nothing_it_has_not_run(
    footer: dict[str, Any] | None, took: str, ended: str, caveat: str
) -> None:
    lines = summary_lines(Make.run(Make.result("a/b"), cases=1264, footer=footer))
    about = f"corpus 2026.11 · 1 of 1,264 cases{took} · profile: none · {ended} RUN"
    assert lines[0] == f"safetensors 0.8.0 (Rust) · {about}"
    assert "pass 1 · " in lines[2]
    assert "not run 1,263" in lines[2]
    assert lines[3] == f"  {caveat}; 1 of 1,264 cases have a verdict; the others are unknown"


def test_problems_are_told_and_bounded() -> None:
    problems = [f"smoke {i}\nfailed\ud800" for i in range(9)]
    lines = summary_lines(Make.run(problems=problems))
    assert lines[3:5] == ["  problem: smoke 0", r"  problem: failed\ud800"]
    assert lines[-1] == "  … 4 more problems"
    assert len(lines) == 3 + 2 * 5 + 1
    check = next(iter(CHECKS))
    checks = [{"name": check, "status": "unknown", "message": "no \x1b[31m"}]
    record = Make.run(Make.result("a/b", step="device", checks=checks), device="x\x07")
    record.header["implementation"]["steps"].append("device")
    lines = summary_lines(record)
    assert "  device x\\u0007: 1 file" in lines
    assert f"    {check:<10} 1 unknown (no \\u001b[31m)" in lines


def test_features() -> None:
    for lacks, text in (
        ([], ""),
        (["dtype-f8-e4m3", "big-files"], "big-files, F8_E4M3"),
        (["f", "e", "d", "c", "b", "a"], "a, b, c, d, e, f"),
        (["g", "f", "e", "d", "c", "b", "a", "a"], "a, b, c, d, e, f, …"),
    ):
        unsupported = Make.run(Make.result("a/b", "unsupported"), lacks=lacks)
        assert f"unsupported 1{f' ({text})' if text else ''} · " in summary_lines(unsupported)[2]
        assert "unsupported 0 · " in summary_lines(Make.run(lacks=lacks))[2]


texts = st.text(st.characters(exclude_categories=()), max_size=400)
kinds = st.sampled_from([v if v != "choice" else "choice:x" for v in VERDICTS])


@given(
    name=texts, version=texts, problem=texts, verdicts=st.lists(kinds, max_size=12), more=st.integers(0, 3)
)
def test_lines_are_printable_and_every_case_is_counted_once(
    name: str, version: str, problem: str, verdicts: list[str], more: int
) -> None:
    rows = [Make.result(f"a/{i}", verdict) for i, verdict in enumerate(verdicts)]
    total = len(verdicts) + more
    record = Make.run(*rows, name=name, version=version, problems=[problem], cases=total)
    lines = summary_lines(record)
    assert all(line.isprintable() and line.encode() for line in lines)
    words = [*lines[1].strip().split("   "), *lines[2].strip().split(" · ")]
    counts = {text.rpartition(" ")[0]: int(text.rpartition(" ")[2]) for text in words}
    assert counts.pop("expected failures") == 0
    counts.pop("choice-inconsistent", None)  # counts choices; the cases are among "choices"
    assert sum(counts.values()) == total
