"""Builder for requests for a part of a tensor. NumPy computes the expected result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from safetensors_reference.rules.dtypes import DTYPE_BITS

from .file import FileBuilder, size_of, tensor_row


@dataclass
class SliceBuilder(FileBuilder):
    """A file of consecutive numbers and a request. ``expect`` sets results that NumPy cannot compute."""

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
    """Return consecutive numbers in ``width`` base-60 digits from 0x01 to 0x3c, the lowest digit first."""
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
