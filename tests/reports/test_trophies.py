"""Trophies: what trends and baselines say of known bugs, data that cannot be used, and the published page."""

from __future__ import annotations

import copy
import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from safetensors_corpus.typed import typed
from safetensors_reports.audit.inputs import AuditError
from safetensors_reports.history.known_bugs import lines_of_trend, load_trend, trend_of, trends
from safetensors_reports.history.ledger import CorpusName, Ledger, append_lines, load_ledgers
from safetensors_reports.history.trend import TrendDocument
from safetensors_reports.known_failures import ExpectedFailure
from safetensors_reports.text import same_project
from safetensors_reports.trophies import cli
from safetensors_reports.trophies.model import (
    IMPLEMENTATIONS,
    Expectations,
    Trophies,
    load_baselines,
    render,
    trophies,
)

from ..published_schemas import schema_error
from .samples import called, corpus, line

HISTORIES = Path(__file__).parents[2] / "reports" / "published" / "history"
BUG = {"bug": "FB-1", "reference": "o/lib#1", "versions": "<2", "turns_here": True}
CHANGE: dict[str, Any] = {"case": "layout/a", "title": "A.", "rules": ["OFF-07"], "detail": "", "bugs": [BUG]}
CHANGE |= {"turn": "fixed", "before": "wrong-accept", "after": "pass"}
COUNTS = dict.fromkeys(("fixed", "broken", "otherwise", "choice", "gained", "lost", "unknown"), 0)
VERSION: dict[str, Any] = {"ran": True, "counts": {}, "cases": 2, "remarks": []}


def _trend(*changes: dict[str, Any], name: str = "lib") -> dict[str, Any]:
    rows = [{**copy.deepcopy(VERSION), "version": version} for version in ("1.0", "2.0")]
    passage: dict[str, Any] = {"before": "1.0", "after": "2.0", "only_before": 0, "only_after": 0}
    passage["counts"] = {**COUNTS, **Counter(c["turn"] for c in changes)}
    passages = [{**passage, "changes": [copy.deepcopy(c) for c in changes]}]
    head = {"trend": 1, "suite": "1", "corpus": "1", "implementation": name, "interrupted": False}
    return {**head, "exit_status": 0, "versions": rows, "passages": passages}


def _typed(*changes: dict[str, Any], name: str = "lib") -> TrendDocument:
    return typed(_trend(*changes, name=name), TrendDocument)


def _corpus(*bugs: tuple[str, str]) -> dict[str, Any]:
    common = {"project": "Lib", "trigger": "Wrong.", "family": "layout"}
    table = [{"id": i, "references": [f"o/lib#{i[3:]}"], "versions": v, **common} for i, v in bugs]
    affects = [{"bug": i, "project": "Lib", "reference": f"o/lib#{i[3:]}", "versions": v} for i, v in bugs]
    about = {"status": "active", "affects": affects, "title": "A.", "rules": ["OFF-07"]}
    cases = [{"id": case, **about} for case in ("layout/a", "layout/b")]
    return {"field_bugs": table, "cases": cases}


def _said(found: Trophies) -> list[tuple[str, str, str, str]]:
    return [(bug, s.kind, s.before, s.after) for bug, sightings in found.sightings.items() for s in sightings]


def test_only_a_case_that_failed_shows_a_fix() -> None:
    for change, versions, expected in (
        ({}, "<2", "gone"),
        ({}, "", ""),
        ({}, "<3", ""),
        ({"after": "choice:reject"}, "<2", "gone"),
        ({"turn": "choice", "before": "choice:accept", "after": "choice:reject"}, "<2", ""),
        ({"turn": "gained", "before": "unsupported"}, "<2", ""),
        ({"turn": "otherwise", "before": "unsafe", "after": "wrong-accept"}, "<2", ""),
        ({"turn": "unknown", "before": "harness-error"}, "<2", ""),
        ({"turn": "broken", "before": "pass", "after": "unsafe"}, ">=2", "came"),
        ({"turn": "broken", "before": "pass", "after": "unsafe"}, "<2", ""),
        ({}, ">=2", ""),
        # The lack of a dtype counts where it was reported as a bug.
        ({"turn": "gained", "before": "unsupported", "family": "dtype"}, "<2", "gone"),
    ):
        corpus = _corpus(("FB-1", versions))
        corpus["field_bugs"][0]["family"] = change.get("family", "layout")
        found = trophies(corpus, [_typed({**CHANGE, **change})], [])
        assert _said(found) == ([("FB-1", expected, "1.0", "2.0")] if expected else []), (change, versions)
        came = "| `lib` 2.0 (not in 1.0) | `lib` no later version was run; 1 of 2 cases |"
        assert (came in render(found)) == (expected == "came")


def test_another_project_of_the_same_case_is_not_credited() -> None:
    assert _said(trophies(_corpus(("FB-1", "<2")), [_typed(CHANGE, name="other")], [])) == []
    assert same_project("huggingface-hub:index", "huggingface_hub")
    assert not same_project("safetensors-arch", "safetensors")


def test_what_a_baseline_says_of_its_version_and_profile() -> None:
    for more, versions, seen in (
        ({}, "", True),
        ({"case": "layout/*"}, "<3", True),
        ({}, "<2", False),
        ({"profile": "text"}, "", False),
        ({"versions": "<2"}, "", False),
        ({"steps": {"read": "harness-error"}}, "", False),
    ):
        row: dict[str, Any] = {"case": "layout/a", "issue": "o/lib#1", "steps": {"read": "unsafe"}, **more}
        found = trophies(
            _corpus(("FB-1", versions)), [], [Expectations("lib", "2.0", (ExpectedFailure(**row),))]
        )
        assert _said(found) == ([("FB-1", "there", "", "2.0")] if seen else []), (more, versions)


def test_what_the_newest_version_shows_is_still_there() -> None:
    for place, versions, seen in ((1, "<3", True), (1, "", False), (1, "<2", False), (0, "<3", False)):
        full = _trend()
        full["versions"][place]["shows"] = [{"case": "layout/a", "verdict": "wrong-accept", "bugs": ["FB-1"]}]
        found = trophies(_corpus(("FB-1", versions)), [typed(full, TrendDocument)], [])
        assert _said(found) == ([("FB-1", "there", "", "2.0")] if seen else []), (place, versions)
        newer = [Expectations("lib", "3.0", ())]
        assert _said(trophies(_corpus(("FB-1", versions)), [typed(full, TrendDocument)], newer)) == []


OLD, FIX, NEW = "b" * 40, "a" * 40, "0" * 39 + "c"


def _commits(**bug: Any) -> Trophies:
    full = _trend({**CHANGE, "bugs": [BUG | {"versions": "", "turns_here": None}]})
    full["source"] = "https://example.org/lib"
    row = full["versions"][0]
    full["versions"] = [row | {"version": v} for v in (OLD, FIX, NEW)]
    full["passages"][0] |= {"before": OLD, "after": FIX}
    full["passages"].append(
        full["passages"][0] | {"before": FIX, "after": NEW, "counts": COUNTS, "changes": []}
    )
    corpus = _corpus(("FB-1", ""))
    corpus["field_bugs"][0] |= bug
    return trophies(corpus, [typed(full, TrendDocument)], [])


def test_commits_stay_in_the_order_in_which_they_were_run() -> None:
    found = _commits(commits_with=[OLD], commits_without=[FIX])
    assert _said(found) == [("FB-1", "gone", OLD, FIX)]
    page = render(found)
    assert "| `lib` | `bbbbbbbbbb`, `aaaaaaaaaa`, `0000000000` | https://example.org/lib |" in page
    assert "| `lib` bbbbbbbbbb | `lib` aaaaaaaaaa, 1 of 2 cases |" in page
    # Between commits that the table does not name, nothing counts.
    for bug in ({}, {"commits_with": [OLD]}, {"commits_without": [FIX]}):
        assert _said(_commits(**bug)) == []


def test_lines_hold_the_verdicts_of_cases_with_public_reports_and_nothing_else() -> None:
    full = _trend({**CHANGE, "detail": "read /tmp/x in 3 s"}, {**CHANGE, "case": "layout/b", "bugs": []})
    full["versions"].append(full["versions"][1] | {"version": "3.0"})
    full["passages"].append(full["passages"][0] | {"before": "2.0", "after": "3.0", "changes": []})
    full["versions"][1]["shows"] = [{"case": "layout/b", "verdict": "wrong-accept", "bugs": ["FB-1"]}]
    first, second, third = lines_of_trend(typed(full, TrendDocument), _corpus(("FB-1", "<2")))
    assert (first.bugs, second.bugs) == ({"layout/a": "wrong-accept"}, {"layout/a": "pass"})
    assert third.text == second.text.replace('"2.0"', '"3.0"')
    head = {"history": 1, "program": "lib", "entry": "lib", "version": "2.0", "date": "", "suite": "1"}
    head |= {"corpus": {"version": "1", "sha256": ""}, "asked": 0, "counts": {}}
    assert json.loads(second.text) == head | {"bugs": {"layout/a": "pass"}}
    # A case that only one of two versions ran has no verdict in the other one.
    full["passages"][1]["only_before"] = 1
    assert lines_of_trend(typed(full, TrendDocument), _corpus(("FB-1", "<2")))[2].bugs == {}


def test_verdicts_are_added_to_a_run_and_the_newest_corpus_counts() -> None:
    bugs, known = _corpus(("FB-1", "<2")), lines_of_trend(_typed(CHANGE), _corpus(("FB-1", "<2")))
    run, other = (line("2.0", corpus=CorpusName(v, d * 16)) for v, d in (("1", "a"), ("0.9", "b")))
    for lines in ([run, other, *known], [*known, run, other]):
        (ledger,) = append_lines({}, lines).values()
        assert [one.bugs for one in ledger.runs] == [{"layout/a": "pass"}, other.bugs]
        assert (len(ledger.lines), ledger.runs[0].corpus) == (3, run.corpus)
        assert _said(trophies(bugs, trends({"lib": ledger}, bugs), [])) == [("FB-1", "gone", "1.0", "2.0")]
    newer = [replace(known[0], corpus=CorpusName("1.1", ""), bugs={"layout/a": "pass"})]
    assert _said(trophies(bugs, [trend_of("lib", Ledger("lib", "lib", (*newer, *known)), bugs)], [])) == []


@pytest.mark.parametrize(
    "change",
    [
        {"turn": "otherwise", "after": "unsafe"},
        {"turn": "broken", "before": "pass", "after": "unsafe"},
        {"shows": [{"case": "layout/b", "verdict": "unsafe", "bugs": ["FB-1"]}]},
    ],
)
def test_what_is_unsafe_where_no_report_is_recorded_is_refused(change: dict[str, Any]) -> None:
    """The bug is recorded for 1.0 and not for 2.0."""
    told = _trend(CHANGE | {name: value for name, value in change.items() if name != "shows"})
    told["versions"][1]["shows"] = change.get("shows", [])
    lines = lines_of_trend(typed(told, TrendDocument), _corpus(("FB-1", "<2")))
    # The newest corpus is the one that counts, but no line may hold such a result.
    for held in (lines, [*lines, replace(lines[0], corpus=CorpusName("2", ""))]):
        with pytest.raises(AuditError, match=r"lib 2\.0, case layout/[ab]: .*unsafe, .*stc trend --public"):
            trend_of("lib", Ledger("lib", "lib", tuple(held)), _corpus(("FB-1", "<2")))
    trend_of("lib", Ledger("lib", "lib", tuple(lines)), _corpus(("FB-1", "<3")))


BAD_NAMES = ("../lib", "/tmp/lib", "a\0b", "\ud800", "a:b:c", "", "a" * 101, "lib\n")
BAD_SOURCES = ("javascript:x", "http://x", "https://x/<b>", "https://x|y", "https://x\n", "https://x)")


def _broken(**parts: Any) -> dict[str, Any]:
    return {**_trend(CHANGE), **parts}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[]", "must be an object, not a list"),
        (_broken(trend=2), "trend: must be 1"),
        (_broken(interrupted=True), "not every version was run"),
        (_broken(passages=[]), "passages do not match the versions"),
        (_broken(passages=[], versions=[]), "not every version was run"),
        *((_trend({**CHANGE, "before": v}), "is not a verdict") for v in ("good", "choice:\ud800")),
        (
            _trend({**CHANGE, "turn": "broken"}),
            "layout/a is marked as broken, but its verdict changed from wrong-accept to pass",
        ),
        (_trend({**CHANGE, "case": "layout/gone"}), "layout/gone is not a case of the corpus"),
        (_trend({**CHANGE, "bugs": []}), "the corpus lists other bugs for layout/a"),
        (_broken(versions=[{**VERSION, "version": "x"}]), "Invalid version: 'x'"),
        (_broken(versions=[{**VERSION, "version": "1" * 5000}]), "versions must be releases"),
        *((_broken(implementation=name), "implementation must be a name") for name in BAD_NAMES),
        *((_broken(source=source), "source must be the https:// address") for source in BAD_SOURCES),
    ],
)
def test_bad_trends_say_what_is_wrong(content: bytes | dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "lib.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(AuditError, match=message) as caught:
        load_trend(path, _corpus(("FB-1", "<2")))
    assert str(path) in str(caught.value)


def test_histories_without_trends_or_with_others_than_the_corpus_has_say_what_is_wrong() -> None:
    bugs = _corpus(("FB-1", "<2"))
    with pytest.raises(AuditError, match="no trends; add one with"):
        trends({"lib": Ledger("lib", "lib", (line("1"),))}, bugs)
    for program, case in (("lib", "layout/gone"), ("other", "layout/a")):
        held = Ledger(program, program, (line("1", program=program, entry=program, bugs={case: "pass"}),))
        with pytest.raises(AuditError, match=f"{program} 1, case {case}: the corpus lists no bug"):
            trends({program: held}, bugs)


LIB = 'implementation = "lib"\n[[expected]]\n'


@pytest.mark.parametrize(
    ("baseline", "descriptor", "message"),
    [
        ("x", '[install]\nversion = "1"', "cannot be read as TOML"),
        ("expected = []", '[install]\nversion = "1"', "not a baseline"),
        (f'{LIB}read = "unsafe"', "", "an entry has no 'case'"),
        (f'{LIB}case = "a/b"\nissue = 3', "", "a/b: issue: must be a string"),
        (f'{LIB}case = "a/b"\nread = "wrong-reject"\nversions = "new"', "", "not a version spec"),
        ('implementation = "lib:numpy"', "[install]", "version = None is not a version"),
        ('implementation = "unknown"', "", r"implementation\.toml: No such file"),
    ],
)
def test_bad_baselines_say_why(baseline: str, descriptor: str, message: str, tmp_path: Path) -> None:
    folder = tmp_path / IMPLEMENTATIONS / "lib"
    folder.mkdir(parents=True)
    (folder / "expected_failures.toml").write_text(baseline)
    if descriptor:
        (folder / "implementation.toml").write_text(descriptor)
    with pytest.raises(AuditError, match=message):
        load_baselines(tmp_path)
    # A reader of this project has no releases to show.
    (folder / "expected_failures.toml").write_text('implementation = "own"')
    (folder / "implementation.toml").write_text('name = "own"')
    assert load_baselines(tmp_path) == []


def test_published_lines_keep_to_their_schema() -> None:
    for path in HISTORIES.glob("*.jsonl"):
        for text in path.read_text("ascii").splitlines():
            assert schema_error("history", json.loads(text)) is None, path


_run = partial(called, cli.trophies)


def test_adding_writing_and_checking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a checkout with docs and nothing else; those of ``stc corpus bugs`` test more of writing a page."""
    (tmp_path / "docs").mkdir()
    monkeypatch.setattr(cli, "docs_folder", lambda: tmp_path / "docs")
    empty = _run("--check")
    assert (empty.exit_code, "no trends" in empty.output) == (2, True)
    (tmp_path / "reports").write_text("in the way")
    mlx = load_ledgers(HISTORIES)["mlx"]
    made = tmp_path / "trend.json"
    made.write_text(json.dumps(to_builtins(trend_of("mlx", mlx, corpus().raw))))
    refused = _run("--add", made)
    assert (refused.exit_code, "mlx.jsonl: " in refused.output) == (2, True)
    (tmp_path / "reports").unlink()
    target = tmp_path / "reports" / "published" / "history" / "mlx.jsonl"
    for _ in range(2):
        assert _run("--add", made).output == f"wrote {target}\n"
        assert target.read_text() == "".join(one.text for one in mlx.lines if one.bugs)
    page = tmp_path / "docs" / "trophies.md"
    stale = _run("--check")
    assert (stale.exit_code, stale.output) == (1, f"{page} is out of date; run: stc trophies --write\n")
    assert _run("--write").output == f"wrote {page}\n"
    assert _run("--check").output == f"up to date: {page}\n"
    assert "FB-43   mlx" in _run().output
    assert _run("--write", "--check").exit_code == 2
    monkeypatch.setattr(cli, "docs_folder", lambda: None)
    assert "run in a checkout" in _run().output
