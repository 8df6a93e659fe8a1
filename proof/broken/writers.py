"""Broken writers with one mistake each, in the target file, the layout, memory, names or values."""

from __future__ import annotations

import json
import os
import random
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from proof.planted import Planted
from safetensors_corpus.in_process import GivenTensor

from .correct.json import refusing, refusing_result
from .correct.reader import WIDTHS
from .correct.writer import RESERVED, RefusedError, Row, SmallWriter
from .variant import changed, named


class TargetTruncatedFirst(SmallWriter):
    """Opens the target and writes into it piece by piece."""

    def write(self, path: Path, tensors: Sequence[GivenTensor], metadata: Any) -> None:
        path.write_bytes(b"")
        super().write(path, tensors, metadata)

    def store(self, path: Path, data: bytes) -> None:
        with path.open("wb", buffering=0) as file:
            for start in range(0, len(data), 1024):
                file.write(data[start : start + 1024])


class SourceTruncatedFirst(SmallWriter):
    """Truncates the target before it reads the data to be saved."""

    def resave(self, path: Path) -> None:
        rows = self.loaded(path.read_bytes())
        path.write_bytes(b"")
        late = path.read_bytes()
        self.store(
            path,
            self.file([Row(r.name, r.dtype, r.shape, late.ljust(len(r.data), b"\0")) for r in rows], None),
        )


class OldFileNotCut(SmallWriter):
    """Overwrites the beginning of an existing file, and leaves the bytes that follow."""

    def store(self, path: Path, data: bytes) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
        with os.fdopen(fd, "wb") as file:
            file.write(data)


class ShortOldFileKept(SmallWriter):
    """Keeps an existing file if it is not larger than the new file."""

    def store(self, path: Path, data: bytes) -> None:
        if not (path.exists() and 0 < path.stat().st_size <= len(data)):
            super().store(path, data)


class TemporaryFileLeft(SmallWriter):
    """Leaves its temporary file behind, even if it succeeds."""

    def store(self, path: Path, data: bytes) -> None:
        self.put(path.with_name("leftover.part"), data[:64])
        super().store(path, data)

    def clean(self, temporary: Path) -> None:
        pass


class PrivateMode(SmallWriter):
    """Leaves the file with the mode of a temporary file."""

    def store(self, path: Path, data: bytes) -> None:
        super().store(path, data)
        path.chmod(0o600)


class LinkReplaced(SmallWriter):
    """Replaces a symbolic link with a regular file."""

    def store(self, path: Path, data: bytes) -> None:
        if path.is_symlink():
            path.unlink()
        super().store(path, data)


class EmptyFileInANewFolder(SmallWriter):
    """Creates the missing folder and an empty file in it, and then fails."""

    def store(self, path: Path, data: bytes) -> None:
        if not path.parent.exists():
            path.parent.mkdir()
            path.write_bytes(b"")
            raise FileNotFoundError(path)
        super().store(path, data)


class GapsForAlignment(SmallWriter):
    """Starts every tensor at a multiple of eight, and leaves gaps between tensors."""

    def file(self, rows: list[Row], metadata: dict[str, str] | None) -> bytes:
        members: dict[str, Any] = {} if metadata is None else {RESERVED: metadata}
        data = bytearray()
        for row in self.order(rows):
            data += bytes(-len(data) % 8)
            offsets = [len(data), len(data) + len(row.data)]
            members[row.name] = {"dtype": row.dtype, "shape": list(row.shape), "data_offsets": offsets}
            data += row.data
        header = self.padded(self.json(members))
        self.within_cap(header)
        return self.length(header) + header + bytes(data)


class DataInAnotherOrder(SmallWriter):
    """Writes the data in the order of the names, but the offsets in another order."""

    def file(self, rows: list[Row], metadata: dict[str, str] | None) -> bytes:
        whole = super().file(rows, metadata)
        size = sum(len(row.data) for row in rows)
        by_name = sorted(rows, key=lambda row: row.name)
        return whole[: len(whole) - size] + b"".join(row.data for row in by_name)


class RandomTensorOrder(SmallWriter):
    """Writes the tensors in a different order each time."""

    def __init__(self) -> None:
        self.times: Counter[tuple[str, ...]] = Counter()

    def order(self, rows: list[Row]) -> list[Row]:
        names = tuple(row.name for row in rows)
        self.times[names] += 1
        # The order differs each time but is the same in every run, because chance must not decide which cases
        # notice it.
        dice = random.Random(f"{names} {self.times[names]}")  # noqa: S311 - nothing secret
        return dice.sample(rows, len(rows))


class OrderTurnsOnResave(SmallWriter):
    """Reverses the order of the tensors when it saves a loaded file again."""

    def resave(self, path: Any) -> None:
        rows = self.loaded(path.read_bytes())[::-1]
        order, self.order = self.order, lambda rows: rows  # type: ignore[method-assign] # until it is saved
        self.store(path, self.file(rows, None))
        self.order = order  # type: ignore[method-assign]


class NoCap(SmallWriter):
    """Writes a header of any length."""

    only_heavy = True

    def within_cap(self, header: bytes) -> None:
        pass


class SmallCap(SmallWriter):
    """Rejects a header of more than sixteen million bytes."""

    only_heavy = True

    def within_cap(self, header: bytes) -> None:
        if len(header) > 16_000_000:
            raise ValueError("too long")


class NamesNotEscaped(SmallWriter):
    """Writes names and metadata between quotes without escaping them."""

    def json(self, members: Mapping[str, Any]) -> bytes:
        def spelled(value: Any) -> str:
            if isinstance(value, dict):
                return "{" + ",".join(f'"{k}":{spelled(v)}' for k, v in value.items()) + "}"
            return f'"{value}"' if isinstance(value, str) else json.dumps(value)

        return spelled(dict(members)).encode()


def _without_strides(tensor: GivenTensor) -> GivenTensor:
    return GivenTensor(
        tensor.name, tensor.dtype, tensor.shape, tensor.storage, tensor.offset, None, tensor.byteorder
    )


class WholeStorage(SmallWriter):
    """Writes as many bytes as the tensor has, but from the start of its storage."""

    def contiguous(self, tensor: GivenTensor, size: int) -> bytes:
        return bytes(tensor.storage[:size])

    def places(self, tensor: GivenTensor, width: int) -> list[int]:
        return [place - tensor.offset for place in super().places(tensor, width)]


class AlwaysTurned(SmallWriter):
    """Reverses the bytes of every element."""

    def data(self, tensor: GivenTensor) -> bytes:
        data, width = super().data(tensor), max(WIDTHS[tensor.dtype] // 8, 1)
        return b"".join(data[i : i + width][::-1] for i in range(0, len(data), width))


class SharedOnce(SmallWriter):
    """Drops every tensor whose storage it has already written."""

    def rows(self, tensors: Sequence[GivenTensor]) -> list[Row]:
        met: set[int] = set()
        kept = [t for t in tensors if id(t.storage) not in met and not met.add(id(t.storage))]  # type: ignore[func-returns-value] # a set has no better way
        return super().rows(kept)


class EqualTensorsOnce(SmallWriter):
    """Drops every tensor whose bytes are equal to those of an earlier tensor."""

    def rows(self, tensors: Sequence[GivenTensor]) -> list[Row]:
        met: dict[bytes, Row] = {}
        for row in super().rows(tensors):
            met.setdefault(row.data, row)
        return list(met.values())


class SurrogatesAsBytes(SmallWriter):
    """Writes a lone surrogate as three bytes."""

    def text(self, value: Any) -> str:
        return value if isinstance(value, str) else super().text(value)

    def json(self, members: Any) -> bytes:
        text = json.dumps(members, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "surrogatepass")


class WordsRefused(SmallWriter):
    """Rejects names and keys that are empty, have a meaning elsewhere or look like JSON."""

    NAMES = ("", "dtype", "__proto__", "__metadata___", "__METADATA__", "__metadata__ ", "0")
    KEYS = (*NAMES, "null", "format", "t", RESERVED)

    def written_name(self, name: str) -> str:
        if name in self.NAMES or any(c in name for c in '\\"/'):
            raise ValueError("name")
        return name

    def metadata_key(self, value: Any) -> str:
        if value in self.KEYS:
            raise ValueError("key")
        return super().metadata_key(value)


class ShortBuffers(SmallWriter):
    """Writes at most 255 characters of a name, and at most a hundred metadata keys and tensors."""

    def written_name(self, name: str) -> str:
        return name[:255]

    def metadata_order(self, metadata: dict[str, str]) -> dict[str, str]:
        return dict(sorted(metadata.items())[:100])

    def order(self, rows: list[Row]) -> list[Row]:
        return super().order(rows)[:100]


class MetadataTurnedIntoText(SmallWriter):
    """Converts metadata keys and values that are not strings to strings."""

    def metadata_value(self, value: Any) -> str:
        return self.text(value if isinstance(value, str) else str(value))

    def metadata_key(self, value: Any) -> str:
        return self.metadata_value(value)


class NullMetadata(SmallWriter):
    """Writes null in place of the metadata."""

    def header(self, rows: list[Row], metadata: dict[str, str] | None) -> bytes:  # noqa: ARG002 - lost
        text = super().header(rows, None)
        return b'{"__metadata__":null' + (b"," if rows else b"") + text[1:]


class MetadataDropped(SmallWriter):
    """Does not write metadata."""

    def checked_metadata(self, metadata: Any) -> dict[str, str] | None:
        super().checked_metadata(metadata)
        return None


class EmptyMetadataBeside(SmallWriter):
    """Writes empty metadata after the header object if there are no tensors."""

    def header(self, rows: list[Row], metadata: dict[str, str] | None) -> bytes:
        if rows or metadata != {}:
            return super().header(rows, metadata)
        return b'{},"__metadata__":{}}'


class RandomMetadataOrder(SmallWriter):
    """Writes the metadata keys in a different order each time."""

    def metadata_order(self, metadata: dict[str, str]) -> dict[str, str]:
        items = list(metadata.items())
        random.shuffle(items)
        return dict(items)


FRAMEWORK = {"F32": "float32", "F64": "float64", "F16": "float16", "BOOL": "bool", "U8": "uint8"}


class FrameworkDtypes(SmallWriter):
    """Writes the dtype names of a framework."""

    def dtype(self, tensor: GivenTensor) -> str:
        code = super().dtype(tensor)
        return FRAMEWORK.get(code, code.lower())


class PairsAsElements(SmallWriter):
    """Writes the last dimension of packed elements as a number of bytes."""

    def shape(self, row: Row) -> list[int]:
        shape = list(row.shape)
        if WIDTHS[row.dtype] < 8 and shape:
            shape[-1] = shape[-1] * WIDTHS[row.dtype] // 8
        return shape


class AtMostSixDimensions(SmallWriter):
    """Combines all dimensions from the sixth on into one."""

    def shape(self, row: Row) -> list[int]:
        shape, product = list(row.shape), 1
        for dim in shape[5:]:
            product *= dim
        return [*shape[:5], product] if len(shape) > 6 else shape


class QuietNans(SmallWriter):
    """Makes every NaN quiet, as a conversion does, and clears the sign of zeros."""

    BITS: Mapping[str, tuple[int, int, int]] = {
        "F16": (2, 0x7C00, 0x200),
        "BF16": (2, 0x7F80, 0x40),
        "F32": (4, 0x7F800000, 0x400000),
        "C64": (4, 0x7F800000, 0x400000),
        "F64": (8, 0x7FF0000000000000, 0x8000000000000),
    }

    def data(self, tensor: GivenTensor) -> bytes:
        data = super().data(tensor)
        if tensor.dtype not in self.BITS:
            return data
        width, infinity, quiet = self.BITS[tensor.dtype]
        out = b""
        for at in range(0, len(data), width):
            word = int.from_bytes(data[at : at + width], "little")
            magnitude = word & ((1 << (8 * width - 1)) - 1)
            if magnitude > infinity:
                word |= quiet
            elif not magnitude & infinity:
                word = 0  # zeros and subnormals
            out += word.to_bytes(width, "little")
        return out


class IntegersThroughDoubles(SmallWriter):
    """Converts 64-bit integers and eight-bit floats to doubles and back."""

    def data(self, tensor: GivenTensor) -> bytes:
        data = super().data(tensor)
        if tensor.dtype.startswith("F8_E"):
            return data.replace(b"\xff", b"\x7f").replace(b"\x80", b"\0")
        if tensor.dtype not in ("I64", "U64"):
            return data
        signed = tensor.dtype == "I64"
        words = [int.from_bytes(data[i : i + 8], "little", signed=signed) for i in range(0, len(data), 8)]
        low, high = (-(2**63), 2**63 - 1) if signed else (0, 2**64 - 1)
        return b"".join(
            min(max(int(float(w)), low), high).to_bytes(8, "little", signed=signed) for w in words
        )


class UnsupportedAsBytes(SmallWriter):
    """Writes elements that have no dtype as bytes."""

    def dtype(self, tensor: GivenTensor) -> str:
        return tensor.dtype if tensor.dtype in WIDTHS else "U8"

    def data(self, tensor: GivenTensor) -> bytes:
        return super().data(tensor) if tensor.dtype in WIDTHS else bytes(tensor.storage[: tensor.shape[0]])


class SizeUnchecked(SmallWriter):
    """Writes the given buffer regardless of the size that the shape requires."""

    def size(self, tensor: GivenTensor) -> int:
        return -(-self.bits(tensor) // 8)


class SumOfSizesChecked(SmallWriter):
    """Compares only the sum of all buffer sizes with the sum of all sizes that the shapes imply."""

    def rows(self, tensors: Sequence[GivenTensor]) -> list[Row]:
        given = sum(-(-self.bits(t) // 8) if t.nbytes is None else t.nbytes for t in tensors)
        if given != sum(-(-self.bits(t) // 8) for t in tensors):
            raise ValueError("size")
        return super().rows(tensors)

    def size(self, tensor: GivenTensor) -> int:
        return -(-self.bits(tensor) // 8)

    def dtype(self, tensor: GivenTensor) -> str:
        return super().dtype(tensor)


class _WrapsAt(SmallWriter):
    """Computes sizes in a machine word."""

    WORD = 64

    def bits(self, tensor: GivenTensor) -> int:
        return super().bits(tensor) % (1 << self.WORD)


class WrapsAtSixtyFourBits(_WrapsAt):
    """Computes the size in bits in a 64-bit integer."""


class WrapsAtSixtyFourBitsOfBytes(_WrapsAt):
    """Computes the size in bytes in a 64-bit integer."""

    WORD = 67


class WrapsAtThirtyTwoBits(_WrapsAt):
    """Computes the size in bytes in a 32-bit integer."""

    WORD = 35


def writing(name: str, about: str, /, **steps: Callable[..., Any]) -> Planted:
    return Planted(f"writer/{name}", about, "write", changed(SmallWriter, **steps))


VARIANTS: tuple[Planted, ...] = (
    *named(globals(), "write", SmallWriter),
    writing("offsets-from-the-header",
            "Counts offsets from a point in the header and not from the start of the data.",
            first_offset=lambda _, rows: 128 if rows else 0),
    writing("empty-on-resave", "Fails to save a loaded file that has no tensors.",
            loaded=refusing_result(lambda rows: not rows, RefusedError)),
    writing("nothing-to-save", "Refuses to save if there are no tensors.",
            rows=refusing(lambda tensors: not tensors, RefusedError)),
    writing("views-refused", "Rejects everything that has strides or an offset.",
            data=refusing(lambda tensor: tensor.offset or tensor.strides is not None, ValueError)),
    writing("complex-turned-whole",
            "Swaps the bytes of a complex number as one element, so its parts change places.",
            swapped=lambda _, element, _dtype: element[::-1]),
    writing("marked-bytes-refused",
            "Rejects one-byte elements that are marked as little-endian.",
            dtype=refusing(
                lambda tensor: tensor.byteorder == "little" and tensor.dtype in ("U8", "F8_E5M2"),
                ValueError)),
    writing("shared-storage-refused",
            "Rejects two tensors with the same storage, even if they have no byte in common.",
            rows=refusing(
                lambda tensors: len({id(t.storage) for t in tensors}) != len(tensors), ValueError)),
    writing("surrogates-replaced", "Writes a question mark for a lone surrogate.",
            text=lambda right, value: right(
                value.encode("utf-8", "replace").decode() if isinstance(value, str) else value)),
    writing("names-stripped",
            "Strips whitespace around names, and removes everything before the last slash.",
            written_name=lambda _, name: name.rsplit("/", 1)[-1].strip() or "unnamed"),
    writing("ascii-only", "Rejects everything except printable ASCII in names and metadata.",
            text=refusing_result(lambda text: not (text.isascii() and text.isprintable()), ValueError)),
    writing("any-metadata",
            "Writes metadata without checking it if it is a map, and otherwise omits it.",
            checked_metadata=lambda _, metadata: metadata if isinstance(metadata, dict) else None),
    writing("no-padding", "Does not pad the header.", padded=lambda _, header: header),
    writing("nul-padding", "Pads the header with NUL bytes.",
            padded=lambda _, header: header + bytes(-len(header) % 8)),
    writing("padding-not-counted", "Writes the length of the header without its padding.",
            length=lambda _, header: len(header.rstrip(b" ")).to_bytes(8, "little")),
    writing("big-endian-length", "Writes the length prefix in big-endian order.",
            length=lambda _, header: len(header).to_bytes(8, "big")),
    writing("trailing-byte", "Ends the file with a line feed.",
            file=lambda right, rows, metadata: right(rows, metadata) + b"\n"),
    writing("order-of-giving", "Writes tensors in the order in which they were passed.",
            order=lambda _, rows: rows),
    writing("narrow-first", "Writes narrow elements first.",
            order=lambda _, rows: sorted(rows, key=lambda row: (WIDTHS[row.dtype], row.name))),
    writing("empty-dropped", "Omits tensors without elements.",
            order=lambda right, rows: [row for row in right(rows) if row.data]),
    writing("pretty-json", "Writes JSON with spaces after commas and colons.",
            json=lambda _, members: json.dumps(members, ensure_ascii=False).encode()),
    writing("escaped-json", "Escapes all non-ASCII characters and the slash.",
            json=lambda _, members: json.dumps(members, separators=(",", ":")).replace("/", "\\/").encode()),
    writing("strides-ignored", "Writes contiguous memory from the first element on and ignores the strides.",
            strides=lambda right, tensor, width: right(_without_strides(tensor), width)),
    writing("negative-strides-forwards", "Treats a negative stride as a positive one.",
            strides=lambda right, tensor, width: [abs(s) for s in right(tensor, width)]),
    writing("big-endian-kept", "Writes big-endian elements without swapping their bytes.",
            swapped=lambda _, element, _dtype: element),
    writing("reserved-name-written", "Writes a tensor under the reserved name.",
            reserved=lambda _, _value: None),
    writing("names-turned-into-text", "Converts names that are not strings to strings.",
            name=lambda right, value: right(value if isinstance(value, str) else str(value))),
    writing("names-end-at-nul", "Cuts names and metadata at the first NUL.",
            text=lambda right, value: right(value).split("\0")[0]),
    writing("names-normalised", "Writes names and metadata in composed form and in lower case.",
            text=lambda right, value: unicodedata.normalize("NFKC", right(value)).lower()),
    writing("last-name-wins",
            "Stores tensors in a map, where the last tensor with a name replaces earlier ones.",
            rows=lambda right, tensors: right(list({repr(t.name): t for t in tensors}.values()))),
    writing("scalars-as-vectors", "Writes the shape of a scalar as one dimension of length one.",
            shape=lambda _, row: list(row.shape) or [1]),
    writing("column-major-shape", "Writes the dimensions in column-major order.",
            shape=lambda _, row: list(row.shape)[::-1]),
)  # fmt: skip
