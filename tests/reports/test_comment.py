"""The pull-request comment: order, bounds, and texts that must not get out of their cell."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from safetensors_corpus.judging.verdicts import VERDICTS
from safetensors_reports.comment import MAX_LINES, markdown
from safetensors_reports.text import code, visible

from .samples import Make

CELL = re.compile(r"(?<!\\)\|")


def failing_rows(text: str) -> list[list[str]]:
    """Return the cells of the table of failing cases."""
    table = text.split("|---|---|---|---|---|\n", 1)[1].split("\n\n", 1)[0]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in table.splitlines()]


def test_counts_and_failing_cases() -> None:
    record = Make.run(
        Make.result("a/fine"),
        Make.result("a/refused", "wrong-reject", detail="refused"),
        Make.result("a/known", "unsafe", detail="crashed", expected_failure=True),
        Make.result("a/taken", "wrong-accept", detail="accepted 2 tensors"),
    )
    text = markdown([record])
    assert text.startswith(
        "### safetensors conformance · corpus `2026.11` · profile `none`\n\n| implementation |"
    )
    assert "| `safetensors 0.8.0` | 1 | 0 | 1 | 1 | 0 | 0 | 1 | 0 | 0 | 0 | 0 | 1 |" in text
    assert "**Failing: 2 unexpected, 1 expected**" in text
    assert failing_rows(text) == [
        ["**wrong-accept**", "`a/taken`", "`safetensors 0.8.0`", "`OFF-07`", "`accepted 2 tensors`"],
        ["**wrong-reject**", "`a/refused`", "`safetensors 0.8.0`", "`OFF-07`", "`refused`"],
        ["unsafe (expected)", "`a/known`", "`safetensors 0.8.0`", "`OFF-07`", "`crashed`"],
    ]


def test_what_does_not_fit_is_counted() -> None:
    rows = [Make.result(f"a/{i:03}", "wrong-accept", expected_failure=i >= 60) for i in range(100)]
    text = markdown([Make.run(*rows)])
    shown = len(failing_rows(text))
    assert 30 < shown < 60
    assert f"… and {100 - shown} more: wrong-accept {60 - shown}, wrong-accept (expected) 40\n" in text


def test_an_inconsistent_choice_is_a_failure_and_those_of_several_runs_are_gathered() -> None:
    row = {"choice": "blank", "verdict": "choice-inconsistent", "detail": "accepts one, refuses one"}
    text = markdown([Make.run(Make.result("a/b", "choice:accept"), choices=[row])])
    assert failing_rows(text)[0][:2] == ["**choice-inconsistent**", "`blank`"]
    assert "- `blank`: **inconsistent**" in text
    assert "choice-inconsistent |" in text
    verdicts = {"x": "choice:accept", "y": "choice:reject|ignore", "z": "pass"}
    runs = [
        Make.run(name=name, version="1", choices=[{"choice": "blank", "verdict": verdict}])
        for name, verdict in verdicts.items()
    ]
    line = "- `blank`: `accept` (`x 1`); `reject` or `ignore` (`y 1`); as the profile requires (`z 1`)"
    assert line in markdown(runs).splitlines()
    assert "- `blank`: `accept`" in markdown(runs[:1]).splitlines()


def test_disagreements_of_several_runs() -> None:
    one, two = Make.content("w"), Make.content("w", dtype="F16")
    text = markdown(
        [
            Make.answers("x", c=one, d=one),
            Make.answers("y", c=two, d="reject"),
            Make.answers("z", c=one, d="reject", e=one),
        ]
    )
    assert "**Cases compared: 2 · content splits 1 · verdict splits 1**" in text
    assert (
        "- content ×1: accept:A `x 1`, `z 1` · accept:B `y 1`; e.g. `c` "
        '(`y 1: tensor "w": dtype F16 instead of F32 (as x 1 reads it)`)'
    ) in text
    assert "- verdict ×1: accept:A `x 1` · reject `y 1`, `z 1`; e.g. `d`" in text
    assert "Alone against all others: " in text
    assert "`y 1` (content 1, verdict 0)" in text
    assert "Note: cases left out because not all runs contain them: 1." in text
    assert "Compared" not in markdown([Make.answers("x", c=one)])
    assert "nothing to report" in markdown([])


def test_an_incomplete_run_says_so_and_is_not_called_clean() -> None:
    text = markdown([Make.run(Make.result("a/b"), cases=9, footer=None, problems=["no | start"])])
    assert "| `safetensors 0.8.0` **truncated run** |" in text
    assert "- `safetensors 0.8.0`: truncated run: the record has no footer; 1 of 9 cases" in text
    assert "- `safetensors 0.8.0`: problem: `no \\u007c start`" in text
    assert "No case failed; 1 of 9 cases were run." in text
    assert "No case failed; 1 of 1 cases were run." in markdown([Make.run(Make.result("a/b"))])


def test_many_runs_with_everything_wrong_fit() -> None:
    def run(k: int) -> Any:
        rows = [
            Make.result(f"a/{i}", "wrong-content", content=Make.content(str(k if i % 30 == k else i)))
            for i in range(300)
        ]
        choices = [{"choice": f"c{i}", "verdict": f"choice:{k}"} for i in range(20)]
        return Make.run(*rows, name=f"r{k}", choices=choices, problems=["bad"] * 9, footer=None, cases=400)

    text = markdown([run(k) for k in range(30)])
    assert 50 < text.count("\n") <= MAX_LINES
    assert len(failing_rows(text)) >= 8
    assert "… and 22 more runs" in text
    assert "- … and 14 more choices" in text
    assert "- … and 25 more kinds of disagreement" in text
    assert "- … and 206 more remarks about the runs" in text
    assert re.search(r"… and 8,99\d more: wrong-content 8,99\d\n", text)


texts = st.text(st.characters(exclude_categories=()), max_size=300) | st.text("`|\\<>@#*_[]\n&-", max_size=12)


@given(text=texts)
@example(text="x" * 300)
def test_a_text_stays_in_its_cell_and_is_shown_as_it_is(text: str) -> None:
    """Rendered by a Markdown implementation of someone else's, the text is one code span in one cell."""
    page = f"| a | b |\n|---|---|\n| {code('x' + text)} | end |\n"
    inline = [t for t in MarkdownIt("gfm-like", {"linkify": False}).parse(page) if t.type == "inline"]
    assert len(inline) == 4
    children = inline[2].children
    assert children is not None
    assert [child.type for child in children] == ["code_inline"]
    expected = visible("x" + text).replace("`", "\\u0060").replace("|", "\\u007c")
    assert children[0].content.strip(" ") == expected.strip(" ")
    assert inline[3].content == "end"
    assert code("") == ""


kinds = st.sampled_from([v if v != "choice" else "choice:a|b`" for v in VERDICTS])
outcomes = st.sampled_from(["accept", "reject", "crash", "unsupported", "harness-error"])
rows = st.lists(st.tuples(kinds, outcomes, st.booleans()), max_size=90)
choices = st.lists(st.tuples(texts, kinds), max_size=9)
problems, footers = st.lists(texts, max_size=9), st.sampled_from([None, ...])
runs_of_all_sorts = st.lists(st.tuples(texts, rows, texts, texts, choices, problems, footers), max_size=4)


@settings(max_examples=60, suppress_health_check=list(HealthCheck), deadline=None)
@given(few=runs_of_all_sorts, times=st.sampled_from([1, 1, 5]))
def test_the_comment_is_bounded_and_printable_whatever_the_records_hold(few: list[Any], times: int) -> None:
    records = []
    for k, (name, rows, detail, case, choices, problems, footer) in enumerate(few * times):
        results = [
            Make.result(f"{case}{i}", verdict, outcome=outcome, expected_failure=known, detail=detail,
                content=Make.content(f"{k}"))
            for i, (verdict, outcome, known) in enumerate(rows)
        ]  # fmt: skip
        said = [{"choice": choice, "verdict": verdict} for choice, verdict in choices]
        records.append(
            Make.run(*results, name=name, choices=said, problems=problems, cases=100, footer=footer)
        )
    text = markdown(records)
    lines = text.splitlines()
    assert len(lines) <= MAX_LINES == 60
    assert lines == text.split("\n")[:-1]
    assert all(line.isprintable() and len(line) < 1500 for line in lines)
    assert len(text.encode()) < 65_536  # the most that GitHub takes as a comment
    for header in (i for i, line in enumerate(lines) if line.startswith("|---")):
        columns = len(CELL.findall(lines[header]))
        for line in lines[header - 1 :]:
            if not line.startswith("| "):
                break
            assert len(CELL.findall(line)) == columns or lines.index(line) == header
