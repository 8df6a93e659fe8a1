"""Reads the data of a file for ``--data``: computes its SHA-256 and counts BOOL bytes other than 0 and 1."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from ..files.reading import Requests, with_retries
from ..header.model import rows
from .row import NotReadError

if TYPE_CHECKING:
    from ..files.reading import Fetcher
    from ..header.model import Header
    from .batches import AuditInput
    from .row import Row

BLOCK = 8 << 20
_USUAL = bytes((0, 1))


class _DataReader:
    def __init__(self, header: Header | None) -> None:
        self.digest = hashlib.sha256()
        self.at = 0
        self.odd = 0
        start = 0 if header is None else header.data_start
        tensors = () if header is None else rows(header.tensors)
        self.bools = sorted(
            (start + begin, start + end) for _, dtype, _, begin, end in tensors if dtype == "BOOL"
        )

    def update(self, block: bytes) -> None:
        self.digest.update(block)
        end = self.at + len(block)
        for first, last in self.bools:
            if first < end and last > self.at:
                part = block[max(first - self.at, 0) : last - self.at]
                self.odd += len(part.translate(None, _USUAL))
        self.bools = [span for span in self.bools if span[1] > end]
        self.at = end


async def read_data(fetcher: Fetcher, item: AuditInput, row: Row, header: Header | None) -> Row:
    data = _DataReader(header)
    requests = Requests(fetcher, item)
    size = row.size or 0
    while data.at < size:
        count = min(BLOCK, size - data.at)
        held = await fetcher.budget.acquire(count) if fetcher.waits else 0
        try:
            part = await with_retries(partial(requests.part, data.at, count))
            if part.size != size or len(part.data) != count or part.tag not in (row.tag, item.tag, ""):
                text = "the file was replaced after its header was read"
                raise NotReadError("changed", text, row.requests, row.read)
            data.update(part.data)
        finally:
            fetcher.budget.release(held)
    return msgspec.structs.replace(
        row,
        data_sha256=data.digest.hexdigest(),
        odd_bools=None if header is None else data.odd,
        requests=row.requests + requests.count,
        read=row.read + data.at,
    )
