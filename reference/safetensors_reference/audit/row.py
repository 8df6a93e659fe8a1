"""The row: what an audit says about one file or one model, and how a row is made from a header."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import msgspec

from ..header.explain import explain_source
from ..header.model import TensorRows
from ..header.read import examine_source
from ..rules.errors import PortableError
from ..rules.faults import quote, shorten
from ..source import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..header.model import Header
    from ..rules.faults import Fault

Verdict = Literal[
    "valid",
    "invalid",
    "per-profile",
    "missing",
    "refused",
    "unreachable",
    "changed",
    "no-ranges",
    "unreadable",
    "kills-worker",
]
NOT_READ: tuple[Verdict, ...] = tuple(
    verdict for verdict in get_args(Verdict) if verdict not in ("valid", "invalid", "per-profile")
)
"""Verdicts of files about whose validity nothing is known."""
Count = Annotated[int, msgspec.Meta(ge=0)]
MAX_KEYS = 64
"""Most metadata keys in a row."""
MAX_PADDING = 4096
"""Most spaces behind a header that are counted."""
LARGEST = (1 << 63) - 1
"""Most bytes that a server or a store is believed to have: results hold no larger numbers."""
MAX_TEXT = 200
"""Characters of a metadata key, a `format` value or a note in a row."""


class Profiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer under each profile.

    Attributes:
        text: the written rules alone.
        official: what the newest official release does.
        hardened: our recommendation for files from strangers.
    """

    text: Literal["valid", "invalid"]
    official: Literal["valid", "invalid"]
    hardened: Literal["valid", "invalid"]


class Tally(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How often a dtype occurs in a file.

    Attributes:
        dtype: code of the dtype.
        tensors: number of tensors that have it.
        bytes: bytes of these tensors.
    """

    dtype: str
    tensors: Count
    bytes: Count


class Writer(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a header tells about the program that wrote it.

    Attributes:
        fields: the fields of the first entry in their order, joined by commas.
        padding: spaces behind the header object; at most 4,096 are counted.
        alignment: largest power of two up to 4,096 that divides the position of the first data byte.
        compact: whether the header object has no space between its tokens, as far as the first entry shows.
        order: whether the tensors stand in the order of their bytes.
        format: value of the metadata key `format`, cut at 200 characters; null when there is none.
    """

    fields: str
    padding: Count
    alignment: Count
    compact: bool
    order: bool
    format: str | None = None


class Row(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One file, or one model made of an index and its shards. What is unknown or does not apply is left out.

    Attributes:
        address: path or address of the file, of a model that of its index. A byte that is not UTF-8 is
            escaped, such as `\\udcff`; in a name with such a byte or with `\\u` each backslash is doubled.
        time: when it was looked at, in UTC.
        verdict: `valid` or `invalid` where all profiles agree, else `per-profile`; any other word says why
            nothing is known about the validity: `missing`, `refused` (no permission), `unreachable` (also
            after several attempts), `changed` (while it was read), `no-ranges` (the server sends whole files
            only), `unreadable` (no regular file, or the system fails), `kills-worker` (who reads it dies).
        kind: `file`, or `model` for an index with its shards.
        size: bytes of the file, of a model those of its index.
        tag: ETag, digest or version that the store gives, else the time of the last change; empty when there
            is none. A file with the same address, size and tag is not looked at again.
        profiles: the answer under each profile.
        codes: fault codes under any profile, sorted, each once.
        rules: rules that are broken under any profile, sorted, each once.
        faults: number of faults under any profile; at most 10,000 of a file are counted.
        tensors: number of tensors.
        dtypes: the dtypes that occur, sorted, with tensors and bytes of each.
        data_bytes: bytes of the data buffer, of a model those of all its shards.
        header_bytes: the length of the header, N.
        metadata_keys: keys of the metadata in their order, at most 64, each cut at 200 characters.
        writer: what the header tells about the program that wrote it.
        header_sha256: SHA-256 of the N header bytes.
        shards: number of shards that the index of a model names.
        data_sha256: SHA-256 of the whole file, where data were asked for.
        odd_bools: bytes of BOOL tensors that are neither 0 nor 1, where data were asked for.
        requests: requests or reads that it took, repeated ones included.
        read: bytes that were read.
        note: in one line why nothing is known, or what the first fault is.
    """

    address: str
    time: datetime
    verdict: Verdict
    kind: Literal["file", "model"] = "file"
    size: Count | None = None
    tag: str = ""
    profiles: Profiles | None = None
    codes: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    faults: Count = 0
    tensors: Count | None = None
    dtypes: tuple[Tally, ...] = ()
    data_bytes: Count | None = None
    header_bytes: Count | None = None
    metadata_keys: tuple[str, ...] = ()
    writer: Writer | None = None
    header_sha256: str | None = None
    shards: Count | None = None
    data_sha256: str | None = None
    odd_bools: Count | None = None
    requests: Count = 0
    read: Count = 0
    note: str = ""


class Head(msgspec.Struct):
    """The beginning of a file, and what it took to get it.

    Attributes:
        name: address of the file.
        size: bytes of the whole file.
        data: its first bytes: length prefix and header, or what of these can be believed to be there.
        tag: version of the file, see ``Row.tag``.
        requests: requests or reads so far.
        received: bytes read so far.
        held: bytes of the room of its fetcher that it takes.
    """

    name: str
    size: int
    data: bytes
    tag: str = ""
    requests: int = 1
    received: int = 0
    held: int = 0

    def read(self, start: int, count: int) -> bytes:
        """Return bytes of the beginning. Raises UnreadableError beyond it."""
        if start + count > len(self.data):
            raise UnreadableError(f"{self.name}: byte {start + count - 1:,} was not fetched")
        return self.data[start : start + count]


class NotReadError(PortableError):
    """Nothing is known about the validity of a file, for a reason that a row can name."""

    def __init__(self, verdict: Verdict, note: str, requests: int = 0, received: int = 0) -> None:
        super().__init__(note)
        self.verdict, self.note, self.requests, self.received = verdict, note, requests, received


_VALID = Profiles("valid", "valid", "valid")
_INVALID = Profiles("invalid", "invalid", "invalid")
_encoder = msgspec.json.Encoder()


def encode_row(row: Row) -> bytes:
    """Return a row as one line of JSON, the line feed included. It never raises for what a row holds."""
    address = row_address(row.address)
    if address is not row.address:
        row = msgspec.structs.replace(row, address=address)
    try:
        try:
            return _encoder.encode(row) + b"\n"
        except UnicodeEncodeError:  # what a server says, such as its ETag
            return _encoder.encode(_unicode(row)) + b"\n"
    except Exception as err:  # no row must cost the rows of others
        error = NotReadError("unreadable", f"this program failed: {type(err).__name__}: {err}")
        return _encoder.encode(unread_row(address, error, None, "", row.kind)) + b"\n"


def row_address(name: str) -> str:
    if name.isascii() and "\\u" not in name:
        return name
    plain = unicode(name)
    return plain if plain == name and "\\u" not in name else unicode(name.replace("\\", "\\\\"))


def unicode(text: str) -> str:
    """Return a text with escapes in place of what is not Unicode: bytes of names and of HTTP fields."""
    return text.encode("utf-8", "backslashreplace").decode()


def _unicode(value: Any) -> Any:
    if isinstance(value, str):
        return unicode(value)
    if isinstance(value, tuple):
        return tuple(map(_unicode, value))
    if isinstance(value, msgspec.Struct):
        fields = {name: _unicode(getattr(value, name)) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **fields)
    return value


def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def file_row(head: Head) -> tuple[Row, Header | None]:
    """Judge a file by its beginning; return its row, and its header unless there are faults."""
    seen = examine_source(head, "hardened")
    header = seen.header
    profiles = _VALID
    faults: list[Fault] = []
    if header is None or seen.tolerated:
        profiles, faults = _judged(head, seen.faults, seen.tolerated)
    fields: dict[str, Any] = fault_fields(faults)
    length = int.from_bytes(head.data[:8], "little")
    if 0 < length <= len(head.data) - 8:
        digest = hashlib.sha256(memoryview(head.data)[8 : 8 + length]).hexdigest()
        fields |= {"header_bytes": length, "header_sha256": digest}
    if header is not None:
        tallies, ordered = _tallies(header)
        fields |= {
            "tensors": len(header.tensors),
            "dtypes": tallies,
            "data_bytes": header.data_size,
            "metadata_keys": _keys(header),
            "writer": _writer(head.data, header, ordered),
        }
    row = Row(
        address=head.name,
        time=now(),
        verdict=verdict_of(profiles),
        size=head.size,
        tag=head.tag,
        profiles=profiles,
        requests=head.requests,
        read=head.received,
        **fields,
    )
    return row, header


def unread_row(
    address: str, error: NotReadError, size: int | None, tag: str, kind: Literal["file", "model"] = "file"
) -> Row:
    """Return the row of a file about whose validity nothing is known."""
    note = quote(error.note, MAX_TEXT)[1:-1]
    row = Row(address, now(), error.verdict, kind, size, tag, note=note)
    return msgspec.structs.replace(row, requests=error.requests, read=error.received)


def verdict_of(profiles: Profiles) -> Verdict:
    answers = {profiles.text, profiles.official, profiles.hardened}
    return "per-profile" if len(answers) > 1 else answers.pop()


def fault_fields(faults: Iterable[Fault]) -> dict[str, Any]:
    faults = list(faults)
    return {
        "codes": tuple(sorted({f.code for f in faults})),
        "rules": tuple(sorted({f.rule for f in faults})),
        "faults": len(faults),
        "note": quote(faults[0].message, MAX_TEXT)[1:-1] if faults else "",
    }


def _judged(head: Head, faults: list[Fault], tolerated: list[Fault]) -> tuple[Profiles, list[Fault]]:
    # Profiles differ in choices alone, which saves explaining most files three times.
    if all(fault.choice is None for fault in (*faults, *tolerated)):
        return _INVALID, faults
    answers: dict[str, Literal["valid", "invalid"]] = {"hardened": "invalid" if faults else "valid"}
    found = dict.fromkeys([*faults, *tolerated])
    for profile in ("text", "official"):
        seen = explain_source(head, profile)
        answers[profile] = "invalid" if seen.faults else "valid"
        found.update(dict.fromkeys(seen.faults))
    return Profiles(**answers), list(found)


def _tallies(header: Header) -> tuple[tuple[Tally, ...], bool]:
    tensors = header.tensors
    if isinstance(tensors, TensorRows):
        dtypes, spans = tensors.columns()
    else:
        dtypes, spans = [t.dtype for t in tensors.values()], [(t.begin, t.end) for t in tensors.values()]
    counts = Counter(dtypes)
    if len(counts) > 1:
        sizes: Counter[str] = Counter()
        for dtype, (begin, end) in zip(dtypes, spans, strict=True):
            sizes[dtype] += end - begin
    else:
        sizes = Counter(dict.fromkeys(counts, header.data_size))
    return tuple(Tally(d, counts[d], sizes[d]) for d in sorted(counts)), spans == sorted(spans)


def _keys(header: Header) -> tuple[str, ...]:
    if not header.metadata:
        return ()
    return tuple(shorten(key, MAX_TEXT) for _, key in zip(range(MAX_KEYS), header.metadata, strict=False))


_FIELD = re.compile(rb'"(dtype|shape|data_offsets)"[ \t\r\n]*:[ \t\r\n]*(?:"[^"]*"|\[[^\]]*\])')


def _writer(data: bytes, header: Header, ordered: bool) -> Writer:
    """Return the fingerprint. Only the first entry is looked at: a program writes all of them alike."""
    end = header.data_start
    tail = data[max(8, end - MAX_PADDING) : end]
    fields, compact = _first_entry(data, header)
    form = None if header.metadata is None else header.metadata.get("format")
    return Writer(
        fields,
        len(tail) - len(tail.rstrip(b" ")),
        min(end & -end, 4096),
        compact,
        ordered,
        None if form is None else shorten(form, MAX_TEXT),
    )


def _first_entry(data: bytes, header: Header) -> tuple[str, bool]:
    at = data.find(b'"data_offsets"', 8)
    if at < 0 or not header.tensors:
        return "", b" " not in data[8 : header.data_start].rstrip(b" ")
    start = data.rfind(b"{", 8, at)
    text = data[start : data.find(b"}", at) + 1]
    return ",".join(name.decode() for name in _FIELD.findall(text)), b'": ' not in text and b", " not in text
