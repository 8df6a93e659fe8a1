"""Failures of a run, grouped by a key that identifies the mistake behind them.

Failures with the same key have the same cause. The first part of a key is the aspect. It determines the other
parts: the missed fault for a wrong acceptance, the message of the reader for a wrong rejection, and the
difference for wrong content. For valid inputs, the features that an input has may explain more.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from safetensors_corpus import Case, ManifestError
from safetensors_corpus.features import FEATURES
from safetensors_corpus.features.draft import Draft
from safetensors_corpus.judging.verdicts import STRICT_FAILING, badness, kind_of
from safetensors_corpus.judging.written_folder import RULES_OF
from safetensors_reference import explain, rule_book
from safetensors_reference.rules.dtypes import DTYPE_BITS

from ..differences.signatures import difference_class, message_class
from ..record.device_checks import CHECKS
from ..record.run import Row, row_failures

BLAMED = STRICT_FAILING - {"choice-inconsistent"}
"""Kinds of verdict whose cause can be found in a single row; a contradiction involves several rows."""
MAX_EXPLAINED = 64 << 10
"""Maximum size in bytes of an input that is explained; all stored files of the corpus are smaller."""
_CODE = re.compile(r"\b[A-Z]{2,3}_[A-Z0-9_]+\b")


class Failure(NamedTuple):
    """One failure. ``broken`` names a property of a written file; ``check`` names a device guarantee."""

    row: Row
    verdict: str
    rule: str
    basis: str | None = None
    broken: str = ""
    check: str = ""
    detail: str = ""

    @property
    def case(self) -> str:
        return str(self.row["case"])

    @property
    def step(self) -> str:
        return str(self.row["step"])

    @property
    def outcome(self) -> str:
        return str(self.row["outcome"])

    @property
    def message(self) -> str:
        return str(self.row.get("message") or "")


def failures(row: Row) -> list[Failure]:
    if kind_of(row["verdict"]) not in BLAMED:
        return []
    listed = [_failure(row, part) for part in row_failures(row) or [{}]]
    named = {failure.check for failure in listed}
    for check in row.get("checks") or ():
        if check["status"] == "fail" and check["name"] in CHECKS.keys() - named:
            kept = CHECKS[check["name"]]
            message = str(check["message"])
            listed.append(Failure(row, kept.verdict, kept.rule, None, "", check["name"], message))
    return [f for f in listed if kind_of(f.verdict) in BLAMED]


INPUT = "input"
"""The property that a reader leaves the file unchanged. No rule of the format requires it."""
ORDER = "order"
"""The property that answers do not depend on earlier requests. No rule of the format requires it."""
OF_NO_RULE = (INPUT, ORDER)


def _failure(row: Row, part: dict[str, Any]) -> Failure:
    name = str(part.get("property") or "")
    rule = part.get("rule") or row.get("rule") or next(iter(row.get("rules") or ()), "")
    return Failure(
        row,
        str(part.get("verdict") or row["verdict"]),
        "" if name in OF_NO_RULE else str(rule),
        part.get("basis") or row.get("basis"),
        name if name in ("valid", *OF_NO_RULE) or name in RULES_OF else "",
        name if name in CHECKS else "",
        str(part.get("detail") or row.get("detail") or ""),
    )


def all_failures(rows: Iterable[Row]) -> list[Failure]:
    """Return all failures, but omit a wrongly accepted ``open`` if ``read`` is worse for the same case."""
    every = [failure for row in rows for failure in failures(row)]
    reading: dict[str, tuple[int, int]] = defaultdict(lambda: badness("pass"))
    for f in every:
        if f.step == "read":
            reading[f.case] = min(badness(f.verdict), reading[f.case])
    return [
        f for f in every if f.step != "open" or f.outcome != "accept" or badness(f.verdict) <= reading[f.case]
    ]


Key = tuple[str, ...]
MAX_CLASS = 110
NOT_EXAMINED = "unseen"

_PATHS = re.compile(r"(?:[A-Za-z]:)?(?<![\w.])(?:[\\/][^\s\\/'\",:;()\[\]]+)+[\\/]([^\s\\/'\",:;()\[\]]*)")
_ADDRESSES = re.compile(r"\b0x[0-9a-fA-F]{4,16}\b")
_TYPES = re.compile(
    r"(?<![A-Za-z])(?:(?:bf|[fiuc]|b?float|u?int|complex|big(?:u?)int)#(?:_?e#m#[a-z]*)?"
    r"|bool(?:ean)?|half|double)(?:array|_t)?(?![A-Za-z#])",
    re.IGNORECASE,
)
_DEVIATIONS = re.compile("; (?:uninitialised memory|content differs from run to run): ")
_LETTERS = re.compile(r"(?<![\w<])[A-Za-z](?![\w>])")


def mistake_key(failure: Failure, case: Case | None) -> Key:
    aspect = aspect_of(failure, case)
    match aspect:
        case "end":
            # Only messages from the implementation itself are specific; otherwise use the area of the fault.
            crash = failure.outcome == "crash"
            message = _class(failure, case) if crash else ""
            area = "" if crash and failure.row.get("exception") else _about(failure.rule, case)[:3]
            return aspect, realm(failure.step), failure.outcome, message, area
        case "accept":
            about = _about(failure.rule, case)
            # Different code reads the keys of a header and those of an index.
            where = {"IDX": "index", "WRT": "write"}.get(failure.rule[:3], "file")
            return aspect, about, where, fault_kind(case, about)
        case "reject":
            return aspect, realm(failure.step), _class(failure, case), failure.rule
        case "content":
            return aspect, *_content(failure, case)
        case "property":
            return aspect, failure.broken, *_CODE.findall(failure.detail)[:1]
        case "check":
            return aspect, failure.check
        case "cost":
            return aspect, failure.rule
        case "exception":
            return aspect, str(failure.row.get("exception") or "")[:MAX_CLASS]
        case "harness":
            return aspect, _class(failure, case)
    return (aspect,)


def aspect_of(failure: Failure, case: Case | None) -> str:
    """Return the kind of mistake, regardless of its severity."""
    kind, _, option = failure.verdict.partition(":")
    if failure.check:
        return "check"
    if kind == "unsafe" and not failure.broken:
        return "end" if failure.outcome in ("crash", "hang", "exhausted") else "cost"
    if kind in ("harness-error", "late-reject"):
        return {"harness-error": "harness", "late-reject": "late"}[kind]
    if failure.broken:
        return "property"
    if option in ("accept", "reject", "content", "cost", "exception"):
        return option
    if failure.detail.startswith("over budget"):
        return "cost"
    wrong = {"wrong-accept": "accept", "wrong-reject": "reject", "wrong-content": "content"}
    if kind in wrong or failure.outcome == "reject":
        return wrong.get(kind, "reject")
    refusing = case is not None and case.expect is not None and case.expect.outcome == "reject"
    return "accept" if refusing else "content"


def realm(step: str) -> str:
    """Return the part of an implementation that a step uses: ``file``, ``write``, ``slice``, ..."""
    apart = ("write", "slice", "index", "sharded", "lifecycle", "remote", "concurrent", "export")
    return step if step in apart else "file"


def _about(charged: str, case: Case | None) -> str:
    codes = [code for code in (case.codes if case else ()) if code != "UNCLASSIFIED"]
    rule = rule_book().rules.get(charged)
    if not codes or rule is None or codes[0] in ("HDR_NOT_JSON", "ENT_BAD_INTEGER"):
        return (codes or [charged])[0]
    # The name of the fault must fit the rule that is shown with it.
    return next((code for code in codes if code in rule.codes), (*rule.codes, codes[0])[0])


def _small_input(case: Case) -> bytes | None:
    if case.input.file is None or case.size > MAX_EXPLAINED:
        return None
    try:
        return case.read_input()
    except ManifestError:
        return None


def fault_kind(case: Case | None, code: str) -> str:
    if case is None or code not in ("HDR_NOT_JSON", "ENT_BAD_INTEGER", "HDR_BAD_START"):
        return ""
    data = None if case.input.files else _small_input(case)
    if data is None:
        return NOT_EXAMINED
    seen = explain(data)
    fault = next((f for f in (*seen.faults, *seen.tolerated) if f.code == code), None)
    if fault is None:
        return ""
    text = data[fault.start : fault.end].decode("utf-8", "replace")
    if code == "HDR_BAD_START":
        return "" if text.strip(" \t\r\n") else "whitespace"
    if code == "ENT_BAD_INTEGER":
        return _first_fitting(_INTEGERS, text)
    kind = _OF_RULES.get(fault.rule) or _first_fitting(_TOKENS, text)
    if not kind and text[:1].isalpha():
        return "words that JSON does not allow"
    return kind or ("other characters between tokens" if text and not " " < text[0] <= "~" else "")


_OF_RULES = {
    "HDR-14": "raw control characters in strings",
    "HDR-18": "numbers that do not fit into a double",
}
_INTEGERS = {
    r"-0\Z": "minus zero",
    r"-[0-9]+\Z": "negative numbers",
    r"[0-9]+\Z": "numbers beyond 64 bits",
    r"-?[0-9]": "fractions and exponents",
    r"": "values that are not numbers",
}
_TOKENS = {
    r"\\[uU][dD][89a-fA-F]": "lone surrogate escapes",
    r"\\": "escapes that JSON does not allow",
    r"-*(NaN|Infinity)\Z": "NaN and Infinity",
    r"/": "comments",
    r"'": "single quotes",
    r",\Z": "extra commas",
    r"(?!-?(0|[1-9][0-9]*)\Z)[-+.0-9]": "number formats that JSON does not allow",
}


def _first_fitting(kinds: dict[str, str], text: str) -> str:
    return next((kind for form, kind in kinds.items() if re.match(form, text)), "")


def _content(failure: Failure, case: Case | None) -> Key:
    where = realm(failure.step)
    part = difference_class(_DEVIATIONS.split(failure.detail)[0])
    if where != "file":
        return where, part if where == "write" else "", failure.rule
    if part in ("dtype", "nbytes"):
        return where, part
    if part == "shape":
        how = shape_kind(failure, case)
        return (where, part, how) if how else (where, part, "", failure.rule)
    if part == "metadata":
        return where, part, "missing" if " is missing" in failure.detail else "other"
    return where, part, "", failure.rule


def differing_reports(failure: Failure, case: Case | None, field: str) -> list[tuple[Any, Any]]:
    content = _expected(case)
    wanted = {row["name"]: row.get(field) for row in content.get("tensors", ())}
    rows = (failure.row.get("content") or {}).get("tensors") or ()
    pairs = [(row.get(field), wanted[row["name"]]) for row in rows if row["name"] in wanted]
    return [(got, want) for got, want in pairs if got is not None and got != want]


def _expected(case: Case | None) -> dict[str, Any]:
    demands = case.demands if case is not None else ()
    return next((demand.content for demand in demands if demand.content), {})


def shape_kind(failure: Failure, case: Case | None) -> str:
    """Return ``wrapped`` (dimensions to 32 bits) or ``rounded`` (to a double), or an empty string."""
    pairs = differing_reports(failure, case, "shape")
    lists = [(got, want) for got, want in pairs if isinstance(got, list) and len(got) == len(want)]
    same = [pair for got, want in lists for pair in zip(got, want, strict=True)]
    if not same or not all(isinstance(g, int | float) for g, _ in same):
        return ""
    if all((int(g) - w) % 2**32 == 0 and abs(g) <= 2**32 for g, w in same):
        return "wrapped"
    return "rounded" if all(float(g) == float(w) for g, w in same) else ""


def mask_letters(words: str) -> str:
    """Mask single letters, because most tensor names in the corpus are a single letter."""
    return _LETTERS.sub("#", words)


def _class(failure: Failure, case: Case | None) -> str:
    return mask_letters(message_class_of(failure.message, case))


def message_class_of(message: str, case: Case | None) -> str:
    """Return the class of a message about the input of a case; names of types become ``<type>``."""
    text = _ADDRESSES.sub("#", " ".join(_PATHS.sub(r"\1", message[:2000]).split()))
    stem = case.input.file.stem if case is not None and case.input.file is not None else ""
    if stem and stem in text:
        text = re.sub(rf"{re.escape(stem)}(\.\w+)*", "#", text)
    names = [str(row["name"]) for row in _expected(case).get("tensors", ())]
    names = [name for name in names if name not in DTYPE_BITS][:200]
    text = message_class(text.replace("file.safetensors", "#"), names, MAX_CLASS)
    return _TYPES.sub("<type>", text)


MAX_WORDINGS = 30
ABSORBED = {"minus zero": "negative numbers"}
"""Kind of fault -> the wider kind that includes it if the program accepts both."""


@dataclass
class Group:
    """Failures caused by one mistake; ``every`` is set if nearly all valid inputs fail."""

    key: Key
    failures: list[Failure] = field(default_factory=list)
    dtypes: tuple[str, ...] = ()
    feature: str = ""
    said: str = ""
    every: bool = False

    @property
    def cases(self) -> list[str]:
        return sorted({f.case for f in self.failures})

    @property
    def rules(self) -> list[str]:
        ranks: dict[str, list[tuple[int, int]]] = {}
        for rule, verdict, _ in {(f.rule, f.verdict, f.case) for f in self.failures if f.rule}:
            ranks.setdefault(rule, []).append(badness(verdict))
        return sorted(ranks, key=lambda rule: (min(ranks[rule]), -len(ranks[rule]), rule))

    def verdicts(self) -> dict[str, int]:
        of_case: dict[str, list[str]] = {}
        for f in self.failures:
            of_case.setdefault(f.case, []).append(f.verdict)
        counts = Counter(min(vs, key=lambda v: (badness(v), v)) for vs in of_case.values())
        return dict(sorted(counts.items(), key=lambda item: (badness(item[0]), item[0])))


def group_by_mistake(rows: Sequence[Row], cases: Mapping[str, Case]) -> list[Group]:
    groups: dict[Key, Group] = {}
    for failure in all_failures(rows):
        key = mistake_key(failure, cases.get(failure.case))
        groups.setdefault(key, Group(key)).failures.append(failure)
    places = {"reject": 2, "end": 3, "harness": 1, "exception": 1}
    for aspect, place in places.items():
        keys = [key for key in groups if key[0] == aspect]
        if len({key[place] for key in keys}) > MAX_WORDINGS:
            _rekey(groups, {key: (*key[:place], "", *key[place + 1 :]) for key in keys})
    _absorb(groups)
    return list(groups.values())


def _absorb(groups: dict[Key, Group]) -> None:
    """Merge narrow kinds of faults into wider kinds.

    Also merges unexamined faults into known faults of the same rule.
    """
    for key in [key for key in groups if key[0] == "accept" and key[-1] == NOT_EXAMINED]:
        rule = groups[key].rules[:1]
        same = [k for k, g in groups.items() if k[:-1] == key[:-1] and k != key and rule == g.rules[:1]]
        if same:
            _rekey(groups, {key: max(same, key=lambda k: (len(groups[k].failures), k))})
    for small, wide in ABSORBED.items():
        keys = [key for key in groups if key[0] == "accept" and key[-1] == small]
        wider = {key: (*key[:-1], wide) for key in keys}
        _rekey(groups, {key: new for key, new in wider.items() if new in groups})


def _rekey(groups: dict[Key, Group], changed: Mapping[Key, Key]) -> None:
    for old, new in changed.items():
        if old != new:
            moved = groups.pop(old).failures
            groups.setdefault(new, Group(new)).failures.extend(moved)


DTYPE = "dtype-"
CONFUSING = (
    "a tensor of zero bytes",
    "no tensors",
    "a tensor that does not begin at a multiple of its element size",
    "entries in a different order than the data",
    "a tensor with an empty name",
    "non-ASCII names",
    "metadata",
    "non-ASCII metadata",
    "a scalar",
    "more than 8 dimensions",
    "dimensions of 2^31 or more",
    "escapes in header strings",
    "line breaks or tabs between header tokens",
    "unusual spaces in the header",
    "a header whose length is not a multiple of 8",
    "a name of 256 or more characters",
    "a hundred or more tensors",
)
"""Features that confuse some readers. The first one that explains an answer counts."""

OF_TEXT = frozenset(
    {
        "non-ASCII names",
        "non-ASCII metadata",
        "escapes in header strings",
        "line breaks or tabs between header tokens",
        "unusual spaces in the header",
    }
)
"""Features that confuse different parts of a parser and so produce different messages."""


@lru_cache(maxsize=1 << 14)
def features(case: Case | None) -> frozenset[str] | None:
    """Return the features of a case's file, without its dtypes; None unless it is a small valid file."""
    data = _small_input(case) if case is not None and case.kind == "read" else None
    draft = None if data is None else Draft.of(data)
    return None if draft is None else frozenset(n for n in CONFUSING if FEATURES[n].is_in(draft))


def dtypes(case: Case | None) -> frozenset[str]:
    return frozenset(name for name in case.features if name.startswith(DTYPE)) if case else frozenset()
