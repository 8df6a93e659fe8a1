"""Layout: permitted layouts at their limits.

Entries may be in any order, tensors may be unaligned, empty tensors may be anywhere, and the data may end
with the last byte of the file.
"""

from __future__ import annotations

from safetensors_corpus.author.case import accepts, rejects
from safetensors_corpus.author.file import FileBuilder, pattern
from safetensors_corpus.author.parts import rare


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


@accepts(
    "OFF-11", importance="high", over=UNALIGNED, ahead=rare(UNALIGNED), bugs=("FB-35", "FB-75", "FB-109")
)
def unaligned(f: FileBuilder, value: tuple[int, str]) -> None:
    """A tensor begins at an offset that is not aligned to the width of its elements: $slug.

    Reading such a tensor through a pointer to the element type is undefined behaviour in C, and faults on
    some processors.
    """
    f.tensor("a", "U8", [value[0]])
    f.tensor("b", value[1], [3])


@accepts("OFF-11 FRM-08", importance="high", over=("F16", "F32", "F64"), bugs=("FB-70", "FB-75"))
def data_at_odd_position(f: FileBuilder, value: str) -> None:
    """The header has an odd length, so $value data starts at an odd position in the file."""
    f.padding = b""
    f.tensor("w", value, [4])
    f.padding = b" " * (1 - len(f.render()) % 2)


@accepts("OFF-09", over={"first": 0, "middle": 1, "last": 3}, bugs=("FB-18", "FB-119"))
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


@rejects("OFF-09 OFF-10", codes=("OFF_OVERLAP", "OFF_HOLE"), importance="high")
def one_of_many_empty_ranges_inside(f: FileBuilder) -> None:
    """Of ten empty tensors, nine are at the start of another tensor, and one is inside that tensor."""
    f.tensors("ab", "U8", [4])
    for index in range(10):
        place = 5 if index == 6 else 4
        f.tensor(f"empty{index}", "F32", [0], begin=place, end=place)


@rejects("OFF-05 DAT-03", codes="OFF_SIZE_MISMATCH", importance="high")
def rows_padded(f: FileBuilder) -> None:
    """Each of five rows of three bytes is padded to four bytes, as in image code.

    The format does not have strides. The range is larger than the shape and the dtype require.
    """
    f.tensor("w", "U8", [5, 3], pattern("w", 20))


@rejects("OFF-08 FRM-01", codes="OFF_TRAILING", importance="high")
def file_padded_to_page(f: FileBuilder) -> None:
    """Zeros after the last tensor pad the file to 4,096 bytes."""
    f.tensor("w", "F32", [2])
    f.trailer = bytes(4096 - len(f.render()))
