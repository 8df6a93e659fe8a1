"""``stc run`` and ``stc baseline``: options, cases by name, files that are none, choices, turns, causes."""

from __future__ import annotations

import json
import os
import re
import threading
from pathlib import Path

import click
import pytest

from safetensors_conformance.cli.baseline import baseline
from safetensors_conformance.cli.run import given_up, run
from safetensors_conformance.options import OPTIONS, PROFILES
from safetensors_conformance.run.driver import MAX_SHOWN
from safetensors_reference.main import main
from safetensors_reference.rules import book
from safetensors_reports.record.file import read_record

from ..suite_runs import corpus_of, load_once, suite_here
from ..support import QUICK, REPOSITORY, TRIGGER, call, fake

pytestmark = pytest.mark.usefixtures("loaded_once")

LAX = "py:docs/examples/mylib_adapter.py:Adapter"
CHOICE = ("--case", "header/leading-whitespace-tab")
ONE = f"--impl reference --case {TRIGGER}"


def test_the_command_line_follows_the_table_that_the_plugin_shares() -> None:
    command = {name: param for param in run.params for name in param.opts if isinstance(param, click.Option)}
    assert OPTIONS.keys() - command.keys() == {"--update-baseline"}  # only pytest rewrites baselines in a run
    assert PROFILES == book.PROFILES
    for name, option in ((name, option) for name, option in command.items() if name in OPTIONS):
        known = OPTIONS[name]
        assert (option.help, option.is_flag, option.multiple) == (known.help, known.flag, known.many), name
        bounds = getattr(option.type, "min", None), getattr(option.type, "max", None)
        assert bounds == (known.least, known.most), name
        assert tuple(getattr(option.type, "choices", ())) == known.choices, name


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("layout/hole-between-tow", "layout/hole-between-two"),
        ("hole-between-two", "layout/hole-between-two"),
        ("layuot/*", "layout/"),
    ],
)
def test_an_unknown_case_is_guessed(given: str, meant: str) -> None:
    status, out = call(run, "--case", given)
    assert (status, f"did you mean {meant}" in out) == (2, True)


def test_an_unusable_baseline_is_refused_before_anything_runs(tmp_path: Path) -> None:
    adapter = tmp_path / "adapter.py"
    adapter.write_text(f"open('{tmp_path}/started', 'w')\nclass A:\n  def read(self, path): return []\n")
    status, out = call(run, "--impl", f"py:{adapter}:A", "--baseline", str(tmp_path / "none.toml"))
    assert (status, "none.toml: No such file" in out, (tmp_path / "started").exists()) == (2, True, False)


@pytest.mark.by_day(5)
@pytest.mark.parametrize("thing", ["fifo", "zeros"])
@pytest.mark.parametrize(
    "command",
    [
        *(f"run {ONE} --corpus", f"run {ONE} --baseline", f"diff {ONE} --impl safetensors --triage"),
        *("diff --impl reference --impl safetensors", "baseline show reference --file", "report -o out"),
    ],
)
def test_what_is_no_regular_file_neither_hangs_a_command_nor_fills_the_memory(
    thing: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "given"
    if thing == "fifo":
        os.mkfifo(place)
    else:
        place.symlink_to("/dev/zero")
    status, out = call(main, *command.split(), place)
    assert (status in (1, 2), "not a regular file" in out) == (True, True), out


def test_the_failure_in_the_readme_is_real(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    _, out = call(run, "--impl", LAX, "--case", "layout/hole-between-two")
    failure, _, _ = out.partition("\n\n")
    assert failure.startswith(LAX)
    assert f"```\n{failure}\n```\n" in (REPOSITORY / "README.md").read_text(encoding="utf-8")


def test_the_answer_to_a_choice_is_shown() -> None:
    status, out = call(run, "--impl", "reference", *CHOICE)
    assert status == 0
    for words in (
        "CHOICE:REJECT",
        "choice    leading-whitespace: Whitespace before the opening brace",
        "answer    reject: reject the file",
        "or        accept: skip the whitespace and read on",
        "profiles  text, hardened: reject; official: accept",
    ):
        assert words in out
    for chosen in ((*CHOICE, "--quiet"), ("--case", f"{CHOICE[1]}*"), ("--case", TRIGGER)):
        assert "answer" not in call(run, "--impl", "reference", *chosen, "--no-smoke")[1]


def test_a_run_without_any_case_is_no_success(few_cases: Path, tmp_path: Path) -> None:
    raw = json.loads((few_cases / "corpus.json").read_text("utf-8"))
    (tmp_path / "corpus.json").write_text(json.dumps({**raw, "cases": []}), "utf-8")
    status, output = call(run, "--impl", QUICK, "--corpus", str(tmp_path))
    assert (status, "the corpus is empty" in output) == (2, True), output
    status, output = call(run, "--impl", QUICK, "--case", "resource/opened-only-2p4?")
    assert (status, "all matching cases are heavy; add --heavy" in output) == (2, True), output


def test_a_turn_is_given_up_for_a_while_and_taken_again_whatever_happens() -> None:
    """Never more runs are at work than allowed, and waiting for a hang blocks no other run."""
    turns, free = threading.BoundedSemaphore(1), []

    def waits() -> None:
        with given_up(turns):
            free.append(turns.acquire(blocking=False))
            turns.release()
            raise ValueError("while waiting")

    with turns:
        with pytest.raises(ValueError, match="while waiting"):
            waits()
        free.append(turns.acquire(blocking=False))
    assert free == [True, False]


# ``stc baseline`` (show, explain and update)


STALE = '[[expected]]\ncase = "framing/one-tensor"\nread = "wrong-reject"\nwhy = "old"\n'


def test_explaining_runs_the_cases_and_shows_reason_and_issue() -> None:
    pytest.importorskip("safetensors")
    status, out = call(baseline, "explain", "safetensors", "--case", "reserved-name-alone")
    assert status == 0
    for words in (
        "WRONG-ACCEPT",
        "WRT-06 (must)",
        "why       The library writes a tensor with the reserved name",
        "/issues/849",
    ):
        assert words in out
    assert out.endswith("1 entry; steps that no longer fail as listed: 0\n")


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        ("show reference --file {}/none.toml", 2, "none.toml: No such file"),
        ("explain reference --file {}/none.toml", 2, "stc baseline update SELECTOR --file"),
        ("show no-such-program --file {}/b.toml", 2, "unknown implementation 'no-such-program'"),
        ("explain reference --file {}/b.toml", 1, "listed as wrong-reject, but the verdict is now pass"),
        ("explain py:no_such_module:Reader", 2, "cannot start"),
    ],
)
def test_what_is_not_there_or_passes_now_is_told(words: str, status: int, says: str, tmp_path: Path) -> None:
    (tmp_path / "b.toml").write_text(STALE)
    done, out = call(baseline, *words.format(tmp_path).split())
    assert (done, says in out, "--no-baseline" in out) == (status, True, False)


def test_updating_writes_what_fails_now_and_no_nonsense(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_once(monkeypatch, corpus_of(tmp_path / "corpus", "framing/length-prefix", "layout/hole-between"))
    file = ("--file", str(tmp_path / "b.toml"))
    status, out = call(baseline, "update", f"py:{REPOSITORY}/docs/examples/mylib_adapter.py:Adapter", *file)
    assert (status, "added" in out) == (0, True)
    assert 'case = "layout/hole-between-two"' in (tmp_path / "b.toml").read_text()
    status, out = call(baseline, "update", fake("AlwaysRejects"), *file)
    assert (status, "probably wrong" in out) == (2, True)


@pytest.mark.parametrize(
    ("selector", "expected", "what", "says"),
    [
        (QUICK, 0, "passes", "2 entries of the baseline pass now"),
        (fake("AlwaysRejects"), 1, "passes", "1 entry of the baseline passes now"),
        (fake("AlwaysDies"), 0, "is unsafe", "2 entries of the baseline fail differently now"),
    ],
)
def test_a_run_is_held_to_its_baseline_and_says_why_it_fails_even_if_it_is_quiet(
    selector: str, expected: int, what: str, says: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.toml"
    cases = {"framing/no-bytes": "wrong-accept", "framing/one-tensor": "wrong-reject"}
    entries = [f"{{case = '{case}', open = '{word}', read = '{word}'}}" for case, word in cases.items()]
    defaults = "why = 'not analysed'\nissue = 'unreported'\nreview_by = 2099-01-01\n"
    path.write_text(f"{defaults}expected = [{', '.join(entries)}]\n", encoding="utf-8")
    chosen = [*(word for case in cases for word in ("--case", case)), "--no-smoke"]
    command = ("--impl", selector, "--baseline", str(path), *chosen)
    status, out = call(run, *command, "--quiet")
    assert (status, f"{says}; the first one is framing/no-bytes; {path}" in out) == (1, True), out
    status, out = call(run, *command, "--report", tmp_path / "out")
    assert f"framing/no-bytes · read: the baseline lists wrong-accept, but it {what} now\n" in out
    (record,) = (tmp_path / "out").glob("*.jsonl")
    assert (status, sum(row["expected_failure"] for row in read_record(record).results)) == (1, expected)


# Failures that repeat a cause take one line, alike under pytest, unless all are requested


FULL = re.compile(r"^\S.* · (\S+) · \S+  +WRONG-ACCEPT$", re.MULTILINE)
LINE = re.compile(r" · (\S+) · \S+: WRONG-ACCEPT, as (\S+) \(same cause: (.+)\)")
HOLES = "layout/hole-*"


def told(*arguments: str | Path) -> str:
    status, out = call(run, "--impl", fake("AlwaysAccepts"), "--no-smoke", *arguments)
    assert status == 1
    return out


def test_the_first_cases_of_each_cause_are_told_in_full_and_all_when_asked_for(tmp_path: Path) -> None:
    text = told("--case", HOLES)
    full, lines = FULL.findall(text), LINE.findall(text)
    shortened = {case for case, _, _ in lines}
    assert len(set(full)) == MAX_SHOWN < len(shortened)
    assert not shortened & set(full)
    assert {first for _, first, _ in lines} == {full[0]}
    why = "accepts although bytes before or between the tensors belong to none of them"
    assert {why for _, _, why in lines} == {why}
    both = told("--case", HOLES, "--case", "layout/trailing-*")
    assert len({why for _, _, why in LINE.findall(both)}) == 2
    assert len(set(FULL.findall(both))) == 2 * MAX_SHOWN
    whole = told("--case", HOLES, "--full-failures")
    assert "same cause" not in whole
    assert len(set(FULL.findall(whole))) > 2 * MAX_SHOWN
    # What disagrees with the baseline is told as it is.
    last, path = lines[-1][0], tmp_path / "b.toml"
    path.write_text(STALE.replace(TRIGGER, last), encoding="utf-8")
    words = f"{last} · read: the baseline lists wrong-reject, but it is wrong-accept now\n"
    assert words in told("--case", HOLES, "--baseline", path)


def test_a_run_ends_with_likely_causes(tmp_path: Path) -> None:
    text = told("--case", "layout/*", "-q", "--report", tmp_path)
    assert not FULL.findall(text)
    head = re.search(r"^LIKELY CAUSES of (\d+) failing cases: (\d+), worst first$", text, re.MULTILINE)
    some = r"unsafe 0   wrong-content (\d+)   wrong-accept (\d+)   wrong-reject 0   deviation (\d+)   "
    counts = re.search(some, text)
    assert head is not None
    assert counts is not None
    assert int(head[1]) == sum(map(int, counts.groups()))
    assert 5 < int(head[2]) < 20 < int(head[1])
    summary = (tmp_path / "summary.md").read_text("utf-8")
    assert "**Likely causes, worst first**" in summary
    assert len(summary.splitlines()) <= 60
    command = re.search(r"^ +stc run (--impl \S+ --case layout/\S+)$", text, re.MULTILINE)
    assert command is not None
    status, out = call(run, *command[1].split(), "--no-smoke")
    assert (status, "  WRONG-ACCEPT\n" in out or "  WRONG-CONTENT\n" in out) == (1, True)


def test_pytest_does_the_same(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, HOLES.rstrip("*"))
    options = (f"--corpus={corpus}", f"--impl={fake('AlwaysAccepts')}", "--no-smoke")
    done = suite_here(*options, "-k", "test_read and layout/hole")
    assert done.returncode == 1
    failures = done.stdout.partition("short test summary info")[0]
    assert len(set(FULL.findall(failures))) == MAX_SHOWN
    assert not LINE.search(failures)  # pytest only counts the others
    assert len(re.findall(r"^_+ test_read", failures, re.MULTILINE)) == MAX_SHOWN
    assert int(re.findall(r"(\d+) failed", done.stdout)[-1]) > MAX_SHOWN
    assert "LIKELY CAUSES of " in done.stdout
