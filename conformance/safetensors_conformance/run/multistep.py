"""Carrying out the kinds of case that are more than one question: the implementation as an object.

``safetensors_corpus.in_process`` knows what each kind of case asks and how the file of a writer is judged; it
drives any object with the right methods. The one here passes every call on to a worker process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from safetensors_corpus import Case
from safetensors_corpus.in_process import run_case
from safetensors_corpus.judging.answer import Answer

from ..worker.copies import scratch_folder, without
from ..worker.outcome import StepResult

if TYPE_CHECKING:
    from ..worker.worker import Worker


def carry_out(worker: Worker, case: Case) -> StepResult:
    """Do what a case of more than one question says and return the outcome. Raises ManifestError."""
    proxy = _Proxy(worker, case)
    with scratch_folder("case") as folder:
        result = run_case(case, proxy, folder)
    last = proxy.last or StepResult("harness-error", result.message or "the case asked for nothing")
    last = without(folder, proxy.unaddressed(last))
    if proxy.ended or last.outcome == "harness-error":
        return replace(last, wall_ms=proxy.wall_ms)
    told = {f.name: getattr(result, f.name) for f in fields(Answer) if f.name not in _OF_WORKER}
    if case.kind == "remote" and result.outcome == "accept":
        told["message"] = result.message  # what the server sent
    return replace(last, **told, wall_ms=round(proxy.wall_ms, 3))


_OF_WORKER = {"message", "exception", "documented"}
"""Fields that the last answer of the worker fills in itself."""


SHOWN_URL = "http://server/owner/model/resolve/main/file.safetensors"
"""Stand-in for the address of a file behind a server in an implementation's words."""


class _RefusedError(Exception):
    """The implementation refused, or can be asked nothing more."""


class _Proxy:
    """An implementation behind a worker.

    Attributes:
        last: the last answer.
        ended: True when the last answer was a crash or the like; nothing more is asked then.
        wall_ms: wall time of all answers in milliseconds.
    """

    def __init__(self, worker: Worker, case: Case) -> None:
        self._worker = worker
        self._action: Mapping[str, Any] = case.action or {}
        self.limits_file_size = True  # in its own process; this one has files of its own to write
        self.last: StepResult | None = None
        self.ended = False
        self.wall_ms = 0.0
        self._url = ""

    def ask(self, step: str, path: Path | str, more: Mapping[str, Any] | None = None) -> StepResult:
        if self.ended:
            raise _RefusedError
        result = self._worker.ask(step, str(path), more)
        self.last = result
        self.wall_ms += result.wall_ms
        self.ended = result.outcome not in ("accept", "reject", "unsupported")
        if result.outcome == "unsupported":
            raise NotImplementedError(result.message)
        if result.outcome != "accept":
            raise _RefusedError(result.message)
        return result

    def slice(self, path: Path, tensor: str, index: object) -> dict[str, Any]:  # noqa: ARG002 - see _action
        more = {"tensor": tensor, "index": self._action["index"]}
        return _only(self.ask("slice", path, more))

    def index(self, path: Path) -> dict[str, Any]:
        return {"tensors": self.ask("index", path).tensors or []}

    def write(self, path: Path, tensors: object, metadata: object) -> None:  # noqa: ARG002 - see _action
        keys = ("storages", "tensors", "metadata", "file_size_limit")
        self.ask("write", path, {key: self._action[key] for key in keys if key in self._action})

    def save_sharded(self, folder: Path, *_given: object) -> None:
        keys = ("storages", "tensors", "metadata", "max_shard_size", "file_size_limit")
        self.ask("sharded", folder, {key: self._action[key] for key in keys if key in self._action})

    def resave(self, path: Path) -> None:
        self.ask("resave", path)

    def remote(self, url: str) -> dict[str, Any]:
        self._url = url
        result = self.ask("remote", url)
        told: dict[str, Any] = {"tensors": result.tensors or []}
        return {**told, "metadata": result.metadata} if result.has_metadata else told

    def unaddressed(self, result: StepResult) -> StepResult:
        """Return a result in whose words the address of the server is the same in every run."""
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
        # Whatever happened before is what the case is about; an end that repeats it says nothing new.
        if not self._proxy.ended:
            self._proxy.ask("release", self._path)


def _only(result: StepResult) -> dict[str, Any]:
    rows = result.tensors or []
    if len(rows) != 1:
        raise _RefusedError(f"{len(rows)} tensors in place of one")
    return rows[0]
