"""The words of pages for what reports call by short names, and the order in which verdicts are shown."""

from __future__ import annotations

from safetensors_corpus import steps
from safetensors_corpus.judging.verdicts import STRICT_FAILING

from ..audit.report import LETTERS, UNKNOWN, Implementation

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
    "choice": ("choice", "one of several answers", "v-o"),
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

DIFFICULTY = {
    "low": "a file alone does it",
    "medium": "takes a certain call",
    "high": "takes a file that changes",
}
"""Difficulty of a finding -> what it takes to bring it about."""

ENDED = {
    "complete": "complete",
    "partial": "partial: filtered or interrupted",
    "truncated": "truncated: the record has no end",
}

_WORDS = {
    "conformant": ("v-p", "Everything due was run, and nothing is wrong."),
    "lenient": ("v-a", "It accepts files that the format forbids."),
    "misses": ("v-a", "It lets files pass that the format forbids."),
    "wrong files": ("v-i", "It writes files that do not hold what was given, or that break rules."),
    "unguarded": ("v-i", "It crashes, or reports other content, when a file changes while it is open."),
    "strict": ("v-r", "It refuses files that the format allows."),
    "deviating": ("v-x", "It breaks rules on which the written format is silent."),
    "late": ("v-l", "It finds faults only when the data is read, after the file was opened."),
    "inconsistent": ("v-i", "Its answers to the cases of one choice contradict each other."),
    "wrong content": ("v-d", "It reports content that is not the file's."),
    "unsafe": ("v-c", "It crashes, hangs, or spends memory or time without bound."),
    UNKNOWN: ("v-h", "No failure was seen, but not everything due has a result."),
    "no fault shown": ("v-0", "No fault is told here; what is held back until it is public would not be."),
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


ROLES = {
    "reader": (
        "Readers",
        "They hand out tensors.",
        "Open untrusted files with it?",
    ),
    "lister": (
        "Header listers",
        (
            "They list names, shapes and dtypes and hand out no data. What they do not claim to look at, "
            "such as whether ranges overlap, is blank and not held against them."
        ),
        "Trust what it lists of untrusted files?",
    ),
    "checker": (
        "Scanners and validators",
        "They say whether a file is sound. They load nothing: what they let through, they miss.",
        "Rely on it alone to check untrusted files?",
    ),
    "writer": (
        "Writers",
        "They make files. A wrong file harms whoever reads it next.",
        "Pass on the files that it writes?",
    ),
    "index": (
        "Index loaders",
        (
            "They load models that are divided into shards. No written format describes the index, so that "
            "nearly all that is judged here is our hardening."
        ),
        "Load untrusted sharded models with it?",
    ),
    "device": (
        "Device loaders",
        "They load tensors onto a GPU and were run on one.",
        "Load untrusted files onto a device with it?",
    ),
}
"""Role -> head of its table, what such programs do, and what a card asks."""

ONE_OF = {
    "reader": "a reader",
    "lister": "a header lister",
    "checker": "a scanner or validator",
    "writer": "a writer",
    "index": "an index loader",
    "device": "a device loader",
}
"""Role -> one such program."""
_READING = {
    "unsafe": "crashes or hangs",
    "wrong-content": "wrong values",
    "wrong-accept": "accepts broken files",
    "wrong-reject": "refuses valid files",
}
ROLE_WORDS = {
    "reader": _READING,
    "lister": _READING | {"wrong-content": "lists wrong values", "wrong-accept": "lists broken files"},
    "checker": _READING | {"wrong-accept": "misses faults", "wrong-reject": "faults valid files"},
    "writer": _READING
    | {
        "wrong-content": "writes wrong files",
        "wrong-accept": "takes bad calls",
        "wrong-reject": "refuses valid calls",
    },
    "index": _READING | {"wrong-accept": "loads broken indexes", "wrong-reject": "refuses valid indexes"},
    "device": _READING,
}
"""Role -> worst verdict by the written text -> the word of a row."""
REPEATED_KEYS = "accepts repeated keys"
"""Word of a row that accepts, against the text, files that give a key twice and nothing else."""
KEEPS_TO_TEXT, NOTHING_SHOWN = "keeps to the text", "no fault shown"
"""Words of a row that fails nothing by the written text, and of one that fails nothing."""
BASES = {
    "text": ("the written format", "against the text", NOTHING_SHOWN),
    "official": ("the official library", "differs", "agrees"),
    "ours": ("our hardening", "falls short", "as we ask"),
}
"""Basis -> what it is, the word of a row that fails by it (of the text, a word of ``ROLE_WORDS``) and of one
that does not."""
BASIS_TEXTS = {
    "text": "What the format's documentation requires. Red is used here and nowhere else.",
    "official": "Where the documentation is silent and the official library decides. To differ is no "
    "mistake by the text.",
    "ours": "Where neither says anything and we ask for more: limits, conventions of loaders, clean errors.",
}

_ASKS = {
    "names": ("Two tensors of one name", "accept"),
    "overlaps": ("Tensors that overlap", "accept"),
    "holes": ("Holes between tensors", "accept"),
    "trailing": ("Bytes behind the last tensor", "accept"),
    "outside": ("Ranges outside of the file", "accept"),
    "backwards": ("Ranges that run backwards", "accept"),
    "inside": ("Empty tensors inside of another", "accept"),
    "sizes": ("Sizes that fit no shape and dtype", "accept"),
    "dtypes": ("Unknown dtypes", "accept"),
    "utf8": ("Headers that are not UTF-8", "accept"),
    "around": ("Headers with other bytes around the object", "accept"),
    "json": ("Headers that are not strict JSON", "accept"),
    "shapes": ("Shapes that are no list of plain integers", "accept"),
    "metadata": ("Metadata that is no map of texts", "accept"),
    "reserved": ("Metadata given twice", "accept"),
    "fields": ("Fields of an entry given twice", "accept"),
    "keys": ("Metadata keys given twice", "accept"),
    "other": ("Other broken files", "accept"),
    "values": ("Wrong values on valid files", "see"),
    "refused": ("Valid files refused", "see"),
    "late": ("Faults told only when data is read", "see"),
    "changing": ("Files that change or are shared while open", "fail"),
    "written": ("Wrong files written", "see"),
    "calls": ("Calls that must be refused", "accept"),
    "declined": ("Valid calls refused", "see"),
    "paths": ("Shard names that leave the folder", "accept"),
    "indexes": ("Other broken indexes", "accept"),
}
QUESTIONS = {name: words for name, (words, _) in _ASKS.items()}
"""Question of a card -> its words."""
ANSWERS = {
    "accept": ("accepted", "none accepted"),
    "see": ("", "none seen"),
    "fail": ("fail", "none seen"),
    "miss": ("missed", "none missed"),
}


def answer_words(question: str, role: str) -> tuple[str, str]:
    """Return what is said of inputs that go wrong, and of none; a checker accepts nothing, it misses."""
    sort = _ASKS.get(question, ("", "see"))[1]
    return ANSWERS["miss" if role == "checker" and sort == "accept" else sort]


def blank(cases: int, who: Implementation) -> str:
    """Return what a cell says without any result: in doubt *not run*, which claims less."""
    if not cases:
        return "no case"
    return "not run" if who.not_run else "not asked"


def reason(name: str) -> str:
    return NOT_ASKED.get(name, name)
