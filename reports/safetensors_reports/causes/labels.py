"""Describe causes in words: what an implementation does with which input, and how to fix it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from safetensors_corpus import Case
from safetensors_corpus.judging.written_folder import MEANINGS
from safetensors_reference import rule_book

from ..recommendations import ADVICE_BY_CODE, ADVICE_BY_OUTCOME, ADVICE_BY_PROPERTY, of_rule
from ..record.device_checks import CHECKS
from ..record.run import Row
from ..record.summary import feature_name
from ..severity import outcome_class
from ..text import listed, visible
from .failures import INPUT, NOT_EXAMINED, ORDER, differing_reports
from .group import OF_TEXT, Group

MAX_NAMED = 6
MAX_TEXT = 200

_ENDS = {"crash": "crashes", "hang": "hangs", "exhausted": "runs out of memory"}
_PANICS = 'raises an exception that "except Exception" does not catch'
_REFUSES = {
    "file": "rejects valid files",
    "write": "rejects valid writer calls",
    "slice": "rejects valid requests for a part of a tensor",
    "index": "rejects valid sharded models",
    "sharded": "does not save models in shards",
    "lifecycle": "rejects valid files that change while they are open",
    "remote": "rejects valid files on a server",
    "concurrent": "rejects valid files that several readers open concurrently",
}
_READS = {
    "write": "writes wrong content",
    "slice": "returns wrong bytes for a part of a tensor",
    "index": "loads wrong content through an index",
    "sharded": "writes wrong content when it saves in shards",
    "lifecycle": "returns wrong content for a file that changes while it is open",
    "remote": "returns wrong content for a file on a server",
    "concurrent": "returns wrong content to concurrent readers",
}
_PARTS = {
    "other bytes": "returns wrong bytes",
    "missing": "omits tensors of the file",
    "reported": "reports tensors that are not in the file",
    "twice": "reports a tensor twice",
    "metadata": "omits or changes metadata of the file",
    "escapes": "returns names or metadata without decoding escapes",
    "nbytes": "reports wrong byte sizes",
    "shape": "reports wrong shapes",
    "content": "reports wrong content",
}
_SHAPES = {
    "wrapped": "reports large dimensions wrapped to 32 bits",
    "rounded": "reports large dimensions rounded to a double",
}
_ADVICE = {
    "wrapped": "Keep dimensions in 64 bits all the way to the caller, or reject dimensions that do not fit.",
    "rounded": "Parse integers in the header as integers, not as doubles, or reject integers above 2^53.",
    "dtype": "Report the dtype that the file has, or declare the dtype in lacks and reject the file.",
    "escapes": "Decode the escapes in JSON strings (HDR-15) before you return names or metadata.",
    "metadata": "Return every key and value of the metadata unchanged.",
    "mapped": "Copy the data when you read it, or check the file size again: truncating a mapped file kills "
    "the process.",
    "every": "Check the adapter first: if nearly all valid inputs fail, the reader is rarely the cause.",
    "harness": "Fix the adapter or its dependencies; these cases have no result.",
    INPUT: "Open files for reading only, and do not change what their paths refer to.",
    ORDER: "Always close every file, even after an error, and keep no state between files.",
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
            return f"exceeds a time or memory budget: {title}"
        case "check":
            return f"does not keep a guarantee about loading onto a device: {CHECKS[parts[0]].about}"
        case "late":
            return f"opens invalid files and fails only when reading them: {_codes(group, cases)}"
        case "exception":
            return f"rejects with an undocumented exception: {parts[0] or 'type unknown'}"
    return "the adapter failed"


def _ends(group: Group) -> Row:
    dead = (f.row for f in group.failures if outcome_class(f.row) != "panic")
    return next(dead, group.failures[0].row)


def _titles(group: Group, limit: int = 2) -> str:
    book = rule_book().rules
    titles = [f"{rule} ({book[rule].title})" if rule in book else rule for rule in group.rules]
    return listed(titles, limit) or "no rule"


def _accepts(parts: Sequence[str], title: str) -> str:
    about, where, kind = parts
    text = rule_book().codes.get(about, "").partition(" (")[0]
    if not text:
        return f"accepts what {title} forbids"
    inside = " of the index" if where == "index" and not about.startswith("IDX") else ""
    if where == "write":
        return f"writes invalid input: {text}"
    return f"accepts although {text}{inside}" + (f": {kind}" if kind not in ("", NOT_EXAMINED) else "")


def _refuses(group: Group, where: str, title: str) -> str:
    if group.dtypes:
        return f"{'does not write' if where == 'write' else 'rejects'} the {_dtypes(group)}"
    if group.every:
        return f"{_REFUSES[where]}: nearly all"
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
        return f"misreads files with {group.feature}"
    if part == "dtype":
        pairs: dict[str, set[str]] = {}
        for f in group.failures:
            for got, want in differing_reports(f, cases.get(f.case), "dtype"):
                pairs.setdefault(str(got)[:30], set()).add(str(want))
        wrong = [f"{got} instead of {', '.join(sorted(want))}" for got, want in sorted(pairs.items())]
        return f"reports dtype {listed(wrong, MAX_NAMED)}" if wrong else f"reports wrong dtypes: {title}"
    if how and how[0] in _SHAPES:
        return _SHAPES[how[0]]
    text = _PARTS.get(part, _PARTS["content"])
    if group.every:
        return f"{text}, for nearly all valid files"
    if group.dtypes:
        return f"{text}, for tensors of {_dtypes(group)}"
    return f"{text}, for files with {group.feature}" if group.feature else f"{text}: {title}"


def _writes(parts: Sequence[str], title: str) -> str:
    name, *code = parts
    if name == INPUT:
        return "changes, removes or replaces the file that it reads"
    if name == ORDER:
        return "gives an answer that depends on the files read before (order-dependent)"
    if name == "valid":
        broken = rule_book().codes.get(code[0], code[0]).partition(" (")[0] if code else ""
        if not broken and title.startswith("IDX"):
            return f"leaves a folder that violates {title}"
        if broken:
            return f"writes files that violate a rule: {broken}"
        return f"does not write a valid file: {title}"
    return f"fails a check after saving: {MEANINGS.get(name, name)}"


def _codes(group: Group, cases: Mapping[str, Case]) -> str:
    count = Counter(code for name in group.cases if name in cases for code in cases[name].codes[:1])
    order = sorted(count, key=lambda code: (-count[code], code))
    return listed([f"{code} {count[code]:,}" for code in order], MAX_NAMED) or "codes unknown"


def advice_for(group: Group) -> str:
    aspect, *parts = group.key
    of_charged = of_rule(group.rules[0]) if group.rules else ""
    if group.every:
        return _ADVICE["every"]
    match aspect:
        case "accept":
            return ADVICE_BY_CODE.get(parts[0], of_charged)
        case "reject":
            if group.dtypes:
                shown = [f'"{name}"' for name in group.dtypes[:MAX_NAMED]]
                shown += ["…"] if len(group.dtypes) > MAX_NAMED else []
                return (
                    "If the implementation does not support them, declare that in its descriptor: lacks = "
                    f"[{', '.join(shown)}]"
                )
            return ADVICE_BY_OUTCOME["reject"]
        case "content":
            how = parts[2] if len(parts) > 2 else ""
            return _ADVICE.get(how) or _ADVICE.get(parts[1]) or of_charged
        case "property":
            return _ADVICE.get(parts[0]) or ADVICE_BY_PROPERTY.get(parts[0]) or of_charged
        case "end":
            if "SIGBUS" in group.said:  # it is caused by a truncated mapped file
                return _ADVICE["mapped"]
            return ADVICE_BY_OUTCOME[outcome_class(_ends(group))]
        case "cost":
            return ADVICE_BY_OUTCOME["resources"]
    return _ADVICE.get(aspect) or ADVICE_BY_OUTCOME.get(aspect, "")
