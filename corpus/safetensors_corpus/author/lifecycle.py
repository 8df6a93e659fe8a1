"""Builder for a file that changes while it is open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import recipe
from .file import FileBuilder, dtype_features, tensor_row


@dataclass
class LifecycleBuilder(FileBuilder):
    """A file and a script. The expected content is the last tensor that the script reads."""

    _script: list[dict[str, Any]] = field(default_factory=list)
    _answers: dict[str | None, tuple[bytes, str | None, list[int] | None]] = field(default_factory=dict)

    def open(self) -> None:
        self._script.append({"step": "open"})

    def try_open(self) -> None:
        self._script.append({"step": "try"})

    def read(self, tensor: str) -> None:
        self._script.append({"step": "tensor", "tensor": tensor})

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
