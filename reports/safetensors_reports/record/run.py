"""A run: its results, choices and problems, and its counts as lines for a terminal, without an overall score.

The harness attributes a single wrong answer to the first rule of its case. The whole run shows which rule
correlates with the failures, so a run attributes them again (``charge``).
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from safetensors_corpus.judging.judge import DTYPES, FORBIDDING, OUTPUT, SLICES
from safetensors_corpus.judging.verdicts import STRICT_FAILING, fails, kind_of, worst
from safetensors_corpus.manifest import ANY_VALID_FILE, AREA_OF_RULES
from safetensors_reference.rules.book import BASES, rule_book
from safetensors_reference.text import shorten

from ..text import code, feature_name, plural, unused, visible, visible_lines
from .device_checks import CHECKS, STATUSES

MAX_VERSION = 80
"""Maximum length of a version. It becomes part of names, and programs can report any string."""
MAX_SELECTOR = 4_000

Row = dict[str, Any]
"""One line of a record."""


def row_failures(row: Row) -> list[Row]:
    """Return all failures of a result; old records contain only its verdict and rules."""
    if "failures" in row or kind_of(row["verdict"]) not in STRICT_FAILING - {"harness-error"}:
        return list(row.get("failures", ()))
    rule = row.get("rule") or (row.get("rules") or [""])[0]
    detail = row.get("detail") or row.get("message") or ""
    return [{"verdict": row["verdict"], "rule": rule, "basis": None, "property": "outcome", "detail": detail}]


def worst_by_case(verdicts: Iterable[tuple[str, str]]) -> dict[str, str]:
    out: dict[str, str] = {}
    for case, verdict in verdicts:
        before = out.setdefault(case, verdict)
        if before != verdict:
            out[case] = worst((before, verdict))
    return out


@dataclass
class RunRecord:
    """One run, which may be incomplete; do not add rows after its properties have been used."""

    header: Row
    results: list[Row] = field(default_factory=list)
    choices: list[Row] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    footer: Row | None = None
    left_out: int = 0
    touched: set[str] = field(default_factory=set)

    def charge(self) -> None:
        """Attribute the failures to the rules that the whole run shows to be broken."""
        if any(row.get("failures") for row in self.results):
            self.results = recharge(self.results)

    @property
    def implementation(self) -> Row:
        row: Row = self.header["implementation"]
        return row

    @property
    def label(self) -> str:
        if self.version in ("", "unknown"):
            return self.selector
        name, _, version = self.selector.partition("==")
        same = version in (self.version, self.version.partition("+")[0])  # a selector has no build tag
        return f"{name if same else self.selector} {self.version}"

    @property
    def selector(self) -> str:
        return shorten(str(self.implementation.get("selector") or self.implementation["name"]), MAX_SELECTOR)

    @property
    def name(self) -> str:
        return shorten(str(self.implementation["name"]), MAX_SELECTOR)

    @property
    def version(self) -> str:
        return shorten(str(self.implementation["version"]), MAX_VERSION)

    @property
    def truncated(self) -> bool:
        return self.footer is None

    @property
    def partial(self) -> bool:
        return self.footer is not None and not self.footer["complete"]

    @property
    def half_run(self) -> set[str]:
        """Cases that may lack steps: those on lines that cannot be read, and an opened one at the end."""
        last = self.results[-1] if self.truncated and self.results else {}
        if last.get("step") != "open" or "read" not in self.implementation.get("steps", ()):
            return self.touched
        read = any(row["case"] == last["case"] and row["step"] == "read" for row in self.results)
        return self.touched if read else self.touched | {last["case"]}

    @cached_property
    def blamed(self) -> list[Row]:
        return [row for row in self.results if kind_of(row["verdict"]) in STRICT_FAILING]

    @property
    def has_failures(self) -> bool:
        """Whether a step failed, or the answers to a choice contradict each other."""
        return bool(self.blamed or self.inconsistent_choices())

    @cached_property
    def failing(self) -> list[tuple[Row, list[Row]]]:
        return [(row, failures) for row in self.results if (failures := row_failures(row))]

    @cached_property
    def by_case(self) -> dict[str, list[Row]]:
        cases: dict[str, list[Row]] = {}
        for row in self.results:
            cases.setdefault(row["case"], []).append(row)
        return cases

    @cached_property
    def case_verdicts(self) -> dict[str, str]:
        """The worst verdict of every case, except for cases that ran only in part and have not failed."""
        verdicts = worst_by_case((row["case"], row["verdict"]) for row in self.results)
        half = self.half_run
        return {case: verdict for case, verdict in verdicts.items() if case not in half or fails(verdict)}

    def counts(self) -> dict[str, int]:
        return dict(Counter(kind_of(verdict) for verdict in self.case_verdicts.values()))

    @property
    def cases(self) -> int:
        return len(self.case_verdicts)

    @property
    def not_run(self) -> int:
        declared = self.footer["not_run"] if self.footer else 0
        return int(max(declared, self.header["corpus"]["cases"] - self.cases))

    @cached_property
    def expected_cases(self) -> set[str]:
        bad: dict[str, list[Row]] = {}
        for row in self.blamed:
            bad.setdefault(row["case"], []).append(row)
        expected = {
            case
            for case, rows in bad.items()
            if all(r.get("expected_failure", False) for r in [r for r in rows if fails(r["verdict"])] or rows)
        }
        return expected & self.case_verdicts.keys()

    def inconsistent_choices(self) -> dict[str, str]:
        rows = [*self.choices, *self.blamed]
        return {
            str(r.get("choice") or r.get("case")): r.get("detail", "")
            for r in reversed(rows)
            if kind_of(r["verdict"]) == "choice-inconsistent"
        }


RARE = ("choice-inconsistent", "harness-error")
FAILURE_COUNTS = (
    "unsafe",
    "wrong-content",
    "wrong-accept",
    "wrong-reject",
    "deviation",
    "late-reject",
    *RARE,
)
"""Kinds of failure in display order. The rare ones are shown only if they occur."""

MAX_FEATURES = 6
MAX_PROBLEMS = 5


def verdict_counts(record: RunRecord) -> dict[str, int]:
    counts = record.counts()
    counts["choice-inconsistent"] = len(record.inconsistent_choices())
    return {kind: counts.get(kind, 0) for kind in FAILURE_COUNTS if counts.get(kind) or kind not in RARE}


def other_counts(record: RunRecord) -> dict[str, int]:
    counts = record.counts()
    return {
        "pass": counts.get("pass", 0),
        "choices": counts.get("choice", 0) + counts.get("choice-inconsistent", 0),
        "not strict": counts.get("not-strict", 0),
        "unsupported": counts.get("unsupported", 0),
        "not run": record.not_run,
        "expected failures": len(record.expected_cases),
    }


def caveats(record: RunRecord, *, markdown: bool = False) -> list[str]:
    """Return the reasons why the numbers are incomplete, escaped for a terminal or for Markdown."""
    out = []
    total = record.header["corpus"]["cases"]
    ran = f"{record.cases:,} of {plural(total, 'case')} have a verdict; the others are unknown"
    if record.truncated:
        out.append(f"truncated run: the record has no footer; {ran}")
    elif record.partial:
        out.append(f"partial run: filtered or interrupted; {ran}")
    left_out = record.header["corpus"].get("left_out", {})
    if left_out:
        kinds = ", ".join(f"{number:,} {visible(kind, 20)}" for kind, number in sorted(left_out.items()))
        out.append(f"skipped: {kinds}")
    for text in record.problems[:MAX_PROBLEMS]:
        lines = [code(text, 300)] if markdown else visible_lines(text).split("\n")
        out += [f"problem: {line}" for line in lines]
    if len(record.problems) > MAX_PROBLEMS:
        out.append(f"… {plural(len(record.problems) - MAX_PROBLEMS, 'more problem')}")
    return out


def lacking(record: RunRecord) -> str:
    names = [feature_name(name) for name in sorted(set(record.implementation.get("lacks", [])))]
    return ", ".join([*names[:MAX_FEATURES], *(["…"] if len(names) > MAX_FEATURES else [])])


def summary_lines(record: RunRecord) -> list[str]:
    rest = []
    for name, number in other_counts(record).items():
        features = lacking(record) if name == "unsupported" and number else ""
        rest.append(f"{name} {number:,}" + (f" ({features})" if features else ""))
    expected = Counter(kind_of(record.case_verdicts[case]) for case in record.expected_cases)
    failed = [
        f"{name} {number:,}" + (f" ({expected[name]:,} expected)" if expected[name] else "")
        for name, number in verdict_counts(record).items()
    ]
    return [
        _head(record),
        "  " + "   ".join(failed),
        "  " + " · ".join(rest),
        *(f"  {line}" for line in caveats(record)),
        *_device_lines(record),
    ]


def _head(record: RunRecord) -> str:
    total = record.header["corpus"]["cases"]
    cases = plural(total, "case")
    if record.cases != total:
        cases = f"{record.cases:,} of {cases}"
    if record.footer is not None:
        cases += f" in {record.footer['duration_s']:,.1f} s"
    language = record.implementation.get("language")
    suffix = f" ({visible(language, 30)})" if language not in (None, "", "unknown") else ""
    parts = [
        visible(record.label, 80) + suffix,
        f"corpus {visible(record.header['corpus']['version'], 30)}",
        cases,
        f"profile: {visible(record.header['profile'] or 'none', 30)}",
    ]
    if record.truncated:
        parts.append("TRUNCATED RUN")
    elif record.partial:
        parts.append("PARTIAL RUN")
    return " · ".join(parts)


def _device_lines(record: RunRecord) -> list[str]:
    name = record.header.get("device")
    if name is None:
        return []
    if "device" not in record.implementation["steps"]:
        return [
            f"  device {visible(name)}: not tested, because the implementation does not load onto devices"
        ]
    mine = [row for row in record.results if row["step"] == "device"]
    lines = [f"  device {visible(name)}: {plural(len(mine), 'file')}"]
    for check in CHECKS:
        seen = [found for row in mine for found in row.get("checks", ()) if found["name"] == check]
        counts = Counter(found["status"] for found in seen)
        words = [f"{counts[status]:,} {status}" for status in STATUSES if counts[status]]
        why = Counter(found["message"] for found in seen if found["status"] == "unknown").most_common(1)
        if why and why[0][0]:
            words[-1] += f" ({visible(why[0][0])})"
        lines.append(f"    {check:<10} {' · '.join(words) or 'not reported'}")
    return lines


def reproducer(
    selector: str, case_ids: str | Sequence[str], profile: str | None, device: str | None = None
) -> str:
    parts = ["stc", "run", "--impl", selector]
    for case_id in [case_ids] if isinstance(case_ids, str) else case_ids:
        parts += ["--case", case_id]
    parts += ["--profile", profile] if profile else []
    parts += ["--device", device] if device else []
    return shlex.join(parts)


def distinct_labels(records: Sequence[RunRecord]) -> tuple[str, ...]:
    labels: list[str] = []
    for record in records:
        labels.append(unused(record.label, labels, " #"))
    return tuple(labels)


CHARGED_KINDS = frozenset({"accept", "reject", "valid"})
ANY_METADATA = "MET-04"
MOST, FEW = 0.5, 0.2
_PLAIN = {"HDR-05": "HDR-03", "HDR-10": "HDR-09", "DTY-09": "OFF-05"}
"""Rule about comparisons -> the rule that a reader breaks if it does not compare."""


def recharge(rows: Sequence[Row]) -> list[Row]:
    """Attribute each failure to the rule of its case under which most cases failed in the same way.

    If no rule stands out, failures are attributed to FRM-11.
    """
    shares = {kind: _shares(kind, rows) for kind in CHARGED_KINDS}
    out = []
    for row in rows:
        before = _failures(row)
        failures = [_charged(f, row, shares[kind]) if (kind := _kind(f)) else f for f in before]
        out.append(row if failures == before else {**row, "failures": failures, "rule": failures[0]["rule"]})
    return out


@dataclass(frozen=True)
class _Shares:
    """Shares of failing cases by rule; ``own`` counts only cases in which the rule comes first."""

    of: dict[str, float]
    own: dict[str, float]
    charged: Collection[str]

    @property
    def wants_format(self) -> bool:
        return self.of.get(ANY_METADATA, 0) >= MOST


def _shares(kind: str, rows: Sequence[Row]) -> _Shares:
    failed: Counter[str] = Counter()
    cases: Counter[str] = Counter()
    own_failed: Counter[str] = Counter()
    own_cases: Counter[str] = Counter()
    charged: set[str] = set()
    for row in rows:
        if _is_combination(row):
            continue
        faults = [failure["rule"] for failure in _failures(row) if _kind(failure) == kind]
        if faults or _kept(kind, row):
            cases.update(_rules(kind, row))
            own_cases.update(_about(row)[:1])
        if faults:
            failed.update(_rules(kind, row))
            own_failed.update(_about(row)[:1])
            charged.update(faults)
    of = {rule: n / (cases[rule] + 1) for rule, n in failed.items()}
    own = {rule: n / own_cases[rule] for rule, n in own_failed.items()}
    return _Shares(of, own, charged - {ANY_VALID_FILE})


def _charged(failure: Row, row: Row, shares: _Shares) -> Row:
    first, rule = next(iter(_about(row)), ""), failure["rule"]
    if rule not in (first, ANY_VALID_FILE, SLICES):
        return failure
    broad = _is_combination(row) or rule == SLICES or (rule == ANY_VALID_FILE and shares.wants_format)
    ranks: list[str] = list(BASES)  # the most binding basis first
    fitting = [
        other
        for other in _rules(_kind(failure), row)
        if (other in shares.charged and shares.of[other] >= (MOST if broad else 0))
        or (other == first and not broad)
        if (entry := rule_book().rules.get(other))
        and ranks.index(entry.basis) <= ranks.index(failure["basis"])
    ]
    best = max(fitting, key=lambda other: shares.of.get(other, 0), default=rule)
    odd = best == first and shares.own.get(first, 0) < FEW and first[:3] in AREA_OF_RULES and first != DTYPES
    # A writer rejects calls instead of files, and every rejected dtype has a separate case.
    if odd and _kind(failure) == "reject" and row["step"] not in ("write", "sharded"):
        best = ANY_VALID_FILE
    return {**failure, "rule": best}


def _is_combination(row: Row) -> bool:
    return bool(_about(row)[:1] == [ANY_VALID_FILE])


def _rules(kind: str, row: Row) -> list[str]:
    if kind == "accept":
        return [rule for first in _about(row)[:1] for rule in (first, _PLAIN.get(first)) if rule]
    if kind == "valid":  # any call may produce an invalid file
        return list(dict.fromkeys([*_about(row), OUTPUT]))
    return [rule for rule in _about(row) if rule not in FORBIDDING]


def _about(row: Row) -> list[str]:
    return row.get("rules") or []


def _kind(failure: Row) -> str:
    if failure["property"] == "valid":
        return "valid"
    effect = re.split("[-:]", failure["verdict"])[-1]
    return effect if failure["rule"] and failure["property"] == "outcome" and effect in CHARGED_KINDS else ""


def _kept(kind: str, row: Row) -> bool:
    if kind == "accept":
        return bool(row["outcome"] == "reject" and row["verdict"] == "pass")
    return row["outcome"] == "accept" and all(f["property"] != "outcome" for f in _failures(row))


def _failures(row: Row) -> list[Row]:
    return row.get("failures") or []  # records of older suites have no rules
