"""Run records: JSON lines written while a run goes on, and read back by everything that reports.

The format is ``schemas/record.schema.json``. A record without its footer is a truncated run: it can be read,
and says so.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

from safetensors_corpus.judging.verdicts import STRICT_FAILING, fails, kind_of, worst

from .schema import line_error
from .text import visible

if TYPE_CHECKING:
    from types import TracebackType

RECORD = 1
"""Version of the format that is written and read here."""

LONGEST_HEADER = 1 << 20
"""Most bytes that are read to see whose record a file is."""

Row = dict[str, Any]
"""One line of a record."""


def row_failures(row: Row) -> list[Row]:
    """Return everything that is wrong about a result: ``verdict``, ``rule``, ``property``, ``detail`` each.

    Of a record from before failures were told apart that is the verdict, charged to the case's first rule.
    """
    if "failures" in row or kind_of(row["verdict"]) not in STRICT_FAILING - {"harness-error"}:
        return list(row.get("failures", ()))
    rule = row.get("rule") or (row.get("rules") or [""])[0]
    detail = row.get("detail") or row.get("message") or ""
    return [{"verdict": row["verdict"], "rule": rule, "basis": None, "property": "outcome", "detail": detail}]


class RecordError(Exception):
    """A record cannot be read; the text gives file, line, reason and what to do."""


class RecordWriter:
    """Writes a record line by line, each flushed, so that a killed run leaves what it had found.

    Creates missing parent folders and replaces an existing file. Leaving the ``with`` block closes the file
    and adds no footer: only ``footer()`` says that a run reached its end.

    Args:
        path: the file to write.

    Raises:
        OSError: the file cannot be created or written.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("wb", buffering=0)  # else a full disk is told of once more at the end
        self._end = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; doing it twice is harmless."""
        self._file.close()

    def header(self, row: Row) -> None:
        """Write the header, the first line; ``record`` is filled in."""
        self._line("header", {"record": RECORD, **row})

    def result(self, row: Row) -> None:
        """Write the result of one step of one case."""
        self._line("result", row)

    def choice(self, row: Row) -> None:
        """Write what the cases of one choice say together."""
        self._line("choice", row)

    def problem(self, message: str) -> None:
        """Write something that kept the run from telling about the implementation."""
        self._line("problem", {"message": message})

    def footer(self, *, complete: bool, duration_s: float, not_run: int) -> None:
        """Write the last line.

        Args:
            complete: False for a filtered or interrupted run.
            duration_s: wall time of the run in seconds.
            not_run: cases of the corpus that were not run.
        """
        self._line("footer", {"complete": complete, "duration_s": duration_s, "not_run": not_run})

    def _line(self, kind: str, row: Row) -> None:
        row = {"type": kind, **{k: v for k, v in row.items() if k != "type"}}
        try:
            text = json.dumps(row, allow_nan=False)
        except ValueError:  # a worker may send NaN as a time; losing the number beats losing the run
            text = json.dumps(_finite(row), allow_nan=False)
        # ASCII with escapes: lone surrogates in tensor names survive, and no line can hold a raw line break.
        line = text.encode("ascii") + b"\n"
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            with contextlib.suppress(OSError):
                self._file.truncate(self._end)  # a part of a line is no result
            raise
        self._end += len(line)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    return [_finite(v) for v in value] if isinstance(value, (list, tuple)) else value


@dataclass
class RunRecord:
    """One run of one implementation, as far as it got.

    Attributes:
        header: the first line.
        results: one row per case and step, in the order of the run.
        choices: one row per choice.
        problems: what kept the run from telling about the implementation.
        footer: the last line, None for a truncated run.
    """

    header: Row
    results: list[Row] = field(default_factory=list)
    choices: list[Row] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    footer: Row | None = None

    @property
    def implementation(self) -> Row:
        """The header's part about who was tested."""
        row: Row = self.header["implementation"]
        return row

    @property
    def label(self) -> str:
        """Selector and version, as shown to people after escaping: ``safetensors:numpy 0.8.0``."""
        name, version = str(self.implementation["selector"]), str(self.implementation["version"])
        return name if version in ("", "unknown") else f"{name} {version}"

    @property
    def truncated(self) -> bool:
        """Whether the run ended without saying so."""
        return self.footer is None

    @property
    def partial(self) -> bool:
        """Whether the run says that it was filtered or interrupted."""
        return self.footer is not None and not self.footer["complete"]

    @property
    def unfinished(self) -> str | None:
        """The case that a truncated run was at work on: the last, opened by a reader that can also read."""
        if not self.truncated or not self.results or self.results[-1]["step"] != "open":
            return None
        last = self.results[-1]["case"]
        read = any(row["case"] == last and row["step"] == "read" for row in self.results)
        return last if "read" in self.implementation.get("steps", ()) and not read else None

    def by_case(self) -> dict[str, list[Row]]:
        """Return the results of every case, cases in the order of the run."""
        cases: dict[str, list[Row]] = {}
        for row in self.results:
            cases.setdefault(row["case"], []).append(row)
        return cases

    def case_verdicts(self) -> dict[str, str]:
        """Return the worst verdict of every case.

        The unfinished case is left out unless it has failed already: half run is not passed.
        """
        verdicts = {case: worst(r["verdict"] for r in rows) for case, rows in self.by_case().items()}
        last = self.unfinished
        if last is not None and not fails(verdicts[last]):
            del verdicts[last]
        return verdicts

    def counts(self) -> dict[str, int]:
        """Return the number of cases per kind of verdict; kinds that do not occur are left out."""
        return dict(Counter(kind_of(verdict) for verdict in self.case_verdicts().values()))

    @property
    def cases(self) -> int:
        """Number of distinct cases that were run."""
        return len(self.case_verdicts())

    @property
    def not_run(self) -> int:
        """Number of cases without a verdict: what the footer says, and at least what the corpus has more."""
        said = self.footer["not_run"] if self.footer else 0
        return int(max(said, self.header["corpus"]["cases"] - self.cases))

    def expected_cases(self) -> set[str]:
        """Return the failing cases whose failing steps are all listed in the baseline."""
        found = set()
        for case, rows in self.by_case().items():
            bad = [r for r in rows if fails(r["verdict"])]
            bad = bad or [r for r in rows if fails(r["verdict"], strict=True)]
            if bad and all(r.get("expected_failure", False) for r in bad):
                found.add(case)
        return found & self.case_verdicts().keys()

    @property
    def expected_failures(self) -> int:
        """Number of failing cases that the baseline lists."""
        return len(self.expected_cases())

    def inconsistent_choices(self) -> dict[str, str]:
        """Return the choices whose cases contradict each other, with the detail."""
        rows = [*self.choices, *self.results]
        return {
            str(r.get("choice") or r.get("case")): r.get("detail", "")
            for r in reversed(rows)
            if kind_of(r["verdict"]) == "choice-inconsistent"
        }


def selector_of(path: Path) -> str | None:
    """Return the selector of the implementation that a record is about, None for what is no record."""
    try:
        with path.open("rb") as file:
            row = _parse(file.readline(LONGEST_HEADER))
    except (OSError, ValueError, RecursionError):
        return None
    who = row.get("implementation") if isinstance(row, dict) else None
    found = who.get("selector") if isinstance(who, dict) else None
    return found if isinstance(found, str) else None


def read_record(path: str | Path) -> RunRecord:
    """Read a record. A torn last line, left by a run killed while writing it, counts as truncated.

    Raises:
        RecordError: the file is unreadable, garbled, of another version or not a record.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as err:
        raise RecordError(
            f"{visible(str(path))}: {err.strerror or err}; give the .jsonl file that a run wrote"
        ) from err
    *lines, rest = data.split(b"\n")
    record: RunRecord | None = None
    for number, line in enumerate([*lines, rest], 1):
        if not line.strip():
            continue
        try:
            row = _parse(line)
        except (ValueError, RecursionError) as err:
            if number > len(lines) and record is not None and record.footer is None:
                break
            _fail(path, number, f"not a line of JSON ({err})", "restore the file or run again")
        record = _add(record, row, path, number)
    if record is None:
        _fail(path, 1, "no header; the run ended before it began, or this is no record", "run again")
    return record


def _parse(line: bytes) -> object:
    def refuse(name: str) -> NoReturn:
        raise ValueError(f"{name} is no JSON number")

    return json.loads(line.decode("utf-8"), parse_constant=refuse)


def _add(record: RunRecord | None, row: object, path: Path, number: int) -> RunRecord:
    kind = row.get("type") if isinstance(row, dict) else None
    if not isinstance(row, dict) or not isinstance(kind, str) or kind not in _KINDS:
        _fail(path, number, "not a line of a run record", "give the .jsonl file that a run wrote")
    if kind == "header" and row.get("record") != RECORD:
        version = visible(str(row.get("record")), 20)
        _fail(path, number, f"record version {version}, this program reads {RECORD}", "update the older one")
    error = line_error(kind, row)
    if error is not None:
        _fail(path, number, f"bad {error}", "run again to write a new record")
    if (record is None) != (kind == "header"):
        what = "a second header" if record else f"a {kind} before the header"
        _fail(path, number, what, "keep every run in a file of its own")
    if record is None:
        return RunRecord(row)
    if record.footer is not None:
        _fail(path, number, f"a {kind} after the footer", "keep every run in a file of its own")
    if kind == "footer":
        record.footer = row
    elif kind == "problem":
        record.problems.append(row["message"])
    else:
        (record.results if kind == "result" else record.choices).append(row)
    return record


_KINDS = ("header", "result", "choice", "problem", "footer")


def _fail(path: Path, number: int, reason: str, remedy: str) -> NoReturn:
    raise RecordError(f"{visible(str(path))}, line {number}: {visible(reason, 300)}; {remedy}")
