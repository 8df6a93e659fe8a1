"""Audit rows, each of which describes one file or one model."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args

import msgspec

from ..files.reading import LARGEST, NotRead, NotReadError
from ..header.explain import explain_source
from ..header.json_text import Abandon
from ..header.model import aligned_share, rows
from ..header.read import examine_source
from ..model.index import INDEX_CAP, FaultCollector, read_index
from ..model.read import ABSENT, Shard, check_shards
from ..rules.faults import quote, shorten, shown_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..files.reading import Head
    from ..header.model import Header
    from ..rules.faults import Fault

Verdict = Literal["valid", "invalid", "per-profile", NotRead]
NOT_READ = get_args(NotRead)
Count = Annotated[int, msgspec.Meta(ge=0)]
MAX_KEYS = 64
MAX_PADDING = 4096
MAX_TEXT = 200
"""Maximum number of characters of a metadata key, a `format` value or a note in a row."""


class Profiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Verdict under each profile.

    Attributes:
        text: verdict under the written rules only.
        official: verdict under the rules of the newest official release.
        hardened: verdict under our recommendation for untrusted files.
    """

    text: Literal["valid", "invalid"]
    official: Literal["valid", "invalid"]
    hardened: Literal["valid", "invalid"]


class Tally(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tensors of one dtype in a file.

    Attributes:
        dtype: code of the dtype.
        tensors: number of tensors with this dtype.
        bytes: total number of bytes in these tensors.
    """

    dtype: str
    tensors: Count
    bytes: Count


class Writer(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Properties of the header that depend on the program that wrote it.

    Attributes:
        fields: field names of the first entry in header order, joined by commas.
        padding: number of spaces after the header object; at most 4,096 spaces are counted.
        alignment: largest power of two up to 4,096 that divides the file position of the first data byte.
        compact: whether the header object has no spaces between its tokens, judged by the first entry.
        order: whether the header lists the tensors in the order of their bytes.
        format: value of the metadata key `format`, cut off at 200 characters; null if there is no such key.
    """

    fields: str
    padding: Count
    alignment: Count
    compact: bool
    order: bool
    format: str | None = None


class Row(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Row for one file, or for one model with its index and shards. Unknown and unused fields are absent.

    Attributes:
        address: path or address of the file, or of the index of a model. Bytes that are not UTF-8 are
            escaped, for example as `\\udcff`. If a name contains such a byte or `\\u`, each of its
            backslashes is doubled.
        time: time of the audit in UTC.
        verdict: `valid` or `invalid` if all profiles agree, otherwise `per-profile`. Any other value is the
            reason why the validity is unknown: `missing`, `refused` (no permission), `unreachable` (after
            several attempts), `changed` (during the audit), `no-ranges` (the server sends only whole files),
            `unreadable` (not a regular file, or a system error), `kills-worker` (every process that reads the
            file dies).
        kind: `file`, or `model` for an index with its shards.
        size: size of the file in bytes; for a model, size of its index.
        tag: ETag, digest or version from the store, or else the modification time; empty if there is neither.
            A file with the same address, size and tag is not audited again.
        profiles: verdict under each profile.
        codes: sorted list of the fault codes reported under any profile, without duplicates.
        rules: sorted list of the rules broken under any profile, without duplicates.
        faults: number of faults reported under any profile; at most 10,000 are counted per file.
        tensors: number of tensors.
        dtypes: sorted list of the dtypes used, with the number of tensors and bytes of each.
        data_bytes: size of the data buffer in bytes; for a model, the total for all shards.
        header_bytes: length N of the header in bytes.
        metadata_keys: keys of the metadata in header order; at most 64 keys, each cut off at 200 characters.
        writer: properties of the header that depend on the program that wrote the file.
        header_sha256: SHA-256 of the N header bytes.
        shards: number of shards listed in the index of a model.
        data_sha256: SHA-256 of the whole file; present only with `--data`.
        odd_bools: number of bytes other than 0 and 1 in BOOL tensors; present only with `--data`.
        requests: number of requests or reads, including repeated ones.
        read: number of bytes read.
        note: one line that says why the validity is unknown, or describes the first fault.
        aligned_tensors: number of non-empty tensors that begin at a multiple of N; present only with
            `--alignment N`.
        aligned_bytes: number of bytes in these tensors; present only with `--alignment N`.
        looks_like: kind of file that an invalid file or index looks like, such as `git-lfs`, `html` or
            `cut-short`.
    """

    address: str
    time: datetime
    verdict: Verdict
    kind: Literal["file", "model"]
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
    aligned_tensors: Count | None = None
    aligned_bytes: Count | None = None
    looks_like: str = ""


_VALID = Profiles("valid", "valid", "valid")
_INVALID = Profiles("invalid", "invalid", "invalid")
_encoder = msgspec.json.Encoder()


def encode_row(row: Row) -> bytes:
    """Return a row as one line of JSON, including the newline. Never raises, whatever the row contains."""
    address = row_address(row.address)
    if address is not row.address:
        row = msgspec.structs.replace(row, address=address)
    try:
        try:
            return _encoder.encode(row) + b"\n"
        except UnicodeEncodeError:  # the row contains text from a server, such as an ETag
            return _encoder.encode(_unicode(row)) + b"\n"
    except Exception as err:  # one row must not stop the audit
        error = NotReadError("unreadable", f"this program failed: {type(err).__name__}: {err}")
        return _encoder.encode(unread_row(address, error, None, "", row.kind)) + b"\n"


def row_address(name: str) -> str:
    if name.isascii() and "\\u" not in name:
        return name
    plain = unicode(name)
    return plain if plain == name and "\\u" not in name else unicode(name.replace("\\", "\\\\"))


def unicode(text: str) -> str:
    """Return ``text`` with surrogates escaped. Names and HTTP fields may contain surrogates."""
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


def file_row(head: Head, alignment: int | None = None) -> tuple[Row, Header | None]:
    """Return the row of a file and its header, which is None if the file has faults.

    If ``alignment`` is given, count the tensors that are aligned to this number of bytes.
    """
    seen = examine_source(head, "hardened")
    header = seen.header
    profiles = _VALID
    faults: list[Fault] = []
    if header is None or seen.tolerated:
        profiles, faults = _judged(head, seen.faults, seen.tolerated)
    fields: dict[str, Any] = fault_fields(faults)
    if seen.looks_like is not None:
        fields["looks_like"] = seen.looks_like.kind
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
            "metadata_keys": tuple(shorten(key, MAX_TEXT) for key in islice(header.metadata or (), MAX_KEYS)),
            "writer": _writer(head.data, header, ordered),
        }
        if alignment is not None:
            share = aligned_share(header, alignment)
            fields |= {"aligned_tensors": share.tensors, "aligned_bytes": share.bytes}
    row = Row(
        address=head.name,
        time=now(),
        verdict=verdict_of(profiles),
        kind="file",
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
    note = shown_name(error.note, MAX_TEXT)
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
        "note": shown_name(faults[0].message, MAX_TEXT) if faults else "",
    }


def _judged(head: Head, faults: list[Fault], tolerated: list[Fault]) -> tuple[Profiles, list[Fault]]:
    # Profiles differ only where the rules leave a choice, so most files need only one explanation.
    if all(fault.choice is None for fault in (*faults, *tolerated)):
        return _INVALID, faults
    answers: dict[str, Literal["valid", "invalid"]] = {"hardened": "invalid" if faults else "valid"}
    every = dict.fromkeys([*faults, *tolerated])
    for profile in ("text", "official"):
        seen = explain_source(head, profile)
        answers[profile] = "invalid" if seen.faults else "valid"
        every.update(dict.fromkeys(seen.faults))
    return Profiles(**answers), list(every)


def _tallies(header: Header) -> tuple[tuple[Tally, ...], bool]:
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    ordered, last = True, (0, 0)
    for _, dtype, _, begin, end in rows(header.tensors):
        counts[dtype] += 1
        sizes[dtype] += end - begin
        ordered = ordered and last <= (begin, end)
        last = begin, end
    return tuple(Tally(d, counts[d], sizes[d]) for d in sorted(counts)), ordered


_FIELD = re.compile(rb'"(dtype|shape|data_offsets)"[ \t\r\n]*:[ \t\r\n]*(?:"[^"]*"|\[[^\]]*\])')


def _writer(data: bytes, header: Header, ordered: bool) -> Writer:
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


ShardRow = tuple[Row, "Header | None"]
"""Row and header of a shard. The header is None if it has faults or was not read."""


class ModelIndex:
    """An index that was read without its shards. ``text`` is None if the index has no usable weight_map."""

    def __init__(self, head: Head) -> None:
        self.head = head
        self.findings = FaultCollector()
        self.text = read_index(head, self.findings)
        head.data = b""  # keeping the text of many indexes would use too much memory

    @property
    def names(self) -> list[str]:
        return [] if self.text is None else [name for name, m in self.text.shards.items() if m.usable]


def whole_index(_: bytes, size: int) -> int:
    return size if size <= INDEX_CAP else 0


def model_row(index: ModelIndex, shards: Mapping[str, ShardRow]) -> Row:
    """Return the row of a model.

    ``shards`` contains all shards that may be opened, including missing shards.
    """
    for name, (row, _) in shards.items():
        if row.profiles is None and row.verdict != "missing":
            note = f"shard {quote(name)}: {row.note}"
            raise NotReadError(cast("NotRead", row.verdict), note, index.head.requests, index.head.received)
    faults = _index_faults(index, shards)
    rows = [row for row, _ in shards.values()]
    profiles = _model_profiles(bool(faults), rows)
    about = fault_fields(faults)
    for part in ("codes", "rules"):
        about[part] = tuple(sorted({*about[part], *(word for row in rows for word in getattr(row, part))}))
    about["faults"] = len(faults) + sum(row.faults for row in rows)
    about["note"] = about["note"] or next((row.note for row in rows if row.codes), "")
    head = index.head
    if sum(row.data_bytes or 0 for row in rows) > LARGEST:  # servers may report false sizes
        raise NotReadError(
            "unreachable", "the sizes of the shards add up to an impossible total", head.requests
        )
    sizes = [row.data_bytes for row in rows if row.data_bytes is not None]
    return Row(
        head.name,
        now(),
        verdict_of(profiles),
        "model",
        head.size,
        head.tag,
        profiles=profiles,
        tensors=None if index.text is None else len(index.text.weight_map),
        dtypes=_model_tallies(rows),
        data_bytes=sum(sizes) if len(sizes) == len(rows) and index.text is not None else None,
        shards=None if index.text is None else len(index.text.shards),
        requests=head.requests,
        read=head.received,
        looks_like="" if index.findings.looks_like is None else index.findings.looks_like.kind,
        **about,
    )


def _index_faults(index: ModelIndex, shards: Mapping[str, ShardRow]) -> list[Fault]:
    """Return the faults of an index, except those inside its shards, which appear in the shards' rows."""

    def lookup(name: str) -> Shard:
        row, header = shards[name]
        return ABSENT if row.verdict == "missing" else Shard(header)

    if index.text is not None:
        with suppress(Abandon):  # there are too many faults, so the rest is omitted
            check_shards(index.text, lookup, index.findings)
    return sorted(index.findings.faults, key=lambda fault: fault.start)


def _model_profiles(broken: bool, rows: Iterable[Row]) -> Profiles:
    profiles = [row.profiles for row in rows if row.profiles is not None]
    return Profiles(
        *(
            "invalid" if broken or any(getattr(p, name) == "invalid" for p in profiles) else "valid"
            for name in Profiles.__struct_fields__
        )
    )


def _model_tallies(rows: Iterable[Row]) -> tuple[Tally, ...]:
    tensors: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for row in rows:
        for tally in row.dtypes:
            tensors[tally.dtype] += tally.tensors
            sizes[tally.dtype] += tally.bytes
    return tuple(Tally(dtype, tensors[dtype], sizes[dtype]) for dtype in sorted(tensors))
