"""The explaining reader against the naive one, on random files and random breakages of them."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pytest
import safetensors
from hypothesis import given, settings
from hypothesis import strategies as st

from safetensors_reference import (
    HEADER_CAP,
    PROFILES,
    Explanation,
    InvalidFileError,
    explain,
    read_header,
    rule_book,
)
from safetensors_reference.header.explain import FAULT_LIMIT

from .. import naive
from ..naive import Content
from ..strategies import FEWER, Model, models, mutants
from ..support import ABCD, W, entry, make, peak


def content(explanation: Explanation) -> Content:
    """What the reader saw, in the naive reader's terms."""
    header = explanation.header
    assert header is not None
    rows = header.tensors.values()
    assert [t.name for t in rows] == list(header.tensors)
    return Content({t.name: (t.dtype, t.shape, t.begin, t.end) for t in rows}, header.metadata)


def agrees(data: bytes) -> Explanation:
    """Assert that both readers say the same about ``data``, and that each fault has a place and a rule."""
    explanation = explain(data)
    expected = naive.read(data) if naive.is_valid(data) else None
    assert explanation.valid == (expected is not None), explanation.faults
    assert (explanation.header is None) == (expected is None)
    if expected is not None:
        assert content(explanation) == expected
    places = [(f.start, f.end) for f in explanation.faults]
    assert places == sorted(places)
    for fault in explanation.faults:
        assert 0 <= fault.start <= fault.end <= len(data)
        assert fault.code in rule_book().rules[fault.rule].codes
        assert fault.choice is None or fault.choice in rule_book().choices
        assert fault.message.isprintable(), "a message is one line and controls no terminal"
        assert len(fault.message) < 2500
    return explanation


@FEWER
@given(models())
def test_valid_files_are_valid_and_say_what_was_written(model: Model) -> None:
    explanation = agrees(model.file)
    assert explanation.faults == []
    assert content(explanation) == Content(model.tensors, model.metadata)
    assert explanation.header is not None
    assert explanation.header[::3] == (len(model.header), len(model.data))
    assert model.file[explanation.header.data_start :] == model.data


@given(st.binary(max_size=64) | st.binary(max_size=48).map(lambda header: make(b"{" + header + b"}")))
def test_random_bytes_get_the_verdict_of_the_naive_reader(data: bytes) -> None:
    agrees(data)


def test_verdict_and_content_equal_those_of_the_naive_reader() -> None:
    """Nearly every fault code and both verdicts occur, or this would be agreement about nothing."""
    seen: Counter[str] = Counter()

    @settings(max_examples=max(settings().max_examples, 300))
    @given(mutants())
    def collect(data: bytes) -> None:
        explanation = agrees(data)
        seen.update({f.code for f in explanation.faults} or {"valid"})

    collect()
    reachable = {
        c for c in rule_book().codes if c.startswith(("FRM", "HDR", "ENT", "DTY", "SHP", "OFF", "MET"))
    }
    # A few hundred examples may miss a rare breakage, never most of them.
    assert len(reachable & set(seen)) >= len(reachable) - 6, sorted(reachable - set(seen))
    assert 20 < seen["valid"] < sum(seen.values()) - seen["valid"]


@FEWER
@given(mutants())
def test_hardened_is_the_strictest_profile_and_others_tolerate_what_their_choices_allow(data: bytes) -> None:
    hardened = explain(data, "hardened")
    assert hardened.tolerated == []
    for profile in PROFILES:
        other = explain(data, profile)
        assert (other.header is None) == bool(other.faults)
        assert other.valid >= hardened.valid
        assert not hardened.valid or content(other) == content(hardened)
        for fault in other.tolerated:
            assert fault.choice is not None
            positions = rule_book().choices[fault.choice].positions
            assert (positions[profile] or positions["hardened"]) != "reject"


@pytest.mark.parametrize("before", [0, 1, 2, 3])
def test_utf8_is_checked_across_the_blocks_in_which_it_is_read(before: int) -> None:
    """The header is decoded in blocks of a mebibyte; a character may lie on the border."""
    start = b'{"__metadata__":{"k":"'.ljust(2**20 - before, b"x")
    assert explain(make(start + "😀".encode() + b'"}}')).valid
    cut = make(start + "😀".encode()[:3] + b'y"}}')
    fault = explain(cut).faults[0]
    found = (fault.code, fault.start, fault.end)
    assert found == ("HDR_NOT_UTF8", cut.index(b"\xf0"), cut.index(b"y"))


SPARSE = 2**33


@pytest.mark.parametrize(
    ("data", "size", "valid"),
    [
        *((make("{}   ", length=length), 0, False) for length in (HEADER_CAP, 2**40, 2**64 - 1)),
        (make(f'{{"w":{entry("U8", f"[{SPARSE}]", f"[0,{SPARSE}]")}}}'), SPARSE, True),
    ],
    ids=itertools.count(),
)
def test_neither_a_length_that_is_claimed_nor_the_data_cost_memory(
    data: bytes, size: int, valid: bool, tmp_path: Path
) -> None:
    path = tmp_path / "sparse.safetensors"
    with path.open("wb") as file:
        file.write(data)
        file.truncate(len(data) + size)
    assert explain(path, "official").valid == valid
    assert peak(lambda: explain(path, "official")) < 1_000_000


def test_messages_and_paths_stay_short_when_names_are_long() -> None:
    name = "n" * 1_000_000
    long, other = entry("X" * 1_000_000, "[1]", "[9,8]"), entry("U8", "[7]", "[3,4]")
    data = make(f'{{"{name}":{long},"{name}":null,"b":{other}}}')
    sizes = [len(str(fault.to_dict())) for fault in explain(data).faults]
    assert len(sizes) >= 4
    assert max(sizes) < 2000


def test_read_header_raises_with_all_faults_and_a_short_text() -> None:
    data = make(f'{{"w":{W},"w":{W}}}', ABCD + b"!")
    with pytest.raises(InvalidFileError) as caught:
        read_header(data)
    assert {f.code for f in caught.value.explanation.faults} == {"HDR_DUP_KEY", "OFF_TRAILING"}
    for part in ("<bytes>", "HDR_DUP_KEY", "HDR-09", "1 more"):
        assert part in str(caught.value)


def test_collecting_stops_at_a_limit_and_says_so() -> None:
    data = make(b'{"__metadata__":{"k":"' + b"\x01a" * (FAULT_LIMIT + 10) + b'"}}')
    explanation = explain(data)
    assert (len(explanation.faults), explanation.cut, explanation.valid) == (FAULT_LIMIT, True, False)
    few = explain(make(b'{"__metadata__":{"k":"' + b"\x01a" * 10 + b'"}}'))
    assert (len(few.faults), few.cut) == (10, False)


def test_a_tolerated_fault_keeps_its_place_beside_others() -> None:
    data = make(f'{{"w":{W},"w":{W}}}', ABCD + b"!")
    explanation = explain(data, "official")
    (fault,) = explanation.tolerated
    at = data.rindex(b'"w"')
    assert (fault.code, fault.start, fault.end, fault.path) == ("HDR_DUP_KEY", at, at + 3, ("w",))
    assert [f.code for f in explanation.faults] == ["OFF_TRAILING"]


@pytest.mark.skipif(safetensors.__version__ != "0.8.0", reason="the profile describes safetensors 0.8.0")
@FEWER
@given(mutants())
def test_the_official_profile_gives_the_verdict_and_content_of_the_official_library(data: bytes) -> None:
    header = explain(data, "official").header
    try:
        found = {name: (info["dtype"], tuple(info["shape"])) for name, info in safetensors.deserialize(data)}  # type: ignore[no-untyped-call]
    except safetensors.SafetensorError:
        assert header is None
    else:
        assert header is not None
        assert found == {t.name: (t.dtype, t.shape) for t in header.tensors.values()}
