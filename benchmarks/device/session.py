"""Runs the benchmark: writes files, starts processes, lets loaders take turns, and updates the document."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import check, files, page_cache
from .client import Client, LoaderError
from .figures import Document
from .loaders import REFERENCE, WARM, Loader

CONTEXT = 700 << 20
"""Device memory in bytes that a process uses before its first load."""


class OutOfTimeError(Exception):
    """The time for the whole run is used up."""


@dataclass(frozen=True)
class Settings:
    """Settings of a run.

    Attributes:
        device: ``cpu`` or ``cuda:N``.
        folder: folder for the files.
        size: size of the large and the llm file in bytes.
        count: number of tensors in the small file.
        loaders: in the order of the tables.
        targets: ``MODULE:FUNCTION`` of each added loader by name.
        paths: pairs (name, folder); the folder comes first on the import path of that loader, or of all
            loaders whose names begin with that name.
        warm: number of loads per loader after the first.
        cold: whether to evict the file from the page cache before every load.
        limit: seconds that a start or a load may take.
        check_all: largest file in bytes that is compared byte by byte.
        deadline: value of ``time.monotonic()`` after which no new work starts.
        env: names of additional variables that loaders inherit.
        free: bytes of device memory that may be used, or None for no limit.
    """

    device: str
    folder: Path
    size: int
    count: int
    loaders: Sequence[Loader]
    targets: Mapping[str, str] = field(default_factory=dict)
    paths: Sequence[tuple[str, str]] = ()
    warm: int = 5
    cold: bool = False
    limit: float = 120.0
    check_all: int = 512_000_000
    deadline: float = float("inf")
    env: Sequence[str] = ()
    free: int | None = None

    def paths_of(self, name: str) -> list[str]:
        return [folder for owner, folder in self.paths if name == owner or name.startswith(f"{owner}-")]


def groups(loaders: Sequence[Loader], size: int, free: int | None) -> list[list[Loader]]:
    """Divide loaders into groups whose processes fit on the device together.

    Each group includes the reference.

    Between loads, a process keeps about as much memory as the size of the file. During a load, it uses up to
    twice that.
    """
    if free is None:
        return [list(loaders)]
    fit = max(2, int((0.9 * free - 1.3 * size) // (1.05 * size + CONTEXT)))
    anchor = [loader for loader in loaders if loader.name == REFERENCE]
    others = [loader for loader in loaders if loader.name != REFERENCE]
    step = fit - len(anchor)
    return [anchor + others[i : i + step] for i in range(0, len(others), step)] or [anchor]


class FileRun:
    """All loaders on one file."""

    def __init__(
        self,
        kind: str,
        settings: Settings,
        document: Document,
        changed: Callable[[], None],
        say: Callable[[str], None],
    ) -> None:
        self.settings = settings
        self._changed = changed
        self._say = say
        self._sums: Path | None = None
        self._kind = "cold" if settings.cold else "warm"
        path = settings.folder / f"stc-bench-{kind}.safetensors"
        self._paths = [path]
        self.file = files.BenchFile(kind, path, 0, 0, 0)
        self.entry: Document = {
            "kind": kind,
            "title": files.TITLES[kind],
            "bytes": 0,
            "tensors": 0,
            "header_bytes": 0,
            "filesystem": page_cache.filesystem(settings.folder),
            "state": self._kind,
            "loaders": [_entry(loader) for loader in settings.loaders],
            "samples": [],
        }
        self._entries = {entry["name"]: entry for entry in self.entry["loaders"]}
        document["files"].append(self.entry)

    def make(self) -> None:
        """Write the file, a twin if a loader needs one, and the sums for the check.

        Raises NotSavedError, OSError or, if a file that should be cold stays in memory, PageCacheError.
        """
        settings, path = self.settings, self.file.path
        self._say(f"{self.file.kind}: writing")
        self.file = files.make(self.file.kind, path, settings.size, settings.count)
        self.entry.update(bytes=self.file.size, tensors=self.file.tensors, header_bytes=self.file.header)
        if self.file.size > settings.check_all:
            self._sums = path.with_suffix(".sums.npz")
            self._paths.append(self._sums)
            check.save_sums(path, self._sums)
        if any(loader.twin for loader in settings.loaders):
            twin = path.with_suffix(".pt")
            self._paths.append(twin)
            files.save_twin(path, twin)
        for made in (p for p in self._paths if p != self._sums):
            if settings.cold:
                self._evict(made)
            else:
                page_cache.warm(made)

    def _evict(self, path: Path) -> float:
        left = page_cache.evict(path)
        if left > page_cache.COLD:
            where = self.entry["filesystem"]
            text = f"{left:.0%} of {path.name} remain in memory on {where}; give a --folder on a disk"
            raise page_cache.PageCacheError(text)
        return left

    def remove(self) -> None:
        for path in self._paths:
            path.unlink(missing_ok=True)

    def run(self) -> None:
        """Measure all loaders. Raises OutOfTimeError, PageCacheError or OSError."""
        settings = self.settings
        for number, group in enumerate(groups(settings.loaders, self.file.size, settings.free)):
            clients = {
                loader.name: (loader, self._client(loader))
                for loader in group
                if self._entries[loader.name]["status"] in {"not run", "ok"}
            }
            try:
                self._group(number, clients)
            finally:
                for _, client in clients.values():
                    client.close()

    def _client(self, loader: Loader) -> Client:
        settings, name = self.settings, loader.name
        return Client(
            name,
            settings.device,
            settings.targets.get(name),
            settings.paths_of(name),
            settings.limit,
            # On tmpfs, reads cannot bypass the page cache, so ``WARM`` is not needed.
            {} if settings.cold or self.entry["filesystem"] == "tmpfs" else WARM,
            settings.env,
        )

    def _group(self, number: int, clients: dict[str, tuple[Loader, Client]]) -> None:
        for name, (_, client) in list(clients.items()):
            try:
                client.ready()
                self._entries[name]["version"] = client.version
            except LoaderError as err:
                self._lost(name, err, clients)
        for name in list(clients):
            # In a later group, the reference has already had its first load, but in another process.
            self._load(name, clients, number, 0, "first")
            self._load(name, clients, number, 0, "weigh")
        for round_ in range(1, self.settings.warm + 1):
            # The order changes with each round, so that a loader does not always follow the same one. It is
            # the same in every run.
            for name in random.Random(round_).sample(list(clients), len(clients)):  # noqa: S311
                self._load(name, clients, number, round_, self._kind)
            self._changed()

    def _load(
        self, name: str, clients: dict[str, tuple[Loader, Client]], group: int, round_: int, kind: str
    ) -> None:
        if name not in clients:
            return
        if time.monotonic() > self.settings.deadline:
            raise OutOfTimeError
        loader, client = clients[name]
        path = self.file.path.with_suffix(".pt") if loader.twin else self.file.path
        request: dict[str, Any] = {"path": str(path), "content": str(self.file.path)}
        request["weigh"] = kind == "weigh"
        request["check"] = kind == "weigh" or round_ == self.settings.warm
        request["sums"] = None if self._sums is None else str(self._sums)
        sample: Document = {"loader": name, "kind": kind, "group": group, "round": round_}
        if self.settings.cold:
            sample["resident"] = self._evict(path)
        try:
            reply = client.ask(request)
        except LoaderError as err:
            self._lost(name, err, clients)
            return
        self._take(name, sample, reply)

    def _take(self, name: str, sample: Document, reply: Document) -> None:
        entry = self._entries[name]
        if "check" in reply:
            self._checked(entry, reply.pop("check"))
        if sample["kind"] == "weigh":
            entry["memory"] = reply
        elif sample["kind"] != "first" or not self._has_first(name):
            self.entry["samples"].append({**sample, **reply})
        if "seconds" in reply:
            speed = self.file.size / reply["seconds"] / 1e9
            kind = f"{sample['kind']} {sample['round'] or ''}".strip()
            self._say(f"{self.file.kind}: {name} {kind}: {reply['seconds']:.4f} s, {speed:.2f} GB/s")
        self._changed()

    def _has_first(self, name: str) -> bool:
        return any(s["loader"] == name and s["kind"] == "first" for s in self.entry["samples"])

    @staticmethod
    def _checked(entry: Document, found: Document) -> None:
        if entry["status"] != "wrong":
            entry["check"] = found
            entry["status"] = "wrong" if found["wrong"] else "ok"
            if found["wrong"]:
                entry["reason"] = f"{found['wrong']:,} tensors are wrong: {found['first']}"

    def _lost(self, name: str, err: LoaderError, clients: dict[str, tuple[Loader, Client]]) -> None:
        entry = self._entries[name]
        if entry["status"] != "wrong":
            entry.update(status=err.status, reason=str(err))
        self._say(f"{self.file.kind}: {name}: {err}")
        with suppress(KeyError):
            clients.pop(name)[1].close()
        self._changed()


def _entry(loader: Loader) -> Document:
    return {
        "name": loader.name,
        "title": loader.title,
        "owns": loader.owns,
        "version": None,
        "status": "not run",
        "reason": None,
    }
