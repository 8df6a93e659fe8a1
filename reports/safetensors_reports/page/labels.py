"""Display names for the short names in reports, and the order of verdicts."""

from __future__ import annotations

from safetensors_corpus import steps

from ..audit.report import UNKNOWN, Implementation

_KINDS = {
    "unsafe": ("unsafe", "unsafe", "v-c"),
    "wrong-content": ("wrong content", "wrong content", "v-d"),
    "wrong-accept": ("wrong accept", "accepts wrongly", "v-a"),
    "late-reject": ("late reject", "rejects late", "v-l"),
    "wrong-reject": ("wrong reject", "rejects wrongly", "v-r"),
    "deviation": ("beyond the text", "beyond the text", "v-x"),
    "choice-inconsistent": ("inconsistent", "inconsistent", "v-i"),
    "harness-error": ("adapter failed", "adapter failed", "v-h"),
    "not-strict": ("not strict", "not strict", "v-n"),
    "unsupported": ("unsupported", "unsupported", "v-u"),
    "choice": ("choice", "one of several answers", "v-o"),
    "pass": ("pass", "pass", "v-p"),
    "not run": ("", "not run", "v-0"),
    "not asked": ("", "skipped", "v-0"),
    "no case": ("", "no case", "v-0"),
}
"""Kind of verdict, in display order -> column title (empty for none), text of a cell, and CSS class."""
COLUMNS = tuple((kind, head) for kind, (head, _, _) in _KINDS.items() if head)
SHORT = {kind: words for kind, (_, words, _) in _KINDS.items()}
STYLE = {kind: style for kind, (_, _, style) in _KINDS.items()}

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

_WORDS = {
    "conformant": ("v-p", "All cases were run, and none failed."),
    "lenient": ("v-a", "It accepts files that the format forbids."),
    "misses": ("v-a", "It does not report files that the format forbids."),
    "wrong files": ("v-i", "It writes files that differ from the given data or break rules."),
    "unguarded": ("v-i", "It crashes or reports wrong content if a file changes while it is open."),
    "strict": ("v-r", "It rejects files that the format allows."),
    "deviating": ("v-x", "It breaks rules about points on which the written format is silent."),
    "late": ("v-l", "It opened a file that it must reject, but reading returned no tensor."),
    "inconsistent": ("v-i", "Its answers to the cases of one choice contradict each other."),
    "wrong content": ("v-d", "It reports wrong content."),
    "unsafe": ("v-c", "It crashes, hangs, or uses unbounded memory or time."),
    UNKNOWN: ("v-h", "No failure was seen, but some cases have no result."),
    "no fault shown": ("v-0", "No fault is shown, but unpublished results are withheld."),
}
WORD_STYLE = {word: style for word, (style, _) in _WORDS.items()}
SENTENCES = {word: sentence for word, (_, sentence) in _WORDS.items()}

ROLES = {
    "reader": ("Readers", "These programs return tensors.", "Open untrusted files with it?"),
    "lister": (
        "Header listers",
        (
            "These programs list names, shapes and dtypes but return no data. Areas that they do not "
            "claim to check, such as overlapping ranges, are blank and do not count."
        ),
        "Trust what it lists for untrusted files?",
    ),
    "checker": (
        "Scanners and validators",
        (
            "These programs report whether a file is sound. They load nothing. Accepting a broken file "
            "counts as a miss."
        ),
        "Rely on it to check untrusted files?",
    ),
    "writer": (
        "Writers",
        "These programs write files. A wrong file harms whoever reads it next.",
        "Safe to distribute its output?",
    ),
    "index": (
        "Index loaders",
        (
            "These programs load sharded models. No written format describes the index, so nearly all "
            "rules here come from our hardening."
        ),
        "Load untrusted sharded models with it?",
    ),
    "device": (
        "Device loaders",
        "These programs load tensors onto a GPU. They were tested on a GPU.",
        "Load untrusted files onto a device with it?",
    ),
}

ONE_OF = {
    "reader": "a reader",
    "lister": "a header lister",
    "checker": "a scanner or validator",
    "writer": "a writer",
    "index": "an index loader",
    "device": "a device loader",
}
_READING = {
    "unsafe": "crashes or hangs",
    "wrong-content": "wrong values",
    "wrong-accept": "accepts broken files",
    "wrong-reject": "rejects valid files",
}
ROLE_WORDS = {
    "reader": _READING,
    "lister": _READING | {"wrong-content": "lists wrong values", "wrong-accept": "lists broken files"},
    "checker": _READING | {"wrong-accept": "misses faults", "wrong-reject": "rejects valid files"},
    "writer": _READING
    | {
        "wrong-content": "writes wrong files",
        "wrong-accept": "accepts invalid calls",
        "wrong-reject": "rejects valid calls",
    },
    "index": _READING | {"wrong-accept": "loads broken indexes", "wrong-reject": "rejects valid indexes"},
    "device": _READING,
}
"""The word for a row, by role and by the worst verdict under the written format."""
REPEATED_KEYS = "accepts duplicate keys"
KEEPS_TO_TEXT, NOTHING_SHOWN = "keeps to the text", "no fault shown"
"""The words for a row without failures under the written format, and for a row without any failures."""
BASES = {
    "text": ("the written format", "against the text", NOTHING_SHOWN),
    "official": ("the official library", "differs", "agrees"),
    "ours": ("our hardening", "falls short", "complies"),
}
"""Basis of rules -> name, word for a failing row (``ROLE_WORDS`` for the text), and word for other rows."""
BASIS_TEXTS = {
    "text": "Requirements stated in the documentation of the format. Only violations of these are "
    "shown in red.",
    "official": "Behaviour of the official library where the documentation is silent. Other behaviour does "
    "not violate the written format.",
    "ours": "Our additional requirements: limits, conventions of loaders, and proper error reporting.",
}

_ASKS = {
    "names": ("Duplicate tensor names", "accept"),
    "overlaps": ("Overlapping tensors", "accept"),
    "holes": ("Holes between tensors", "accept"),
    "trailing": ("Bytes after the last tensor", "accept"),
    "outside": ("Ranges outside the file", "accept"),
    "backwards": ("Reversed ranges", "accept"),
    "inside": ("Empty tensors inside another tensor", "accept"),
    "sizes": ("Sizes that do not match shape and dtype", "accept"),
    "dtypes": ("Unknown dtypes", "accept"),
    "utf8": ("Headers that are not UTF-8", "accept"),
    "around": ("Headers with other bytes around the JSON object", "accept"),
    "json": ("Headers that are not strict JSON", "accept"),
    "shapes": ("Shapes that are not lists of plain integers", "accept"),
    "metadata": ("Metadata that is not a map of strings", "accept"),
    "reserved": ("Duplicate metadata", "accept"),
    "fields": ("Duplicate fields in an entry", "accept"),
    "keys": ("Duplicate metadata keys", "accept"),
    "other": ("Other broken files", "accept"),
    "values": ("Wrong values for valid files", "see"),
    "refused": ("Valid files rejected", "see"),
    "late": ("Faults reported only when reading", "see"),
    "changing": ("Files that change or are shared while open", "fail"),
    "written": ("Wrong files written", "see"),
    "calls": ("Calls that must be rejected", "accept"),
    "declined": ("Valid calls rejected", "see"),
    "paths": ("Shard names that leave the folder", "accept"),
    "indexes": ("Other broken indexes", "accept"),
}
QUESTIONS = {name: words for name, (words, _) in _ASKS.items()}
ANSWERS = {
    "accept": ("accepted", "none accepted"),
    "see": ("", "none seen"),
    "fail": ("fail", "none seen"),
    "miss": ("missed", "none missed"),
}


def answer_words(question: str, role: str) -> tuple[str, str]:
    kind = _ASKS.get(question, ("", "see"))[1]
    return ANSWERS["miss" if role == "checker" and kind == "accept" else kind]


def blank(cases: int, who: Implementation) -> str:
    """Return the text of a cell without a result; *not run* claims less than *not asked*."""
    if not cases:
        return "no case"
    return "not run" if who.not_run else "not asked"


def reason(name: str) -> str:
    return NOT_ASKED.get(name, name)
