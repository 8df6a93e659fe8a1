"""``stc diff`` with fakes: every kind of disagreement, triage, exit statuses, files by path, the document."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import time
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from safetensors_conformance import differential
from safetensors_conformance.cli.diff import diff
from safetensors_conformance.differential import Side, dump, facts_of, find_files, names_of
from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.outcome import StepResult
from safetensors_conformance.worker.worker import Limits
from safetensors_reports.differences.signatures import Disagreement, InputInfo, Signature, Sort
from safetensors_reports.known_failures import (
    SHIPPED_TRIAGE,
    KnownDisagreement,
    KnownError,
    Triage,
    load_triage,
)

from ...published_schemas import schema_error
from ..support import HERE, QUICK, TRIGGER, by_exit, cases, committed, fake, invoke

pytestmark = pytest.mark.usefixtures("loaded_once")

SMALL = fake("Small")
HOLE = "layout/hole-between-two"
Impls = tuple[str, ...]


def call(*arguments: str | Path, impls: Impls = (QUICK, SMALL)) -> Result:
    """Run the command; without a triage file unless one is named."""
    options = [str(x) for impl in impls for x in ("--impl", impl)]
    quiet = [] if "--triage" in arguments else ["--no-triage"]
    return invoke(diff, *options, *quiet, *arguments)


def doc(*arguments: str | Path, impls: Impls = (QUICK, SMALL)) -> dict[str, Any]:
    """Run the command and return its document, which keeps to its schema."""
    result = call("--json", *arguments, impls=impls)
    document: dict[str, Any] = json.loads(result.stdout)
    assert schema_error("diff", document) is None
    assert document["exit_status"] == result.exit_code
    return document


def test_agreement_has_a_line_for_a_file() -> None:
    assert "no disagreement" in call("--case", "framing/*").stdout
    result = call(file := committed().by_id[TRIGGER].path)
    assert (result.exit_code, f"{file}: no disagreement (accept, 1 tensor)" in result.stdout) == (0, True)


def test_a_content_split_is_named_in_words_before_verdict_splits() -> None:
    impls = (QUICK, fake("LiesAboutContent"), SMALL)
    found = doc("--case", TRIGGER, impls=impls)
    (row,) = found["disagreements"]
    assert (row["input"], row["sort"], row["dissenter"]) == (TRIGGER, "content", "fake 1.0")
    assert row["difference"].startswith('fake 1.0: tensor "w": other bytes than the file contains (sha256')
    assert row["difference"].endswith("(as reference 2026.11.0 reads it)")
    assert row["between"] == ["reference 2026.11.0", "fake 1.0"]
    assert row["signature"] == f"{row['subject']}: accept:A fake; accept:B reference, small"
    assert len({answer["digest"] for answer in row["answers"].values()}) == 2
    assert (found["exit_status"], found["pairs"][0]["content"]) == (1, 1)
    impls = (QUICK, fake("LiesAboutContent"), fake("AlwaysAccepts"))
    text = call("--case", TRIGGER, "--case", HOLE, impls=impls).stdout
    heads = ("content splits:", "verdict splits:", "alone against all others", "pairs", "new signatures")
    places = [text.index(head) for head in heads]
    assert places == sorted(places)


def test_a_verdict_split_and_its_reports(tmp_path: Path) -> None:
    found = doc("--case", HOLE, "--report", tmp_path / "out", impls=(QUICK, fake("AlwaysAccepts")))
    assert found["counts"] == {"content": 0, "verdict": 1, "unsafe": 0, "choice": 0}
    (row,) = found["signatures"]
    assert (row["signature"], row["status"]) == ("OFF_HOLE: accept AlwaysAccepts; reject reference", "new")
    assert json.loads((tmp_path / "out" / "diff.json").read_text()) == found
    page = (tmp_path / "out" / "diff.md").read_text()
    assert "#### Verdict splits" in page
    assert 'signature = "OFF_HOLE: accept AlwaysAccepts; reject reference"' in page


@pytest.mark.parametrize(
    ("name", "other", "sort", "outcomes"),
    [
        ("Crashes", QUICK, "verdict", ["accept:A", "crash"]),
        ("EatsMemory", QUICK, "verdict", ["accept:A", "exhausted"]),
        ("Crashes", fake("AlwaysRejects"), "unsafe", ["crash", "reject"]),
    ],
)
def test_a_bad_end_is_unsafe_and_a_verdict_split(
    name: str, other: str, sort: str, outcomes: list[str]
) -> None:
    result = doc("--case", TRIGGER, "--memory-limit", "300", impls=(other, fake(name)))
    (row,) = result["disagreements"]
    assert (row["sort"], row["unsafe"], result["exit_status"]) == (sort, ["fake 1.0"], 1)
    assert sorted(row["vector"].values()) == outcomes


def test_an_open_choice_is_listed_and_does_not_count() -> None:
    impls = (QUICK, fake("AlwaysAccepts"))
    found = doc("--case", "header/leading-whitespace-space", impls=impls)
    (row,) = found["disagreements"]
    assert (row["sort"], row["choice"]) == ("choice", "leading-whitespace")
    assert found["signatures"][0]["status"] == "choice"
    assert (found["exit_status"], found["pairs"][0]["choice"], found["pairs"][0]["verdict"]) == (0, 1, 0)


@pytest.mark.parametrize(
    ("impls", "compared"),
    [
        ((QUICK, fake("NeedsNotF32"), SMALL), 1),  # it says that it lacks F32
        ((by_exit("honest"), QUICK), 1),  # it only says yes, which agrees with any content
    ],
)
def test_what_tells_less_does_not_disagree(impls: Impls, compared: int) -> None:
    for given in (["--case", TRIGGER], [committed().by_id[TRIGGER].path]):
        found = doc(*given, impls=impls)
        assert (found["disagreements"], found["inputs"]["compared"]) == ([], compared)


def test_files_by_path_a_missing_one_and_a_directory(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    copies = [shutil.copy(case.path, folder) for case in cases(TRIGGER, HOLE)]
    (tmp_path / "empty").mkdir()
    arguments = (folder, tmp_path / "missing.safetensors", tmp_path / "empty")
    found = doc(*arguments, impls=(QUICK, fake("AlwaysAccepts")))
    assert set(found["answers"]) == set(map(str, copies))
    assert {row["sort"] for row in found["disagreements"]} == {"content", "verdict"}
    missing, _ = found["problems"]
    assert ("no such file" in missing, found["source"], found["exit_status"]) == (True, "files", 2)
    text = call(*arguments, impls=(QUICK, fake("AlwaysAccepts"))).stdout
    assert 0 < text.index("CONTENT SPLIT") < text.index("VERDICT SPLIT, OFF_HOLE")
    # A file and its case have one signature.
    case = committed().by_id[HOLE]
    (by_path,), _ = find_files([str(case.path)])
    assert facts_of(case).subject == facts_of(by_path).subject == "OFF_HOLE"


def test_an_implementation_that_does_not_start_or_fails_leaves_the_others() -> None:
    impls = (QUICK, fake("NoSteps"), fake("AlwaysAccepts"))
    found = doc("--case", HOLE, impls=impls)
    assert [w["name"] for w in found["implementations"]] == ["reference", "AlwaysAccepts"]
    assert (len(found["disagreements"]), found["exit_status"]) == (1, 2)
    assert "cannot start" in found["problems"][0]
    found = doc("--case", TRIGGER, impls=(QUICK, fake("ReturnsNonsense"), SMALL))
    assert (found["disagreements"], found["exit_status"]) == ([], 2)
    assert "on framing/one-tensor" in found["problems"][0]


def test_a_step_is_compared_by_those_that_have_it_unless_that_is_one_alone() -> None:
    whole = f"py:{HERE / 'small_adapter.py'}:WholeTensor"
    impls = (QUICK, whole, fake("AlwaysRejects"))
    found = doc("--case", "slice/integer-last", "--case", "slice/dots-first", "--kind", "slice", impls=impls)
    assert "has no step for any" in found["notes"][0]
    assert {row["sort"] for row in found["disagreements"]} & {"content"}
    assert all(row["subject"].startswith("API-") for row in found["disagreements"])
    found = doc("--case", "index/two-shards*", impls=("reference", fake("AlwaysRejects")))
    assert (found["exit_status"], "nothing to compare" in found["problems"][-1]) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "impls", "complaint"),
    [
        ((), ("reference",), "at least two"),
        ((), ("reference", "reference"), "at least two"),
        (("--case", "framing/*", "x.safetensors"), (QUICK, SMALL), "not both"),
        (("--triage", "x.toml", "--no-triage"), (QUICK, SMALL), "cannot be combined"),
        (("--case", "nothing/*"), (QUICK, SMALL), "matches no case"),
        (("--case", "writer/disk-full"), (QUICK, SMALL), "none of the selected cases"),
        ((), ("reference", "mxl"), "did you mean mlx"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], impls: Impls, complaint: str) -> None:
    result = call(*arguments, impls=impls)
    assert result.exit_code == 2
    assert complaint in " ".join(result.stderr.split())


def test_names_tell_apart_what_signatures_must() -> None:
    versions = ["safetensors==0.3.0", "safetensors==0.3.1"]
    selectors = ("reference", fake("Crashes"), fake("Noisy"), *versions)
    names = names_of([Side(resolve(s), Limits()) for s in selectors])
    assert (names[0], names[3:], len(set(names))) == ("reference", versions, 5)


def test_a_dump_is_bounded_and_can_always_be_written() -> None:
    odd = {"dtype": "F32", "shape": [float("nan")]}
    rows: list[dict[str, Any]] = [{"name": f"\ud800{i:04}", **odd} for i in range(200)]
    result = StepResult("accept", tensors=rows, metadata={"k": float("inf")}, has_metadata=True)
    one = dump(result)
    assert one == dump(replace(result, tensors=rows[::-1]))
    assert (one["count"], len(one["tensors"])) == (200, 50)
    json.dumps(one, allow_nan=False)
    assert dump(StepResult("reject", "no")) == {"outcome": "reject", "message": "no"}


def test_ctrl_c_prints_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody presses it while one implementation is done and the other hangs at the second file."""
    started: list[Side] = []

    def pressed(futures: list[Future[None]]) -> None:
        wait(futures, return_when=FIRST_COMPLETED)
        while not all(side.results for side in started):
            time.sleep(0.01)
        raise KeyboardInterrupt

    def noted(self: Side, *args: Any) -> None:
        started.append(self)
        original(self, *args)

    original = Side.__init__
    monkeypatch.setattr(Side, "__init__", noted)
    monkeypatch.setattr(differential, "wait", pressed)
    arguments = ("--case", "framing/cut-in-header", "--case", TRIGGER, "--time-limit", "3", "--jobs", "2")
    result = call(*arguments, impls=(QUICK, fake("Hangs")))
    assert result.exit_code == 130
    assert "interrupted: 1 of 2 inputs were given to all of them" in result.stdout
    assert "problem" not in result.stdout


TODAY = dt.date(2026, 11, 21)
TEXT = "OFF_HOLE: accept a; reject b"
ENTRY = f"""
[[known]]
signature = "{TEXT}"
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
        (TEXT, TEXT, True),
        ("OFF_HOLE*: accept a; reject b", "OFF_HOLE+OFF_TRAILING: accept a; reject b", True),
        ("OFF_HOLE: accept a?; reject b", "OFF_HOLE: accept a1; reject b", True),
        ("OFF_HOLE: accept a", TEXT, False),
        ("off_hole: *", TEXT, False),
        ("X: accept py[a]*", "X: accept py[a] 1; reject b", True),
        ("X: accept py[a]*", "X: accept pya; reject b", False),
    ],
)
def test_patterns_of_triage(pattern: str, text: str, matches: bool) -> None:
    assert known(pattern).covers(text) is matches


@pytest.mark.parametrize(
    ("days", "more", "status"), [(0, (), "known"), (1, (), "expired"), (1, ("OFF_HOLE*",), "known")]
)
def test_an_entry_keeps_quiet_until_its_date_and_on_it(days: int, more: tuple[str, ...], status: str) -> None:
    """An entry that holds goes before one that is overdue. Choices need no triage and match no entry."""
    triage = Triage((known("OFF*", TODAY), *map(known, more)))
    today = TODAY + dt.timedelta(days)
    assert triage.weigh([signature(TEXT)], today)[TEXT].status == status
    assert triage.is_known(TEXT, today) is (status == "known")
    assert not triage.is_known("HDR: accept a; reject b", TODAY)
    choices = [signature(TEXT, "choice")]
    assert (triage.weigh(choices, TODAY), triage.unmatched(choices)) == ({}, ["OFF*", *more])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("known = 1", "must be an array of tables"),
        ("[[expected]]", "unknown key 'expected'"),
        ("[[known]]", "has no 'signature'"),
        (ENTRY.replace("why", "wy"), "unknown key 'wy'"),
        (ENTRY.replace('"known"', '" "'), "needs a 'why'"),
        (ENTRY.replace(TEXT, "*"), "matches everything"),
        (ENTRY.replace("https://example.org/1", "later"), "an issue: a URL, or 'unreported' with a why"),
        (OLD.replace("https://example.org/1", "unreported"), "'unreported' with a why"),
        (ENTRY.replace("review_by = 2027-01-01", ""), "needs a review_by date"),
        (ENTRY.replace("2027-01-01", '"soon"'), "must be a date like 2027-06-01 or null, not 'soon'"),
        (ENTRY.replace("01-01", "01-01T00:00:00"), "review_by: must be a date .* or null, not a date with"),
        (ENTRY + "between = 3", "between: must be a list, not 3"),
        ("[[known", "t.toml: "),
    ],
)
def test_a_bad_triage_file_is_told_where_and_why(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "t.toml"
    path.write_text(text)
    with pytest.raises(KnownError, match=complaint):
        load_triage(path, [])


def test_entries_hold_for_their_implementations_with_defaults_and_in_the_older_form(tmp_path: Path) -> None:
    path = tmp_path / "t.toml"
    bare = '[[known]]\nsignature = "OFF_HOLE*"\n'
    path.write_text(f"why = 'w'\nissue = 'unreported'\nreview_by = {TODAY}\n{bare}{OLD}between = ['a', 'b']")
    first, second = load_triage(path, ["b", "a"]).entries
    told = [Triage((entry,)).weigh([signature(TEXT)], TODAY)[TEXT] for entry in (first, second)]
    assert [(state.reason, state.issue, state.review_by) for state in told] == [
        ("w", "unreported", "2026-11-21"),
        ("r", "https://example.org/1", "2027-01-01"),
    ]
    for names in (["a", "b", "c"], []):
        assert load_triage(path, names).entries == (first,)
    with pytest.raises(KnownError, match="No such file"):
        load_triage(tmp_path / "nothing.toml", [])
    assert load_triage(SHIPPED_TRIAGE, ["reference", "safetensors"]).entries
    assert not load_triage(SHIPPED_TRIAGE, ["a", "b"]).entries


def write_triage(path: Path, signature: str, review_by: str = "2999-01-01") -> Path:
    path.write_text(OLD.replace(TEXT, signature).replace("2027-01-01", review_by))
    return path


def test_triage_keeps_what_is_known_quiet_until_its_date(tmp_path: Path) -> None:
    impls = (QUICK, fake("AlwaysAccepts"))
    path = write_triage(tmp_path / "t.toml", "OFF_HOLE: accept AlwaysAccepts; reject reference")
    result = call("--case", HOLE, "--triage", path, impls=impls)
    assert (result.exit_code, "new signatures" in result.stdout) == (0, False)
    assert "known: 1 signature, 1 input" in result.stdout
    more = call("--case", HOLE, "--case", "layout/appended-elf", "--triage", path, impls=impls)
    assert (more.exit_code, "new signatures: 1" in more.stdout) == (1, True)
    write_triage(path, "OFF_HOLE*", "2020-01-01")
    result = call("--case", HOLE, "--triage", path, impls=impls)
    assert (result.exit_code, "review was due 2020-01-01" in result.stdout) == (1, True)
    path.write_text("[[known]]")
    result = call("--triage", path)
    assert (result.exit_code, "has no 'signature'" in result.stderr) == (2, True)
    # Unmatched entries are reported for files but not for a part of the corpus.
    write_triage(path, "OFF_TRAILING*")
    result = call(committed().by_id[TRIGGER].path, "--triage", path)
    assert (result.exit_code, "match nothing" in result.stdout) == (0, True)
    assert "OFF_TRAILING*" in result.stdout
    assert "match nothing" not in call("--case", TRIGGER, "--triage", path).stdout
