"""Layout: the ranges against the file, past its end or counted past the integers."""

from __future__ import annotations

from ...author.case import rejects
from ...author.file import FileBuilder, pattern
from ...author.parts import three_tensors

FAR = ("OFF_OUT_OF_BOUNDS", "OFF_HOLE")
HEADER = 128
MLX_SHORT = "https://github.com/ml-explore/mlx/issues/3409"


def _numbers(*slugs: str) -> dict[str, int]:
    """Return each slug, such as 2p32-plus-8, with the number it spells."""
    out = {}
    for slug in slugs:
        power, _, rest = slug.removeprefix("2p").partition("-")
        word, _, count = rest.partition("-")
        out[slug] = 2 ** int(power) + int(count or 0) * (1 if word == "plus" else -1)
    return out


def _pad(f: FileBuilder) -> None:
    """Pad the header to ``HEADER`` bytes, so that positions in the file are known beforehand."""
    f.padding = b""
    f.padding = b" " * (HEADER - int.from_bytes(f.render()[:8], "little"))


EMPTY_FAR = {"1": 9, **_numbers("2p32", "2p63", "2p64-less-1")}


@rejects("OFF-09", "OFF-04", codes=FAR, importance="high", over=EMPTY_FAR)
def empty_tensor_past_end(f: FileBuilder, value: int) -> None:
    """A tensor without bytes stands at offset $value, past the end of the file."""
    f.tensor("a", "F32", [2])
    f.tensor("empty", "F32", [0], begin=value, end=value)


@rejects(
    "OFF-04",
    codes="OFF_OUT_OF_BOUNDS",
    importance="critical",
    bugs=("FB-03", "FB-71", "FB-203", "FB-218", "FB-219"),
    issue=MLX_SHORT,
    over={"1-byte": 1, "1-element": 4, "last-tensor": 8, "all-but-1-byte": 23, "all-data": 24},
)
def data_lacks(f: FileBuilder, value: int) -> None:
    """The file ends too early, missing of three tensors: $slug.

    Shapes and ranges agree with each other; only the size of the file shows what is missing.
    """
    three_tensors(f, -1)
    f.cut = value


ACROSS = ("OFF_OUT_OF_BOUNDS", "OFF_OVERLAP")


@rejects("OFF-04", codes=ACROSS, importance="critical", over={"first": 0, "middle": 1}, bugs=("FB-53",))
def end_past_file(f: FileBuilder, value: int) -> None:
    """The $slug of three ranges ends past the end of the file and runs across the others.

    Checking only the range that the header lists last misses it.
    """
    for index, name in enumerate("abc"):
        if index == value:
            f.tensor(name, "U8", [100], pattern(name, 8), end=f.position + 100)
        else:
            f.tensor(name, "U8", [8])


@rejects(
    "OFF-04",
    "OFF-13",
    codes=("OFF_OUT_OF_BOUNDS", "SHP_OVERFLOW"),
    importance="critical",
    bugs={
        "2p22": ("FB-03", "FB-53", "FB-63", "FB-219"),
        "2p31": ("FB-03", "FB-53", "FB-63", "FB-219"),
        "2p32": ("FB-03", "FB-53", "FB-63", "FB-219"),
        "2p32-plus-8": ("FB-03", "FB-53", "FB-63", "FB-219"),
        "2p40": ("FB-03", "FB-53", "FB-63", "FB-219"),
        "2p63-less-1": ("FB-03", "FB-53", "FB-63", "FB-219"),
        "2p63": ("FB-03", "FB-53", "FB-63", "FB-219"),
        "2p64-less-1": ("FB-03", "FB-53", "FB-63"),
    },
    issue=MLX_SHORT,
    over=_numbers("2p22", "2p31", "2p32", "2p32-plus-8", "2p40", "2p63-less-1", "2p63", "2p64-less-1"),
)
def end_far(f: FileBuilder, value: int) -> None:
    """Shape and range say $value bytes, the file has eight of them.

    Cut to 32 bits or taken with a sign the end lies inside the file.
    """
    f.tensor("w", "U8", [value], pattern("w", 8), end=value)


RANGE_FAR = _numbers("2p31-less-8", "2p32", "2p40", "2p63-less-8", "2p63", "2p64-less-9")


@rejects(
    "OFF-04",
    "OFF-13",
    codes=FAR,
    importance="critical",
    bugs={
        "just-behind": ("FB-63", "FB-85", "FB-219"),
        "2p31-less-8": ("FB-63", "FB-85", "FB-219"),
        "2p32": ("FB-63", "FB-85", "FB-219"),
        "2p40": ("FB-63", "FB-85", "FB-219"),
        "2p63-less-8": ("FB-63", "FB-85", "FB-219"),
        "2p63": ("FB-63", "FB-85", "FB-219"),
        "2p64-less-9": ("FB-63", "FB-85"),
    },
    over={"just-behind": 8, **RANGE_FAR},
)
def range_far(f: FileBuilder, value: int) -> None:
    """The range of the second tensor has its size, but begins outside the file: $slug.

    A reader that checks only the difference of the two offsets reads memory far away.
    """
    f.tensor("a", "F32", [2])
    f.tensor("b", "F32", [2], b"", begin=value, end=value + 8)


POSITIONS = _numbers("2p32", "2p63-less-9", "2p63", "2p64-less-9", "2p64-less-8", "2p64")


@rejects("OFF-13", "OFF-04", codes=FAR, importance="critical", over=POSITIONS)
def position_in_file(f: FileBuilder, value: int) -> None:
    """Counted from the start of the file, a range of eight bytes begins at $slug.

    Offset plus 8 plus header length leaves the integers, or wraps around to the start of the file.
    """
    begin = value - 8 - HEADER
    f.tensor("a", "F32", [2])
    f.tensor("b", "F32", [2], b"", begin=begin, end=begin + 8)
    _pad(f)


@rejects(
    "OFF-13",
    codes=("OFF_OUT_OF_BOUNDS", "SHP_OVERFLOW"),
    importance="critical",
    bugs=("FB-03", "FB-15"),
    issue="https://github.com/safetensors/safetensors/pull/808",
)
def chain_up_to_the_largest_integer(f: FileBuilder) -> None:
    """Nine ranges follow one another without a hole up to 2^64 - 1, the file has no data.

    Adding the header length to the last end overflows.
    """
    begin = 0
    for index, size in enumerate([2**61 - 1] * 8 + [7]):
        f.tensor(f"t{index}", "U8", [size], b"", begin=begin, end=begin + size)
        begin += size


@rejects(
    "OFF-13", "OFF-06", codes=("OFF_OUT_OF_BOUNDS", "OFF_OVERLAP", "SHP_OVERFLOW"), importance="critical"
)
def sizes_wrap_to_size_of_data(f: FileBuilder) -> None:
    """Sixteen ranges of 2^60 bytes and one of eight: the sizes add up to 2^64 + 8.

    The sum wraps around to the size of the data.
    """
    f.tensor("w", "U8", [8])
    for index in range(16):
        f.tensor(f"t{index}", "U8", [2**60], b"", begin=0, end=2**60)


@rejects("OFF-07", "OFF-04", "OFF-01", codes=("OFF_HOLE", "OFF_OUT_OF_BOUNDS"), importance="high")
def offsets_from_start_of_file(f: FileBuilder) -> None:
    """The offsets count from the start of the file instead of the start of the data."""
    f.tensor("w", "F32", [2], begin=8 + HEADER, end=8 + HEADER + 8)
    _pad(f)
