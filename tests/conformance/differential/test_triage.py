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


TEXT = "OFF_HOLE: accept a; reject b"
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
        ("OFF_HOLE: accept a; reject b", TEXT, True),
        ("OFF_HOLE*: accept a; reject b", "OFF_HOLE+OFF_TRAILING: accept a; reject b", True),
        ("OFF_HOLE: accept a?; reject b", "OFF_HOLE: accept a1; reject b", True),
        ("OFF_HOLE: accept a", TEXT, False),
        ("off_hole: *", TEXT, False),
        ("X: accept py[a]*", "X: accept py[a] 1; reject b", True),
        ("X: accept py[a]*", "X: accept pya; reject b", False),
    ],
)
def test_patterns(pattern: str, text: str, matches: bool) -> None:
    assert known(pattern).covers(text) is matches


@pytest.mark.parametrize(
    ("days", "more", "status"),
    [(0, (), "known"), (1, (), "expired"), (1, ("OFF_HOLE*",), "known")],
)
def test_an_entry_keeps_quiet_until_its_date_and_on_it(days: int, more: tuple[str, ...], status: str) -> None:
    """An entry that holds goes before one that is overdue."""
    triage = Triage((known("OFF*", TODAY), *map(known, more)))
    today = TODAY + dt.timedelta(days)
    assert triage.weigh([signature(TEXT)], today)[TEXT].status == status
    assert triage.is_known(TEXT, today) is (status == "known")
    assert not triage.is_known("HDR: accept a; reject b", TODAY)


def test_choices_need_no_triage_and_match_no_entry() -> None:
    triage, found = Triage((known("OFF*"),)), [signature(TEXT, "choice")]
    assert (triage.weigh(found, TODAY), triage.unmatched(found)) == ({}, ["OFF*"])


@pytest.mark.parametrize(("names", "count"), [(["b", "a"], 2), (["a", "b", "c"], 1), ([], 1)])
def test_entries_for_other_implementations_are_not_in_force(
    tmp_path: Path, names: list[str], count: int
) -> None:
    path = tmp_path / "t.toml"
    path.write_text(ENTRY + 'between = ["a", "b"]\n' + ENTRY)
    assert len(load_triage(path, names).entries) == count
    with pytest.raises(KnownError, match="No such file"):
        load_triage(tmp_path / "nothing.toml", [])


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


def test_an_overdue_entry_keeps_nothing_quiet_and_a_broken_file_is_said_first(tmp_path: Path) -> None:
    path = write_triage(tmp_path / "t.toml", "OFF_HOLE*", "2020-01-01")
    result = call("--case", HOLE, "--triage", path, impls=(QUICK, fake("AlwaysAccepts")))
    assert (result.exit_code, "review was due 2020-01-01" in result.stdout) == (1, True)
    path.write_text("[[known]]")
    result = call("--triage", path)
    assert (result.exit_code, "has no 'signature'" in result.stderr) == (2, True)


def test_unmatched_entries_are_reported_for_files_but_not_for_a_part_of_the_corpus(tmp_path: Path) -> None:
    path = write_triage(tmp_path / "t.toml", "OFF_TRAILING*")
    file = committed().by_id[TRIGGER].path
    result = call(file, "--triage", path)
    assert result.exit_code == 0
    assert "match nothing" in result.stdout
    assert "OFF_TRAILING*" in result.stdout
    assert "match nothing" not in call("--case", TRIGGER, "--triage", path).stdout
