"""Changes of cases between versions, from records made by hand."""

from __future__ import annotations

import json

from msgspec import to_builtins

from safetensors_reports.history.trend import (
    TURNS,
    CaseInfo,
    KnownBug,
    TrendDocument,
    VersionRun,
    trend,
    trend_markdown,
    trend_text,
    turn_of,
)

from ...published_schemas import schema, schema_error
from ..samples import Make

BUG = KnownBug("FB-03", "owner/project#206", "<0.3.1")
NOTES = {"layout/x": CaseInfo("a hole", ("OFF-07",), (BUG,))}


def test_turns() -> None:
    for before, after, turn in (
        ("pass", "pass", None),
        ("wrong-accept", "pass", "fixed"),
        ("unsafe", "choice:reject", "fixed"),
        ("late-reject", "pass", "fixed"),
        ("pass", "not-strict", "broken"),
        ("choice:copy", "wrong-content", "broken"),
        ("unsafe", "wrong-accept", "otherwise"),
        ("choice:accept", "choice:reject", "choice"),
        ("unsupported", "pass", "gained"),
        ("unsupported", "wrong-content", "gained"),
        ("wrong-reject", "unsupported", "lost"),
        ("harness-error", "pass", "unknown"),
        ("pass", "harness-error", "unknown"),
    ):
        assert turn_of(before, after) == turn


def test_a_bug_turns_where_its_range_ends() -> None:
    for versions, before, after, expected in (
        ("<0.3.1", "0.3.0", "0.3.1", True),
        ("<0.3.1", "0.3.1", "0.4.0", False),
        (">=0.8.0", "0.7.0", "0.8.0", True),
        ("", "0.3.0", "0.3.1", None),
        ("unknown", "0.3.0", "0.3.1", None),
        ("<1", "main", "1.0", None),
        ("<1", "1" * 5000, "1.0", None),
    ):
        assert KnownBug("FB-1", "x", versions).turns_between(before, after) is expected


def test_changes_are_grouped_by_rule_and_explained() -> None:
    for before, after, elsewhere in (("0.3.0", "0.3.1", False), ("0.7.0", "0.8.0", True)):
        failed = Make.run(Make.result("layout/x", "wrong-accept", detail="accept, 2 tensors"))
        runs = [
            VersionRun.of(before, failed, {}),
            VersionRun.of(after, Make.run(Make.result("layout/x")), {}),
        ]
        result = trend("lib", "2026.11.0", "2026.11", runs, NOTES)
        (change,) = result.passages[0].changes
        assert (change.turn, change.rule, change.detail) == ("fixed", "OFF-07", "accept, 2 tensors")
        text, page = "\n".join(trend_text(result)), trend_markdown(result)
        assert "known: FB-03 owner/project#206 (<0.3.1)" in text
        assert "FB-03 `owner/project#206`" in page
        assert ("[recorded for other versions]" in text) is elsewhere
        assert ("(recorded for other versions)" in page) is elsewhere


def test_versions_that_were_not_run_are_passed_over() -> None:
    runs = [
        VersionRun.of("1", Make.run(Make.result("a"), Make.result("b")), {}),
        VersionRun("2", reason="cannot be had"),
        VersionRun.of("3", Make.run(Make.result("a", "unsafe"), *map(Make.result, "cd")), {}),
    ]
    result = trend("lib", "s", "c", runs, {}, interrupted=True)
    (passage,) = result.passages
    assert (passage.before, passage.after, passage.only_before, passage.only_after) == ("1", "3", 1, 2)
    assert result.exit_status == 2
    text = "\n".join(trend_text(result))
    assert "not run: cannot be had" in text
    assert "interrupted" in text
    assert "1 before, 2 after" in text
    assert "cannot be had" in trend_markdown(result)


def test_the_table_shows_the_kinds_that_occur_worst_first_and_long_lists_are_cut() -> None:
    def made(before: dict[str, str], after: dict[str, str], notes: dict[str, CaseInfo]) -> TrendDocument:
        rows = ([Make.result(*item) for item in answers.items()] for answers in (before, after))
        runs = [VersionRun.of(str(n), Make.run(*results), {}) for n, results in enumerate(rows, 1)]
        return trend("lib", "s", "c", runs, notes)

    result = made({"a": "pass", "b": "wrong-accept"}, {"a": "choice:x", "b": "unsafe"}, {})
    assert result.kinds == ["unsafe", "wrong-accept", "choice", "pass"]
    assert "| `1` | 2 | 0 | 1 | 0 | 1 |" in trend_markdown(result)
    ids = [f"c{i:03}" for i in range(60)]
    before, after = dict.fromkeys(ids, "unsafe"), dict.fromkeys(ids, "pass")
    same = made(before, after, {i: CaseInfo(i, ("OFF-07",)) for i in ids})
    assert "… 55 more" in "\n".join(trend_text(same))
    apart = made(before, after, {i: CaseInfo(i, (f"X-{i}",)) for i in ids})
    assert "more rules, 50 cases" in "\n".join(trend_text(apart))
    assert len(trend_markdown(apart).splitlines()) < 120


def test_the_document_obeys_its_schema() -> None:
    names = ["pass", "wrong-accept", "unsupported", "harness-error", "choice:a", "unsafe"]
    first = Make.run(*(Make.result(f"c{i}", v) for i, v in enumerate(names)))
    second = Make.run(*(Make.result(f"c{i}", v) for i, v in enumerate([*names[1:], names[0]])))
    whole = [VersionRun.of("1", first, {}), VersionRun.of("3", second, {}, ("x",))]
    runs = [whole[0], VersionRun("2", reason="no"), whole[1]]
    notes = {"c0": CaseInfo("\ud800`|", ("OFF-07",), (BUG, KnownBug("FB-9", "y")))}
    result = trend("lib", "s", "c", runs, notes)
    assert schema_error("trend", json.loads(json.dumps(to_builtins(result)))) is None
    assert set(schema("trend")["$defs"]["changeRow"]["properties"]["turn"]["enum"]) == set(TURNS)
    trend_markdown(result).encode()
    "\n".join(trend_text(result)).encode()
