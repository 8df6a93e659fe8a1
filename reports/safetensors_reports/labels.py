"""The words and letters of reports: verdicts, overall verdicts, roles of programs, kinds of input, causes."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Literal, NamedTuple

from msgspec import Struct

from safetensors_corpus import steps
from safetensors_corpus.judging.verdicts import VERDICTS
from safetensors_corpus.typed import typed


class Kind(NamedTuple):
    """A kind of verdict: its letter, column title (empty for none), text of a cell, and CSS class."""

    letter: str
    head: str
    cell: str
    style: str


KINDS = {
    "unsafe": Kind("C", "unsafe", "unsafe", "v-c"),
    "wrong-content": Kind("D", "wrong content", "wrong content", "v-d"),
    "wrong-accept": Kind("A", "wrong accept", "accepts wrongly", "v-a"),
    "late-reject": Kind("L", "late reject", "rejects late", "v-l"),
    "wrong-reject": Kind("R", "wrong reject", "rejects wrongly", "v-r"),
    "deviation": Kind("V", "beyond the text", "beyond the text", "v-x"),
    "choice-inconsistent": Kind("I", "inconsistent", "inconsistent", "v-i"),
    "harness-error": Kind("H", "adapter failed", "adapter failed", "v-h"),
    "not-strict": Kind("N", "not strict", "not strict", "v-n"),
    "unsupported": Kind("U", "unsupported", "unsupported", "v-u"),
    "choice": Kind("O", "choice", "one of several answers", "v-o"),
    "pass": Kind("P", "pass", "pass", "v-p"),
    "not run": Kind("-", "", "not run", "v-0"),
    "not asked": Kind(".", "", "skipped", "v-0"),
    "no case": Kind("·", "", "no case", "v-0"),
}
"""Kinds of verdict in the order of columns."""
LETTERS = {kind: KINDS[kind].letter for kind in (*VERDICTS, "not run", "not asked")}
"""Letters in the order of verdicts, worst first."""
SHORT = {kind: about.cell for kind, about in KINDS.items()}

WORDS = {
    "unsafe": "unsafe",
    "wrong-content": "wrong content",
    "wrong-accept": "lenient",
    "wrong-write": "wrong files",
    "wrong-race": "unguarded",
    "wrong-reject": "strict",
    "deviation": "deviating",
    "choice-inconsistent": "inconsistent",
    "late-reject": "late",
}
"""Overall verdict by the worst kind of verdict."""
MISSES = "misses"
"""The overall verdict for a scanner or validator that accepts forbidden files."""
CLEAN, NOT_TOLD, UNKNOWN = "conformant", "no fault shown", "not fully known"
"""Overall verdicts for a run without a bad result; published pages do not call others' software *conformant*.
"""
ORDER = (*WORDS.values(), MISSES, UNKNOWN, NOT_TOLD, CLEAN)


class Word(NamedTuple):
    """An overall verdict: its CSS class, the colour of its badge, and its meaning."""

    style: str
    badge: str
    meaning: str


OVERALL = {
    CLEAN: Word("v-p", "brightgreen", "All cases were run, and none failed."),
    "lenient": Word("v-a", "orange", "It accepts files that the format forbids."),
    MISSES: Word("v-a", "orange", "It does not report files that the format forbids."),
    "wrong files": Word("v-i", "orange", "It writes files that differ from the given data or break rules."),
    "unguarded": Word(
        "v-i", "orange", "It crashes or reports wrong content if a file changes while it is open."
    ),
    "strict": Word("v-r", "yellow", "It rejects files that the format allows."),
    "deviating": Word("v-x", "yellow", "It breaks rules about points on which the written format is silent."),
    "late": Word("v-l", "yellow", "It opened a file that it must reject, but reading returned no tensor."),
    "inconsistent": Word("v-i", "orange", "Its answers to the cases of one choice contradict each other."),
    "wrong content": Word("v-d", "red", "It reports wrong content."),
    "unsafe": Word(
        "v-c", "red", "It crashes, hangs, uses unbounded memory or time, or writes outside its folder."
    ),
    UNKNOWN: Word("v-h", "lightgrey", "No failure was seen, but some cases have no result."),
    NOT_TOLD: Word("v-0", "lightgrey", "No fault is shown, but unpublished results are withheld."),
}

STEPS = {name: step.looks_at for name, step in steps.STEPS.items()}

NOT_ASKED = {
    "heavy": "heavy: these cases need much memory or disk space (--heavy)",
    "data": "about data and values, but the program returns no data",
    **{kind: steps.STEPS[kind].not_asked for kind in steps.ONE_STEP_KINDS},
    "resource": "time and memory budgets of a step that the program does not support",
}

DIFFICULTY = {"low": "needs only a file", "medium": "needs a certain call", "high": "needs a changing file"}

ENDED = {
    "complete": "complete",
    "partial": "partial: filtered or interrupted",
    "truncated": "truncated: the record has no footer",
}


class Role(Struct, frozen=True):
    """A role of programs.

    ``words`` maps worst verdicts under the written format to the terms that this role uses for them.
    """

    head: str
    about: str
    asks: str
    one_of: str
    words: dict[str, str] = {}


OPENING = frozenset({"reader", "lister", "checker", "device"})
"""Roles that open files; a program in such a role may claim to support only some areas."""
UNUSUAL = frozenset({"lifecycle", "concurrent", "remote"})
"""Steps whose files change, are shared or arrive in pieces."""


class Question(Struct, frozen=True):
    """A kind of input or of mistake that a card lists.

    An empty ``effects`` or ``rules`` matches everything.
    """

    name: str
    title: str
    answer: Literal["accept", "see", "fail"] = "accept"
    roles: frozenset[str] = OPENING
    effects: frozenset[str] = frozenset({"accept"})
    rules: frozenset[str] = frozenset()
    steps: frozenset[str] = frozenset()

    def covers(self, role: str, step: str, effect: str, rule: str) -> bool:
        return (
            role in self.roles
            and (step in self.steps if self.steps else step not in UNUSUAL)
            and (not self.effects or effect in self.effects)
            and (not self.rules or rule in self.rules)
        )


class _Labels(Struct):
    roles: dict[str, Role]
    questions: tuple[Question, ...]
    causes: dict[str, dict[str, str]]


_LABELS = typed(tomllib.loads((files(__package__) / "labels.toml").read_text("utf-8")), _Labels)
ROLES, CAUSE_WORDS = _LABELS.roles, _LABELS.causes
QUESTIONS = _LABELS.questions
"""Questions on cards, in order.

A failure counts for the first question that covers it. Exceeded budgets, undocumented exceptions and ignored
recommendations count for none.
"""
TITLES = {question.name: question.title for question in QUESTIONS}
LAYOUT = frozenset({"overlaps", "holes", "trailing", "outside", "backwards", "inside", "sizes"})
"""Questions about layouts from which two readers may read different content."""
REPEATED = frozenset({"names", "reserved", "fields", "keys"})

FAILURE_WORDS = {
    "unsafe": "crashes or hangs",
    "wrong-content": "wrong values",
    "wrong-accept": "accepts broken files",
    "wrong-reject": "rejects valid files",
}
"""Worst verdict under the written format -> word for it; the words of a role take precedence."""
REPEATED_KEYS, FORBIDDEN = "accepts duplicate keys", "accepts forbidden files"
KEEPS_TO_TEXT, NOTHING_SHOWN = "keeps to the text", "no fault shown"
"""The words for a row without failures under the written format, and for a row without any failures."""
BASES = {
    "text": ("the written format", "against the text", NOTHING_SHOWN),
    "official": ("the official library", "differs", "agrees"),
    "ours": ("our hardening", "falls short", "complies"),
}
"""Basis of rules -> name, word for failing rows (``FAILURE_WORDS`` for the text), and for other rows."""
BASIS_TEXTS = {
    "text": "Requirements stated in the documentation of the format. Only violations of these are "
    "shown in red.",
    "official": "Behaviour of the official library where the documentation is silent. Other behaviour does "
    "not violate the written format.",
    "ours": "Our additional requirements: limits, conventions of loaders, and proper error reporting.",
}

ANSWER_WORDS = {
    "accept": ("accepted", "none accepted"),
    "see": ("", "none seen"),
    "fail": ("fail", "none seen"),
    "miss": ("missed", "none missed"),
}
"""Answer of a question -> its words on a card if cases fail, and if none do; checkers *miss* files."""
