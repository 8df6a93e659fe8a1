"""Builders for cases that do more than read a file: slices, exports, changes, downloads, parallel reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Literal

from safetensors_reference.rules.dtypes import DTYPE_BITS

from .. import recipe
from ..actions import contradiction
from ..judging.content import dtype_features, tensor_row
from ..placing import PLACES, SUFFIX
from ..server import Behaviour
from .file import FileBuilder, size_of, stored_recipe
from .index import IndexBuilder


@dataclass
class SliceBuilder(FileBuilder):
    """Builds a file of consecutive numbers and a slice to request.

    ``expect`` sets results that NumPy cannot compute.
    """

    _asked: tuple[str, tuple[Any, ...]] | None = None
    _answers: dict[str | None, tuple[list[int], bytes]] = field(default_factory=dict)

    def default_data(self, name: str, dtype: str, shape: Sequence[int]) -> bytes:  # noqa: ARG002
        return numbered(self.position, size_of(dtype, shape), max(DTYPE_BITS[dtype] // 8, 1))

    def ask(self, name: str, *index: Any) -> None:
        """Request ``tensor[index]``, or the whole tensor if there is no index."""
        self._asked = (name, index)

    def expect(self, shape: list[int], data: bytes, option: str | None = None) -> None:
        """Set the expected dimensions, and the expected bytes in C order, under ``option`` of the choice."""
        self._answers[option] = (shape, data)

    def content(self, option: str | None = None) -> dict[str, Any]:
        name, index = self._question()
        tensor = self.tensor_named(name)
        answer = self._answers.get(option) or self._answers.get(None)
        if answer is None:
            bits = DTYPE_BITS[tensor.dtype]
            if bits % 8:
                raise ValueError(f"NumPy does not support {tensor.dtype}; set the result with expect")
            # Opaque items of the right width are sufficient, because only the selection of elements matters.
            import numpy as np  # slow to import, and only the build needs it

            array = np.frombuffer(tensor.data, dtype=f"V{bits // 8}").reshape(tensor.shape)
            try:
                part = array[index]
            except (IndexError, ValueError, TypeError) as err:
                raise ValueError(f"NumPy rejects the index {index}: {err}") from err
            part = np.asarray(part)
            answer = (list(part.shape), part.tobytes())
        shape, data = answer
        return {"tensors": [tensor_row(name, tensor.dtype, shape, data)], "metadata": None}

    def action(self) -> dict[str, Any]:
        name, index = self._question()
        return {"do": "slice", "tensor": name, "index": [index_json(item) for item in index]}

    def _question(self) -> tuple[str, tuple[Any, ...]]:
        if self._asked is None:
            raise ValueError("the case does not request a slice")
        return self._asked


def numbers(f: SliceBuilder, shape: Sequence[int] = (4, 6), *, dtype: str = "I16", beside: int = 8) -> None:
    """Add the tensor ``t`` between two tensors of the same dtype that have ``beside`` elements each."""
    f.tensor("before", dtype, [beside])
    f.tensor("t", dtype, shape)
    f.tensor("after", dtype, [beside])


def ask_numbers(f: SliceBuilder, *index: Any, shape: Sequence[int] = (4, 6), beside: int = 8) -> None:
    numbers(f, shape, beside=beside)
    f.ask("t", *index)


def numbered(position: int, size: int, width: int) -> bytes:
    """Return consecutive numbers, each written as ``width`` base-60 digits.

    The digits are bytes from 0x01 to 0x3c, with the lowest digit first.
    """
    places = range(position, position + size)
    return bytes((place // width // 60 ** ((place - position) % width)) % 60 + 1 for place in places)


def index_json(item: Any) -> Any:
    if isinstance(item, slice):
        return {"start": item.start, "stop": item.stop, "step": item.step}
    return "..." if item is Ellipsis else item


def index_items(items: list[Any]) -> tuple[Any, ...]:
    return tuple(
        slice(item["start"], item["stop"], item["step"])
        if isinstance(item, dict)
        else (Ellipsis if item == "..." else item)
        for item in items
    )


@dataclass
class ExportBuilder(FileBuilder):
    """Builds a file to export. ``links`` maps names in the folder to the paths that they link to."""

    links: dict[str, str] = field(default_factory=dict)

    def action(self) -> dict[str, Any]:
        contents = [tensor.data.hex() for tensor in self._tensors]
        return {"do": "export", "contents": contents, "links": self.links}


@dataclass
class LifecycleBuilder(FileBuilder):
    """Builds a file, and the script of reads and changes to run on it.

    The expected content is the last tensor that the script reads.
    """

    _script: list[dict[str, Any]] = field(default_factory=list)
    _answers: dict[str | None, tuple[bytes, str | None, list[int] | None]] = field(default_factory=dict)

    def open(self) -> None:
        self._script.append({"step": "open"})

    def try_open(self) -> None:
        self._script.append({"step": "try"})

    def read(self, *tensors: str) -> None:
        self._script += [{"step": "tensor", "tensor": tensor} for tensor in tensors]

    def close(self) -> None:
        self._script.append({"step": "close"})

    def truncate(self, size: int) -> None:
        self._script.append({"step": "truncate", "size": size})

    def rewrite(self, data: bytes, at: int) -> None:
        self._script.append({"step": "rewrite", "bytes": recipe.from_bytes(data), "at": at})

    def replace(self, data: bytes) -> None:
        self._script.append({"step": "replace", "bytes": recipe.from_bytes(data)})

    def append(self, data: bytes) -> None:
        self._script.append({"step": "append", "bytes": recipe.from_bytes(data)})

    def unlink(self) -> None:
        self._script.append({"step": "unlink"})

    def expect(
        self,
        data: bytes,
        option: str | None = None,
        *,
        dtype: str | None = None,
        shape: Sequence[int] | None = None,
    ) -> None:
        """Set the expected content of the last tensor under ``option``, or under all other options."""
        self._answers[option] = (data, dtype, None if shape is None else list(shape))

    def content(self, option: str | None = None) -> dict[str, Any]:
        names = [s["tensor"] for s in self._script if s["step"] == "tensor"]
        if not names:
            raise ValueError("the script does not read a tensor")
        last = self.tensor_named(names[-1])
        unchanged = (last.data, None, None)
        data, dtype, shape = self._answers.get(option) or self._answers.get(None) or unchanged
        row = tensor_row(last.name, dtype or last.dtype, last.shape if shape is None else shape, data)
        return {"tensors": [row], "metadata": None}

    def features(self) -> list[str]:
        later = [dtype for _, dtype, _ in self._answers.values() if dtype is not None]
        return sorted({*super().features(), *dtype_features(later)})

    def action(self) -> dict[str, Any]:
        return {"do": "lifecycle", "script": self._script}


@dataclass
class RemoteBuilder(FileBuilder):
    """Builds a file, and chooses how the server that offers it behaves.

    The server answers the first ``after`` GET requests correctly.
    """

    server: Behaviour = "ranges"
    after: int = 0
    _other: FileBuilder | None = None

    def changes(self) -> FileBuilder:
        """Serve another file after the first request, and return its builder."""
        self.server, self.after, self._other = "changed", 1, FileBuilder()
        return self._other

    def content(self, option: str | None = None) -> dict[str, Any]:
        if option == "new" and self._other is not None:
            return self._other.content()
        return super().content(option)

    def action(self) -> dict[str, Any]:
        out: dict[str, Any] = {"do": "remote", "server": self.server}
        if self.after:
            out["after"] = self.after
        if self._other is not None:
            out["bytes"] = recipe.from_bytes(self._other.render())
        return out


@dataclass
class ConcurrentBuilder(FileBuilder):
    """Builds a file, and defines the readers that read it at the same time.

    The expected content consists of all tensors that the readers read.

    Attributes to set directly:
        by: kind of reader; ``processes`` are forked from one process.
        opened: ``once`` if the file is opened before the readers are started or forked, or ``each`` if
            every reader opens it.
        taken_before: tensors that the opener reads before the readers start.
        times: number of rounds. In each round, every reader reads its tensors.
        closed: number of the round during which the file is closed; if it is 0, the file stays open.
        taken_after: tensors that the opener reads after the readers have finished.
    """

    by: Literal["threads", "processes"] = "threads"
    opened: Literal["once", "each"] = "once"
    taken_before: tuple[str, ...] = ()
    times: int = 2
    closed: int = 0
    taken_after: tuple[str, ...] = ()
    _readers: list[dict[str, Any]] = field(default_factory=list)

    def reader(self, *tensors: str, unknown: bool = False) -> None:
        self._readers.append({"tensors": list(tensors), "unknown": unknown})

    def content(self, option: str | None = None) -> dict[str, Any]:  # noqa: ARG002 - options differ in outcome
        read = [name for own in self._readers if not own["unknown"] for name in own["tensors"]]
        if not read:
            raise ValueError("there are no readers")
        names = dict.fromkeys([*self.taken_before, *self.taken_after, *read])
        tensors = [self.tensor_named(name) for name in names]
        return {"tensors": [tensor_row(t.name, t.dtype, t.shape, t.data) for t in tensors], "metadata": None}

    def features(self) -> list[str]:
        shared = {"processes": ["fork"], "threads": ["threads"] if self.opened == "once" else []}
        return sorted([*super().features(), *shared[self.by]])

    def action(self) -> dict[str, Any]:
        action = {
            "do": "concurrent",
            "by": self.by,
            "opened": self.opened,
            "before": list(self.taken_before),
            "readers": self._readers,
            "times": self.times,
            "closed": self.closed,
            "after": list(self.taken_after),
        }
        if why := contradiction(action):
            raise ValueError(f"it {why}")
        return action


@dataclass
class PlacedBuilder(FileBuilder):
    """Builds a file or a sharded ``model``, and chooses the ``place`` where a reader must find it.

    The manifest describes the files with recipes, because they exist only while the case runs.
    """

    place: str = ""
    model: IndexBuilder = field(default_factory=IndexBuilder)

    def content(self, option: str | None = None) -> dict[str, Any]:
        return self.model.content(option) if self.model.named_files() else super().content(option)

    def features(self) -> list[str]:
        name = PLACES[self.place].name
        own = ["other-suffix"] if name and PurePath(name).suffix != SUFFIX else []
        return sorted([*super().features(), *self.model.features(), *own])

    def stored(self, case_id: str) -> tuple[dict[str, Any], dict[str, bytes]]:
        if not self.model.named_files():
            return stored_recipe(self.render()), {}
        stored, files = self.model.stored(case_id)
        for row in stored["files"]:
            row["recipe"] = recipe.from_bytes(files[f"files/{case_id}/{row['path']}"])
        return stored, {}

    def action(self) -> dict[str, Any]:
        return {"do": "placed", "place": self.place}


@dataclass
class RepeatedBuilder(FileBuilder):
    """Builds a file and the ``requests`` to repeat ``times`` times.

    ``needs`` lists the required features other than dtypes.
    """

    requests: tuple[str, ...] = ("read",)
    tensor_read: str = ""
    times: int = 300
    needs: tuple[str, ...] = ()

    def content(self, option: str | None = None) -> dict[str, Any]:
        if not self.tensor_read:
            return super().content(option)
        t = self.tensor_named(self.tensor_read)
        return {"tensors": [tensor_row(t.name, t.dtype, t.shape, t.data)], "metadata": None}

    def features(self) -> list[str]:
        return sorted([*super().features(), *self.needs])

    def action(self) -> dict[str, Any]:
        read = {"tensor": self.tensor_read} if self.tensor_read else {}
        return {"do": "repeated", "requests": list(self.requests), "times": self.times, **read}

    def demanded(self, option: str | None = None) -> list[str]:  # noqa: ARG002 - the same for every option
        return ["nothing-left"]
