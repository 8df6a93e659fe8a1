"""The file of a run record: its writer, its reader, and models of its lines (``record.schema.json``).

Lines are validated against these models and passed on as plain dicts. This preserves the report of a reader
under test, even if a name contains a lone surrogate.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, Self

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from safetensors_corpus.judging.verdicts import DEVIATIONS, VERDICTS
from safetensors_corpus.steps import STEPS
from safetensors_corpus.typed import DEEPEST, Count, MisfitError, deep, typed
from safetensors_reference.rules.book import ProfileName
from safetensors_reference.source import PathSource, open_source, read_whole

from ..text import plural, visible
from .run import Row, RunRecord

RECORD = 1
CHUNK = 1 << 20

_PLAIN = [word for word in VERDICTS if word not in ("deviation", "choice")]
_DEVIATION, _CHOICE = f"deviation:({'|'.join(DEVIATIONS)})", r"choice:[^|]+(\|[^|]+)*"
VERDICT = f"({'|'.join([*_PLAIN, _DEVIATION, _CHOICE])})"
"""Pattern of all verdicts."""

Step = Annotated[str, Meta(pattern=f"^({'|'.join(STEPS)})$", extra_json_schema={"enum": list(STEPS)})]
Verdict = Annotated[
    str,
    Meta(
        pattern=f"^{VERDICT}$",
        description="Result of comparing the outcome with the case. For a choice, the option follows a "
        "colon. Several compatible options are separated by bars.",
    ),
]
Outcome = Literal["accept", "reject", "unsupported", "crash", "hang", "exhausted", "harness-error"]
Basis = Literal["text", "official", "ours"] | None


class Line(Struct, tag_field="type", tag=str.lower):
    """A line of a run record. Readers ignore properties that they do not know."""


class Implementation(Struct):
    """The implementation under test.

    Attributes:
        selector: Value of --impl.
        areas: Areas of the corpus that the implementation claims to judge; empty or missing for all.
        lacks: Features that the implementation does not support, such as dtype-f4.
        kind: Kind of program, such as reader or validator, if its descriptor names it.
    """

    selector: str
    name: str
    version: str
    language: str | UnsetType = UNSET
    steps: list[Step] | UnsetType = UNSET
    areas: list[str] | UnsetType = UNSET
    lacks: list[str] | UnsetType = UNSET
    kind: str | UnsetType = UNSET


class Corpus(Struct):
    """The corpus of a run.

    Attributes:
        digest: SHA-256 of the manifest.
        cases: Number of cases in a full run of this implementation, including those that were not run.
        left_out: Number of cases in the corpus that a full run leaves out: heavy ones unless requested, and
            those that require a step that the implementation does not support.
    """

    version: str
    digest: str
    cases: Count
    left_out: dict[str, Count] | UnsetType = UNSET


class Limits(Struct):
    """Limits of a step."""

    time_s: float | UnsetType | None = UNSET
    memory_bytes: int | UnsetType | None = UNSET


class Header(Line):
    """The first line: implementation, corpus and conditions of the run.

    Attributes:
        record: Version of this format; every incompatible change increments it.
        suite: Version of the suite.
        device: Requested device: cpu, or an accelerator such as cuda:0. If the implementation has the device
            step, files were loaded onto this device.
        started: Time in UTC, RFC 3339.
        baseline: File of expected failures.
    """

    record: Literal[1]
    suite: str
    implementation: Implementation
    corpus: Corpus
    profile: ProfileName | None
    device: str | UnsetType = UNSET
    limits: Limits | UnsetType = UNSET
    started: str | UnsetType = UNSET
    baseline: str | UnsetType | None = UNSET
    platform: str | UnsetType = UNSET
    python: str | UnsetType = UNSET


class Failure(Struct):
    """A single failure.

    Attributes:
        rule: The rule that is broken; empty if it is not known.
        basis: Basis of the rule: the written format, the official library where the text is silent, or our
            hardening.
        property: What is wrong: outcome, a part of the content, a property of a written file, cost,
            exception, or a check of the device step.
    """

    verdict: Verdict
    rule: str
    basis: Basis
    property: str
    detail: str


class Tensor(Struct):
    """A tensor as the reader reports it; a lenient reader may report unexpected values.

    Attributes:
        unsupported: Why the reader cannot return this tensor.
    """

    name: str
    dtype: Any = UNSET
    shape: Any = UNSET
    nbytes: Any = UNSET
    sha256: str | UnsetType | None = UNSET
    unsupported: str | UnsetType | None = UNSET


class Content(Struct):
    """Content that an accepting reader reported; missing or null properties were not reported.

    Attributes:
        metadata: As reported, with values of any type. Missing if the reader does not report metadata, and
            null if the file has none.
        digests: Present if the content is too large to keep; tensors and metadata then contain only the first
            items by name. The digests are SHA-256 over the whole content: names, metadata, and each reported
            field of every tensor.
        tensor_count: Number of reported tensors if there are digests.
        metadata_count: Number of reported metadata keys if there are digests.
    """

    tensors: list[Tensor] | UnsetType | None = UNSET
    metadata: dict[str, Any] | UnsetType | None = UNSET
    digests: dict[str, str] | UnsetType = UNSET
    tensor_count: Count | UnsetType = UNSET
    metadata_count: Count | UnsetType = UNSET


class Check(Struct):
    """A guarantee that the device step checked; unknown if the device or the reader cannot be checked."""

    name: str
    status: Literal["pass", "fail", "unknown"]
    message: str


class Result(Line):
    """One step of one case.

    Attributes:
        outcome: What the implementation did; harness-error is a fault of the adapter.
        rules: The rules that the case is about.
        rule: The rule that is broken; if there are several failures, the rule of the worst one.
        failures: All failures, each with its own rule.
        expected_failure: Whether the baseline lists it.
        detail: Explanation of the verdict by the harness.
        message: Message of the implementation.
    """

    case: str
    step: Step
    outcome: Outcome
    verdict: Verdict
    level: str | UnsetType = UNSET
    importance: str | UnsetType = UNSET
    rules: list[str] | UnsetType = UNSET
    rule: str | UnsetType | None = UNSET
    basis: Basis | UnsetType = UNSET
    failures: list[Failure] | UnsetType = UNSET
    choice: str | UnsetType | None = UNSET
    options: list[str] | UnsetType = UNSET
    expected_failure: bool | UnsetType = UNSET
    detail: str | UnsetType = UNSET
    message: str | UnsetType = UNSET
    exception: str | UnsetType | None = UNSET
    documented: bool | UnsetType | None = UNSET
    wall_ms: float | UnsetType | None = UNSET
    cpu_ms: float | UnsetType | None = UNSET
    peak_bytes: int | UnsetType | None = UNSET
    noise: str | UnsetType = UNSET
    content: Content | UnsetType | None = UNSET
    checks: list[Check] | UnsetType = UNSET


class Choice(Line):
    """Summary of the cases of one choice."""

    choice: str
    verdict: Verdict
    detail: str | UnsetType = UNSET


class Problem(Line):
    """A problem that prevented the run from judging the implementation, such as a failed smoke check."""

    message: str


class Footer(Line):
    """The last line.

    Attributes:
        complete: False for a filtered or interrupted run.
        not_run: Number of cases in the corpus that were not run.
    """

    complete: bool
    duration_s: float
    not_run: Count


LINES: dict[str, type[Line]] = {
    model.__name__.lower(): model for model in (Header, Result, Choice, Problem, Footer)
}


class RecordWriter:
    """Write and flush a record line by line; only ``footer`` marks the end of a run. Raises OSError."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.unlink(missing_ok=True)
        # without unbuffered writing, close() would report a full disk again
        self._file = self.path.open("xb", buffering=0)
        self._end = 0
        self._digest = hashlib.sha256()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    @property
    def intact(self) -> bool:
        """Whether the file at the path contains exactly the lines written so far.

        Must not be used after ``close``.
        """
        digest = hashlib.sha256()
        try:
            with PathSource(self.path) as source:
                if not os.path.samestat(source.opened, os.fstat(self._file.fileno())):
                    return False
                for start in range(0, source.size, CHUNK):
                    digest.update(source.read(start, min(CHUNK, source.size - start)))
        except OSError:
            return False
        return digest.digest() == self._digest.digest()

    def write(self, kind: str, fields: Mapping[str, Any]) -> None:
        row = {"type": kind, **{k: v for k, v in fields.items() if k != "type"}}
        try:
            text = json.dumps(row, allow_nan=False)
        except ValueError:  # a worker may send NaN as a time; drop the number and keep the run
            text = json.dumps(_finite(row), allow_nan=False)
        # Lone surrogates in tensor names are preserved as ASCII escapes, and no line contains a raw line
        # break.
        line = text.encode("ascii") + b"\n"
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            with contextlib.suppress(OSError):
                self._file.truncate(self._end)  # drop the partial line
            raise
        self._end += len(line)
        self._digest.update(line)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    return [_finite(v) for v in value] if isinstance(value, (list, tuple)) else value


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
