"""Builds the row of a model by comparing its index with the headers of its shards."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ..header.json_text import Abandon
from ..model.index import INDEX_CAP, FaultCollector, IndexText, read_index_text
from ..model.shards import check_contents
from ..rules.faults import Fault, quote
from .row import LARGEST, Head, NotReadError, Profiles, Row, Tally, fault_fields, now, verdict_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..header.model import Header

ShardRow = tuple[Row, "Header | None"]
"""Row of a shard and its header. The header is None if it has faults or was not read."""


class ModelIndex:
    """An index read as text; ``text`` is None if its contents cannot be interpreted."""

    def __init__(self, head: Head) -> None:
        self.head = head
        self.findings = FaultCollector()
        self.text: IndexText | None = None
        if head.size > INDEX_CAP:
            text = (
                f"the index has {head.size:,} bytes, which exceeds the limit of {INDEX_CAP:,} bytes (IDX-13)"
            )
            self.findings.faults.append(Fault("LIM_MEMORY", "LIM-06", text, 0, head.size))
        else:
            self.text = read_index_text(head.data, self.findings)
            head.data = b""  # the texts of many indexes would need too much memory

    @property
    def names(self) -> list[str]:
        return [] if self.text is None else [name for name, m in self.text.shards.items() if m.usable]


def whole_index(_: bytes, size: int) -> int:
    return size if size <= INDEX_CAP else 0


def model_row(index: ModelIndex, shards: Mapping[str, ShardRow]) -> Row:
    """Return the row of a model.

    ``shards`` maps names to all shards that may be opened, including missing ones.
    """
    for name, (row, _) in shards.items():
        if row.profiles is None and row.verdict != "missing":
            note = f"shard {quote(name)}: {row.note}"
            raise NotReadError(row.verdict, note, index.head.requests, index.head.received)
    headers = {name: header for name, (_, header) in shards.items() if header is not None}
    faults = _faults(index, shards, headers)
    rows = [row for row, _ in shards.values()]
    profiles = _profiles(bool(faults), rows)
    about = fault_fields(faults)
    for part in ("codes", "rules"):
        about[part] = tuple(sorted({*about[part], *(word for row in rows for word in getattr(row, part))}))
    about["faults"] = len(faults) + sum(row.faults for row in rows)
    about["note"] = about["note"] or next((row.note for row in rows if row.codes), "")
    head = index.head
    if sum(row.data_bytes or 0 for row in rows) > LARGEST:  # servers may report false sizes
        raise NotReadError("unreachable", "the total size of the shards is impossible", head.requests)
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
        dtypes=_tallies(rows),
        data_bytes=sum(sizes) if len(sizes) == len(rows) and index.text is not None else None,
        shards=None if index.text is None else len(index.text.shards),
        requests=head.requests,
        read=head.received,
        **about,
    )


def _faults(index: ModelIndex, shards: Mapping[str, ShardRow], headers: Mapping[str, Header]) -> list[Fault]:
    findings, text = index.findings, index.text
    if text is not None:
        try:
            for name, (row, _) in shards.items():
                if row.verdict == "missing":
                    place = text.shards[name]
                    message = f"shard {quote(name)} does not exist"
                    findings.add(Fault("IDX_SHARD_MISSING", "IDX-08", message, place.start, place.end))
            check_contents(text, headers, findings)
        except Abandon:
            pass  # there are too many faults, so the rest is omitted
    return sorted(findings.faults, key=lambda fault: fault.start)


def _profiles(broken: bool, rows: Iterable[Row]) -> Profiles:
    profiles = [row.profiles for row in rows if row.profiles is not None]
    return Profiles(
        *(
            "invalid" if broken or any(getattr(p, name) == "invalid" for p in profiles) else "valid"
            for name in Profiles.__struct_fields__
        )
    )


def _tallies(rows: Iterable[Row]) -> tuple[Tally, ...]:
    tensors: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for row in rows:
        for tally in row.dtypes:
            tensors[tally.dtype] += tally.tensors
            sizes[tally.dtype] += tally.bytes
    return tuple(Tally(dtype, tensors[dtype], sizes[dtype]) for dtype in sorted(tensors))
