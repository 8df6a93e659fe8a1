"""The words of pages for what reports call by short names, and the order in which verdicts are shown."""

from __future__ import annotations

from safetensors_corpus import steps
from safetensors_corpus.judging.verdicts import STRICT_FAILING

from ..audit.report import LETTERS, Implementation

_KINDS = {
    "unsafe": ("unsafe", "unsafe", "v-c"),
    "wrong-content": ("wrong content", "wrong content", "v-d"),
    "wrong-accept": ("wrong accept", "accepts wrongly", "v-a"),
    "late-reject": ("late reject", "refuses late", "v-l"),
    "wrong-reject": ("wrong reject", "refuses wrongly", "v-r"),
    "deviation": ("beyond the text", "beyond the text", "v-x"),
    "choice-inconsistent": ("inconsistent", "inconsistent", "v-i"),
    "harness-error": ("adapter failed", "adapter failed", "v-h"),
    "not-strict": ("not strict", "not strict", "v-n"),
    "unsupported": ("unsupported", "unsupported", "v-u"),
    "choice": ("choice", "took an option", "v-o"),
    "pass": ("pass", "pass", "v-p"),
    "not run": ("", "not run", "v-0"),
    "not asked": ("", "not asked", "v-0"),
    "no case": ("", "no case", "v-0"),
}
"""Kind of verdict -> head of its column (empty for none), two words for a cell, and class of its cells.

In the order of the verdict band.
"""
COLUMNS = tuple((kind, head) for kind, (head, _, _) in _KINDS.items() if head)
SHORT = {kind: words for kind, (_, words, _) in _KINDS.items()}
STYLE = {kind: style for kind, (_, _, style) in _KINDS.items()}

STEPS = {name: step.looks_at for name, step in steps.STEPS.items()}
"""Step -> what it looks at."""

NOT_ASKED = {
    "heavy": "heavy: they need much memory or disk (--heavy)",
    "data": "about data and values: it hands out no data",
    **{kind: steps.STEPS[kind].not_asked for kind in steps.ONE_STEP_KINDS},
    "resource": "budgets of time and memory for a step it lacks",
}
"""Reason for cases that were not asked -> words."""

ENDED = {
    "complete": "complete",
    "partial": "partial: filtered or interrupted",
    "truncated": "truncated: the record has no end",
}

_WORDS = {
    "conformant": ("v-p", "Everything due was run, and nothing is wrong."),
    "lenient": ("v-a", "It accepts files that the format forbids."),
    "wrong files": ("v-i", "It writes files that do not hold what was given, or that break rules."),
    "unguarded": ("v-i", "It crashes, or reports other content, when a file changes while it is open."),
    "strict": ("v-r", "It refuses files that the format allows."),
    "deviating": ("v-x", "It breaks rules on which the written format is silent."),
    "late": ("v-l", "It finds faults only when the data is read, after the file was opened."),
    "inconsistent": ("v-i", "Its answers to the cases of one choice contradict each other."),
    "wrong content": ("v-d", "It reports content that is not the file's."),
    "unsafe": ("v-c", "It crashes, hangs, or spends memory or time without bound."),
    "not fully known": ("v-h", "No failure was seen, but not everything due has a result."),
    "no fault shown": ("v-0", "Nothing told here is wrong; crashes that nobody has reported are not told."),
}
"""Word for an implementation -> class of its cells, and what it means."""
WORD_STYLE = {word: style for word, (style, _) in _WORDS.items()}
SENTENCES = {word: sentence for word, (_, sentence) in _WORDS.items()}

KIND_OF = {letter: kind for kind, letter in LETTERS.items()}
"""Letter of a row of cases -> kind of verdict."""
FAILING_LETTERS = frozenset(LETTERS[kind] for kind in STRICT_FAILING)
COLOURS = {
    "v-c": ("#4b1d6b", "#ffffff", "#a371f7", "#0d0518"),
    "v-d": ("#a40e26", "#ffffff", "#f47067", "#2a0508"),
    "v-a": ("#ffd8d3", "#6e0b14", "#5c1a1d", "#ffd8d3"),
    "v-r": ("#ffe8b3", "#5a3a00", "#4d3800", "#ffe8b3"),
    "v-x": ("#f6e9d8", "#5b3a1e", "#40301d", "#f2dcc0"),
    "v-i": ("#ffe0c2", "#6a2c00", "#552d0f", "#ffe0c2"),
    "v-h": ("#e2e4e8", "#33383e", "#3a414a", "#e6edf3"),
    "v-l": ("#fff5c2", "#4f4200", "#443c08", "#fff0a8"),
    "v-n": ("#eef1f5", "#424a53", "#262c34", "#c3ccd6"),
    "v-u": ("#ece6fb", "#3d2b73", "#332a55", "#ddd3ff"),
    "v-o": ("#dcecff", "#0a3069", "#143056", "#cfe4ff"),
    "v-p": ("#d9f5df", "#0b4a20", "#12381f", "#b9f0c6"),
    "v-0": ("#ffffff", "#57606a", "#0d1117", "#9aa4af"),
}
"""Class of a cell -> ground and text on a light page, then on a dark one."""


def blank(cases: int, who: Implementation) -> str:
    """Return what a cell says without any result: in doubt *not run*, which claims less."""
    if not cases:
        return "no case"
    return "not run" if who.not_run else "not asked"


def reason(name: str) -> str:
    """Return the words for a reason of cases not asked."""
    return NOT_ASKED.get(name, name)
