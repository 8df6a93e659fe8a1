"""Baselines: strict both ways, with clear errors for bad files; and where they are."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

import pytest

from safetensors_conformance.implementations.descriptor import descriptors
from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.run.baseline import (
    check_baseline_option,
    due_by,
    failing_steps,
    load_baseline,
    name_in_records,
    overdue_entries,
    own_baselines,
    unexplained,
    update,
)
from safetensors_corpus import load_manifest
from safetensors_reports.known import KnownError

GOOD = """
implementation = "x"
[[expected]]
case = "layout/hole-between-two"
read = "wrong-accept"
why = "known"
issue = "https://example.org/1"
review_by = 2099-01-01
[[expected]]
case = "shape/*"
read = "wrong-reject"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "x.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_entries_are_found_by_id_before_glob(tmp_path: Path) -> None:
    baseline = load_baseline(write(tmp_path, GOOD), "1.0", None)
    exact = baseline.find("layout/hole-between-two")
    assert exact is not None
    assert exact.steps == {"read": "wrong-accept"}
    glob = baseline.find("shape/scalar")
    assert glob is not None
    assert glob.case == "shape/*"
    assert baseline.find("header/shape/x") is None
    assert baseline.find("layout/other") is None


def test_an_entry_that_matches_nothing_is_told_and_a_glob_covers_any_number(tmp_path: Path) -> None:
    baseline = load_baseline(write(tmp_path, GOOD), "1.0", None)
    many = [f"shape/s{i}" for i in range(300)]
    (complaint,) = baseline.stale(many)
    assert "layout/hole-between-two: matches no case" in complaint
    (complaint,) = baseline.stale(["layout/hole-between-two"])
    assert "shape/*: matches no case" in complaint
    assert baseline.stale(["layout/hole-between-two", *many]) == []


def test_what_a_file_says_holds_for_entries_that_say_nothing(tmp_path: Path) -> None:
    text = """
why = "all"
issue = "unreported"
review_by = 2099-01-01
inconsistent = ["leading-whitespace"]
[[expected]]
case = "a/b"
read = "unsafe"
[[expected]]
case = "a/c"
read = "wrong-accept"
why = "own"
issue = "https://example.org/1"
review_by = 2098-01-01
"""
    baseline = load_baseline(write(tmp_path, text), "1.0", None)
    told = [(e.why, e.issue, e.review_by) for e in baseline.entries]
    assert told == [
        ("all", "unreported", dt.date(2099, 1, 1)),
        ("own", "https://example.org/1", dt.date(2098, 1, 1)),
    ]
    assert [e.case for e in overdue_entries(baseline, dt.date(2098, 6, 1))] == ["a/c"]


def test_a_list_begun_by_a_run_can_be_used_until_its_review_is_due(tmp_path: Path) -> None:
    path = tmp_path / "new.toml"
    failing = {"a/b": {"read": "wrong-accept"}, "a/c": {"read": "wrong-reject"}}
    assert update(path, "x", failing, inconsistent=["bool-bytes"]) == (0, 2, 0)
    baseline = load_baseline(path, "1", None)
    assert [(e.issue, e.steps) for e in baseline.entries] == [("unreported", s) for s in failing.values()]
    assert baseline.inconsistent == {"bool-bytes"}
    today = dt.datetime.now(dt.UTC).date()
    assert overdue_entries(baseline, today) == []
    assert overdue_entries(baseline, today + dt.timedelta(100)) == list(baseline.entries)
    # The next run may find something else, which has no reason of its own either.
    assert update(path, "x", {"a/c": {"read": "unsafe"}}) == (1, 0, 1)
    baseline = load_baseline(path, "1", None)
    assert [e.steps for e in baseline.entries] == [{"read": "unsafe"}]
    assert not baseline.inconsistent


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[expected]\ncase=", "it may be truncated"),
        ("extra = 1", "unknown key 'extra'"),
        ("issue = 1", "issue: must be a string"),
        ("review_by = 'soon'", "review_by: must be a date"),
        ("review_by = 10:00:00", "review_by: must be a date"),
        ("inconsistent = 'all'", "must be a list"),
        ("implementation = 1", "must be a string"),
        ("[[expected]]\nread = 'wrong-reject'", "no 'case'"),
        ("[[expected]]\ncase = 'a/b'", "has no verdict"),
        ("[[expected]]\ncase = 'a/b'\nread = 'pass'", "not a failing verdict"),
        ("[[expected]]\ncase = 'a/b'\nread = 'broken'", "not a failing verdict"),
        ("[[expected]]\ncase = 'a/b'\nread = 'wrong-accept:'", "not a failing verdict"),
        ("[[expected]]\ncase = 'a/b'\nread = 'deviation:all'", "not a failing verdict"),
        ("a." * 20_000 + "a = 1", "line 1 has 20,000 dots"),
        ("\n".join("b." * 999 + f"{n} = 1" for n in range(60)), "line 1 has 999 dots"),
        ("[[expected]]\ncase = 'a/b'\nread = 'wrong-reject'\nreason = 'x'", "unknown key 'reason'"),
        ("[[expected]]\ncase = 'a/b'\nread = 'wrong-reject'\nversions = 'new'", "not a version specifier"),
        ("[[expected]]\ncase = 'a/b'\nread = 'wrong-reject'\nreview_by = 'soon'", "must be a date"),
        ("[[expected]]\ncase = 'a/b'\nread = 'wrong-reject'\n" * 2, "listed twice"),
        ("[[expected]]\ncase = 'a/b'\nread = 'unsafe'", "needs a review_by date and an issue"),
        (
            "[[expected]]\ncase = 'a/b'\nread = 'wrong-accept'\nissue = 'unreported'\nreview_by = 2099-01-01",
            "with a why",
        ),
        ("[[expected]]\ncase = 'a/b'\nread = 'wrong-accept'\nissue = 'https://x.y/1'", "review_by"),
    ],
)
def test_a_baseline_that_cannot_be_used_says_why(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(KnownError) as caught:
        load_baseline(write(tmp_path, text), "1.0", None)
    assert words in str(caught.value)
    assert "x.toml" in str(caught.value)


def test_a_file_with_unknown_keys_is_not_rewritten(tmp_path: Path) -> None:
    """Tomlkit needs ten seconds for this file."""
    path = write(tmp_path, "".join("b." * 50 + f"c{n} = 1\n" for n in range(100)))
    with pytest.raises(KnownError, match="unknown key 'b'"):
        due_by(path)


def test_a_missing_baseline_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "none of it.toml"
    advice = re.escape(f"create one with: stc baseline update SELECTOR --file '{path}'")
    with pytest.raises(KnownError, match=advice):
        load_baseline(path, "1.0", None)


def test_entries_hold_for_their_versions_and_profile_only(tmp_path: Path) -> None:
    text = """
[[expected]]
case = "a/old"
read = "wrong-reject"
versions = "<2"
[[expected]]
case = "a/text"
read = "wrong-reject"
profile = "text"
"""
    path = write(tmp_path, text)
    assert [e.case for e in load_baseline(path, "1.9", None).entries] == ["a/old"]
    assert [e.case for e in load_baseline(path, "2.0", None).entries] == []
    assert [e.case for e in load_baseline(path, "unknown", None).entries] == []
    assert [e.case for e in load_baseline(path, "2.0", "text").entries] == ["a/text"]


def test_reviews_become_due(tmp_path: Path) -> None:
    baseline = load_baseline(write(tmp_path, GOOD), "1.0", None)
    assert overdue_entries(baseline, dt.date(2099, 1, 1)) == []
    assert [e.case for e in overdue_entries(baseline, dt.date(2099, 1, 2))] == ["layout/hole-between-two"]


def test_updating_keeps_comments_and_reasons_and_drops_what_is_fixed(tmp_path: Path) -> None:
    text = """# about this file
implementation = "x"

[[expected]]
case = "layout/stays"  # a remark
read = "wrong-accept"
why = "reason"
issue = "https://example.org/1"
review_by = 2099-01-01

[[expected]]
case = "layout/fixed"
read = "wrong-reject"

[[expected]]
case = "layout/other-profile"
profile = "text"
read = "wrong-reject"
"""
    path = write(tmp_path, text)
    failing = {"layout/stays": {"read": "wrong-accept"}, "layout/new": {"read": "wrong-accept"}}
    assert update(path, "x", failing) == (2, 1, 1)
    after = path.read_text(encoding="utf-8")
    assert "# about this file" in after
    assert "# a remark" in after
    assert 'why = "reason"' in after
    assert "layout/fixed" not in after
    assert "layout/other-profile" in after
    assert unexplained(path) == ["layout/new"]
    with pytest.raises(KnownError, match="layout/new"):
        load_baseline(path, "1.0", None)


def test_updating_twice_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "new.toml"
    failing = {"a/b": {"open": "wrong-reject", "read": "wrong-reject"}, "a/c": {"read": "wrong-reject"}}
    update(path, "x", failing)
    first = path.read_text(encoding="utf-8")
    assert update(path, "x", failing) == (2, 0, 0)
    assert path.read_text(encoding="utf-8") == first
    assert [e.case for e in load_baseline(path, "1", None).entries] == ["a/b", "a/c"]


def test_a_case_that_fails_otherwise_than_its_glob_gets_an_entry(tmp_path: Path) -> None:
    path = write(tmp_path, 'implementation = "x"\n[[expected]]\ncase = "a/*"\nread = "wrong-reject"\n')
    failing = {
        "a/b": {"read": "wrong-reject"},
        "a/c": {"open": "wrong-reject", "read": "wrong-reject"},
        "b/d": {"read": "wrong-reject"},
    }
    assert update(path, "x", failing) == (1, 2, 0)
    baseline = load_baseline(path, "1", None)
    assert [e.case for e in baseline.entries] == ["a/*", "a/c", "b/d"]
    for name, steps in failing.items():
        entry = baseline.find(name)
        assert entry is not None
        assert entry.steps == steps
    assert update(path, "x", failing) == (3, 0, 0)


def test_harness_errors_and_passes_never_become_expectations() -> None:
    rows = [
        {"case": "a/a", "step": "read", "verdict": "harness-error"},
        {"case": "a/b", "step": "read", "verdict": "pass"},
        {"case": "a/c", "step": "read", "verdict": "choice:accept"},
        {"case": "a/d", "step": "open", "verdict": "unsafe"},
    ]
    assert failing_steps(rows) == {"a/d": {"open": "unsafe"}}


@pytest.mark.parametrize("path", own_baselines().values(), ids=own_baselines())
def test_the_committed_baselines_are_usable_and_match_the_corpus(path: Path) -> None:
    baseline = load_baseline(path, "0.8.0", None)
    assert baseline.entries
    assert baseline.stale(c.id for c in load_manifest().cases) == []


def test_a_file_that_is_given_must_be_usable_unless_it_is_only_written(tmp_path: Path) -> None:
    check_baseline_option(write(tmp_path, GOOD), ["reference"])
    check_baseline_option(tmp_path / "none.toml", ["reference"], read=False)
    check_baseline_option(
        write(tmp_path, "[[expected]]\ncase = 'a/b'\nread = 'unsafe'"), ["reference"], read=False
    )
    for text in ("[[expected]\ncase=", "\0", "expected = 1", "[expected]\ncase = 'a/b'", "[[expected]]"):
        with pytest.raises(KnownError, match=r"x\.toml"):
            check_baseline_option(write(tmp_path, text), ["reference"], read=False)
    with pytest.raises(KnownError, match="create one with"):
        check_baseline_option(tmp_path / "none.toml", ["reference"])
    with pytest.raises(KnownError, match="applies to a single implementation; give exactly one --impl"):
        check_baseline_option(write(tmp_path, GOOD), ["reference", "mlx"])


DEFAULT = descriptors()["safetensors"].version


@pytest.mark.parametrize(
    ("selector", "name"),
    [
        ("safetensors", "safetensors.toml"),
        ("safetensors:numpy", "safetensors-numpy.toml"),
        (f"safetensors=={DEFAULT}", "safetensors.toml"),
        (f"safetensors:torch=={DEFAULT}", "safetensors-torch.toml"),
    ],
)
def test_a_known_implementation_has_the_baseline_of_this_project(selector: str, name: str) -> None:
    path = resolve(selector).baseline
    assert path == own_baselines()[name]
    assert name_in_records(path) == name
    assert path.is_file()


@pytest.mark.parametrize(
    ("selector", "name"),
    [
        ("safetensors==0.3.0", "safetensors-0.3.0.baseline.toml"),
        ("safetensors:numpy==0.3.0", "safetensors-numpy-0.3.0.baseline.toml"),
        ("mlx", "mlx.baseline.toml"),
        ("reference", "reference.baseline.toml"),
        ("py:mylib.adapter:Reader", "py-mylib.adapter-Reader.baseline.toml"),
    ],
)
def test_where_this_project_has_none_it_lies_in_the_current_folder(selector: str, name: str) -> None:
    assert resolve(selector).baseline == Path(name)
