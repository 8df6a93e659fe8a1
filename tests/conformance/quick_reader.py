"""The reference as an adapter that starts fast: loading it takes longer than most tests here.

Plain files are read with what comes with Python; whatever is not plain, and everything but opening and
reading, goes to the reference itself, loaded then. ``test_quick_reader.py`` holds the two against each other.
The fakes import this by its bare name: they are programs of their own, with this folder on their path.
"""

from __future__ import annotations

import json
import math
from typing import Any, Literal

BYTES = {"BOOL": 1, "U8": 1, "I8": 1, "F16": 2, "BF16": 2, "I16": 2, "F32": 4, "I32": 4, "F64": 8, "I64": 8}
Profile = Literal["text", "official", "hardened"]
Row = tuple[str, str, tuple[int, ...], bytes]


class InvalidFileError(ValueError):
    """The file breaks a rule."""


class NotPlainError(Exception):
    """The reference has to say whether the file is valid."""


def _natural(digits: str) -> int:
    if digits.startswith("-"):
        raise NotPlainError
    return int(digits)


def _map(value: Any, keys: set[str] | None = None) -> dict[str, Any]:
    """Return a JSON object, read as pairs, as a map with these keys."""
    if not isinstance(value, tuple) or len(found := dict(value)) < len(value):
        raise NotPlainError
    if keys is not None and set(found) != keys:
        raise NotPlainError
    return found


def _header(text: bytes) -> dict[str, Any]:
    """Return a header as an unchecked map."""
    braces = text.startswith(b"{") and text.rstrip(b" ").endswith(b"}")
    if not braces or not text.isascii() or b"\\" in text:
        raise NotPlainError
    try:
        return _map(json.loads(text, object_pairs_hook=tuple, parse_int=_natural))
    except (ValueError, RecursionError):
        raise NotPlainError from None


def _entry(value: Any) -> tuple[str, tuple[int, ...], int, int]:
    """Return dtype, shape, begin and end of a tensor."""
    entry = _map(value, {"dtype", "shape", "data_offsets"})
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or not isinstance(shape, list) or not isinstance(offsets, list):
        raise NotPlainError
    if len(offsets) != 2 or any(type(number) is not int for number in (*shape, *offsets)):
        raise NotPlainError
    size = offsets[1] - offsets[0]
    if not size or size != math.prod(shape) * BYTES.get(dtype, 0):
        raise NotPlainError
    return dtype, tuple(shape), offsets[0], offsets[1]


def plain(raw: bytes) -> tuple[list[Row], dict[str, str] | None]:
    """Return tensors and metadata. Raises InvalidFileError, and NotPlainError for files that need the
    reference.
    """
    if len(raw) < 8:
        raise InvalidFileError("no length")
    start = 8 + int.from_bytes(raw[:8], "little")
    if start > len(raw):
        raise NotPlainError
    header = _header(raw[8:start])
    metadata = _map(header.pop("__metadata__")) if "__metadata__" in header else None
    if any(type(value) is not str for value in (metadata or {}).values()):
        raise NotPlainError
    entries = {name: _entry(value) for name, value in header.items()}
    end = 0
    for begin, behind in sorted(entry[2:] for entry in entries.values()):
        if begin != end:
            raise InvalidFileError("a hole, or tensors that overlap")
        end = behind
    if end != len(raw) - start:
        raise NotPlainError
    rows = [(name, d, s, raw[start + begin : start + to]) for name, (d, s, begin, to) in entries.items()]
    return rows, metadata


class Reading:
    """Opens and reads as the adapter of the reference does, but for words of refusals."""

    name = "reference"
    version = "2026.11.0"
    language = "Python"
    rejects = (InvalidFileError,)

    def __init__(self) -> None:
        self._profile: Profile = "hardened"

    def profile(self, name: Profile) -> None:
        self._profile = name

    def open(self, path: str) -> Any:
        content = Reading.read(self, path)
        return {**content, "tensors": [row[:3] for row in content["tensors"]]}

    def read(self, path: str) -> Any:
        try:
            with open(path, "rb") as file:
                rows, metadata = plain(file.read())
        except (OSError, NotPlainError):
            return self._explained(path)
        return {"tensors": rows, "metadata": metadata}

    def _explained(self, path: str) -> Any:
        """Have the file read by the reference; that needs no NumPy."""
        from safetensors_reference import InvalidFileError as Invalid
        from safetensors_reference import UnreadableError, read_header
        from safetensors_reference.rules.errors import SafetensorsError

        try:
            header = read_header(path, self._profile)
        except (Invalid, UnreadableError, SafetensorsError) as err:
            raise InvalidFileError(str(err)) from err
        with open(path, "rb") as file:
            raw = file.read()
        data = raw[8 + int.from_bytes(raw[:8], "little") :]
        rows = [(t.name, t.dtype, t.shape, data[t.begin : t.end]) for t in header.tensors.values()]
        return {"tensors": rows, "metadata": header.metadata}


class Reference(Reading):
    """Has all steps of the reference, which it loads for those that are not opening or reading."""

    def profile(self, name: Profile) -> None:
        super().profile(name)
        if name == "official":
            for method in ("slice", "write", "index", "hold"):
                setattr(self, method, None)

    def slice(self, path: str, tensor: str, index: tuple[Any, ...]) -> Any:
        return self._asked("slice", path, tensor, index)

    def index(self, path: str) -> Any:
        return self._asked("index", path)

    def write(self, path: str, tensors: list[Any], metadata: Any) -> None:
        self._asked("write", path, tensors, metadata)

    def resave(self, path: str) -> None:
        self._asked("resave", path)

    def hold(self, path: str) -> Any:
        return self._asked("hold", path)

    def _asked(self, method: str, *args: Any) -> Any:
        from safetensors_conformance.implementations.reference.adapter import Reference as Whole

        whole = Whole()
        whole.profile(self._profile)
        try:
            return getattr(whole, method)(*args)
        except Whole.rejects as err:
            raise InvalidFileError(str(err)) from err
