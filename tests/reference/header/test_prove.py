"""The proving path: what it proves, the explaining path and a naive reader confirm, with the same meaning."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise

import pytest
from hypothesis import given

from benchmarks.files import header_of
from safetensors_corpus import load_manifest
from safetensors_reference import PROFILES, Explanation, InvalidFileError, explain, read_header
from safetensors_reference.header import prove
from safetensors_reference.header import read as parse_module
from safetensors_reference.header.model import Header, rows
from safetensors_reference.rules.book import ProfileName

from .. import naive
from ..strategies import FEWER, Model, models, mutants
from ..support import make

Prover = Callable[[bytes, int], Header | None]


def lean(raw: bytes, data_size: int) -> Header | None:
    """The proving path that very long headers take."""
    limit, prove.LEAN_FROM = prove.LEAN_FROM, 1
    try:
        return prove.prove(raw, data_size)
    finally:
        prove.LEAN_FROM = limit


def pieces(raw: bytes, data_size: int) -> Header | None:
    """The accelerated path with a cut wherever one can be, as very long headers have some."""
    limits = prove.LEAN_FROM, prove.PIECE
    prove.LEAN_FROM, prove.PIECE = 1, 0
    try:
        return prove.prove_fast(raw, data_size)
    finally:
        prove.LEAN_FROM, prove.PIECE = limits


PROVERS: dict[str, Prover] = {
    "standard": prove.prove,
    "lean": lean,
    "accelerated": prove.prove_fast,
    "pieces": pieces,
}


def split(data: bytes) -> tuple[bytes, int] | None:
    """Return (header bytes, size of the data buffer), None when the framing is broken."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or not 0 < length <= len(data) - 8:
        return None
    return data[8 : 8 + length], len(data) - 8 - length


@lru_cache(maxsize=5000)
def others(data: bytes) -> tuple[naive.Content, dict[ProfileName, Explanation]]:
    """What the naive reader and the explaining path say, once for all provers."""
    return naive.read(data), {profile: explain(data, profile) for profile in PROFILES}


def confirm(prover: Prover, data: bytes) -> Header | None:
    """Run a prover; whatever it proves must hold under every profile and for the naive reader."""
    parts = split(data)
    header = None if parts is None else prover(*parts)
    if header is None:
        return None
    expected, explanations = others(data)
    assert {n: t[1:] for n, t in header.tensors.items()} == expected.tensors
    assert header.metadata == expected.metadata
    for explanation in explanations.values():
        assert explanation.faults == []
        assert explanation.tolerated == []
        assert explanation.header is not None
        assert dict(header.tensors) == explanation.header.tensors
        assert list(header.tensors) == list(explanation.header.tensors)
        assert header.metadata == explanation.header.metadata
        assert (header.length, header.data_size) == explanation.header[::3]
    flat = [(name, dtype, tuple(shape), *span) for name, dtype, shape, *span in rows(header.tensors)]
    assert flat == list(header.tensors.values())
    return header


@pytest.mark.parametrize("name", PROVERS)
def test_what_is_proved_has_no_fault_and_means_the_same(name: str) -> None:
    @FEWER
    @given(mutants())
    def check(data: bytes) -> None:
        confirm(PROVERS[name], data)

    check()


@pytest.mark.parametrize("name", ["standard", "lean"])
def test_valid_headers_are_proved_however_they_are_spelled(name: str) -> None:
    @FEWER
    @given(models())
    def check(model: Model) -> None:
        # A minus sign that may be escaped is the one legal spelling that the counting does not follow.
        escaped_minus = b"\\u002" in model.header and b"-" in model.header
        fields = {"dtype", "shape", "data_offsets"}
        like_an_entry = name == "lean" and set(model.metadata or ()) == fields
        assert confirm(PROVERS[name], model.file) is not None or escaped_minus or like_an_entry

    check()


@pytest.mark.parametrize("name", ["accelerated", "pieces"])
def test_the_accelerated_path_proves_what_writers_write(name: str) -> None:
    for count in (0, 1, 7):
        raw = header_of(count, 8)
        header = PROVERS[name](raw, 8 * count)
        assert header is not None
        assert len(header.tensors) == count
        assert header.metadata == {"format": "pt"}


def test_a_long_header_in_pieces_means_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prove, "LEAN_FROM", 1)
    monkeypatch.setattr(prove, "PIECE", 4000)
    raw = header_of(500, 8, "layer}},{0}.weight")
    header = confirm(prove.prove_fast, len(raw).to_bytes(8, "little") + raw + bytes(4000))
    assert header is not None
    tensors = list(header.tensors.values())
    assert len({id(tensor.shape) for tensor in tensors}) == 1
    # Only where a piece ends are there two objects for one number; those below 257 are one anyway.
    shared = sum(one.end is other.begin for one, other in pairwise(tensors) if one.end > 256)
    assert 440 < shared < 467


def test_a_name_that_looks_like_a_cut_is_left_to_the_other_path() -> None:
    entry = '{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
    raw = f'{{"v":{entry},"w}},":{entry}}}'.encode()
    assert pieces(raw, 0) is None
    assert prove.prove(raw, 0) is not None


@pytest.mark.parametrize("name", PROVERS)
def test_the_corpus_proves_nothing_that_a_case_calls_broken(name: str) -> None:
    proved = 0
    for case in load_manifest().reading:
        data = case.read_input()
        header = confirm(PROVERS[name], data)
        if header is not None:
            proved += 1
            outcomes = {o.outcome for o in (case.options.values() if case.expect is None else [case.expect])}
            assert "accept" in outcomes, case.id
    assert proved > 200


@pytest.mark.parametrize(
    "header",
    [
        b'{"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":{},"data_offsets":[1,2]}}',
        b'{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2.0],"data_offsets":[2,4]}}',
        b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[true],"data_offsets":[1,2]}}',
        b'{"a":["U8",["x","y","z"],0,0]}',
        b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[false,0]}}',
        b'{"__metadata__":null}',
        b'{"__metadata__":{"a":"b"},}',
        b'{"__metadata__":{"a":"b"}"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}',
        b'{"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"__metadata__":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}',
        b'{"w":{"dtype":"U8","shape":[-0],"data_offsets":[0,0]}}',
        b'{"w-":{"dtype":"U8","shape":[-0],"data_offsets":[0,0]}}',
        b'{"w":{"dtype":"U8","shape":[-2,-2],"data_offsets":[0,4]}}',
        b'{"w":{"dtype":"U8","shape":[18446744073709551616,0],"data_offsets":[0,0]}}',
        b'{"w":{"dtype":"U8","shape":[4294967296,4294967296,2,0],"data_offsets":[0,0]}}',
        b'{"w":{"dtype":"U8","shape":[0,4294967296,4294967296,2],"data_offsets":[0,0]}}',
        b'{"\\ud800":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}',
        b'{"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}\n',
        b'{"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}{}',
        b'{"v":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},}',
        b'{"v":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},,"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}',
        b'{"v":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"v":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}',
        b'{"v":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}},"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}',
        b'{},"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}',
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", PROVERS)
def test_known_traps_are_not_proved(name: str, header: bytes) -> None:
    for size in range(5):
        assert PROVERS[name](header, size) is None


def test_a_shape_of_many_large_numbers_costs_no_time() -> None:
    # Multiplying them all would take minutes; the overflow ends it after the second.
    shape = b",".join([b"9" * 19] * 200_000)
    header = b'{"w":{"dtype":"U8","shape":[' + shape + b'],"data_offsets":[0,1]}}'
    assert [prover(header, 1) for prover in PROVERS.values()] == [None] * len(PROVERS)


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_left_as_it_was(enabled: bool) -> None:
    raw = header_of(3, 8)
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        for prover in PROVERS.values():
            prover(raw, 24)
            prover(b"{", 0)
            assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_reading_a_header_takes_the_fast_path_and_explains_only_when_it_must(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def explaining(*arguments: object) -> object:
        asked.append(arguments)
        return original(*arguments)

    original: Callable[..., object] = vars(parse_module)["explain_source"]
    monkeypatch.setattr(parse_module, "explain_source", explaining)
    good = make(b'{"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}', b"ab")
    assert list(read_header(good).tensors) == ["w"]
    assert list(read_header(good, accelerate=False).tensors) == ["w"]
    assert asked == []
    with pytest.raises(InvalidFileError, match="OFF_TRAILING"):
        read_header(good + b"x")
    assert len(asked) == 1
