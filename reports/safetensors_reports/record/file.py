"""Write run records, which are JSON lines, and read them, even if they lack the footer of a complete run.

Other programs may be using the folder of a record, so reports beside it are replaced as a whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import secrets
from pathlib import Path
from typing import Any, NoReturn, Self

import msgspec

from safetensors_corpus.typed import DEEPEST, MisfitError, deep, typed
from safetensors_reference.source import PathSource, open_source, read_whole

from ..text import plural, visible
from .line import LINES, RECORD
from .run import Row, RunRecord

LONGEST_HEADER = 1 << 20
LARGEST_RECORD = 2 << 30
CHUNK = 1 << 20
LARGEST = 1 << 63
LEFT_OUT_NAMED = 20


class RecordError(Exception):
    """A record cannot be read; the message gives the file, the line, the reason and the fix."""


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

    def write(self, kind: str, row: Row) -> None:
        row = {"type": kind, **{k: v for k, v in row.items() if k != "type"}}
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


def write_text(path: Path, text: str) -> None:
    """Write a complete file under a temporary name, and rename it to ``path``.

    A symbolic link at ``path`` is replaced by the file. Raises OSError if writing fails.
    """
    part = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with part.open("x", encoding="utf-8") as file:
            file.write(text)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    return [_finite(v) for v in value] if isinstance(value, (list, tuple)) else value


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
