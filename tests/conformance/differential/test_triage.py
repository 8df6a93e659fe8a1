"""Triage files: matching of entries, their expiry, and errors of bad files."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from safetensors_reports.differences.signatures import Disagreement, InputInfo, Signature, Sort
from safetensors_reports.known import SHIPPED_TRIAGE, KnownDisagreement, KnownError, Triage, load_triage

from ..cli.test_diff import HOLE, call
from ..support import QUICK, TRIGGER, committed, fake

pytestmark = pytest.mark.usefixtures("loaded_once")

TODAY = dt.date(2026, 11, 21)
ENTRY = """
[[known]]
signature = "OFF_HOLE: accept a; reject b"
why = "known"
issue = "https://example.org/1"
review_by = 2027-01-01
"""


OLD = ENTRY.replace('why = "known"', 'reason = "r"')


def signature(text: str, sort: Sort = "verdict") -> Signature:
    vector, about = {"a": "accept:A", "b": "reject"}, InputInfo("OFF_HOLE")
    found = Disagreement("x", "verdict", vector, sort=sort, signature=text, about=about)
    return Signature(text, sort, (found,))


def known(pattern: str, review_by: dt.date = dt.date(2027, 1, 1)) -> KnownDisagreement:
    return KnownDisagreement(pattern, why="known", issue="https://example.org/1", review_by=review_by)


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("OFF_HOLE: accept a; reject b", "OFF_HOLE: accept a; reject b", True),
        ("OFF_HOLE*: accept a; reject b", "OFF_HOLE+OFF_TRAILING: accept a; reject b", True),
        ("OFF_HOLE: accept a?; reject b", "OFF_HOLE: accept a1; reject b", True),
        ("OFF_HOLE: accept a", "OFF_HOLE: accept a; reject b", False),
        ("off_hole: *", "OFF_HOLE: accept a; reject b", False),
        ("X: accept py[a]*", "X: accept py[a] 1; reject b", True),
        ("X: accept py[a]*", "X: accept pya; reject b", False),
    ],
)
def test_patterns(pattern: str, text: str, matches: bool) -> None:
    assert known(pattern).covers(text) is matches


def test_an_entry_keeps_quiet_until_its_date_and_on_it() -> None:
    triage, text = Triage((known("OFF_HOLE*", TODAY),)), "OFF_HOLE: accept a; reject b"
    for days, status in ((0, "known"), (1, "expired")):
        today = TODAY + dt.timedelta(days)
        assert triage.weigh([signature(text)], today)[text].status == status
        assert triage.is_known(text, today) is (status == "known")
    assert not triage.is_known("OFF_TRAILING: accept a; reject b", TODAY)


def test_an_entry_that_holds_goes_before_one_that_is_overdue() -> None:
    triage = Triage((known("OFF*", dt.date(2026, 1, 1)), known("OFF_HOLE*")))
    (standing,) = triage.weigh([signature("OFF_HOLE: accept a; reject b")], TODAY).values()
    assert standing.status == "known"


def test_choices_need_no_triage_and_match_no_entry() -> None:
    triage = Triage((known("OFF*"),))
    found = [signature("OFF_HOLE: accept a; reject b", "choice")]
    assert triage.weigh(found, TODAY) == {}
    assert triage.unmatched(found) == ["OFF*"]


def test_entries_for_other_implementations_are_not_in_force(tmp_path: Path) -> None:
    path = tmp_path / "t.toml"
    path.write_text(ENTRY + 'between = ["a", "b"]\n' + ENTRY)
    assert len(load_triage(path, ["b", "a"]).entries) == 2
    assert len(load_triage(path, ["a", "b", "c"]).entries) == 1
    assert len(load_triage(path, []).entries) == 1


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("known = 1", "must be an array of tables"),
        ("[[expected]]", "unknown key 'expected'"),
        ("[[known]]", "has no 'signature'"),
        (ENTRY.replace("why", "wy"), "unknown key 'wy'"),
        (ENTRY.replace('"known"', '" "'), "needs a 'why'"),
        (ENTRY.replace("OFF_HOLE: accept a; reject b", "*"), "matches everything"),
        (
            ENTRY.replace("https://example.org/1", "later"),
            "an issue: a URL, or 'unreported' with a why",
        ),
        (OLD.replace("https://example.org/1", "unreported"), "'unreported' with a why"),
        (ENTRY.replace("review_by = 2027-01-01", ""), "needs a review_by date"),
        (
            ENTRY.replace("2027-01-01", '"soon"'),
            "must be a date like 2027-06-01 or null, not 'soon'",
        ),
        (
            ENTRY.replace("2027-01-01", "2027-01-01T00:00:00"),
            "review_by: must be a date like 2027-06-01 or null, not a date with",
        ),
        (ENTRY + "between = 3", "between: must be a list, not 3"),
        ("[[known", "t.toml: "),
    ],
)
def test_a_bad_file_is_told_where_and_why(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "t.toml"
    path.write_text(text)
    with pytest.raises(KnownError, match=complaint):
        load_triage(path, [])


def test_defaults_and_the_older_form(tmp_path: Path) -> None:
    path = tmp_path / "t.toml"
    bare = '[[known]]\nsignature = "OFF_HOLE*"\n'
    path.write_text(f"why = 'w'\nissue = 'unreported'\nreview_by = {TODAY}\n{bare}{OLD}")
    states = [
        Triage((entry,)).weigh([signature("OFF_HOLE: accept a; reject b")], TODAY)
        for entry in load_triage(path, []).entries
    ]
    told = [(state.reason, state.issue, state.review_by) for one in states for state in one.values()]
    assert told == [("w", "unreported", "2026-11-21"), ("r", "https://example.org/1", "2027-01-01")]


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(KnownError, match="No such file"):
        load_triage(tmp_path / "nothing.toml", [])


def test_the_shipped_file_is_in_order() -> None:
    assert load_triage(SHIPPED_TRIAGE, ["reference", "safetensors"]).entries
    assert not load_triage(SHIPPED_TRIAGE, ["a", "b"]).entries


def write_triage(path: Path, signature: str, review_by: str = "2999-01-01") -> Path:
    path.write_text(
        f'[[known]]\nsignature = "{signature}"\nreason = "r"\nissue = "https://example.org/1"\n'
        f"review_by = {review_by}\n"
    )
    return path


def test_triage_keeps_what_is_known_quiet(tmp_path: Path) -> None:
    impls = (QUICK, fake("AlwaysAccepts"))
    path = write_triage(tmp_path / "t.toml", "OFF_HOLE: accept AlwaysAccepts; reject reference")
    result = call("--case", HOLE, "--triage", path, impls=impls)
    assert result.exit_code == 0
    assert "known: 1 signature, 1 input" in result.stdout
    assert "new signatures" not in result.stdout
    more = call("--case", HOLE, "--case", "layout/appended-elf", "--triage", path, impls=impls)
    assert more.exit_code == 1
    assert "new signatures: 1" in more.stdout


def test_an_overdue_entry_keeps_nothing_quiet(tmp_path: Path) -> None:
    path = write_triage(tmp_path / "t.toml", "OFF_HOLE*", "2020-01-01")
    result = call("--case", HOLE, "--triage", path, impls=(QUICK, fake("AlwaysAccepts")))
    assert result.exit_code == 1
    assert "review was due 2020-01-01" in result.stdout


def test_unmatched_entries_are_reported_for_files_but_not_for_a_part_of_the_corpus(tmp_path: Path) -> None:
    path = write_triage(tmp_path / "t.toml", "OFF_TRAILING*")
    file = committed().by_id[TRIGGER].path
    result = call(file, "--triage", path)
    assert result.exit_code == 0
    assert "match nothing" in result.stdout
    assert "OFF_TRAILING*" in result.stdout
    assert "match nothing" not in call("--case", TRIGGER, "--triage", path).stdout


def test_a_broken_triage_file_is_said_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text("[[known]]")
    result = call("--triage", tmp_path / "t.toml")
    assert result.exit_code == 2
    assert "has no 'signature'" in result.stderr
