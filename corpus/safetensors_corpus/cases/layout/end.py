"""Layout: the end of the data, bytes behind it and files of other formats found there."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

from ...author.case import accepts, rejects

if TYPE_CHECKING:
    from ...author.file import FileBuilder

PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\nstartxref\n0\n%%EOF\n"


def _zip(content: bytes) -> bytes:
    """Return a ZIP archive that stores ``content`` under the name x."""
    sizes = struct.pack("<IIIHH", zlib.crc32(content), len(content), len(content), 1, 0)
    fields = struct.pack("<HHHHH", 20, 0, 0, 0, 0x21) + sizes
    local = b"PK\x03\x04" + fields + b"x" + content
    central = b"PK\x01\x02" + struct.pack("<H", 20) + fields + bytes(14) + b"x"
    end = struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local), 0)
    return local + central + b"PK\x05\x06" + end


@accepts("DAT-06", "OFF-08", importance="high", over={"zip": _zip(b"payload"), "pdf": PDF})
def other_format_in_last_tensor(f: FileBuilder, value: bytes) -> None:
    """The last tensor holds a complete $slug file, which programs for that format find at the end.

    Content of tensors is not judged; scanners have to know that such files are possible.
    """
    f.tensor("a", "F32", [2])
    f.tensor("b", "U8", [len(value)], value)


TRAILERS = {"line-feed": b"\n", "32-kib": b"A" * 32768, "zip": _zip(b"payload"), "pdf": PDF}


@rejects("OFF-08", codes="OFF_TRAILING", importance="high", bugs=("FB-03", "FB-107", "FB-117"), over=TRAILERS)
def trailing(f: FileBuilder, value: bytes) -> None:
    """Bytes follow the last tensor: $slug.

    Programs of another format that look at the end of a file find theirs there.
    """
    f.tensor("w", "F32", [2])
    f.trailer = value


@rejects(
    "OFF-08",
    codes="OFF_TRAILING",
    importance="high",
    bugs=("FB-03", "FB-49", "FB-107", "FB-117"),
    issue="https://github.com/syoyo/safetensors-cpp/issues/1",
)
def trailing_4_bytes(f: FileBuilder) -> None:
    """Four zero bytes follow the last tensor, as in a widely used real checkpoint."""
    f.tensor("w", "F32", [2])
    f.trailer = bytes(4)
