"""Adapters over the corpus's small correct implementations and some of their broken variants."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from proof.broken.correct.exporter import SmallExporter
from proof.broken.correct.fetcher import Fetcher, NotTheFileError
from proof.broken.correct.holder import Handle, SmallHolder
from proof.broken.correct.loader import SmallLoader
from proof.broken.correct.reader import SmallReader
from proof.broken.correct.sharder import SmallSharder
from proof.broken.correct.slicer import SmallSlicer
from proof.broken.correct.writer import SmallWriter
from proof.broken.exporters import JoinsNames
from proof.broken.fetchers import AnyRangeTaken
from proof.broken.holders import ZerosForMissingBytes
from proof.broken.sharers import EndsInAnotherProcess, GoesThenReads


def of(kind: Callable[[], Any], method: str, paths: int = 1) -> Callable[..., Any]:
    """Make a method of an adapter, the first arguments of which are paths."""

    def call(_self: object, *given: Any) -> Any:
        return getattr(kind(), method)(*map(Path, given[:paths]), *given[paths:])

    return call


class Small:
    """Everything right, with every step."""

    name = "small"
    version = "1"

    def rows(self, path: str, names: list[str]) -> list[tuple[Any, ...]]:
        """The small implementations answer with digests; a worker wants rows with bytes."""
        return [(name, *SmallSlicer().slice(Path(path), name, ())) for name in names]

    def read(self, path: str) -> Any:
        content = SmallReader().read(Path(path))
        names = [row["name"] for row in content["tensors"]]
        return {"tensors": self.rows(path, names), "metadata": content["metadata"]}

    slice = of(SmallSlicer, "slice")
    write = of(SmallWriter, "write")
    resave = of(SmallWriter, "resave")
    save_sharded = of(SmallSharder, "save_sharded")
    hold = of(SmallHolder, "hold")
    share = of(SmallHolder, "share")
    remote = of(Fetcher, "remote", 0)
    export = of(SmallExporter, "export", 2)


def but(**members: Any) -> type[Small]:
    """Make a variant of the right adapter."""
    return type("Variant", (Small,), members)


ExportsByName = but(export=of(JoinsNames, "export", 2))
AnyRange = but(remote=of(AnyRangeTaken, "remote", 0))
WritesNothing = but(write=lambda *_: None)
WholeTensor = but(slice=lambda self, path, tensor, _: Small.slice(self, path, tensor, ()))
Zeros = but(hold=lambda _, path: ZerosForMissingBytes(Path(path)))
DiesWhenHeld = but(hold=lambda *_: os.abort())
DiesInAChild = but(share=lambda _, path: EndsInAnotherProcess(Path(path)))
WaitsInAChild = but(share=lambda _, path: WaitsFor(Path(path), threading.get_native_id()))
OnePosition = but(share=lambda _, path: Shared(Path(path)))
NotForThreads = type("NotForThreads", (OnePosition,), {"lacks": ("threads", "fork")})


class ExportsBeforeItGivesUp(Small):
    def export(self, path: str, folder: str) -> None:
        JoinsNames().export(Path(path), Path(folder))
        raise NotImplementedError("such a name")


class TellsTheAddress(Small):
    def remote(self, url: str) -> Any:
        try:
            return Fetcher().remote(url)
        except NotTheFileError as err:
            raise RuntimeError(f"{err} of {url}") from err


class Shared(GoesThenReads):
    """Goes to a position and reads there, but only when all threads have asked."""

    def tensor(self, name: str) -> Any:
        return LookedAtLate(super().tensor(name))


class LookedAtLate(tuple[Any, ...]):
    """Dtype, shape and bytes, which are read only now."""

    look: Callable[[], Any]

    def __new__(cls, look: Callable[[], Any]) -> Self:
        made = super().__new__(cls, (None, None, None))
        made.look = look
        return made

    def __iter__(self) -> Any:
        return iter(self.look())


class WaitsFor(Handle):
    """Waits in a child for a thread that the fork did not copy."""

    def __init__(self, path: Path, thread: int) -> None:
        self.thread = thread
        super().__init__(path)

    def check_open(self) -> None:
        if threading.get_native_id() != self.thread:
            time.sleep(3600)


class RequiresTheSuffix(Small):
    def read(self, path: str) -> Any:
        if not path.endswith(".safetensors"):
            raise ValueError("unknown suffix")
        return super().read(path)


DocumentsTheSuffix = type("DocumentsTheSuffix", (RequiresTheSuffix,), {"lacks": ("other-suffix",)})


class LeavesFilesOpen(Small):
    def rows(self, path: str, names: list[str]) -> list[tuple[Any, ...]]:
        handle = SmallHolder().hold(Path(path))  # hundreds of slices would take minutes
        answers = [(name, handle.tensor(name)) for name in names]
        return [(name, *answer) for name, answer in answers if isinstance(answer, tuple)]

    def read(self, path: str) -> Any:
        OPENED.append(Path(path).open("rb"))  # noqa: SIM115 - the planted fault
        return super().read(path)


OPENED: list[Any] = []


class KeepsHandles(Small):
    def hold(self, path: str) -> Any:
        OPENED.append(super().hold(path))
        return OPENED[-1]


DocumentsClosing = type("DocumentsClosing", (KeepsHandles,), {"lacks": ("drop",)})


class SlowWithOneTemporaryName(SmallWriter):
    def temporary_name(self, target: Path) -> str:
        return f"{target.name}.tmp"

    def put(self, path: Path, data: bytes) -> None:
        super().put(path, data)
        time.sleep(0.05)


OneTemporaryName = but(write=of(SlowWithOneTemporaryName, "write"))


class LeavesRubbish(Small):
    def write(self, path: str, tensors: Any, metadata: Any) -> None:
        Path(path + ".tmp").write_bytes(b"rubbish")
        super().write(path, tensors, metadata)


class FollowsIndex:
    """Loads through an index; its answers have digests instead of bytes, which are omitted."""

    name = "loader"

    def index(self, path: str) -> Any:
        content = SmallLoader().index(Path(path))
        return [(r["name"], r["dtype"], r["shape"], None) for r in content["tensors"]]


class Validator:
    name = "validator"

    def check(self, path: str) -> bool:
        try:
            SmallReader().read(Path(path))
        except Exception:
            return False
        return True
