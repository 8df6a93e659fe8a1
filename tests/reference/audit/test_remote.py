"""Files behind a server: what it does wrong is an outcome and never a fault of the file."""

from __future__ import annotations

import hashlib

import pytest

from safetensors_corpus.server import BEHAVIOURS, Behaviour, FileServer
from safetensors_reference.audit import work
from safetensors_reference.audit.work import AuditOptions
from safetensors_reference.files import reading

from ..support import entry, make
from .support import BROKEN, VALID, long_file, rows_of

pytest.importorskip("aiohttp")

LARGE_HEADER = long_file()
GOOD: set[Behaviour] = {"ranges", "chunked", "no-head", "head-forbidden", "redirect", "changed"}
"""Behaviours under which a file can be read: it is the same all the time."""
OUTCOMES: dict[Behaviour, str] = {
    "not-found": "missing",
    "unavailable": "unreachable",
    "closed": "unreachable",
    "cut": "unreachable",
    "short-unsaid": "unreachable",
    "redirect-loop": "unreachable",
}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LONGEST_WAIT", 0.01)


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
@pytest.mark.parametrize("data", [VALID, LARGE_HEADER], ids=["short", "long"])
def test_whatever_a_server_does_is_an_outcome(behaviour: Behaviour, data: bytes) -> None:
    with FileServer(data, behaviour) as server:
        (row,) = rows_of([server.url])
    if behaviour in GOOD or (data is VALID and behaviour in ("long", "long-unsaid", "from-start")):
        assert (row.verdict, row.size) == ("valid", len(data)), row.note
        assert row.requests <= 2
        assert row.read <= len(data)
    elif behaviour == "total-too-small" and data is LARGE_HEADER:
        assert row.verdict == "invalid"  # no request reaches the end, where the server contradicts itself
    else:
        assert row.verdict == OUTCOMES.get(behaviour, "no-ranges"), row.note
        assert row.note


def test_a_header_within_the_first_request_costs_one_and_a_longer_one_two() -> None:
    large = make(f'{{"w":{entry(shape="[1048576]", offsets="[0,1048576]")}}}', bytes(1 << 20))
    for data, requests, codes in (
        (VALID, 1, ()),
        (large, 1, ()),
        (LARGE_HEADER, 2, ()),
        (b"", 1, ("FRM_TOO_SHORT",)),
        (BROKEN, 1, ("OFF_OUT_OF_BOUNDS",)),
    ):
        with FileServer(data) as server:
            (row,) = rows_of([server.url])
        header = 8 + int.from_bytes(data[:8], "little")
        assert (row.codes, row.size) == (codes, len(data))
        if codes:
            continue
        assert (row.verdict, row.requests, len(server.log)) == ("valid", requests, requests)
        assert server.sent == row.read <= max(header, reading.FIRST)


@pytest.mark.parametrize("behaviour", ["unavailable", "cut", "closed"])
def test_a_failure_that_passes_is_asked_again(behaviour: Behaviour) -> None:
    with FileServer(LARGE_HEADER, behaviour) as server:
        answer, left = server.behaves, [3]

        def behaves(method: str) -> tuple[Behaviour, bytes]:
            left[0] -= 1
            return answer(method) if left[0] >= 0 else ("ranges", LARGE_HEADER)

        server.behaves = behaves  # type: ignore[method-assign]
        (row,) = rows_of([server.url])
    assert row.verdict == "valid"
    assert row.requests in (3, 5)  # aiohttp itself asks again where a connection is closed without a word


@pytest.mark.parametrize("behaviour", ["changed", "not-found", "unavailable", "no-ranges", "other-total"])
def test_what_happens_to_the_second_request_is_no_fault(behaviour: Behaviour) -> None:
    other = LARGE_HEADER[:-1] + b"\x01"
    with FileServer(LARGE_HEADER, behaviour, after=1, other=other) as server:
        (row,) = rows_of([server.url])
    if behaviour == "changed":  # asked again from the start, it is the other file
        assert (row.verdict, row.requests) == ("valid", 4)
    else:
        assert row.verdict in ("missing", "unreachable", "no-ranges", "changed")


def test_data_are_read_in_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "BLOCK", 50_000)
    with FileServer(LARGE_HEADER) as server:
        (row,) = rows_of([server.url], options=AuditOptions(data=True))
    assert row.data_sha256 == hashlib.sha256(LARGE_HEADER).hexdigest()
    assert row.odd_bools == 0
    assert row.requests == 2 + -(-len(LARGE_HEADER) // 50_000)
