"""Run several implementations over the same inputs, each in its own worker, without judging the answers."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from safetensors_corpus import Case, ManifestError
from safetensors_corpus.judging.content import FIELDS, dtype_features
from safetensors_corpus.judging.judge import excuse
from safetensors_reference import UnreadableError, explain, rule_book
from safetensors_reference.files.names import is_index
from safetensors_reference.files.walk import find_inputs
from safetensors_reports.differences.signatures import InputInfo
from safetensors_reports.record.run import RunRecord

from .implementations.commands import InstallError
from .implementations.selectors import Target
from .outcome import Implementation, StepResult
from .programs.launcher import end_children
from .run.session import GivenFile, Input, Session, is_single_question
from .worker.worker import Limits, StartError

KINDS = ("read", "slice", "index")
"""Kinds of corpus case whose answers can be compared without an expectation."""
MAX_CODES = 6
UNREADABLE = "unreadable"
"""Subject of a file that the strict reader can no longer read."""


def most_values(files: Iterable[GivenFile]) -> int:
    """Return an upper bound on the number of values in any header or index: the largest size in bytes."""
    most = 0
    for file in files:
        with contextlib.suppress(OSError), file.path.open("rb") as opened:
            header = int.from_bytes(opened.read(8), "little")
            most = max(most, min(header, file.path.stat().st_size))
    return most


def find_files(arguments: Sequence[str]) -> tuple[list[GivenFile], list[str]]:
    """Return the files that the arguments refer to, and problems such as unreadable files."""
    files, problems = [], []
    for item in find_inputs(arguments):
        problem = item.problem or _unreadable(item.address)
        if problem:
            problems.append(f"{item.address}: {problem}")
            continue
        kind = "index" if is_index(item.address) else "read"
        files.append(GivenFile(item.address, kind, Path(item.address).absolute()))
    return files, problems


def _unreadable(name: str) -> str | None:
    try:
        if not Path(name).is_file():
            return "no such file" if not Path(name).exists() else "not a regular file"
        with Path(name).open("rb"):
            return None
    except OSError as err:
        return err.strerror or str(err)


def features_of(path: Path) -> Iterator[str]:
    """Yield the dtypes of a valid file as feature names. The file is read lazily."""
    with contextlib.suppress(UnreadableError):
        header = explain(path).header
        yield from dtype_features(t.dtype for t in header.tensors.values()) if header is not None else ()


def check_inputs(cases: Iterable[Case]) -> tuple[list[Case], list[str]]:
    good, problems = [], []
    for case in cases:
        try:
            if case.input.recipe:
                _ = case.path  # the file is checked when it is created
            elif case.input.file is not None and not case.input.files:
                case.read_input()
        except ManifestError as err:
            problems.append(str(err))
        else:
            good.append(case)
    return good, problems


def facts_of(item: Input) -> InputInfo:
    """Return what characterizes an input: the strict reader's fault codes or, if none, the case's rule."""
    case = item if isinstance(item, Case) else None
    if case is not None and not is_single_question(item):
        return InputInfo(case.rules[0], _open_choice(case.choice), case.title)
    codes: list[str] = []
    choices: set[str | None] = set()
    if item.kind == "read":
        try:
            explanation = explain(item.path)
        except UnreadableError:
            codes = [UNREADABLE]
        else:
            faults = [*explanation.faults, *explanation.tolerated]
            codes, choices = sorted({f.code for f in faults}), {f.choice for f in faults}
    subject = "+".join(codes[:MAX_CODES]) or (case.rules[0] if case is not None else "valid")
    if case is not None:
        return InputInfo(subject, _open_choice(case.choice), case.title)
    undisputed = not choices or any(not _open_choice(c) for c in choices)
    return InputInfo(subject, "" if undisputed else "+".join(sorted(c for c in choices if c)))


def _open_choice(choice: str | None) -> str:
    return choice if choice and rule_book().choices[choice].required is None else ""


MAX_LISTED = 50
NOT_ASKED = StepResult("harness-error", "not run: the implementation has no step for this input")


class Side(Session):
    """An implementation that runs in its own thread. ``asked`` contains the inputs that it supports."""

    def __init__(self, target: Target, limits: Limits, profile: str | None = None) -> None:
        super().__init__(target, limits, profile, last_step_only=True)
        self.problem: str | None = None
        self.results: dict[str, StepResult] = {}
        self.asked: set[str] = set()

    def prepare(self) -> None:
        try:
            self.target.prepare()
        except InstallError as err:
            self.problem = str(err)

    def run_all(self, inputs: Sequence[Input], stop: threading.Event, tick: Callable[[], None]) -> None:
        if self.problem is not None or stop.is_set():
            return
        self.stop = stop
        try:
            self.start()
            for item, result in self.run(inputs, self._result):
                self.results[item.id] = result
                tick()
        except StartError as err:
            self.problem = str(err)
        finally:
            self.close()

    def _result(self, item: Input) -> StepResult:
        if not self.steps(item):
            return NOT_ASKED
        (result,) = self.answers(item).values()
        self.asked.add(item.id)
        features = item.features if isinstance(item, Case) else features_of(item.path)
        if excused := excuse(result, self.start().lacks, features):
            result = replace(result, outcome="unsupported", message=f"{excused}; {result.message}")
        return self._kept_content.kept(result)


def run_all(sides: Sequence[Side], inputs: Sequence[Input], jobs: int, tick: Callable[[Side], None]) -> bool:
    """Run all sides, ``jobs`` at a time, each in its own thread. Returns False after Ctrl-C."""
    stop = threading.Event()
    pool = ThreadPoolExecutor(max_workers=max(jobs, 1))
    try:
        futures = [pool.submit(side.run_all, inputs, stop, partial(tick, side)) for side in sides]
        wait(futures)
    except KeyboardInterrupt:
        stop.set()
        end_children()  # otherwise this process would wait for their answers before it exits
        pool.shutdown(wait=False, cancel_futures=True)
        return False
    pool.shutdown()
    for future in futures:
        future.result()
    return True


def names_of(sides: Sequence[Side]) -> list[str]:
    """Return a distinct name for each side, without its version where possible, for use in signatures."""
    names = [_plain_name(side) for side in sides]
    for longer in (_with_object, lambda side: side.target.selector):
        names = [n if names.count(n) == 1 else longer(side) for n, side in zip(names, sides, strict=True)]
    return names


def _plain_name(side: Side) -> str:
    return side.target.plain(side.implementation.name if side.implementation is not None else "")


def _with_object(side: Side) -> str:
    scheme, _, rest = side.target.selector.partition(":")
    return f"{_plain_name(side)}:{rest.rpartition(':')[2]}" if scheme == "py" else _plain_name(side)


def records_of(sides: Mapping[Side, Implementation], digest: str, profile: str | None) -> list[RunRecord]:
    """Return a run record without verdicts for each side that started, as input for a comparison."""
    short = [(_plain_name(side), who.version) for side, who in sides.items()]
    return [
        _record(side, who, plain[0] if short.count(plain) == 1 else name, digest, profile)
        for (side, who), plain, name in zip(sides.items(), short, names_of([*sides]), strict=True)
    ]


def _record(side: Side, who: Implementation, selector: str, digest: str, profile: str | None) -> RunRecord:
    results = dict(side.results)  # after Ctrl-C, its thread may still add some
    header = {
        "implementation": {"selector": selector, "name": who.name, "version": who.version},
        "corpus": {"digest": digest, "cases": len(results)},
        "profile": profile,
    }
    rows: list[dict[str, Any]] = [
        {
            "case": input_id,
            "step": "read",
            "outcome": result.outcome if input_id in side.asked else "not-asked",
            "verdict": "",
            "content": result.content,
        }
        for input_id, result in results.items()
    ]
    return RunRecord(header, rows, footer={"complete": True, "duration_s": 0.0, "not_run": 0})


def dump(result: StepResult) -> dict[str, Any]:
    """Return an answer as canonical JSON data of bounded size. Facts that were not reported are omitted."""
    if result.outcome != "accept":
        return {"outcome": result.outcome, "message": result.message[:500]}
    out: dict[str, Any] = {"outcome": "accept"}
    reported: dict[str, Any] = {}
    if result.tensors is not None:
        rows = []
        for row in result.tensors:
            fields = {name: _plain(row[name]) for name in FIELDS if row.get(name) is not None}
            unsupported = {"unsupported": True} if row.get("unsupported") else {}
            rows.append({"name": row["name"], **fields, **unsupported})
        reported["tensors"] = sorted(rows, key=lambda row: (row["name"], json.dumps(row, sort_keys=True)))
    if result.has_metadata:
        reported["metadata"] = dict(sorted((str(k), _plain(v)) for k, v in (result.metadata or {}).items()))
    text = json.dumps(
        reported if result.cut is None else dict(result.cut), sort_keys=True, separators=(",", ":")
    )
    out["digest"] = hashlib.sha256(text.encode("ascii")).hexdigest()
    if "tensors" in reported:
        out["count"] = len(reported["tensors"]) if result.cut is None else result.cut["tensor_count"]
        out["tensors"] = reported["tensors"][:MAX_LISTED]
    if "metadata" in reported:
        out["metadata"] = dict(list(reported["metadata"].items())[:MAX_LISTED])
    return out


def _plain(value: Any) -> Any:
    """Convert a value to one that JSON can express. Lenient readers may report NaN and infinities."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list) else value
