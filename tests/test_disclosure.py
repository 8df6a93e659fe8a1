"""Pages of the project tell no number of crashes, hangs and memory failures of other people's software.

Published reports are compared byte by byte (``tests/reports/audit/test_inference.py``), and so is what
generators of ``docs/`` make of runs. Prose cannot be: so no sentence of it names such an end beside a number,
save with a public report or for a reason that stands here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from safetensors_reference import rule_book

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
END = re.compile(
    r"\b(crash\w*|hangs?|hung|hanging|dies|died|dead|deaths?|panic\w*|abort\w*|segfaults?|time-?outs?|"
    r"timed out|killed|kills|unsafe|exhaust\w*|"
    r"(fills?|filled|eats?|ate)( \w+)? memory|(endless|out of|all) memory)\b",
    re.IGNORECASE,
)
NUMBER = re.compile(
    r"(?<![\w.#/-])(\d[\d,]*(\.\d+)?|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozens?|hundreds?|"
    r"half|thirds?|quarters?|fifths?|tenths?|most|many|several|few|percent|"
    r"one( of the)? (answer|reader|program|librar|implementation|entry)\w*)(?![\w/])|%",
    re.IGNORECASE,
)
REPORT = re.compile(r"https://\S+/(issues|pull|advisories)/|[\w.-]+/[\w.-]+#\d+|#\d{2,}")
ALLOWED = {
    ("docs/corpus.md", "| CODE | CODE: open the file CODE, or once"): "what a step requests",
    ("docs/decisions/0003-worker-protocol.md", "**Question.** How can"): "the time that a case may take",
    ("docs/device.md", "| a rank ends or hangs |"): "what our own loader does, and its time limit",
    ("docs/disclosure.md", "| *unsafe* (crash, hang, endless memory use, writing outside"): "90 days",
    ("docs/field-bugs.md", "| Crashes and panics |"): "counts entries, each of which has its report below",
    ("docs/rules.md", "- *official*: same; 0.3.0 panicked"): "its source is a public review",
    ("docs/rules.md", "- *official*: release builds cleanly reject"): "its source is a public issue",
    ("docs/run-it.md", "Reading too many bytes is never unsafe"): "what a verdict means",
    ("docs/run-it.md", "If a request hangs, the harness repeats it alone"): "limits of the harness",
    ("docs/run-it.md", "| CODE | stop an implementation after N hangs"): "an option",
}
"""Page and beginning of a sentence -> why its number is none of other people's software."""


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences and the table rows of a page, without code and the targets of links."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for block in re.split(r"\n\s*\n|\n(?=\s*[-*|#])", re.sub(r"`[^`\n]*`", "CODE", text)):
        joined = " ".join(block.split())
        yield from [joined] if joined.startswith("|") else re.split(r"(?<=[.:;?!])\s+(?=[A-Z*])", joined)


def telling(text: str) -> list[str]:
    """Return the sentences that tell a number of bad ends and cite no public report."""
    plain = [(found, re.sub(r"\]\([^)]*\)", "]", found)) for found in sentences(text)]
    return [
        found
        for found, words in plain
        if END.search(words) and NUMBER.search(words) and not REPORT.search(found)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_sentence_tells_how_often_other_software_ends_badly(page: Path) -> None:
    name = page.relative_to(ROOT).as_posix()
    starts = [start for where, start in ALLOWED if where == name]
    found = telling(page.read_text("utf-8"))
    assert [text for text in found if not text.startswith(tuple(starts))] == []
    assert [start for start in starts if not any(text.startswith(start) for text in found)] == [], "remove it"


@pytest.mark.parametrize(
    "told",
    [
        "Of two jobs of 10.5 minutes, 309 s went to 139 answers that fill all memory that they may.",
        "Eight answers that hang, 243 s, are waited for beside that.",
        "Runs over readers that fill memory or hang take up to two fifths less time.",
        "One reader crashes over it.",
        "| `a-reader` | 4,014 | 12 crashes |",
        "A third of all readers dies of it, see [how](https://example.org/1).",
    ],
)
def test_a_sentence_that_tells_of_it_is_found(told: str) -> None:
    """The first two stood on the page of performance, the third in the changelog."""
    assert telling(f"# Page\n\n- first\n- some work: {told} More.\n\nAn end.") != []
    assert telling(f"{told.rstrip('.')} (https://github.com/o/reader/issues/7).") == []


def test_what_rules_tell_of_a_bad_end_has_a_public_source() -> None:
    rules = [rule for rule in rule_book().rules.values() if END.search(rule.official)]
    assert {rule.id for rule in rules} >= {"OFF-04", "OFF-13", "API-11"}
    public = re.compile(r"#\d+|Trail of Bits review")
    assert [rule.id for rule in rules if not public.search(rule.source)] == []
