"""Run a case of several requests: give its steps a worker as an object that reads, writes and holds files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from safetensors_corpus import Case
from safetensors_corpus.in_process import run_case
from safetensors_corpus.judging.answer import Answer
from safetensors_corpus.repeating import Usage, usage_of

from ..outcome import StepResult
from ..programs.files import scratch_folder, without
from ..worker.worker import Limits, Request, Worker
from .budget import combined


def run_multistep(
    worker: Worker,
    case: Case,
    limits: Limits | None = None,
    *,
    measure: bool = False,
    rivals: Callable[[int], Sequence[Worker]] | None = None,
) -> StepResult:
    """Run a case.

    With ``measure``, the result includes the combined costs of all requests. ``rivals(n)`` starts ``n`` more
    workers of the same implementation.
    """
    proxy = _Proxy(worker, case, limits, measure=measure, rivals=rivals)
    with scratch_folder("case") as folder:
        result = run_case(case, proxy, folder)
    nothing = StepResult("harness-error", result.message or "the case sent no request")
    last = proxy.answers[-1] if proxy.answers else nothing
    last = proxy.unaddressed(last).reworded(partial(without, folder))
    if measure:
        last = replace(
            last,
            spent_ms=combined(sum, [one.spent_ms for one in proxy.answers]),
            read_bytes=combined(sum, [one.read_bytes for one in proxy.answers]),
            peak_bytes=combined(max, [one.peak_bytes for one in proxy.answers]),
        )
    last = replace(last, wall_ms=round(sum(one.wall_ms for one in proxy.answers), 3))
    if proxy.ended or last.outcome == "harness-error":
        return last
    content = {f.name: getattr(result, f.name) for f in fields(Answer) if f.name not in _OF_WORKER}
    if case.kind == "remote" and result.outcome == "accept":
        content["message"] = result.message  # what the server sent
    return replace(last, **content)


_OF_WORKER = {"message", "exception", "documented"}


SHOWN_URL = "http://server/owner/model/resolve/main/file.safetensors"
"""Replaces the server address in messages of an implementation."""


class _RefusedError(Exception):
    """The implementation rejected the input, or cannot handle further requests."""


class _Proxy:
    """An implementation object that is backed by a worker. ``ended`` is true after a crash or hang."""

    def __init__(
        self,
        worker: Worker,
        case: Case,
        limits: Limits | None,
        *,
        measure: bool,
        rivals: Callable[[int], Sequence[Worker]] | None,
    ) -> None:
        self._worker = worker
        self._rivals = rivals
        self._limits = limits
        self._measure = measure
        self._action: Mapping[str, Any] = case.action or {}
        self.limits_file_size = True  # the worker sets the limit, because this process writes other files
        self.answers: list[StepResult] = []
        self.ended = False
        self._url = ""

    def ask(self, step: str, path: Path | str, more: Mapping[str, Any] | None = None) -> StepResult:
        if self.ended:
            raise _RefusedError
        result = self._worker.ask(step, str(path), more, measure=self._measure, limits=self._limits)
        return self._answered(result)

    def _answered(self, result: StepResult) -> StepResult:
        self.answers.append(result)
        self.ended = result.outcome not in ("accept", "reject", "unsupported")
        if result.outcome == "unsupported":
            raise NotImplementedError(result.message)
        if result.outcome != "accept":
            raise _RefusedError(result.message)
        return result

    def slice(self, path: Path, tensor: str, index: object) -> dict[str, Any]:  # noqa: ARG002 - see _action
        more = {"tensor": tensor, "index": self._action["index"]}
        return _only(self.ask("slice", path, more))

    def open(self, path: Path) -> dict[str, Any]:
        return _content(self.ask("open", path))

    def read(self, path: Path) -> dict[str, Any]:
        return _content(self.ask("read", path))

    def index(self, path: Path) -> dict[str, Any]:
        return {"tensors": self.ask("index", path).tensors or []}

    def write(self, path: Path, tensors: object, metadata: object) -> None:  # noqa: ARG002 - see _action
        self.ask("write", path, _parameters(self._action))

    def write_at_once(self, path: Path, actions: Sequence[Mapping[str, Any]]) -> None:
        if self._rivals is None:
            raise NotImplementedError("this program cannot run in several processes")
        workers = [self._worker, *self._rivals(len(actions) - 1)]
        requests = [Request("write", str(path), _parameters(action)) for action in actions]
        for worker, request in zip(workers, requests, strict=True):
            worker.send_ahead([request] * SAVES_IN_FLIGHT)
        results = [
            worker.ask(*request, limits=self._limits)
            for _ in range(SAVES_IN_FLIGHT)
            for worker, request in zip(workers, requests, strict=True)
        ]
        for result in results:
            self._answered(result)

    def usage(self) -> Usage:
        pid = self._worker.pid
        if pid is None:
            raise NotImplementedError("the harness cannot inspect the process of this program")
        return usage_of(pid)

    def save_sharded(self, folder: Path, *_given: object) -> None:
        self.ask("sharded", folder, _parameters(self._action))

    def export(self, path: Path, folder: Path) -> None:
        self.ask("export", path, {"folder": str(folder)})

    def resave(self, path: Path) -> None:
        self.ask("resave", path)

    def remote(self, url: str) -> dict[str, Any]:
        self._url = url
        return _content(self.ask("remote", url))

    def unaddressed(self, result: StepResult) -> StepResult:
        """Return a result whose messages contain the same server address in every run."""
        if not self._url:
            return result
        parts = urlsplit(self._url)
        words = {self._url: SHOWN_URL, parts.path: urlsplit(SHOWN_URL).path, parts.netloc: "server"}
        words |= {parts.path.split("/")[1]: "owner", f"{parts.port}": "port"}
        message, stderr = result.message, result.stderr
        for own, shown in words.items():
            message, stderr = message.replace(own, shown), stderr.replace(own, shown)
        return replace(result, message=message, stderr=stderr)

    def concurrent(self, path: Path, action: Mapping[str, Any]) -> dict[str, Any]:
        result = self.ask("concurrent", path, {"action": action})
        return {"tensors": result.tensors or []}

    def hold(self, path: Path) -> _Handle:
        self.ask("hold", path)
        return _Handle(self, path)


class _Handle:
    """A file that the worker holds open."""

    def __init__(self, proxy: _Proxy, path: Path) -> None:
        self._proxy = proxy
        self._path = path

    def tensor(self, name: str) -> Callable[[], dict[str, Any]]:
        self._proxy.ask("get", self._path, {"tensor": name})
        return lambda: _only(self._proxy.ask("look", self._path))

    def close(self) -> None:
        # The case tests what happened before, so a failed release adds no information.
        if not self._proxy.ended:
            self._proxy.ask("release", self._path)


SAVES_IN_FLIGHT = 4
"""Number of saves that each process receives at once, so that the saves of all processes overlap."""


def _parameters(action: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("storages", "tensors", "metadata", "max_shard_size", "file_size_limit")
    return {key: action[key] for key in keys if key in action}


def _content(result: StepResult) -> dict[str, Any]:
    content: dict[str, Any] = {"tensors": result.tensors}  # None for a program that reports only verdicts
    return {**content, "metadata": result.metadata} if result.has_metadata else content


def _only(result: StepResult) -> dict[str, Any]:
    rows = result.tensors or []
    if len(rows) != 1:
        raise _RefusedError(f"got {len(rows)} tensors instead of one")
    return rows[0]
