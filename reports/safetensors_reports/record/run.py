"""A run: its results, choices and problems, and the file that records it, even if it has no footer.

The harness attributes a single wrong answer to the first rule of its case. The whole run shows which rule
correlates with the failures, so a run attributes them again (``charge``).
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import secrets
import shlex
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from safetensors_corpus.judging.judge import DTYPES, FORBIDDING, OUTPUT, SLICES
from safetensors_corpus.judging.verdicts import STRICT_FAILING, fails, kind_of, worst
from safetensors_corpus.manifest import ANY_VALID_FILE, AREA_OF_RULES
from safetensors_corpus.typed import DEEPEST, MisfitError, deep, typed
from safetensors_reference.rules.book import BASES, rule_book
from safetensors_reference.source import open_source, read_whole
from safetensors_reference.text import shorten

from ..text import listed, plural, unused, visible
from .line import LINES, RECORD

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
    shown: dict[tuple[str, frozenset[str]], RunRecord] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

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
    def unfinished(self) -> str | None:
        """The case that a truncated run had opened but not yet read."""
        if not self.truncated or not self.results or self.results[-1]["step"] != "open":
            return None
        last = self.results[-1]["case"]
        read = any(row["case"] == last and row["step"] == "read" for row in self.results)
        return last if "read" in self.implementation.get("steps", ()) and not read else None

    @property
    def half_run(self) -> set[str]:
        """Cases that may lack steps: the unfinished one, and those on lines that cannot be read."""
        return self.touched | ({self.unfinished} if self.unfinished is not None else set())

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
        verdicts: dict[str, str] = {}
        for row in self.results:
            case, verdict = row["case"], row["verdict"]
            before = verdicts.setdefault(case, verdict)
            if before != verdict:
                verdicts[case] = worst((before, verdict))
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
        expected = set()
        for case, rows in bad.items():
            worse = [row for row in rows if fails(row["verdict"])] or rows
            if all(row.get("expected_failure", False) for row in worse):
                expected.add(case)
        return expected & self.case_verdicts.keys()

    def inconsistent_choices(self) -> dict[str, str]:
        rows = [*self.choices, *self.blamed]
        return {
            str(r.get("choice") or r.get("case")): r.get("detail", "")
            for r in reversed(rows)
            if kind_of(r["verdict"]) == "choice-inconsistent"
        }


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


def comparison_notes(records: Sequence[RunRecord]) -> tuple[str, ...]:
    """Return the reasons why comparing the runs shows less than it seems to."""
    notes = []
    if len({r.header["corpus"]["digest"] for r in records}) > 1:
        notes.append("the runs used different corpora, so a case may have different bytes in each of them")
    if len({r.header["profile"] for r in records}) > 1:
        notes.append("the runs used different profiles")
    named = list(zip(distinct_labels(records), records, strict=True))
    endings = {
        "truncated": [label for label, r in named if r.truncated],
        "partial": [label for label, r in named if r.partial],
    }
    notes += [f"{ending} run: {listed(names, 6)}" for ending, names in endings.items() if names]
    return tuple(notes)


LONGEST_HEADER = 1 << 20
LARGEST_RECORD = 2 << 30
LARGEST = 1 << 63
LEFT_OUT_NAMED = 20


class RecordError(Exception):
    """A record cannot be read; the message gives the file, the line, the reason and the fix."""


def selector_of(path: Path) -> str | None:
    try:
        with open_source(path) as source:
            row = _parse(source.read(0, min(source.size, LONGEST_HEADER)).partition(b"\n")[0])
    except (OSError, ValueError, RecursionError):
        return None
    implementation = row.get("implementation") if isinstance(row, dict) else None
    selector = implementation.get("selector") if isinstance(implementation, dict) else None
    return selector if isinstance(selector, str) else None


def read_record(path: str | Path, contents: dict[bytes, Any] | None = None) -> RunRecord:
    """Read a record and list its bad lines; equal ``contents`` are shared. Raises RecordError."""
    path = Path(path)
    try:
        data = read_whole(path, LARGEST_RECORD)
    except OSError as err:
        raise RecordError(f"{visible(str(err), 300)}; pass the .jsonl file that a run wrote") from err
    *lines, rest = data.split(b"\n")
    contents = {} if contents is None else contents
    record: RunRecord | None = None
    name = visible(path.name, 80)
    skipped: list[str] = []
    doubtful = False  # whether a skipped line may belong to the case of the next result
    for number, line in enumerate([*lines, rest], 1):
        if not line.strip():
            continue
        row, fault = _read(line, contents)
        if record is None:
            record = _begin(row, fault, path, number)
        elif fault is None:
            _add(record, row, path, number)
            if doubtful and row["type"] == "result":
                record.touched.add(row["case"])
                doubtful = False
        elif row is None and number > len(lines) and record.footer is None:
            break
        else:
            if len(skipped) < LEFT_OUT_NAMED:
                skipped.append(f"{name}, line {number}: {visible(fault, 200)}; the line was skipped")
            doubtful = _skip(record, row) or doubtful
    if record is None:
        _fail(
            path,
            1,
            "there is no header; either the run ended before it wrote one, or this is not a run record",
            "run again",
        )
    if more := record.left_out - len(skipped):
        skipped.append(f"{name}: skipped {plural(more, 'more line')}")
    record.problems[:0] = skipped
    record.charge()
    return record


def _skip(record: RunRecord, row: object) -> bool:
    """Record the cases that a bad line may belong to; return whether they include the next result's case."""
    record.left_out += 1
    fields = row if isinstance(row, dict) else {}
    if isinstance(fields.get("case"), str):
        record.touched.add(fields["case"])
        return False
    if fields.get("type") in ("choice", "problem", "footer"):
        return False
    record.touched.update(r["case"] for r in record.results[-1:])
    return True


def _read(line: bytes, contents: dict[bytes, Any]) -> tuple[Any, str | None]:
    """Return a parsed line, and a description of its fault or, for a valid line of a record, None."""
    try:
        row = _parse(line)
        if line.count(b"[") + line.count(b"{") > DEEPEST and deep(row):
            return row, "nested too deeply"
    except (ValueError, RecursionError) as err:
        return None, f"not valid JSON ({err})"
    kind = row.get("type") if isinstance(row, dict) else None
    if not isinstance(row, dict) or not isinstance(kind, str) or kind not in LINES:
        return row, "not a line of a run record"
    try:
        typed(row, LINES[kind])
    except MisfitError as err:
        return row, f"bad {kind}: {err}"
    for key, value in row.items():
        if type(value) in _NUMBERS and abs(value) > LARGEST:
            return row, f"bad {kind}: {key}: the number is too large"
    if row.get("content"):
        with contextlib.suppress(UnicodeEncodeError):  # a lone surrogate
            row["content"] = contents.setdefault(msgspec.json.encode(row["content"]), row["content"])
    return row, None


_NUMBERS = frozenset({int, float})


def _parse(line: bytes) -> object:
    try:
        return msgspec.json.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        # msgspec rejects lone surrogates. Both parsers read everything that it accepts in the same way.
        def refuse(name: str) -> NoReturn:
            raise ValueError(f"{name} is not a JSON number")

        def finite(text: str) -> float:
            number = float(text)
            return number if math.isfinite(number) else refuse(visible(text, 40))

        return json.loads(line.decode("utf-8"), parse_constant=refuse, parse_float=finite)


def _begin(row: Any, fault: str | None, path: Path, number: int) -> RunRecord:
    kind = row.get("type") if isinstance(row, dict) else None
    if kind == "header" and row.get("record") != RECORD:
        version = visible(str(row.get("record")), 20)
        _fail(
            path,
            number,
            f"record version {version}, but this program reads version {RECORD}",
            "update this program, or run again if the record is older",
        )
    if row is None:
        _fail(path, number, str(fault), "restore the file or run again")
    if not isinstance(kind, str) or kind not in LINES:
        _fail(path, number, fault or "not a line of a run record", "pass the .jsonl file that a run wrote")
    if kind != "header":
        _fail(path, number, f"a {kind} before the header", "write each run to a separate file")
    if fault is not None:
        _fail(path, number, fault, "run again to write a new record")
    return RunRecord(row)


def _add(record: RunRecord, row: Row, path: Path, number: int) -> None:
    kind = row["type"]
    if kind == "header":
        _fail(path, number, "a second header", "write each run to a separate file")
    if record.footer is not None:
        _fail(path, number, f"a {kind} after the footer", "write each run to a separate file")
    if kind == "footer":
        record.footer = row
    elif kind == "problem":
        record.problems.append(row["message"])
    else:
        (record.results if kind == "result" else record.choices).append(row)


def _fail(path: Path, number: int, reason: str, remedy: str) -> NoReturn:
    raise RecordError(f"{visible(str(path))}, line {number}: {visible(reason, 300)}; {remedy}")


def write_text(path: Path, text: str) -> None:
    """Write a complete file under a temporary name, and rename it to ``path``.

    Other programs may be using the folder of a record, so the reports beside it are written in this way. A
    symbolic link at ``path`` is replaced by the file. Raises OSError if writing fails.
    """
    part = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with part.open("x", encoding="utf-8") as file:
            file.write(text)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


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
