"""Subjects of a run. A subject is an implementation in a worker or a function in this process."""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from safetensors_conformance.case_verdict import StepVerdict, judge
from safetensors_conformance.implementations.selectors import Target
from safetensors_conformance.outcome import Implementation, StepResult
from safetensors_conformance.programs.launcher import folder_in_memory
from safetensors_conformance.run.multistep import run_multistep
from safetensors_conformance.worker.worker import Limits, Request, Worker, make_worker
from safetensors_corpus.judging.answer import Refused
from safetensors_corpus.judging.content import tensor_row
from safetensors_corpus.manifest import Case
from safetensors_reference.check.result import check_input
from safetensors_reference.check.sarif import SarifLog
from safetensors_reference.files.names import FileInput
from safetensors_reference.header.model import Header
from safetensors_reference.header.read import prove, read_raw
from safetensors_reference.source import MemorySource

FILE_STEPS = ("open", "read")
PROVE = "prove"
INNER = (PROVE, "check")
"""Steps that only the reference supports. They run its proving path and ``stc check``."""
SARIF_EVERY = 16
"""A SARIF log is created for one in this many inputs, because creating it takes ten times as long as the
rest.
"""


class StepError(ValueError):
    """No subject supports the step. The message lists the available steps."""


class Slots:
    """A ring of reused input files. If no subject reads files, the folder and the paths are empty."""

    def __init__(self, count: int) -> None:
        self.folder = ""
        if count:
            self._made = tempfile.TemporaryDirectory(prefix="stc-fuzz-", dir=folder_in_memory())
            self.folder = self._made.name
        self.paths = [str(Path(self.folder) / f"{number}.safetensors") for number in range(count)]
        self._files = [os.open(path, os.O_RDWR | os.O_CREAT, 0o600) for path in self.paths]
        self._next = 0

    def put(self, data: bytes) -> str:
        if not self.paths:
            return ""
        slot = self._next
        self._next = (slot + 1) % len(self.paths)
        os.pwrite(self._files[slot], data, 0)
        os.ftruncate(self._files[slot], len(data))
        return self.paths[slot]

    def close(self) -> None:
        for file in self._files:
            os.close(file)
        self._files = []
        if self.folder:
            self._made.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Subject:
    """An implementation under test. A subject in this process only needs the method ``answer``."""

    name: str
    plain: str
    """Name without the version, for signatures."""
    version: str
    lacks: frozenset[str] = frozenset()
    steps: tuple[str, ...]
    """Steps that run on files."""
    plan_steps: tuple[str, ...] = ()
    """Steps that run on plans."""

    def announce(self, inputs: Sequence[tuple[bytes, str]]) -> None:
        """Announce the bytes and paths of the next inputs, in order."""

    def answer(self, data: bytes, path: str, step: str) -> StepResult:
        raise NotImplementedError

    def run_case(self, case: Case, step: str, profile: str | None) -> StepVerdict:
        raise NotImplementedError

    def renew(self) -> None:
        """Drop all state, so that a fresh process gives the next answer."""

    def close(self) -> None:
        pass


def run_case(
    worker: Worker, implementation: Implementation, case: Case, step: str, profile: str | None
) -> StepVerdict:
    """Run a case in a worker and judge the answer. If the step is missing, the outcome is ``unsupported``."""
    if step not in implementation.steps:
        result = StepResult("unsupported", f"{implementation.label} does not have the step {step}")
    elif step in FILE_STEPS:
        result = worker.ask(step, str(case.path))
    else:
        result = run_multistep(worker, case)
    return judge(case, {step: result}, implementation, profile).steps[step]


class WorkerSubject(Subject):
    """An implementation that runs in a worker with limits."""

    def __init__(
        self, target: Target, steps: Sequence[str], limits: Limits, profile: str | None = None
    ) -> None:
        """Start the worker. Raises StartError, or StepError if the implementation has none of the steps."""
        self._coming: deque[Request] = deque()
        self._requests: dict[tuple[str, str], Request] = {}
        self._worker = make_worker(target, limits, profile)
        self._implementation = implementation = self._worker.start()
        self.name, self.plain = target.selector, target.plain(implementation.name)
        self.version, self.lacks = implementation.version, implementation.lacks
        supported = [step for step in steps if step in implementation.steps]
        self.plan_steps = tuple(step for step in supported if step not in FILE_STEPS)
        self.steps = tuple(step for step in supported if step in FILE_STEPS)
        if not self.steps and not self.plan_steps:
            self._worker.close()
            raise StepError(
                f"{self.name} has none of the steps {', '.join(steps)}; "
                f"it has {', '.join(implementation.steps)}"
            )

    def announce(self, inputs: Sequence[tuple[bytes, str]]) -> None:
        requests = [self._request(step, path) for _, path in inputs for step in self.steps]
        if self._worker.in_flight == len(self._coming):
            self._worker.send_ahead(requests)
        self._coming.extend(requests)

    def answer(self, data: bytes, path: str, step: str) -> StepResult:  # noqa: ARG002
        if self._coming and self._coming[0] is self._request(step, path):
            # If the process dies or receives another question, requests that were sent ahead are lost.
            if self._worker.in_flight != len(self._coming):
                self._worker.send_ahead(self._coming)
            self._coming.popleft()
        return self._worker.ask(step, path)

    def _request(self, step: str, path: str) -> Request:
        request = self._requests.get((step, path))
        if request is None:
            request = self._requests[step, path] = Request(step, path)
        return request

    def run_case(self, case: Case, step: str, profile: str | None) -> StepVerdict:
        return run_case(self._worker, self._implementation, case, step, profile)

    def renew(self) -> None:
        self._worker.start()

    def close(self) -> None:
        self._worker.close()


class CallSubject(Subject):
    """A function in this process. Exceptions in ``rejections`` are rejections, and all others are crashes."""

    def __init__(
        self,
        name: str,
        read: Callable[[bytes], Mapping[str, Any]],
        rejections: tuple[type[BaseException], ...] = (Refused,),
        lacks: frozenset[str] = frozenset(),
    ) -> None:
        self.name = self.plain = name
        self.version = "in-process"
        self.lacks = lacks
        self.steps = ("read",)
        self._rejections = rejections
        self._read = read

    def answer(self, data: bytes, path: str, step: str) -> StepResult:  # noqa: ARG002
        try:
            content = self._read(data)
        except self._rejections as err:
            return StepResult("reject", f"{type(err).__name__}: {err}")
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as err:  # any other exception is an outcome of the reader
            return StepResult("crash", f"{type(err).__name__}: {err}")
        return StepResult(
            "accept",
            tensors=content["tensors"],
            metadata=content.get("metadata"),
            has_metadata="metadata" in content,
        )


def content(data: bytes, header: Header) -> dict[str, Any]:
    start = header.data_start
    rows = [
        tensor_row(t.name, t.dtype, t.shape, data[start + t.begin : start + t.end])
        for t in header.tensors.values()
    ]
    return {"tensors": rows, "metadata": header.metadata}


def quick_header(data: bytes) -> Header | None:
    """Return the header of a file if the proving path proves that the file is valid, otherwise None."""
    raw = read_raw(MemorySource(data))
    return prove(raw, len(data) - 8 - len(raw)) if isinstance(raw, bytes) else None


class ProveSubject(Subject):
    """The proving path. The explaining path must confirm everything that the proving path proves."""

    plain, version = "reference", version("safetensors-conformance")
    name = "reference (proving path)"
    steps = (PROVE,)

    def answer(self, data: bytes, path: str, step: str) -> StepResult:  # noqa: ARG002
        header = quick_header(data)
        if header is None:
            return StepResult("unsupported", "not proved")
        return StepResult("accept", **content(data, header), has_metadata=True)


class CheckSubject(Subject):
    """The command ``stc check``, with its verdict and its three output formats."""

    plain, version = "reference", ProveSubject.version
    name = "reference (stc check)"
    steps = ("check",)

    def answer(self, data: bytes, path: str, step: str) -> StepResult:  # noqa: ARG002
        try:
            result = check_input(FileInput(path), "hardened")
            result.to_json()
            if len(data) % SARIF_EVERY == 0:
                log = SarifLog("hardened")
                log.add(result)
                log.to_text(0)
        except Exception as err:  # a user of ``stc check`` would see any of these exceptions
            return StepResult("crash", f"{type(err).__name__}: {err}")
        if result.status == "unreadable":
            return StepResult("harness-error", f"cannot read {Path(path).name}")
        return StepResult("accept" if result.status == "valid" else "reject")


def complete(subjects: list[Subject], steps: Sequence[str]) -> None:
    """Make the names of the subjects unique, and add subjects for the steps that only the reference has."""
    names = [subject.plain for subject in subjects]
    for subject in subjects:
        if names.count(subject.plain) > 1:
            subject.plain = subject.name  # this name may include the version of the library, for example
    subjects += [kind() for step, kind in ((PROVE, ProveSubject), ("check", CheckSubject)) if step in steps]
