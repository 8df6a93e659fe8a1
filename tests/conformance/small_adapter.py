"""Adapters over the corpus's small correct implementations and some of their broken variants."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

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

    def slice(self, path: str, tensor: str, index: tuple[Any, ...]) -> Any:
        return SmallSlicer().slice(Path(path), tensor, index)

    def write(self, path: str, tensors: Any, metadata: Any) -> None:
        SmallWriter().write(Path(path), tensors, metadata)

    def resave(self, path: str) -> None:
        SmallWriter().resave(Path(path))

    def save_sharded(self, folder: str, tensors: Any, metadata: Any, max_shard_size: int) -> None:
        SmallSharder().save_sharded(Path(folder), tensors, metadata, max_shard_size)

    def hold(self, path: str) -> Any:
        return SmallHolder().hold(Path(path))

    def remote(self, url: str) -> Any:
        return Fetcher().remote(url)

    def share(self, path: str) -> Any:
        return SmallHolder().share(Path(path))

    def export(self, path: str, folder: str) -> None:
        SmallExporter().export(Path(path), Path(folder))


class ExportsByName(Small):
    def export(self, path: str, folder: str) -> None:
        JoinsNames().export(Path(path), Path(folder))


class ExportsBeforeItGivesUp(ExportsByName):
    def export(self, path: str, folder: str) -> None:
        super().export(path, folder)
        raise NotImplementedError("such a name")


class TellsTheAddress(Small):
    def remote(self, url: str) -> Any:
        try:
            return super().remote(url)
        except NotTheFileError as err:
            raise RuntimeError(f"{err} of {url}") from err


class AnyRange(Small):
    def remote(self, url: str) -> Any:
        return AnyRangeTaken().remote(url)


class OnePosition(Small):
    """Goes to a position and reads there, with one position for all threads."""

    def share(self, path: str) -> Any:
        return Shared(GoesThenReads(Path(path)))


class Shared:
    """A handle whose tensors are inspected after all are read."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def tensor(self, name: str) -> Any:
        look = self._handle.tensor(name)
        assert callable(look)
        return LookedAtLate.of(look)

    def close(self) -> None:
        self._handle.close()


class LookedAtLate(tuple[Any, ...]):
    """Dtype, shape and bytes, which are read only now."""

    look: Any

    @classmethod
    def of(cls, look: Any) -> LookedAtLate:
        made = cls((None, None, None))
        made.look = look
        return made

    def __iter__(self) -> Any:
        return iter(self.look())


class NotForThreads(OnePosition):
    """Says in its documentation that a handle is for one thread and one process."""

    lacks = ("threads", "fork")


class DiesInAChild(Small):
    """Ends a process that did not open the file."""

    def share(self, path: str) -> Any:
        return EndsInAnotherProcess(Path(path))


class WaitsInAChild(Small):
    """Waits in a child for a thread that the fork did not copy."""

    def share(self, path: str) -> Any:
        return WaitsFor(Path(path), threading.get_native_id())


class WaitsFor(Handle):
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


class DocumentsTheSuffix(RequiresTheSuffix):
    lacks = ("other-suffix",)


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
    """Keeps each handle until it is closed."""

    def hold(self, path: str) -> Any:
        OPENED.append(super().hold(path))
        return OPENED[-1]


class DocumentsClosing(KeepsHandles):
    lacks = ("drop",)


class OneTemporaryName(Small):
    def write(self, path: str, tensors: Any, metadata: Any) -> None:
        SlowWithOneTemporaryName().write(Path(path), tensors, metadata)


class SlowWithOneTemporaryName(SmallWriter):
    def temporary_name(self, target: Path) -> str:
        return f"{target.name}.tmp"

    def put(self, path: Path, data: bytes) -> None:
        super().put(path, data)
        time.sleep(0.05)


class WritesNothing(Small):
    def write(self, path: str, tensors: Any, metadata: Any) -> None:
        return


class LeavesRubbish(Small):
    """Saves correctly, but leaves a temporary file."""

    def write(self, path: str, tensors: Any, metadata: Any) -> None:
        Path(path + ".tmp").write_bytes(b"rubbish")
        super().write(path, tensors, metadata)


class WholeTensor(Small):
    """Gives the whole tensor for every slice."""

    def slice(self, path: str, tensor: str, index: tuple[Any, ...]) -> Any:
        return SmallSlicer().slice(Path(path), tensor, ())


class Zeros(Small):
    """Gives zeros for bytes that are gone."""

    def hold(self, path: str) -> Handle:
        return ZerosForMissingBytes(Path(path))


class DiesWhenHeld(Small):
    def hold(self, path: str) -> Any:
        os.abort()


class Slow(Small):
    """Takes too much time, and memory, for files with a budget."""

    def read(self, path: str) -> Any:
        self.kept = bytearray(200 << 20)
        time.sleep(0.02)
        return super().read(path)


class FollowsIndex:
    """Loads through an index; its answers have digests instead of bytes, which are omitted."""

    name = "loader"

    def index(self, path: str) -> Any:
        content = SmallLoader().index(Path(path))
        return [(r["name"], r["dtype"], r["shape"], None) for r in content["tensors"]]


class Validator:
    """Says yes or no."""

    name = "validator"

    def check(self, path: str) -> bool:
        try:
            SmallReader().read(Path(path))
        except Exception:
            return False
        return True
