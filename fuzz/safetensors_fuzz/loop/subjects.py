"""Subjects of a run: implementations in workers, and functions of this process."""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from safetensors_conformance.implementations.selectors import Target
from safetensors_conformance.run.multistep import run_multistep
from safetensors_conformance.verdict.judge import StepVerdict, judge
from safetensors_conformance.worker.confinement import run_folder
from safetensors_conformance.worker.outcome import Implementation, StepResult
from safetensors_conformance.worker.pipe import make_worker
from safetensors_conformance.worker.worker import Limits, Request, Worker
from safetensors_corpus.author.file import tensor_row
from safetensors_corpus.judging.answer import Refused
from safetensors_corpus.manifest import Case
from safetensors_reference.check.inputs import CheckInput
from safetensors_reference.check.result import check_input
from safetensors_reference.check.sarif import SarifLog
from safetensors_reference.header.model import Header
from safetensors_reference.header.prove import prove, prove_fast
from safetensors_reference.rules.book import HEADER_CAP

FILE_STEPS = ("open", "read")
"""Steps on a single file."""
PROVE = "prove"
INNER = (PROVE, "check")
"""Steps of the reference only: its proving path, and ``stc check``."""
SARIF_EVERY = 16
"""One input in so many gets a SARIF log, which contains all rules and takes ten times as long as the rest."""

MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108 - only where it is a folder in memory
"""Folder for inputs if it exists: a file in memory is written in 2 µs."""


class StepError(ValueError):
    """No subject has the step; the text says which steps there are."""


def folder_in_memory() -> Path | None:
    """Return a folder in memory for temporary files, None for the default folder.

    Programs in a sandbox see no other folder than that of the run.
    """
    return run_folder() or (MEMORY_FOLDER if os.access(MEMORY_FOLDER, os.W_OK) else None)


class Slots:
    """A ring of files that are overwritten, so that no input costs the creation of a file.

    Attributes:
        folder: their folder; empty without files, when no subject reads one.
    """

    def __init__(self, count: int) -> None:
        self.folder = ""
        if count:
            self._made = tempfile.TemporaryDirectory(prefix="stc-fuzz-", dir=folder_in_memory())
            self.folder = self._made.name
        self.paths = [str(Path(self.folder) / f"{number}.safetensors") for number in range(count)]
        self._files = [os.open(path, os.O_RDWR | os.O_CREAT, 0o600) for path in self.paths]
        self._next = 0

    def put(self, data: bytes) -> str:
        """Write an input into the oldest slot; return its path, empty for no slots."""
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

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Subject:
    """An implementation that answers about files. One in this process needs ``answer`` only.

    Attributes:
        name: the selector.
        plain: name without version, for signatures.
        lacks: features that it declares to lack.
        steps: steps for each file.
        plan_steps: steps for plans.
    """

    name: str
    plain: str
    version: str
    lacks: frozenset[str] = frozenset()
    steps: tuple[str, ...]
    plan_steps: tuple[str, ...] = ()

    def announce(self, inputs: Sequence[tuple[bytes, str]]) -> None:
        """Announce the next inputs (bytes and path), in order."""

    def answer(self, data: bytes, path: str, step: str) -> StepResult:
        raise NotImplementedError

    def run_case(self, case: Case, step: str, profile: str | None) -> StepVerdict:
        raise NotImplementedError

    def renew(self) -> None:
        """Drop all state: the next answer comes from a fresh process."""

    def close(self) -> None:
        pass


def unique_names(names: Sequence[str], longer: Sequence[str]) -> list[str]:
    """Return the names, with duplicates replaced by their longer forms, e.g. with version."""
    return [n if names.count(n) == 1 else other for n, other in zip(names, longer, strict=True)]


def run_case(worker: Worker, who: Implementation, case: Case, step: str, profile: str | None) -> StepVerdict:
    """Run a case in a worker and judge the answer; a step that it lacks is ``unsupported``."""
    if step not in who.steps:
        result = StepResult("unsupported", f"{who.label} has no step {step}")
    elif step in FILE_STEPS:
        result = worker.ask(step, str(case.path))
    else:
        result = run_multistep(worker, case)
    return judge(case, {step: result}, who, profile).steps[step]


class WorkerSubject(Subject):
    """An implementation in its worker, with the harness's limits."""

    def __init__(
        self, target: Target, steps: Sequence[str], limits: Limits, profile: str | None = None
    ) -> None:
        """Start the worker. Raises StartError, and StepError when it has none of the steps."""
        self._coming: deque[Request] = deque()
        self._requests: dict[tuple[str, str], Request] = {}
        self._worker = make_worker(target, limits, profile)
        self._who = who = self._worker.start()
        self.name, self.plain = target.selector, target.plain(who.name)
        self.version, self.lacks = who.version, who.lacks
        self.plan_steps = tuple(step for step in steps if step in who.steps and step not in FILE_STEPS)
        self.steps = tuple(step for step in steps if step in who.steps and step in FILE_STEPS)
        if not self.steps and not self.plan_steps:
            self._worker.close()
            raise StepError(
                f"{self.name} has none of the steps {', '.join(steps)}; it has {', '.join(who.steps)}"
            )

    def announce(self, inputs: Sequence[tuple[bytes, str]]) -> None:
        requests = [self._request(step, path) for _, path in inputs for step in self.steps]
        if self._worker.in_flight == len(self._coming):
            self._worker.send_ahead(requests)
        self._coming.extend(requests)

    def answer(self, data: bytes, path: str, step: str) -> StepResult:  # noqa: ARG002
        if self._coming and self._coming[0] is self._request(step, path):
            # A process that died, or a question between, discards the requests that were sent
            # ahead.
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
        return run_case(self._worker, self._who, case, step, profile)

    def renew(self) -> None:
        """Start a fresh process. Raises StartError."""
        self._worker.start()

    def close(self) -> None:
        self._worker.close()


class CallSubject(Subject):
    """A function of this process that returns content in the form of the manifest, or refuses.

    Attributes:
        refusals: exceptions that count as refusals; any other exception counts as a crash.
    """

    def __init__(
        self,
        name: str,
        read: Callable[[bytes], Mapping[str, Any]],
        refusals: tuple[type[BaseException], ...] = (Refused,),
        lacks: frozenset[str] = frozenset(),
    ) -> None:
        self.name = self.plain = name
        self.version = "in-process"
        self.lacks = lacks
        self.steps = ("read",)
        self.refusals = refusals
        self._read = read

    def answer(self, data: bytes, path: str, step: str) -> StepResult:  # noqa: ARG002
        try:
            said = self._read(data)
        except self.refusals as err:
            return StepResult("reject", f"{type(err).__name__}: {err}")
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as err:  # anything that a broken reader raises is its outcome
            return StepResult("crash", f"{type(err).__name__}: {err}")
        return StepResult(
            "accept",
            tensors=said["tensors"],
            metadata=said.get("metadata"),
            has_metadata="metadata" in said,
        )


def content(data: bytes, header: Header) -> dict[str, Any]:
    """Return the content of a file with this header, in the form of the manifest."""
    start = header.data_start
    rows = [
        tensor_row(t.name, t.dtype, t.shape, data[start + t.begin : start + t.end])
        for t in header.tensors.values()
    ]
    return {"tensors": rows, "metadata": header.metadata}


def quick_header(data: bytes) -> Header | None:
    """Return the header of a file that the proving path can prove, else None."""
    if len(data) < 8:
        return None
    length = int.from_bytes(data[:8], "little")
    if not 0 < length <= min(HEADER_CAP, len(data) - 8):
        return None
    return prove(data[8 : 8 + length], len(data) - 8 - length)


class _Inner(Subject):
    """The reference in this process, with steps that no implementation has."""

    plain = "reference"
    version = version("safetensors-conformance")


class ProveSubject(_Inner):
    """The proving path: the explaining path must agree with everything that it proves."""

    name = "reference (proving path)"
    steps = (PROVE,)

    def answer(self, data: bytes, path: str, step: str) -> StepResult:  # noqa: ARG002
        header = quick_header(data)
        size = int.from_bytes(data[:8], "little")
        fast = prove_fast(data[8 : 8 + size], len(data) - 8 - size) if 0 < size <= len(data) - 8 else None
        if header is not None and fast is not None and dict(fast.tensors) != dict(header.tensors):
            return StepResult("crash", "the two proving paths disagree")
        proved = header if fast is None else fast  # each may prove files that the other leaves open
        if proved is None:
            return StepResult("unsupported", "not proved")
        return StepResult("accept", **content(data, proved), has_metadata=True)


class CheckSubject(_Inner):
    """``stc check``: its verdict, and that its three outputs can be rendered."""

    name = "reference (stc check)"
    steps = ("check",)

    def answer(self, data: bytes, path: str, step: str) -> StepResult:  # noqa: ARG002
        try:
            result = check_input(CheckInput(path), "hardened")
            result.to_json()
            if len(data) % SARIF_EVERY == 0:
                log = SarifLog("hardened")
                log.add(result)
                log.to_text(0)
        except Exception as err:  # a user would have seen any of them
            return StepResult("crash", f"{type(err).__name__}: {err}")
        if result.status == "unreadable":
            return StepResult("harness-error", f"{Path(path).name} cannot be read")
        return StepResult("accept" if result.status == "valid" else "reject")


def complete(subjects: list[Subject], steps: Sequence[str]) -> None:
    """Make the names of the subjects unique, and add the reference for its own steps."""
    plain = unique_names([subject.plain for subject in subjects], [subject.name for subject in subjects])
    for subject, name in zip(subjects, plain, strict=True):
        subject.plain = name
    subjects += [kind() for step, kind in ((PROVE, ProveSubject), ("check", CheckSubject)) if step in steps]
