"""Baselines: strict both ways, with clear errors for bad files; and where they are."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

import pytest

from safetensors_conformance.implementations.descriptor import descriptors, name_in_records, own_baselines
from safetensors_conformance.implementations.selectors import resolve
from safetensors_conformance.run.baseline_update import (
    check_baseline_option,
    due_by,
    failing_steps,
    unexplained,
    update,
)
from safetensors_corpus import load_manifest
from safetensors_reports.known_failures import KnownError, load_baseline

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


def test_entries_are_found_by_id_before_glob_and_those_for_nothing_are_told(tmp_path: Path) -> None:
    baseline = load_baseline(write(tmp_path, GOOD), "1.0", None)
    ids = ("layout/hole-between-two", "shape/scalar", "header/shape/x", "layout/other")
    found = [(entry.case, dict(entry.steps)) if (entry := baseline.find(case)) else None for case in ids]
    hole = ("layout/hole-between-two", {"read": "wrong-accept"})
    assert found == [hole, ("shape/*", {"read": "wrong-reject"}), None, None]
    many = [f"shape/s{i}" for i in range(300)]
    (complaint,) = baseline.stale(many)
    assert "layout/hole-between-two: matches no case" in complaint
    (complaint,) = baseline.stale(["layout/hole-between-two"])
    assert "shape/*: matches no case" in complaint
    assert baseline.stale(["layout/hole-between-two", *many]) == []


def test_what_a_file_says_holds_for_entries_that_say_nothing(tmp_path: Path) -> None:
    defaults = "why = 'all'\nissue = 'unreported'\nreview_by = 2099-01-01\ninconsistent = ['bool-bytes']\n"
    bare = "[[expected]]\ncase = 'a/b'\nread = 'unsafe'\n"
    own = "why = 'own'\nissue = 'https://example.org/1'\nreview_by = 2098-01-01\n"
    baseline = load_baseline(write(tmp_path, defaults + bare + bare.replace("a/b", "a/c") + own), "1.0", None)
    assert [(e.why, e.issue, e.review_by) for e in baseline.entries] == [
        ("all", "unreported", dt.date(2099, 1, 1)),
        ("own", "https://example.org/1", dt.date(2098, 1, 1)),
    ]
    assert baseline.inconsistent == {"bool-bytes"}
    assert baseline.overdue(dt.date(2098, 1, 1)) == []
    assert [e.case for e in baseline.overdue(dt.date(2098, 1, 2))] == ["a/c"]


def test_a_list_begun_by_a_run_can_be_used_until_its_review_is_due(tmp_path: Path) -> None:
    path = tmp_path / "new.toml"
    failing = {"a/b": {"read": "wrong-accept"}, "a/c": {"open": "wrong-reject", "read": "wrong-reject"}}
    assert update(path, "x", failing, inconsistent=["bool-bytes"]) == (0, 2, 0)
    first = path.read_text(encoding="utf-8")
    assert update(path, "x", failing, inconsistent=["bool-bytes"]) == (2, 0, 0)
    assert path.read_text(encoding="utf-8") == first
    baseline = load_baseline(path, "1", None)
    assert [(e.issue, e.steps) for e in baseline.entries] == [("unreported", s) for s in failing.values()]
    assert baseline.inconsistent == {"bool-bytes"}
    today = dt.datetime.now(dt.UTC).date()
    assert baseline.overdue(today) == []
    assert baseline.overdue(today + dt.timedelta(100)) == list(baseline.entries)
    # The next run may find something else, which has no reason of its own either.
    assert update(path, "x", {"a/c": {"read": "unsafe"}}) == (1, 0, 1)
    baseline = load_baseline(path, "1", None)
    assert [e.steps for e in baseline.entries] == [{"read": "unsafe"}]
    assert not baseline.inconsistent


NO_VERDICTS = ("pass", "broken", "wrong-accept:", "deviation:all")


def an_entry(*lines: str) -> str:
    return "\n".join(("[[expected]]", "case = 'a/b'", *lines, ""))


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
        (an_entry(), "has no verdict"),
        *((an_entry(f"read = '{verdict}'"), "not a failing verdict") for verdict in NO_VERDICTS),
        ("a." * 20_000 + "a = 1", "line 1 has 20,000 dots"),
        ("\n".join("b." * 999 + f"{n} = 1" for n in range(60)), "line 1 has 999 dots"),
        (an_entry("read = 'wrong-reject'", "reason = 'x'"), "unknown key 'reason'"),
        (an_entry("read = 'wrong-reject'", "versions = 'new'"), "not a version specifier"),
        (an_entry("read = 'wrong-reject'", "review_by = 'soon'"), "must be a date"),
        (an_entry("read = 'wrong-reject'") * 2, "listed twice"),
        (an_entry("read = 'unsafe'"), "needs a review_by date and an issue"),
        (an_entry("read = 'unsafe'", "issue = 'unreported'", "review_by = 2099-01-01"), "with a why"),
        (an_entry("read = 'wrong-accept'", "issue = 'https://x.y/1'"), "review_by"),
    ],
)
def test_a_baseline_that_cannot_be_used_says_why(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(KnownError, match=r"x\.toml") as caught:
        load_baseline(write(tmp_path, text), "1.0", None)
    assert words in str(caught.value)


def test_a_file_with_unknown_keys_is_not_rewritten(tmp_path: Path) -> None:
    """Tomlkit needs ten seconds for this file."""
    path = write(tmp_path, "".join("b." * 50 + f"c{n} = 1\n" for n in range(100)))
    with pytest.raises(KnownError, match="unknown key 'b'"):
        due_by(path)


def test_entries_hold_for_their_versions_and_profile_only(tmp_path: Path) -> None:
    old = an_entry("read = 'wrong-reject'", "versions = '<2'").replace("a/b", "a/old")
    text = an_entry("read = 'wrong-reject'", "profile = 'text'").replace("a/b", "a/text")
    path = write(tmp_path, old + text)
    for version, profile, active in (
        ("1.9", None, ["a/old"]),
        ("2.0", None, []),
        ("unknown", None, []),
        ("2.0", "text", ["a/text"]),
    ):
        assert [e.case for e in load_baseline(path, version, profile).entries] == active, version


def test_updating_keeps_comments_and_reasons_and_drops_what_is_fixed(tmp_path: Path) -> None:
    stays = an_entry("read = 'wrong-accept'  # a remark", "why = 'reason'", "issue = 'unreported'")
    text = f"# about this file\nimplementation = 'x'\n\n{stays}review_by = 2099-01-01\n\n"
    text += an_entry("read = 'wrong-reject'").replace("a/b", "a/fixed")
    text += an_entry("profile = 'text'", "read = 'wrong-reject'").replace("a/b", "a/other-profile")
    path = write(tmp_path, text)
    failing = {"a/b": {"read": "wrong-accept"}, "a/new": {"read": "wrong-accept"}}
    assert update(path, "x", failing) == (2, 1, 1)
    after = path.read_text(encoding="utf-8")
    for kept in ("# about this file", "# a remark", "why = 'reason'", "a/other-profile"):
        assert kept in after
    assert "a/fixed" not in after
    assert unexplained(path) == ["a/new"]
    with pytest.raises(KnownError, match="a/new"):
        load_baseline(path, "1.0", None)


def test_a_case_that_fails_otherwise_than_its_glob_gets_an_entry(tmp_path: Path) -> None:
    path = write(tmp_path, an_entry("read = 'wrong-reject'").replace("a/b", "a/*"))
    failing = {
        "a/b": {"read": "wrong-reject"},
        "a/c": {"open": "wrong-reject", "read": "wrong-reject"},
        "b/d": {"read": "wrong-reject"},
    }
    assert update(path, "x", failing) == (1, 2, 0)
    baseline = load_baseline(path, "1", None)
    assert [e.case for e in baseline.entries] == ["a/*", "a/c", "b/d"]
    assert {case: getattr(baseline.find(case), "steps", None) for case in failing} == failing
    assert update(path, "x", failing) == (3, 0, 0)


def test_harness_errors_and_passes_never_become_expectations() -> None:
    verdicts = ("harness-error", "pass", "choice:accept", "unsafe")
    rows = [{"case": verdict, "step": "read", "verdict": verdict} for verdict in verdicts]
    assert failing_steps(rows) == {"unsafe": {"read": "unsafe"}}


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
    (tmp_path / "file").touch()
    with pytest.raises(KnownError, match=r"none\.toml: cannot be written"):
        check_baseline_option(tmp_path / "file" / "none.toml", ["reference"], read=False)
    path = tmp_path / "none of it.toml"
    advice = re.escape(f"create one with: stc baseline update SELECTOR --file '{path}'")
    with pytest.raises(KnownError, match=advice):
        check_baseline_option(path, ["reference"])
    with pytest.raises(KnownError, match="applies to a single implementation; give exactly one --impl"):
        check_baseline_option(write(tmp_path, GOOD), ["reference", "mlx"])


DEFAULT = descriptors()["safetensors"].version


@pytest.mark.parametrize(
    ("selector", "name"),
    [
        ("safetensors", "safetensors.toml"),
        ("safetensors:numpy", "safetensors-numpy.toml"),
        (f"safetensors:torch=={DEFAULT}", "safetensors-torch.toml"),
        ("safetensors==0.3.0", "safetensors-0.3.0.baseline.toml"),
        ("safetensors:numpy==0.3.0", "safetensors-numpy-0.3.0.baseline.toml"),
        ("mlx", "mlx.baseline.toml"),
        ("reference", "reference.baseline.toml"),
        ("py:mylib.adapter:Reader", "py-mylib.adapter-Reader.baseline.toml"),
    ],
)
def test_a_baseline_is_one_of_this_project_or_lies_in_the_current_folder(selector: str, name: str) -> None:
    path = resolve(selector).baseline
    assert path == own_baselines().get(name, Path(name))
    assert name_in_records(path) == name
