"""The data buffer: every byte belongs to exactly one tensor."""

from __future__ import annotations

import itertools
from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetensors_reference.header.explain import check_layout, draw_layout
from safetensors_reference.header.model import Range

from ..naive import BreachError, covered_once
from ..strategies import FEWER

Pair = tuple[int, int]


def ranges(*pairs: Pair) -> list[Range]:
    """Ranges named a, b, c ..., declared at file bytes 100..101, 110..111, 120..121 ..."""
    return [
        Range(chr(97 + i % 26), begin, end, 100 + 10 * i, 101 + 10 * i, "U8", (end - begin,))
        for i, (begin, end) in enumerate(pairs)
    ]


def codes(pairs: list[Pair], size: int, complete: bool = True) -> list[tuple[str, str | None]]:
    """Code and tensor of each fault."""
    faults = check_layout(ranges(*pairs), 50, size, complete)
    return [(f.code, None if f.path is None else str(f.path[0])) for f in faults]


small_pairs = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=5)


@st.composite
def tilings(draw: st.DrawFn) -> tuple[list[Pair], int]:
    """Ranges that tile a buffer, in any order, empty ones among them."""
    cuts = [0, *sorted(draw(st.lists(st.integers(0, 8), max_size=6)))]
    return draw(st.permutations(list(itertools.pairwise(cuts)))), cuts[-1]


@FEWER
@given(st.tuples(small_pairs, st.integers(0, 7)) | tilings())
def test_no_fault_means_that_every_byte_is_covered_exactly_once(layout: tuple[list[Pair], int]) -> None:
    pairs, size = layout
    faults = codes(pairs, size)
    if any(begin > end for begin, end in pairs):
        assert "OFF_REVERSED" in {c for c, _ in faults}
        return
    with pytest.raises(BreachError) if faults else nullcontext():
        covered_once(pairs, size)


@FEWER
@given(small_pairs, st.integers(0, 7), st.data())
def test_the_order_of_the_header_and_unknown_ranges_change_only_what_they_must(
    pairs: list[Pair], size: int, data: st.DataObject
) -> None:
    found = sorted(c for c, _ in codes(pairs, size))
    assert sorted(c for c, _ in codes(data.draw(st.permutations(pairs)), size)) == found
    unsure = {c for c, _ in codes(pairs, size, complete=False)}
    assert unsure == set(found) - {"OFF_HOLE", "OFF_TRAILING"}


@pytest.mark.parametrize(
    ("pairs", "size", "expected"),
    [
        ([], 1, [("OFF_TRAILING", None)]),
        ([(0, 4), (5, 5)], 4, [("OFF_OUT_OF_BOUNDS", "b")]),
        ([(0, 4), (6, 6), (5, 9)], 4, [("OFF_OUT_OF_BOUNDS", "c"), ("OFF_OUT_OF_BOUNDS", "b")]),
        ([(0, 4), (9, 9)], 8, [("OFF_OUT_OF_BOUNDS", "b"), ("OFF_TRAILING", None)]),
        ([(9, 9)], 0, [("OFF_OUT_OF_BOUNDS", "a"), ("OFF_HOLE", "a")]),
        ([(0, 8), (9, 11)], 8, [("OFF_OUT_OF_BOUNDS", "b")]),
        ([(0, 4), (9, 11)], 8, [("OFF_OUT_OF_BOUNDS", "b"), ("OFF_HOLE", "b")]),
        ([(0, 3), (4, 8)], 8, [("OFF_HOLE", "b")]),
        ([(0, 8), (2, 4), (4, 8)], 8, [("OFF_OVERLAP", "b"), ("OFF_OVERLAP", "c")]),
        ([(0, 4), (0, 4), (0, 4)], 4, [("OFF_OVERLAP", "b"), ("OFF_OVERLAP", "c")]),
        ([(0, 4), (6, 8)], 9, [("OFF_HOLE", "b"), ("OFF_TRAILING", None)]),
        ([(0, 2**64 - 1)], 4, [("OFF_OUT_OF_BOUNDS", "a")]),
    ],
)
def test_faults_name_the_tensor_that_does_not_fit(
    pairs: list[Pair], size: int, expected: list[tuple[str, str | None]]
) -> None:
    assert codes(pairs, size) == expected


THREE = '0 |"a": U8[1]| 1 |"b": U8[1]| 2 |"c": U8[1]| 3'


@pytest.mark.parametrize(
    ("pairs", "size", "drawing"),
    [
        ([(i, i + 1) for i in range(20)], 20, f"{THREE} … 17 more = end of file"),
        # The range that begins last need not be the one that ends last.
        ([(0, 1), (1, 2), (2, 3), (3, 99), (4, 5)], 99, f"{THREE} … 2 more = end of file"),
        ([(0, 4), (8, 12)], 12, '0 |"a": U8[4]| 4 |hole: 4 bytes| 8 |"b": U8[4]| 12 = end of file'),
        ([], 0, "0 = end of file"),
        ([], 3, "0 |trailing: 3 bytes| 3 = end of file"),
        ([(0, 4)], 6, '0 |"a": U8[4]| 4 |trailing: 2 bytes| 6 = end of file'),
        ([(0, 4)], 3, '0 |"a": U8[4]| 4 but the file ends at 3'),
        ([(0, 4), (2, 6)], 6, '0 |"a": U8[4]| 4 back to 2 |"b": U8[4]| 6 = end of file'),
        ([(4, 6), (0, 4)], 6, '0 |"b": U8[4]| 4 |"a": U8[2]| 6 = end of file'),
        ([(0, 8), (2, 4)], 8, '0 |"a": U8[8]| 8 back to 2 |"b": U8[2]| 4 = end of file'),
    ],
)
def test_the_drawing_shows_tensors_holes_overlaps_and_the_end(
    pairs: list[Pair], size: int, drawing: str
) -> None:
    assert draw_layout(ranges(*pairs), size, limit=3) == drawing


@FEWER
@given(small_pairs, st.integers(0, 7), st.text(max_size=60))
def test_a_drawing_is_one_readable_line_whatever_the_names(pairs: list[Pair], size: int, name: str) -> None:
    drawing = draw_layout([Range(name, begin, end, 0, 0, "U8") for begin, end in pairs], size)
    assert drawing.isprintable()
    assert len(drawing) < 3000
