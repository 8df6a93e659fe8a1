"""Builder for expensive inputs: large headers, many tensors, sparse files and deep nesting."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .. import recipe
from .file import Builder, dtype_features, tensor_row


@dataclass
class RecipeBuilder(Builder):
    """Collects the parts of the header and the data; ``length`` is a wrong length prefix."""

    length: int | None = None
    _header: list[dict[str, Any]] = field(default_factory=list)
    _data: list[dict[str, Any]] = field(default_factory=list)
    _rows: list[dict[str, Any]] = field(default_factory=list)
    _dtypes: set[str] = field(default_factory=set)
    _count: int | None = None
    _asked: str | None = None

    def header(self, *parts: str | dict[str, Any]) -> None:
        self._header += [{"text": part} if isinstance(part, str) else part for part in parts]

    def data(self, *parts: bytes | dict[str, Any]) -> None:
        for part in parts:
            self._data += recipe.from_bytes(part) if isinstance(part, bytes) else [part]

    @property
    def header_size(self) -> int:
        return recipe.size(self._header)

    def fill_header(self, size: int, unit: str, ending: str, separator: str = "") -> int:
        """Add as many items as fit into a header of ``size`` bytes, then ``ending`` and spaces.

        In ``unit``, which is the text of an item, the fields ``{i}`` and ``{next}`` are the numbers of this
        item and the next one. Returns the number of items. Raises ValueError if no item fits.
        """
        room = size - self.header_size - len(ending.encode())

        def items(count: int) -> dict[str, Any]:
            if "{i}" in unit or "{next}" in unit:
                return {"each": unit, "count": count, "separator": separator}
            return {"repeat": {"text": unit + separator}, "count": count}

        low, high = 0, room
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if recipe.size([items(middle)]) <= room else (low, middle - 1)
        if not low:
            raise ValueError(f"a header of {size:,} bytes is too small for {unit[:40]!r}")
        self.header(items(low), ending)
        self.pad_header(size)
        return low

    def pad_header(self, size: int) -> None:
        missing = size - self.header_size
        if missing < 0:
            raise ValueError(f"the header is already {-missing:,} bytes longer than {size:,} bytes")
        if missing:
            self._header.append({"repeat": {"text": " "}, "count": missing})

    def align_header(self) -> None:
        self.pad_header(-(-self.header_size // 8) * 8)

    def expect(self, name: str, dtype: str, shape: list[int], data: bytes) -> None:
        self._rows.append(tensor_row(name, dtype, shape, data))
        self._dtypes.add(dtype)

    def expect_count(self, count: int, *dtypes: str) -> None:
        """Expect only a number of tensors, because a list would cost more than reading the file."""
        self._count = count
        self._dtypes.update(dtypes)

    def ask(self, tensor: str) -> None:
        self._asked = tensor

    def content(self, option: str | None = None) -> dict[str, Any]:  # noqa: ARG002 - the same for every option
        if self._asked is not None:
            return {"tensors": [r for r in self._rows if r["name"] == self._asked], "metadata": None}
        if self._count is not None:
            return {"tensor_count": self._count}
        return {"tensors": self._rows, "metadata": None}

    def features(self) -> list[str]:
        return dtype_features(self._dtypes)

    def stored(self, case_id: str) -> tuple[dict[str, Any] | None, dict[str, bytes]]:  # noqa: ARG002
        length = self.header_size if self.length is None else self.length
        parts = [{"hex": length.to_bytes(8, "little").hex()}, *self._header, *self._data]
        return {"recipe": parts, "sha256": recipe.digest(parts), "size": recipe.size(parts)}, {}

    def action(self) -> dict[str, Any] | None:
        if self._asked is None:
            return None
        return {"do": "slice", "tensor": self._asked, "index": []}
