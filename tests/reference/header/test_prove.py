"""The proving path: what it proves, the explaining path and a naive reader confirm, with the same meaning."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given

from benchmarks.files import header_of
from safetensors_corpus import load_manifest
from safetensors_reference import PROFILES, Explanation, InvalidFileError, explain, read_header
from safetensors_reference.check.result import check_input
from safetensors_reference.files.names import FileInput
from safetensors_reference.header import read as proving
from safetensors_reference.header.model import Header, rows
from safetensors_reference.rules.book import ProfileName

from .. import naive
from ..strategies import FEWER, Model, models, mutants
from ..support import ABCD, W, entry, make

Prover = Callable[[bytes, int], Header | None]


def pieces(raw: bytes, data_size: int) -> Header | None:
    """The proving path with a cut wherever one can be, as very long headers have some."""
    limit, proving.PIECE = proving.PIECE, 0
    try:
        return proving.prove(raw, data_size)
    finally:
        proving.PIECE = limit


PROVERS: dict[str, Prover] = {"whole": proving.prove, "pieces": pieces}


@lru_cache(maxsize=5000)
def others(data: bytes) -> tuple[naive.Content, dict[ProfileName, Explanation]]:
    """What the naive reader and the explaining path say, once for all provers."""
    return naive.read(data), {profile: explain(data, profile) for profile in PROFILES}


def confirm(prover: Prover, data: bytes) -> Header | None:
    """Run a prover; whatever it proves must hold under every profile and for the naive reader."""
    try:
        header = prover(*naive.split(data))
    except naive.BreachError:
        return None
    if header is None:
        return None
    expected, explanations = others(data)
    assert {n: t[1:] for n, t in header.tensors.items()} == expected.tensors
    assert header.metadata == expected.metadata
    for explanation in explanations.values():
        assert (explanation.faults, explanation.tolerated) == ([], [])
        assert explanation.header is not None
        assert dict(header.tensors) == explanation.header.tensors
        assert list(header.tensors) == list(explanation.header.tensors)
        assert header.metadata == explanation.header.metadata
        assert (header.length, header.data_size) == explanation.header[::3]
    flat = [(name, dtype, tuple(shape), *span) for name, dtype, shape, *span in rows(header.tensors)]
    assert flat == list(header.tensors.values())
    return header


@FEWER
@given(mutants())
def test_what_is_proved_has_no_fault_and_means_the_same(data: bytes) -> None:
    for prover in PROVERS.values():
        confirm(prover, data)


@FEWER
@given(models())
def test_valid_headers_are_proved_however_they_are_spelled(model: Model) -> None:
    # A minus sign that may be escaped is the one legal spelling that the counting does not follow.
    escaped_minus = b"\\u002" in model.header and b"-" in model.header
    for prover in PROVERS.values():
        assert confirm(prover, model.file) is not None or escaped_minus or later_metadata(model.header)


def later_metadata(header: bytes) -> bool:
    """Whether the metadata are not first, or their key is escaped, or a string of theirs has a brace."""
    read = json.loads(header)
    metadata = read.get("__metadata__")
    plain = header[1:].lstrip().startswith(b'"__metadata__"')
    return metadata is not None and (not plain or "}" in str(metadata))


@pytest.mark.parametrize("space", ["", " ", "\n  "])
@pytest.mark.parametrize("name", PROVERS)
def test_what_writers_write_is_proved(name: str, space: str) -> None:
    for count in (0, 1, 7):
        raw = header_of(count, 8).replace(b",", b"," + space.encode()).replace(b":", b":" + space.encode())
        header = confirm(PROVERS[name], make(raw, bytes(8 * count)))
        assert header is not None
        assert len(header.tensors) == count
        assert header.metadata == {"format": "pt"}


def test_a_long_header_in_pieces_means_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proving, "PIECE", 4000)
    raw = header_of(500, 8, "layer}},{0}.weight")
    header = confirm(proving.prove, make(raw, bytes(4000)))
    assert header is not None
    first_piece = 70  # entries, at most
    shapes = [tensor.shape for tensor in header.tensors.values()]
    assert len({id(shape) for shape in shapes[first_piece:]}) == 1


def test_a_name_that_looks_like_a_cut_is_left_to_the_other_path() -> None:
    empty = entry("U8", "[0]", "[0,0]")
    raw = f'{{"v":{empty},"w}},":{empty}}}'.encode()
    assert (pieces(raw, 0), proving.prove(raw, 0) is not None) == (None, True)


OVERFLOWS = ("[18446744073709551616,0]", "[4294967296,4294967296,2,0]", "[0,4294967296,4294967296,2]")


def test_what_the_corpus_refuses_and_other_traps_are_not_proved() -> None:
    files = [make(f'{{"w":{entry("U8", shape, "[0,0]")}}}') for shape in OVERFLOWS]
    files += [make('{"__metadata__":{"a":"b"},}')]
    refused = [c for c in load_manifest().reading if c.expect is not None and c.expect.outcome == "reject"]
    assert len(refused) > 4000
    for data in [*files, *(case.read_input() for case in refused)]:
        for prover in PROVERS.values():
            with suppress(naive.BreachError):
                assert prover(*naive.split(data)) is None, data[:1000]


def test_a_shape_of_many_large_numbers_costs_no_time() -> None:
    # Multiplying them all would take minutes; the overflow ends it after the second.
    shape = ",".join(["9" * 19] * 200_000)
    header = f'{{"w":{entry("U8", f"[{shape}]", "[0,1]")}}}'.encode()
    assert [prover(header, 1) for prover in PROVERS.values()] == [None] * len(PROVERS)


def test_reading_a_header_takes_the_fast_path_and_explains_only_when_it_must(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "a.safetensors"
    explaining = Mock(wraps=vars(proving)["explain_source"])
    monkeypatch.setattr(proving, "explain_source", explaining)
    good = make(f'{{"w":{W}}}', ABCD)
    path.write_bytes(good)
    assert list(read_header(good).tensors) == ["w"]
    assert check_input(FileInput(str(path)), "hardened").status == "valid"
    assert explaining.call_count == 0
    with pytest.raises(InvalidFileError, match="OFF_TRAILING"):
        read_header(good + b"x")
    assert explaining.call_count == 1
