"""Remote: a file behind a server that sends the requested ranges or misbehaves.

A reader that first requests the beginning of a file receives a short file in a single response. Therefore,
the cases with unusual responses use both a file of a few hundred bytes and a file with a header of 140,000
bytes. Readers that return only headers do not have to read the data.
"""

from __future__ import annotations

from safetensors_corpus.author.actions import RemoteBuilder
from safetensors_corpus.author.case import ACCEPT, Options, accepts, chooses, reject, rejects
from safetensors_corpus.author.file import FileBuilder
from safetensors_corpus.author.parts import card_header, stretched_header
from safetensors_corpus.server import Behaviour

CHANGED = "IO_ERROR API_TRUNCATED"
CHANGED_TO_NONE: Options = {
    "old": ACCEPT,
    "new": reject("FRM_TOO_SHORT HDR_NOT_JSON OFF_OUT_OF_BOUNDS"),
    "error": reject(CHANGED),
}
LONG = 140_000
"""Header size in bytes that is larger than a typical first request."""
SIZES = ("short", "long")


def three(f: FileBuilder, size: str = "short", fill: bytes = b"") -> None:
    """Add three tensors after a header of a few hundred bytes (``short``) or ``LONG`` bytes (``long``).

    The bytes of the tensors are derived from their names, or are all ``fill``.
    """
    f.tensor("a", "F32", [2, 3], fill * 24 or None)
    f.tensor("b", "I16", [40], fill * 80 or None)
    f.tensor("c", "U8", [5], fill * 5 or None)
    if size == "long":
        f.padding = b" " * (LONG - f.header_size)


@accepts("NET-01 DAT-06", smoke=True)
def one_tensor(f: RemoteBuilder) -> None:
    """The file has one tensor, and the server sends the requested ranges."""
    f.tensor("w", "F32", [2])


@accepts("NET-01 DAT-06", importance="high", over=SIZES)
def three_tensors(f: RemoteBuilder, size: str) -> None:
    """The file has three tensors of several dtypes after a $slug header."""
    three(f, size)


@accepts("NET-01 MET-04")
def metadata(f: RemoteBuilder) -> None:
    """The file has metadata and a tensor."""
    f.metadata({"format": "pt", "card": "a long text " * 40})
    f.tensor("w", "F32", [2])


@accepts("NET-01 SHP-04", importance="high", over={"first": 0, "between": 1, "last": 2})
def empty_tensor(f: RemoteBuilder, place: int) -> None:
    """One of three tensors is empty; its position: $slug.

    The range of the empty tensor has no bytes, so an HTTP range request for it would end before it begins.
    Servers ignore such a request and send the whole file.
    """
    for number, name in enumerate("abc"):
        f.tensor(name, "F32", [0, 4] if number == place else [2])


@accepts("NET-01 FRM-09")
def no_tensors(f: RemoteBuilder) -> None:
    """The file has a header without tensors and no data."""
    f.metadata({"k": "v"})


@accepts("NET-01 DAT-06")
def large_tensor(f: RemoteBuilder) -> None:
    """A tensor of 256 KiB, which is larger than a typical read, is between two small tensors."""
    f.tensor("a", "U8", [3])
    f.tensor("b", "F32", [256, 256], b"\x01\x02\x03\x04" * (1 << 16))
    f.tensor("c", "U8", [5])


FIRST_REQUESTS = (8_192, 65_536, 100_000, 131_072, 524_288)
EDGES = [n for first in FIRST_REQUESTS for n in (first - 9, first - 8, first - 7, first, first + 1)]
CUT = (99_994, 99_995, 99_997, 99_999, 100_000)
LENGTHS = sorted({*EDGES, *CUT, 99_992, 99_993, LONG})


@accepts("LIM-10 NET-01", importance="high", over=LENGTHS, bugs={str(n): "FB-93" for n in CUT})
def header_of(f: RemoteBuilder, length: int) -> None:
    """The header has $value bytes and is invalid JSON without its last byte.

    Many readers request a fixed number of bytes first, such as 100 kB, and must check whether those bytes
    include the prefix and the whole header.
    """
    stretched_header(f, length)


@accepts("LIM-10 MET-04", importance="high", bugs="FB-93")
def model_card_up_to_the_first_piece(f: RemoteBuilder) -> None:
    """A long model card in the metadata makes the header 99,997 bytes long."""
    card_header(f, 99_997)


CLAIMS = {"one-byte-more": 3, "a-mebibyte": 1 << 20, "a-tebibyte": 1 << 40, "the-most": (1 << 63) - 1}


@rejects("FRM-04 LIM-10", "FRM_HEADER_PAST_EOF FRM_HEADER_OVER_LIMIT", importance="high", over=CLAIMS)
def header_longer_than_the_file(f: RemoteBuilder, length: int) -> None:
    """The length prefix claims a header that is longer than the whole file: $slug."""
    f.header, f.length = b"{}", length


@rejects("FRM-03", "FRM_TOO_SHORT", importance="medium", over={"empty": 0, "prefix-cut": 5})
def no_prefix(f: RemoteBuilder, size: int) -> None:
    """The file ends inside the length prefix: $slug."""
    f.header = b"{}"
    f.cut = 10 - size


UNUSUAL: dict[str, tuple[Behaviour, str]] = {
    f"{behaviour}-{size}": (behaviour, size)
    for behaviour in (
        "chunked", "unknown-total", "no-head", "no-ranges", "status-416", "short", "short-unsaid", "cut",
        "long", "long-unsaid", "shifted", "from-start", "other-total", "multipart", "gzip", "gzip-whole",
        "redirect",
    )
    for size in SIZES
} | {f"{name}-short": (name, "short") for name in ("head-forbidden", "total-too-small")}  # fmt: skip
LATER = {
    f"{behaviour}-{size}-after-{after}": (behaviour, size, after)
    for behaviour in (
        "no-ranges", "short-unsaid", "cut", "long-unsaid", "shifted", "from-start", "multipart", "gzip",
    )
    for size, after in (("short", 2), ("long", 1))
} | {"redirect-short-after-2": ("redirect", "short", 2)}  # fmt: skip


@chooses("remote-answer", codes="IO_ERROR", importance="high", over=UNUSUAL)
def answer(f: RemoteBuilder, behaviour: Behaviour, size: str) -> None:
    """The server answers in an unusual way: $slug."""
    f.server = behaviour
    three(f, size)


@chooses("remote-answer", codes="IO_ERROR", importance="high", over=LATER)
def later_answer(f: RemoteBuilder, behaviour: Behaviour, size: str, after: int) -> None:
    """The server answers correctly at first, and then in an unusual way: $slug."""
    f.server, f.after = behaviour, after
    three(f, size)


@chooses(
    "remote-answer",
    codes="IO_ERROR",
    importance="high",
    over={"in-a-large-tensor": 3, "in-the-last-tensor": 4},
)
def connection_lost(f: RemoteBuilder, after: int) -> None:
    """The server sends all earlier ranges, and then closes the connection after half of a range: $slug."""
    f.tensor("a", "U8", [4])
    f.tensor("b", "F32", [256, 256], b"\x01\x02\x03\x04" * (1 << 16))
    f.tensor("c", "U8", [5])
    f.server, f.after = "cut", after


FAILING: tuple[Behaviour, ...] = ("unavailable", "not-found", "closed", "redirect-loop")


@rejects("NET-01", "IO_ERROR", over=FAILING)
def server(f: RemoteBuilder, behaviour: Behaviour) -> None:
    """The server does not return the file: $slug."""
    three(f)
    f.server = behaviour


@rejects("FRM-04 NET-01", "FRM_HEADER_PAST_EOF FRM_HEADER_OVER_LIMIT IO_ERROR", importance="high")
def page_in_place_of_the_file(f: RemoteBuilder) -> None:
    """The server sends an HTML page instead of the file, as gateways and login pages do.

    Read as a length prefix, the first bytes of the page claim a header far longer than the page.
    """
    three(f)
    f.server = "error-page"


GONE: dict[str, tuple[Behaviour, str, int]] = {
    f"{behaviour}-{size}-after-{after}": (behaviour, size, after)
    for behaviour in ("unavailable", "error-page", "closed")
    for size, after in (("short", 1), ("short", 2), ("long", 1))
}


@chooses("remote-answer", codes="IO_ERROR", importance="high", over=GONE)
def failing_later(f: RemoteBuilder, behaviour: Behaviour, size: str, after: int) -> None:
    """The server answers correctly at first and then fails: $slug."""
    f.server, f.after = behaviour, after
    three(f, size)


@chooses("remote-file-changed", codes=CHANGED, over=SIZES)
def changed_to_other_values(f: RemoteBuilder, size: str) -> None:
    """The new file has different values in the same layout, after a $slug header."""
    three(f, size)
    other = f.changes()
    three(other, size, b"\x33")


@chooses("remote-file-changed", codes=CHANGED)
def changed_to_a_longer_header(f: RemoteBuilder) -> None:
    """The new file has a longer header before the same tensors, so the old offsets point into the header."""
    three(f)
    other = f.changes()
    other.metadata({"key": "v" * 256})
    three(other)


@chooses("remote-file-changed", codes=CHANGED)
def changed_to_another_order(f: RemoteBuilder) -> None:
    """The new file contains two tensors of equal size in the opposite order."""
    f.tensors("ab", "F32", [4])
    other = f.changes()
    other.tensors("ba", "F32", [4])


@chooses("remote-file-changed", codes=CHANGED)
def changed_to_another_dtype(f: RemoteBuilder) -> None:
    """The dtypes of the two tensors are swapped in the new file, and its header is as long as the old one.

    A reader that interprets the new bytes by the old header returns values that neither file contains.
    """
    f.tensor("a", "F32", [6], b"\x00\x00\x80\x3f" * 6)
    f.tensor("b", "I32", [1], b"\x01\x00\x00\x00")
    other = f.changes()
    other.tensor("a", "I32", [6], b"\x01\x00\x00\x00" * 6)
    other.tensor("b", "F32", [1], b"\x00\x00\x80\x3f")


@chooses("remote-file-changed", codes=CHANGED)
def changed_to_a_shorter_file(f: RemoteBuilder) -> None:
    """The new file contains only the first tensor of the old one."""
    three(f)
    other = f.changes()
    other.tensor("a", "F32", [2, 3])


@chooses("remote-file-changed", options=CHANGED_TO_NONE, importance="high", over={"empty": 0, "cut": 200})
def changed_to_half_a_file(f: RemoteBuilder, size: int) -> None:
    """The new file is a truncated copy of the old one ($slug), as during an upload."""
    three(f)
    other = f.changes()
    three(other)
    other.cut = len(other.render()) - size
