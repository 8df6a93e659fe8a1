"""Causes in words: what an implementation does with which input, and what to do about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from safetensors_corpus.judging.written_folder import MEANINGS
from safetensors_reference import rule_book

from ..audit.severity import outcome_class
from ..recommendations import OF_CODE, OF_OUTCOME, OF_PROPERTY, of_rule
from ..record.device_checks import CHECKS
from ..record.summary import feature_name
from ..text import listed, visible
from .failures import INPUT, NOT_EXAMINED, ORDER, differing_reports
from .group import OF_TEXT

if TYPE_CHECKING:
    from safetensors_corpus import Case

    from ..record.run import Row
    from .group import Group

MAX_NAMED = 6
"""Most dtypes, codes or pairs named in one cause."""
MAX_TEXT = 200
"""Characters of one text of a cause."""

_ENDS = {"crash": "crashes", "hang": "hangs", "exhausted": "runs out of memory"}
_PANICS = "raises an exception that except Exception misses"
_REFUSES = {
    "file": "refuses valid files",
    "write": "refuses to write what can be written",
    "slice": "refuses valid requests for a part of a tensor",
    "index": "refuses valid sharded models",
    "sharded": "refuses to save models in shards",
    "lifecycle": "refuses files that are in order while they are open",
    "remote": "refuses valid files behind a server",
    "concurrent": "refuses one of several readers at the same time",
}
_READS = {
    "write": "writes other content than it was given",
    "slice": "hands out other bytes for a part of a tensor",
    "index": "loads other content through an index",
    "sharded": "leaves other models than it was given when it saves in shards",
    "lifecycle": "hands out other content of a file that changes",
    "remote": "hands out other content of a file behind a server",
    "concurrent": "hands out other content when several read at the same time",
}
_PARTS = {
    "other bytes": "hands out other bytes than the file holds",
    "missing": "leaves out tensors of the file",
    "reported": "reports tensors that the file does not have",
    "twice": "reports a tensor twice",
    "metadata": "leaves out or changes metadata of the file",
    "escapes": "hands out names or metadata with their escapes as they are spelled in the header",
    "nbytes": "reports other sizes in bytes than the file says",
    "shape": "reports other shapes than the file says",
    "content": "reports other content than the file holds",
}
_SHAPES = {
    "wrapped": "reports large dimensions wrapped to 32 bits",
    "rounded": "reports large dimensions rounded to a double",
}
_MEND = {
    "wrapped": "Hold dimensions in 64 bits on the whole way to the caller, or refuse those that do not fit.",
    "rounded": "Read integers of the header as integers, not as doubles, or refuse those above 2^53.",
    "dtype": "Report the dtype of the file, or declare that the reader lacks it and refuse it.",
    "escapes": "Resolve the escapes of JSON strings (HDR-15) before a name or a text is handed out.",
    "metadata": "Hand out every key and value of the metadata as it stands in the file.",
    "mapped": "Copy what is read, or hold what was read against the size of the file: a mapped file that "
    "becomes shorter ends the process.",
    "every": "Look at the adapter first: what befalls nearly every valid input is seldom the reader's.",
    "harness": "Mend the adapter or what it needs; nothing is known about the implementation there.",
    INPUT: "Open files for reading only, and leave what stands at their path alone.",
    ORDER: "Close each file whatever becomes of it, and keep nothing of one for the next.",
}


def describe_group(group: Group, cases: Mapping[str, Case]) -> str:
    return visible(_what(group, cases), MAX_TEXT)


def _what(group: Group, cases: Mapping[str, Case]) -> str:
    aspect, *parts = group.key
    title = _titles(group)
    match aspect:
        case "accept":
            return _accepts(parts, title)
        case "reject":
            return _refuses(group, parts[0], title)
        case "content":
            return _reports(group, parts, title, cases)
        case "property":
            return _writes(parts, title)
        case "end":
            lives = outcome_class(_ends(group)) == "panic"
            return f"{_PANICS if lives else _ENDS[parts[1]]}: {_titles(group, 1)}"
        case "cost":
            return f"spends more than a budget of time or memory: {title}"
        case "check":
            return f"onto a device, it does not hold that {CHECKS[parts[0]].about}"
        case "late":
            return f"opens broken files and refuses them only when reading: {_codes(group, cases)}"
        case "exception":
            return f"refuses with an exception that it does not document: {parts[0] or 'of no known type'}"
    return "the adapter failed"


def _ends(group: Group) -> Row:
    dead = (f.row for f in group.failures if outcome_class(f.row) != "panic")
    return next(dead, group.failures[0].row)


def _titles(group: Group, limit: int = 2) -> str:
    book = rule_book().rules
    told = [f"{rule} ({book[rule].title})" if rule in book else rule for rule in group.rules]
    return listed(told, limit) or "no rule charged"


def _accepts(parts: Sequence[str], title: str) -> str:
    about, where, kind = parts
    text = rule_book().codes.get(about, "").partition(" (")[0]
    if not text:
        return f"accepts what {title} forbids"
    inside = " of the index" if where == "index" and not about.startswith("IDX") else ""
    if where == "write":
        return f"writes although it was given this: {text}"
    return f"accepts although {text}{inside}" + (f": {kind}" if kind not in ("", NOT_EXAMINED) else "")


def _refuses(group: Group, where: str, title: str) -> str:
    if group.dtypes:
        return f"{'refuses to write' if where == 'write' else 'refuses'} the {_dtypes(group)}"
    if group.every:
        return f"{_REFUSES[where]}: nearly every one"
    if group.feature:
        return f"{_REFUSES[where]} with {group.feature}"
    return f"{_REFUSES[where]}: {title}"


def _dtypes(group: Group) -> str:
    names = listed([feature_name(name) for name in group.dtypes], MAX_NAMED)
    return f"{'dtypes' if len(group.dtypes) > 1 else 'dtype'} {names}"


def _reports(group: Group, parts: Sequence[str], title: str, cases: Mapping[str, Case]) -> str:
    where, part, *how = parts
    if where != "file":
        return f"{_READS[where]}: {title}"
    if group.feature in OF_TEXT:
        return f"reads files wrong that have {group.feature}"
    if part == "dtype":
        pairs: dict[str, set[str]] = {}
        for f in group.failures:
            for got, want in differing_reports(f, cases.get(f.case), "dtype"):
                pairs.setdefault(str(got)[:30], set()).add(str(want))
        seen = [f"{got} where the file says {', '.join(sorted(want))}" for got, want in sorted(pairs.items())]
        return f"reports dtype {listed(seen, MAX_NAMED)}" if seen else f"reports other dtypes: {title}"
    if how and how[0] in _SHAPES:
        return _SHAPES[how[0]]
    told = _PARTS.get(part, _PARTS["content"])
    if group.every:
        return f"{told}: of nearly every valid one"
    if group.dtypes:
        return f"{told}, of tensors of {_dtypes(group)}"
    return f"{told}, with {group.feature}" if group.feature else f"{told}: {title}"


def _writes(parts: Sequence[str], title: str) -> str:
    name, *code = parts
    if name == INPUT:
        return "changes, removes or replaces the file that it reads"
    if name == ORDER:
        return "answers otherwise after other files than alone in a fresh process (order-dependent)"
    if name == "valid":
        broken = rule_book().codes.get(code[0], code[0]).partition(" (")[0] if code else ""
        if not broken and title.startswith("IDX"):
            return f"leaves a folder in which {title} does not hold"
        return f"writes files that break a rule: {broken}" if broken else f"writes no valid file: {title}"
    return f"does not hold after saving: {MEANINGS.get(name, name)}"


def _codes(group: Group, cases: Mapping[str, Case]) -> str:
    count = Counter(code for name in group.cases if name in cases for code in cases[name].codes[:1])
    order = sorted(count, key=lambda code: (-count[code], code))
    return listed([f"{code} {count[code]:,}" for code in order], MAX_NAMED) or "codes not known"


def advice_for(group: Group) -> str:
    """Return what to do about it in one sentence, empty where that is not known."""
    aspect, *parts = group.key
    of_charged = of_rule(group.rules[0]) if group.rules else ""
    if group.every:
        return _MEND["every"]
    match aspect:
        case "accept":
            return OF_CODE.get(parts[0], of_charged)
        case "reject":
            if group.dtypes:
                return f"If they are not supported, declare it: lacks = {_lacks(group.dtypes)}"
            return OF_OUTCOME["reject"]
        case "content":
            how = parts[2] if len(parts) > 2 else ""
            return _MEND.get(how) or _MEND.get(parts[1]) or of_charged
        case "property":
            return _MEND.get(parts[0]) or OF_PROPERTY.get(parts[0]) or of_charged
        case "end":
            # Not by the class of outcome alone: how a mapped file ends that became shorter is told apart.
            return _MEND["mapped"] if "SIGBUS" in group.said else OF_OUTCOME[outcome_class(_ends(group))]
        case "cost":
            return OF_OUTCOME["resources"]
    return _MEND.get(aspect) or OF_OUTCOME.get(aspect, "")


def _lacks(names: Sequence[str]) -> str:
    shown = [f'"{name}"' for name in names[:MAX_NAMED]]
    return f"[{', '.join([*shown, *(['…'] if len(names) > MAX_NAMED else [])])}]"
