"""Layout: the range of a tensor compared with its shape, its position and the other ranges.

Entries may be in any order, tensors may be unaligned, and empty tensors may be anywhere. In invalid files,
some bytes belong to no tensor or to several tensors, or positions are at the limits of integer types.
"""

from __future__ import annotations

from safetensors_corpus.author.case import accepts, rejects
from safetensors_corpus.author.file import FileBuilder, pattern
from safetensors_corpus.author.parts import PLACES, pad_header, powers, rare, sized, three_tensors


@accepts("OFF-05 DAT-06", smoke=True)
def two_dtypes(f: FileBuilder) -> None:
    """A tensor directly follows another tensor of a different dtype."""
    f.tensor("a", "F32", [2, 3])
    f.tensor("b", "I64", [4])


@accepts("HDR-17", over={"reversed": "cba", "rotated": "cab", "swapped": "bac"})
def header_order(f: FileBuilder, value: str) -> None:
    """The order of three names in the header, $value, differs from the order of their ranges.

    A reader that adds up sizes instead of using the offsets mixes up the tensors.
    """
    for name in "abc":
        f.tensor(name, "F32", [2], at=sum(value.index(n) < value.index(name) for n in "abc" if n < name))


UNALIGNED: dict[str, tuple[int, str]] = {
    "f16-at-1": (1, "F16"),
    "f32-at-1": (1, "F32"),
    "i64-at-3": (3, "I64"),
    "f64-at-4": (4, "F64"),
    "c64-at-7": (7, "C64"),
}


@accepts("OFF-11", importance="high", over=UNALIGNED, ahead=rare(UNALIGNED), bugs="FB-35 FB-75 FB-109")
def unaligned(f: FileBuilder, offset: int, dtype: str) -> None:
    """A tensor begins at an offset that is not aligned to the width of its elements: $slug.

    Reading such a tensor through a pointer to the element type is undefined behaviour in C, and faults on
    some processors.
    """
    f.tensor("a", "U8", [offset])
    f.tensor("b", dtype, [3])


@accepts("OFF-11 FRM-08", importance="high", over=("F16", "F32", "F64"), bugs="FB-70 FB-75")
def data_at_odd_position(f: FileBuilder, value: str) -> None:
    """The header has an odd length, so $value data starts at an odd position in the file."""
    f.padding = b""
    f.tensor("w", value, [4])
    f.padding = b" " * (1 - len(f.render()) % 2)


@accepts("OFF-09", over={"first": 0, "middle": 1, "last": 3}, bugs="FB-18 FB-119")
def empty_tensor(f: FileBuilder, value: int) -> None:
    """An empty tensor with an empty range has this position among four tensors: $slug.

    The empty tensor begins where the next tensor begins, or at the end of the file.
    """
    for index in range(4):
        if index == value:
            f.tensor("empty", "F32", [0])
        if index < 3:
            f.tensor("abc"[index], "F32", [2])


@accepts("OFF-09 HDR-17", over=(0, 8, 16))
def empty_tensor_listed_last(f: FileBuilder, value: int) -> None:
    """The header lists an empty tensor last, although its range is [$value, $value].

    A reader that sorts only by begin offset may put the empty tensor after a tensor that begins at the same
    offset. The resulting order looks like an overlap.
    """
    f.tensors("ab", "F32", [2])
    f.tensor("empty", "F32", [0], begin=value, end=value)


@accepts("OFF-09 SHP-04 OFF-10")
def empty_tensors_at_every_boundary(f: FileBuilder) -> None:
    """Pairs of empty tensors appear before, between and after two other tensors."""
    for index in range(3):
        f.tensor(f"y{index}", "F32", [0])
        f.tensor(f"x{index}", "U8", [0])
        if index < 2:
            f.tensor("ab"[index], "F32", [2])


@accepts("OFF-09 HDR-17", over={"at-end": False, "between": True})
def empty_listed_before_its_predecessor(f: FileBuilder, value: bool) -> None:
    """The header lists an empty tensor before the tensor that it follows in the data ($slug).

    If a reader sorts only by end offset, the two tensors keep their order, and the empty tensor appears to
    follow a hole.
    """
    f.tensor("a", "F32", [2])
    f.tensor("empty", "F32", [0], at=0)
    if value:
        f.tensor("b", "F32", [2])


@accepts("OFF-09 SHP-04 OFF-03")
def ranges_of_no_byte_and_of_one(f: FileBuilder) -> None:
    """Empty ranges alternate with ranges of one byte.

    A reader that requires every range to end after it begins rejects this file.
    """
    for index in range(6):
        f.tensor(f"t{index}", "U8", [index % 2])


@accepts("OFF-04 OFF-08", importance="high", over=(4095, 4096, 4097, 65536))
def file_size(f: FileBuilder, value: int) -> None:
    """The file has $value bytes, and the last range ends at the end of the file.

    At the end of a memory page, the next byte may not be mapped.
    """
    larger = FileBuilder()
    larger.tensor("a", "U8", [16])
    larger.tensor("b", "U8", [value])  # has the same number of digits, so the header has the same length
    f.tensor("a", "U8", [16])
    f.tensor("b", "U8", [2 * value - len(larger.render())])


@accepts("OFF-06 OFF-07 HDR-17")
def ranges_touch(f: FileBuilder) -> None:
    """Ranges of one byte touch without overlapping, and neighbours are never adjacent in the header."""
    for index, place in enumerate((0, 0, 2, 1, 0, 3)):
        f.tensor("abcdef"[index], "U8", [1], at=place)


@accepts("OFF-12 OFF-11")
def tensor_as_padding(f: FileBuilder) -> None:
    """A tensor of seven bytes serves as the padding that aligns the next tensor.

    Bytes for alignment are permitted if they belong to a tensor.
    """
    f.tensor("a", "U8", [1])
    f.tensor("padding", "U8", [7], bytes(7))
    f.tensor("b", "F64", [1])


@accepts("OFF-13 OFF-04")
def offsets_around_2p15(f: FileBuilder) -> None:
    """Ranges begin at 32,766, 32,767 and 32,768, at the limit of signed 16-bit integers."""
    f.tensor("a", "U8", [32_766], bytes(32_766))
    f.tensors("bcd", "U8", [1])


@accepts("OFF-09 SHP-04 OFF-10 ENT-11")
def many_names_with_empty_ranges(f: FileBuilder) -> None:
    """Four hundred empty tensors share one offset, next to a tensor of sixteen bytes.

    Several tensors may share a range only if the range is empty. Empty tensors do not use memory.
    """
    f.tensor("w", "U8", [16])
    for index in range(400):
        f.tensor(f"{index:x}", "U8", [0])


@accepts("FRM-04 LIM-02")
def header_larger_than_data(f: FileBuilder) -> None:
    """A header of twenty thousand bytes precedes one byte of data, and the file is complete."""
    f.padding = b" " * 20_003
    f.tensor("w", "U8", [1])


@rejects("OFF-09 OFF-10", "OFF_OVERLAP OFF_HOLE")
def one_of_many_empty_ranges_inside(f: FileBuilder) -> None:
    """Of ten empty tensors, nine are at the start of another tensor, and one is inside that tensor."""
    f.tensors("ab", "U8", [4])
    for index in range(10):
        place = 5 if index == 6 else 4
        f.tensor(f"empty{index}", "F32", [0], begin=place, end=place)


@rejects("OFF-05 DAT-03", "OFF_SIZE_MISMATCH", importance="high")
def rows_padded(f: FileBuilder) -> None:
    """Each of five rows of three bytes is padded to four bytes, as in image code.

    The format does not have strides. The range is larger than the shape and the dtype require.
    """
    f.tensor("w", "U8", [5, 3], pattern("w", 20))


@rejects("OFF-08 FRM-01", "OFF_TRAILING")
def file_padded_to_page(f: FileBuilder) -> None:
    """Zeros after the last tensor pad the file to 4,096 bytes."""
    f.tensor("w", "F32", [2])
    f.trailer = bytes(4096 - len(f.render()))


SHIFTED = "OFF_HOLE OFF_OVERLAP OFF_OUT_OF_BOUNDS"
ANY = "OFF_SIZE_MISMATCH OFF_OVERLAP OFF_HOLE OFF_TRAILING OFF_OUT_OF_BOUNDS"


@rejects("OFF-07", "OFF_HOLE", bugs="FB-59 FB-78 FB-117")
def hole_between_two(f: FileBuilder) -> None:
    """Four bytes between two tensors belong to neither.

    Each tensor is valid by itself, but the hole can contain hidden content.
    """
    f.tensor("a", "F32", [1])
    f.gap(4)
    f.tensor("b", "F32", [1])


@rejects(
    "OFF-07",
    "OFF_HOLE",
    over={"before-first": (0, 8), "one-byte-before-first": (0, 1), "one-byte": (1, 1), "before-last": (2, 8)},
    bugs="FB-59 FB-117",
)
def hole(f: FileBuilder, place: int, count: int) -> None:
    """Bytes before or between three tensors belong to none of them: $slug."""
    for index, name in enumerate("abc"):
        if index == place:
            f.gap(count)
        f.tensor(name, "F32", [2])


@rejects("OFF-12", "OFF_HOLE", over=(8, 64))
def hole_for_alignment(f: FileBuilder, value: int) -> None:
    """Zeros between two tensors align the second tensor to a multiple of $value bytes.

    Other formats allow such zeros, but here they make the file invalid.
    """
    f.tensor("a", "U8", [1])
    f.gap(value - 1)
    f.tensor("b", "F64", [2])


@rejects("OFF-07 OFF-09", "OFF_HOLE OFF_OVERLAP")
def hole_with_empty_tensor(f: FileBuilder) -> None:
    """An empty tensor is in the middle of a hole."""
    f.tensor("a", "F32", [1])
    f.gap(2)
    f.tensor("empty", "F32", [0])
    f.gap(2)
    f.tensor("b", "F32", [1])


@rejects("OFF-07 OFF-09", "OFF_HOLE OFF_TRAILING")
def empty_tensor_behind_unused_bytes(f: FileBuilder) -> None:
    """Eight bytes belong to no tensor, and an empty tensor follows them at the end of the file.

    A reader that compares only the largest end offset with the file size does not find the fault.
    """
    f.tensor("a", "F32", [2])
    f.gap(8)
    f.tensor("empty", "F32", [0])


@rejects("OFF-09", "OFF_OVERLAP OFF_HOLE", over=(1, 4, 7))
def empty_tensor_inside_another(f: FileBuilder, value: int) -> None:
    """The offset of an empty tensor is $value, inside a tensor of eight bytes."""
    f.tensor("a", "F32", [2])
    f.tensor("empty", "F32", [0], begin=value, end=value)


@rejects(
    "OFF-06",
    "OFF_OVERLAP",
    over={
        "whole": ("U8", 0, 8),
        "whole-other-dtype": ("F32", 0, 8),
        "front": ("U8", 0, 4),
        "back": ("U8", 5, 8),
    },
    bugs=dict.fromkeys(("front", "back"), "FB-59")
    | {"whole": "FB-59 FB-78 FB-79 FB-117", "whole-other-dtype": "FB-79"},
)
def range_of_another(f: FileBuilder, dtype: str, begin: int, end: int) -> None:
    """The range of a tensor is part or all of the range of another tensor: $slug.

    Writing to one tensor changes the other.
    """
    f.tensor("a", "U8", [8])
    f.tensor("b", dtype, [2] if dtype == "F32" else [end - begin], b"", begin=begin, end=end)


@rejects(
    "OFF-06",
    "OFF_OVERLAP",
    over={"first-two-1-byte": (1, 1), "first-two-4-bytes": (1, 4), "last-two-1-byte": (2, 1)},
    bugs="FB-59 FB-78 FB-117",
)
def overlap(f: FileBuilder, place: int, shared: int) -> None:
    """One of three tensors begins before the previous tensor ends: $slug."""
    three_tensors(f, place, usual=("U8", [8]), size=8 - shared, begin=8 * place - shared)


@rejects("OFF-06 OFF-07", "OFF_OVERLAP OFF_HOLE OFF_TRAILING")
def overlap_makes_up_for_unused_bytes(f: FileBuilder) -> None:
    """Two tensors share eight bytes, and eight others are unused, so the sizes add up."""
    f.tensor("a", "F32", [2])
    f.tensor("b", "F32", [2], b"", begin=0, end=8)
    f.gap(8)


@rejects(
    "OFF-06 LIM-05", "OFF_OVERLAP", importance="critical", issue="safetensors/safetensors#26", bugs="FB-01"
)
def many_names_for_one_range(f: FileBuilder) -> None:
    """Six hundred names share one range of 16,000 bytes.

    A reader that copies every tensor uses hundreds of times as much memory as the size of the file.
    """
    f.tensor("0", "U8", [16_000])
    for index in range(1, 600):
        f.tensor(f"{index:x}", "U8", [16_000], b"", begin=0, end=16_000)


def _resize(f: FileBuilder, more: int) -> None:
    """Add four bytes after the data, or remove four if ``more`` is negative."""
    f.trailer = bytes(4) if more > 0 else b""
    f.cut = 0 if more > 0 else 4


def _places(*, last: bool = True, **values: int) -> dict[str, tuple[int, int]]:
    """Pair every value with every position (or all but the last), with slugs such as larger-first."""
    places = {slug: index for slug, index in PLACES.items() if last or index < 2}
    return {
        f"{name}-{place}": (value, index) for name, value in values.items() for place, index in places.items()
    }


@rejects("OFF-05", "OFF_SIZE_MISMATCH", bugs="FB-43", over=_places(larger=3, smaller=1))
def shape_alone(f: FileBuilder, length: int, place: int) -> None:
    """Only the shape of one of three tensors is wrong ($slug). The range and the file agree."""
    three_tensors(f, place, shape=[length], size=8)


@rejects("OFF-05", "OFF_SIZE_MISMATCH", bugs="FB-43 FB-55 FB-130", issue="ml-explore/mlx#3363")
def shape_of_4_mb_range_of_4_bytes(f: FileBuilder) -> None:
    """The shape requires four million bytes, but the range and the file have only four."""
    f.tensor("w", "F32", [1000, 1000], bytes(4))


@rejects("OFF-05", "OFF_SIZE_MISMATCH", bugs="FB-43 FB-55", issue="ztxz16/fastllm#712")
def shape_of_1_kib_range_of_48_kib(f: FileBuilder) -> None:
    """The shape requires 1 KiB, but the range and the file have 48 KiB.

    A buffer that is sized for the shape and filled from the range overflows.
    """
    f.tensor("w", "F32", [32, 8], pattern("w", 48 * 1024))


@rejects(
    "OFF-05",
    "OFF_SIZE_MISMATCH OFF_HOLE OFF_TRAILING OFF_OVERLAP OFF_OUT_OF_BOUNDS",
    bugs="FB-43",
    over=_places(larger=4, smaller=-4),
)
def range_alone(f: FileBuilder, more: int, place: int) -> None:
    """Only the range of one of three tensors is wrong ($slug). The shape and the file agree."""
    three_tensors(f, place, end=8 * place + 8 + more)


@rejects("OFF-07 OFF-06", SHIFTED, importance="critical", over=PLACES)
def range_shifted(f: FileBuilder, value: int) -> None:
    """The range of the $slug of three tensors has the right size but is shifted by four bytes."""
    three_tensors(f, value, begin=8 * value + 4, end=8 * value + 12)


@rejects("OFF-06", "OFF_OVERLAP", importance="critical", over=_places(larger=1, last=False))
@rejects("OFF-04", "OFF_OUT_OF_BOUNDS", over={"larger-last": (1, 2)})
@rejects("OFF-07", "OFF_HOLE", importance="critical", over=_places(smaller=-1, last=False))
@rejects("OFF-08", "OFF_TRAILING", importance="critical", over={"smaller-last": (-1, 2)})
def shape_and_range(f: FileBuilder, more: int, place: int) -> None:
    """The shape and the range of one of three tensors agree, but on one element too many or too few: $slug.

    Each tensor is valid by itself. Only its neighbours or the end of the file reveal the fault.
    """
    three_tensors(f, place, shape=[2 + more], size=8, end=8 * place + 8 + 4 * more)


@rejects("OFF-05 OFF-08", ANY, over=_places(larger=1))
@rejects("OFF-05 OFF-04", ANY, over=_places(smaller=-1))
def shape_and_file(f: FileBuilder, more: int, place: int) -> None:
    """The shape of one of three tensors and the file are both four bytes too large or too small: $slug.

    The ranges are unchanged. A reader that adds up the sizes of the shapes does not find the fault.
    """
    three_tensors(f, place, shape=[2 + more], size=8)
    _resize(f, more)


@rejects("OFF-05 OFF-06", ANY, over=_places(larger=4, last=False))
@rejects("OFF-05 OFF-07", ANY, over=_places(smaller=-4, last=False))
def range_and_file(f: FileBuilder, more: int, place: int) -> None:
    """The range of one of three tensors and the file are both four bytes too large or too small: $slug.

    The shape and the other tensors are right, and the sum of the ranges equals the size of the data.
    """
    three_tensors(f, place, end=8 * place + 8 + more)
    _resize(f, more)


@rejects(
    "OFF-13 OFF-04",
    "OFF_OUT_OF_BOUNDS OFF_HOLE",
    over=powers("2p31-less-8", "2p31", "2p32-less-8", "2p63-less-8", "2p64-plus-64"),
)
def position_behind_header(f: FileBuilder, value: int) -> None:
    """The range of the last of three tensors begins $slug bytes after the start of the file.

    The sum of the offset and the header size reaches the limit of an integer type, or wraps into the header.
    """
    header = 256
    begin = value - 8 - header
    f.tensors("ab", "U8", [4])
    f.tensor("c", "U8", [8], b"", begin=begin, end=begin + 8)
    pad_header(f, header)


@rejects("OFF-04 OFF-13", "OFF_OUT_OF_BOUNDS OFF_HOLE")
def range_at_2p53_plus_1(f: FileBuilder) -> None:
    """A range of one byte begins at 2^53 + 1, an offset that no double can represent."""
    f.tensor("a", "U8", [8])
    f.tensor("b", "U8", [1], b"", begin=2**53 + 1, end=2**53 + 2)


@rejects("OFF-06", "OFF_OVERLAP", over={"whole": (0, 8), "part": (4, 12)})
def last_over_first(f: FileBuilder, begin: int, end: int) -> None:
    """The third tensor in the header overlaps the first tensor: $slug.

    A reader that compares each tensor only with the previous tensor in the header does not notice the
    overlap.
    """
    f.tensors("ab", "U8", [8])
    f.tensor("c", "U8", [8], b"", begin=begin, end=end)


@rejects("OFF-06", "OFF_OVERLAP")
def one_over_all(f: FileBuilder) -> None:
    """One tensor covers all of the data, and two others each cover half of it.

    Either the whole tensor or the two halves alone would make a valid file.
    """
    f.tensor("all", "U8", [16])
    f.tensor("a", "U8", [8], b"", begin=0, end=8)
    f.tensor("b", "U8", [8], b"", begin=8, end=16)


@rejects("OFF-07", "OFF_HOLE")
def hole_filled_with_spaces(f: FileBuilder) -> None:
    """Eight spaces between two tensors belong to neither of them.

    Spaces are padding only in the header.
    """
    f.tensor("a", "F32", [2])
    f.gap(8, 0x20)
    f.tensor("b", "F32", [2])


@rejects("OFF-12 OFF-11", "OFF_HOLE", over=(4096,))
def hole_before_aligned_last(f: FileBuilder, value: int) -> None:
    """Zeros align the last of three tensors to a multiple of $value bytes."""
    f.tensor("a", "U8", [3])
    f.tensor("b", "F16", [1])
    f.gap(-f.position % value)
    f.tensor("c", "F64", [1])


@rejects("OFF-05", "OFF_SIZE_MISMATCH", bugs="FB-58 FB-130", issue="https://github.com/antirez/ds4/pull/543")
def square_of_128_range_of_128_bytes(f: FileBuilder) -> None:
    """An F8_E4M3 tensor of 128 rows and 128 columns has only enough bytes for one row.

    A conversion to a wider dtype that uses the shape reads the other rows from memory outside the tensor.
    """
    f.tensor("w", "F8_E4M3", [128, 128], pattern("w", 128))


@rejects(
    "OFF-05",
    "OFF_SIZE_MISMATCH",
    bugs="FB-89",
    over={"f32-as-bytes": ("F32", [8, 8], 64), "i64-as-halves": ("I64", [8], 16)},
)
def quarter_of_shape(f: FileBuilder, dtype: str, shape: list[int], size: int) -> None:
    """The range and the file contain a quarter of the bytes that the shape requires: $slug.

    To code that assumes a fixed element width, the size seems right because it fits another dtype.
    """
    sized(f, dtype, shape, size)
