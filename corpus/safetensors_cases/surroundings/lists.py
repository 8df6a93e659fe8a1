"""Model of lists: a fault at one position in a list of tensors of zero or one byte."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from safetensors_corpus.author.file import FileBuilder

from .model import Levels, Model, Property, Row, Topic, excludes, merged, permitting
from .tensor_faults import DTYPE, FAR, HOLE, OVERLAP, REPEATED, SIZE, Breach

COUNTS = (2, 3, 16, 17, 64, 65, 100, 101, 256, 257, 1024)
PROPERTIES = {
    "count": Property(
        "number of tensors",
        {"n2": ""} | {f"n{count}": f"{count:,} tensors" for count in COUNTS[1:]},
        tuple(f"n{count}" for count in COUNTS if count != 101),
    ),
    "at": Property(
        "tensor with the fault",
        {
            "first": "",
            "second": "at the second tensor",
            "middle": "at the middle tensor",
            "nextlast": "at the second-to-last tensor",
            "last": "at the last tensor",
        },
    ),
    "order": Property(
        "order of the header compared with the order of the data",
        {"ordered": "", "halves": "second half of the header first", "rev": "header in reverse order"},
    ),
    "others": Property("other tensors", {"full": "", "voids": "among empty tensors"}),
    "ahead": Property(
        "metadata before the tensors",
        {
            "bare": "",
            "m4k": "after 4,096 bytes of metadata",
            "m8k": "after 8,192 bytes of metadata",
            "m64k": "after 65,536 bytes of metadata",
        },
    ),
    "times": Property(
        "number of faults", {"once": "", "twice": "and again at the same distance from the other end"}
    ),
}
_AHEAD = {"m4k": 4096, "m8k": 8192, "m64k": 65_536}
EXCLUSIONS = (
    excludes("two tensors have no middle", count="n2", at="second middle nextlast"),
    excludes("in a list of three tensors, these positions are the middle", count="n3", at="second nextlast"),
    excludes(
        "no short recipe can describe a long header in reverse order",
        count="n100 n101 n256 n257 n1024",
        order="rev",
    ),
    excludes("with two tensors, swapped halves are the same as reverse order", count="n2", order="halves"),
    excludes("the middle tensor is equally far from both ends", at="middle", times="twice"),
)
Fault = Callable[[int, int, int], dict[str, Any]]
"""Function of the position in the buffer, the position in the list, and the number of tensors.

It returns the arguments that describe the faulty tensor, which is otherwise a valid tensor of one byte.
"""


def _indexes(row: Row, count: int) -> list[int]:
    """Return the positions of the faults in the list."""
    places = {"first": 0, "second": 1, "middle": count // 2, "nextlast": count - 2, "last": count - 1}
    index = places[row["at"]]
    return [index, count - 1 - index] if row["times"] == "twice" else [index]


def _write(row: Row, f: FileBuilder, fault: Fault | None = None) -> None:
    """Write a list. The recipe numbers its tensors consecutively, by the position of their bytes."""
    f.numbered = True
    count = int(row["count"][1:])
    half = count // 2
    faulty = _indexes(row, count) if fault is not None else []
    # Empty tensors cannot overlap or leave a hole, so the tensor before a fault has a byte.
    full = {index - by for index in faulty for by in (0, 1)} if faulty else {half}
    for index in range(count):
        at = {"ordered": None, "rev": 0, "halves": index - half if index >= half else None}[row["order"]]
        if fault is not None and index in faulty:
            valid: dict[str, Any] = {"name": f"s{index}", "dtype": "U8", "shape": [1], "data": b"\1"}
            f.tensor(**valid | fault(f.position, index, count), at=at)
        elif row["others"] == "voids" and index not in full:
            f.tensor(f"t{index}", "U8", [0], b"", at=at)
        else:
            number = index if row["others"] == "voids" else f.position
            # The tensors of a valid list have different bytes, so that none can be mistaken for another.
            data = b"\1" if fault is not None else bytes([number]) if number < 256 else b"\0\0"
            f.tensor(f"t{number}", "U8", [len(data)], data, at=at)
    if row["ahead"] != "bare":
        f.metadata({"a": "v" * _AHEAD[row["ahead"]]}, at=0)


def _topic(about: str, breach: Breach, fault: Fault, *only: Levels) -> Topic:
    return Topic(about, lambda row, f: _write(row, f, fault), *breach, merged(only))


BYTES: Levels = {"others": ("full",)}
"""No empty tensors. If a reader drops one of two entries, some bytes belong to no tensor."""
ONCE: Levels = {"times": ("once",)}
BEHIND: Levels = {"at": ("second", "middle", "nextlast", "last")}
LONG: Levels = {"count": ("n16", "n17", "n64", "n65", "n100", "n256", "n257", "n1024")}
LEVELS = {
    "voids": "a tensor of zero bytes",
    "halves": "entries in a different order than the data",
    "rev": "entries in a different order than the data",
}
"""Level -> the feature that it adds."""
LISTS = Model(
    "lists",
    PROPERTIES,
    EXCLUSIONS,
    {
        "list": Topic(
            "a valid list",
            _write,
            permitting(LEVELS, "ENT-11"),
            only={
                "count": tuple(f"n{count}" for count in COUNTS if count < 1024),
                "at": ("first",),
                "ahead": ("bare",),
                **ONCE,
            },
        ),
        "list-hole": _topic(
            "a hole of one byte in a list",
            HOLE,
            lambda p, *_: {"data": b"\1\1", "begin": p + 1, "end": p + 2},
        ),
        "list-overlap": _topic(
            "a tensor that shares a byte with the previous tensor in a list",
            OVERLAP,
            lambda p, *_: {"data": b"", "begin": p - 1, "end": p},
            ONCE,
            BEHIND,
        ),
        "list-size": _topic("a tensor with one byte too few in a list", SIZE, lambda *_: {"shape": [2]}),
        "list-other-shape": _topic(
            "a tensor with a different shape and one byte too few in a list",
            SIZE,
            lambda *_: {"dtype": "U16", "shape": [1, 2], "data": b"\1\2\3"},
        ),
        "list-name-beside": _topic(
            "two adjacent tensors with the same name in a list",
            ("HDR-09", REPEATED),
            lambda _, k, _n: {"name": f"t{k - 1 if k else 1}"},
            BYTES,
            ONCE,
        ),
        "list-name-apart": _topic(
            "two distant tensors with the same name in a list",
            ("HDR-09", REPEATED),
            lambda _, k, n: {"name": f"t{0 if 2 * k >= n else n - 1}"},
            BYTES,
            ONCE,
            LONG,
        ),
        "list-dtype": _topic(
            "a tensor with an unknown dtype in a list", DTYPE, lambda *_: {"fields": {"dtype": '"U7"'}}
        ),
        "list-empty": _topic(
            "an empty tensor past the end of the buffer in a list",
            ("OFF-09 OFF-04", FAR),
            lambda *_: {"shape": [0], "data": b"", "begin": 1 << 20, "end": 1 << 20},
        ),
    },
    joint=("count", "at", "order"),
)
