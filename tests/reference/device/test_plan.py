"""The plan against a byte-by-byte model: where every byte goes, and that nothing else is read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from safetensors_reference.device.plan import Chunk, Segment, cut, cut_on_grid, make_plan
from safetensors_reference.header.read import read_header

from ..naive import BITS
from ..strategies import FEWER, Model, models
from .support import file_of

alignments = st.sampled_from([1, 2, 16, 64, 256])


def moved(chunks: list[Chunk]) -> dict[int, int]:
    """Buffer byte -> file byte, as the chunks say it; every byte is written once."""
    out: dict[int, int] = {}
    for chunk in chunks:
        for read in chunk.reads:
            file_at = read.file_at
            for at, size in read.pieces:
                assert 0 <= at <= at + size <= chunk.size
                for i in range(size):
                    assert chunk.at + at + i not in out
                    out[chunk.at + at + i] = file_at
                    file_at += 1
    return out


@FEWER
@given(models(least=1), st.data(), alignments, st.integers(1, 40), st.sampled_from([None, 1, 4, 16]))
def test_every_wanted_byte_goes_to_its_tensor_and_no_other_is_read(
    model: Model, data: st.DataObject, align: int, chunk: int, grid: int | None
) -> None:
    header = read_header(model.file)
    names = data.draw(st.none() | st.sets(st.sampled_from(sorted(model.tensors))))
    plan = make_plan(header, names, align)
    chunks = list(cut(plan.segments, chunk) if grid is None else cut_on_grid(plan.segments, chunk, grid))
    assert all(c.size <= chunk for c in chunks)
    if grid is not None:
        for piece in chunks:
            (read,) = piece.reads
            assert read.pieces == [(0, piece.size)]
            first, last = read.file_at // grid, (read.file_at + piece.size - 1) // grid
            assert last - first + 1 <= max(-(-chunk // grid), 2)
    assert [row[0] for row in plan.rows] == [n for n in header.tensors if names is None or n in names]
    expected: dict[int, int] = {}
    for name, code, shape, begin, end in plan.rows:
        dtype, dims, first, last = model.tensors[name]
        assert (code, tuple(shape), end - begin) == (dtype, dims, last - first)
        for i in range(end - begin):
            expected[begin + i] = 8 + header.length + first + i
        if begin != end:
            assert begin % max(align, BITS[code] // 8, 1) == 0
            assert end <= plan.size
    assert moved(chunks) == expected
    assert plan.size == len(expected) + plan.gaps
    if names is None and all(
        b % max(align, BITS[code] // 8) == 0 or b == e for code, _, b, e in model.tensors.values()
    ):
        assert (plan.size, plan.gaps, len(plan.segments)) == (len(model.data), 0, int(bool(model.data)))


def test_neighbours_of_a_subset_are_read_together() -> None:
    file = file_of([(name, "F32", [4]) for name in "abcdef"])
    start = read_header(file).data_start
    plan = make_plan(read_header(file), {"b", "c", "e"})
    assert plan.segments == [Segment(start + 16, 0, 32), Segment(start + 64, 32, 16)]
    (chunk,) = cut(plan.segments, 1000)
    assert [(r.file_at, r.pieces) for r in chunk.reads] == [(start + 16, [(0, 32)]), (start + 64, [(32, 16)])]


def test_bytes_with_gaps_between_them_are_one_read() -> None:
    """One system call fills a chunk, however many gaps it has; tensors off by the same amount have none."""
    file = file_of([t for i in range(50) for t in ((f"u{i}", "U8", [3]), (f"f{i}", "F64", [2]))])
    plan = make_plan(read_header(file))
    assert (len(plan.segments), plan.gaps) == (51, 50 * 5)
    (chunk,) = cut(plan.segments, 1 << 20)
    (read,) = chunk.reads
    assert len(read.pieces) == 51, "a gap before each of the 50 F64, none before the U8 behind it"
    assert sum(size for _, size in read.pieces) == 50 * 19
