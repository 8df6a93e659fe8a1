"""Faults of one tensor in a scene, or of the file around it.

The broken rule and the matching codes come from the specification, never from the output of a reader.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING

from safetensors_reference.rules.dtypes import DTYPE_BITS

from ...author.file import json_text
from .model import Levels, Row, Topic
from .scene import scene

if TYPE_CHECKING:
    from ...author.file import FileBuilder
    from .scene import Scene, Tensor

Declare = Callable[["Scene"], None]
Change = Callable[["FileBuilder", "Tensor"], None]
Finish = Callable[["FileBuilder"], None]

FILLED: Levels = {"size": ("small", "large")}
WITH_DIMS: Levels = {"rank": ("r1", "r3", "r8")}
EMPTY: Levels = {"size": ("void",), **WITH_DIMS}
BEHIND_FULL: Levels = {"place": ("middle", "last"), "before": ("full",)}
EMPTY_BEHIND_FULL: Levels = {**EMPTY, **BEHIND_FULL, "beside": ("even", "odd")}
AT_END: Levels = {"place": ("only", "last")}
AMONG: Levels = {"place": ("first", "middle", "last")}
BARE: Levels = {"metadata": ("bare",)}

LAYOUT = ("OFF_SIZE_MISMATCH", "OFF_OVERLAP", "OFF_HOLE", "OFF_TRAILING", "OFF_OUT_OF_BOUNDS")
HOLE = ("OFF_HOLE", "OFF_OVERLAP")
INTEGER = ("ENT_BAD_INTEGER", "OFF_BAD_PAIR")
PAIR = ("OFF_BAD_PAIR", "ENT_BAD_INTEGER")
LENGTH = ("FRM_HEADER_OVER_LIMIT", "FRM_HEADER_PAST_EOF")
DIMENSION = ("ENT_BAD_INTEGER", "SHP_BAD_TYPE")
NO_NUMBER = ("SHP_BAD_TYPE", "ENT_BAD_INTEGER")
MISSPELLED = ("ENT_MISSING_FIELD", "ENT_UNKNOWN_FIELD")


def _fault(
    about: str,
    rules: str | Callable[[Row], tuple[str, ...]],
    codes: str | tuple[str, ...],
    *only: Levels,
    declare: Declare | None = None,
    change: Change | None = None,
    finish: Finish | None = None,
    length: Callable[[int, int], int] | None = None,
) -> Topic:
    """Return the topic of a fault.

    Args:
        about: description of the fault.
        rules: space-separated rule ids with the broken one first, or a function of the row.
        codes: matching fault codes.
        only: levels that the fault can be combined with.
        declare: changes the scene before it is written.
        change: changes the tensor under test when its offset is known.
        finish: changes the file after all tensors are written.
        length: function of header length and file size that returns the declared length.
    """

    def make(row: Row, f: FileBuilder) -> None:
        made = scene(row)
        made.on_write = change
        if declare is not None:
            declare(made)
        made.write(f)
        if finish is not None:
            finish(f)
        made.pad(f)
        if length is not None:
            file = f.render()
            f.length = length(int.from_bytes(file[:8], "little"), len(file)) % (1 << 64)

    merged = {name: levels for part in only for name, levels in part.items()}
    ids = tuple(rules.split()) if isinstance(rules, str) else rules
    return Topic(about, make, ids, (codes,) if isinstance(codes, str) else codes, merged)


# --- ranges ---------------------------------------------------------------------------------------------


def _moved(begin: int, end: int) -> Change:
    def change(f: FileBuilder, tensor: Tensor) -> None:
        tensor.begin, tensor.end = f.position + begin, f.position + len(tensor.data) + end

    return change


def _overlap_of_one(f: FileBuilder, tensor: Tensor) -> None:
    """Begin on the last byte of the previous tensor, without leaving any byte uncovered."""
    tensor.begin, tensor.end = f.position - 1, f.position - 1 + len(tensor.data)
    tensor.data = tensor.data[1:]


def _overlap_of_all(made: Scene) -> None:
    front = made.tensors[made.at - 1]
    front.dtype, front.shape, front.data = made.subject.dtype, made.subject.shape, made.subject.data

    def change(f: FileBuilder, tensor: Tensor) -> None:
        tensor.begin, tensor.end = f.position - len(tensor.data), f.position
        tensor.data = b""

    made.on_write = change


def _reversed(f: FileBuilder, tensor: Tensor) -> None:
    tensor.begin, tensor.end = f.position + (len(tensor.data) or 1), f.position


def _back_to_zero(f: FileBuilder, tensor: Tensor) -> None:
    tensor.begin, tensor.end = f.position, 0


def _far(_f: FileBuilder, tensor: Tensor) -> None:
    tensor.begin = tensor.end = 1 << 20


def _from_file(row: Row, f: FileBuilder) -> None:
    """Count all offsets from the start of the file. Iterate, because longer offsets lengthen the header."""
    start = 0
    while True:
        trial, made = type(f)(), scene(row)
        _shifted(made, start)
        made.write(trial)
        made.pad(trial)
        data_start = 8 + int.from_bytes(trial.render()[:8], "little")
        if data_start <= start:
            break
        start = data_start
    made = scene(row)
    _shifted(made, start)
    made.write(f)
    made.pad(f)


def _shifted(made: Scene, start: int) -> None:
    place = start
    for tensor in made.tensors:
        tensor.begin, place = place, place + len(tensor.data)
        tensor.end = place


def _gap(count: int) -> Change:
    return lambda f, _tensor: f.gap(count)


# --- shapes ---------------------------------------------------------------------------------------------


def _dimension(new: Callable[[int, Tensor], int]) -> Declare:
    """Change the largest dimension, or the first one if several are equal, without changing the range."""

    def declare(made: Scene) -> None:
        shape = made.subject.shape
        index = shape.index(max(shape))
        shape[index] = new(shape[index], made.subject)

    return declare


def _wrapped(bits: int) -> Callable[[int, Tensor], int]:
    """Return a function that increases a dimension so that the size grows by two to the power of ``bits``."""

    def new(dim: int, tensor: Tensor) -> int:
        return dim + (1 << bits) // (prod(tensor.shape) // dim * DTYPE_BITS[tensor.dtype] // 8)

    return new


ONE_IN_64_BITS = [(1 << 32) - 1, (1 << 32) - 1, 641 * 641, 6_700_417, 6_700_417]
"""Dimensions below 2^32 whose product is 1 modulo 2^64.

The product of 2^32 - 1 and 2^32 + 1, which is 641 * 6700417, is -1 modulo 2^64.
"""


def _small_dims(made: Scene) -> None:
    """Set dimensions below 2^16 whose product is right when it is truncated to 32 bits."""
    right, most = prod(made.subject.shape), (1 << 16) - 1
    candidates = (_factors(right + (times << 32), most) for times in range(1, 10_000))
    made.subject.shape = next(dims for dims in candidates if dims)


def _factors(number: int, most: int) -> list[int]:
    """Return a few numbers up to ``most`` with the given product, or an empty list."""
    factors, rest = [], number
    for divisor in range(2, 98):
        while rest % divisor == 0:
            factors.append(divisor)
            rest //= divisor
    if rest > most:
        return []
    dims = [rest]
    for factor in sorted(factors, reverse=True):
        index = next((i for i, dim in enumerate(dims) if dim * factor <= most), None)
        if index is None:
            dims.append(factor)
        else:
            dims[index] *= factor
    return dims


def _dimensions(form: Callable[[list[str]], list[str]]) -> Declare:
    return lambda made: made.subject.fields.update(
        shape=f"[{','.join(form([str(dim) for dim in made.subject.shape]))}]"
    )


# --- fields and names -----------------------------------------------------------------------------------


def _field(name: str, text: str | None) -> Declare:
    return lambda made: made.subject.fields.update({name: text})


def _offsets(form: Callable[[int, int], str]) -> Change:
    return lambda f, tensor: tensor.fields.update(
        data_offsets=form(f.position, f.position + len(tensor.data))
    )


def _twice(name: str, other: Callable[[Tensor], str]) -> Declare:
    return lambda made: made.subject.fields.update(
        {name: f'{other(made.subject)},"{name}":{made.subject.true_fields[name]}'}
    )


def _misspelled(name: str, other: str) -> Declare:
    return lambda made: made.subject.fields.update({name: None, other: made.subject.true_fields[name]})


def _renamed_offsets(other: str) -> Change:
    return lambda f, tensor: tensor.fields.update(
        {"data_offsets": None, other: json_text([f.position, f.position + len(tensor.data)])}
    )


def _dtype(form: Callable[[str], str]) -> Declare:
    return lambda made: made.subject.fields.update(dtype=json_text(form(made.subject.dtype)))


def _entry(text: str) -> Declare:
    return lambda made: setattr(made.subject, "value", text)


def _name_of_another(made: Scene) -> None:
    other = next(t for t in made.tensors if t is not made.subject and t.data)
    made.subject.name, made.subject.key = other.name, other.key


def _escaped_name_of_another(made: Scene) -> None:
    _name_of_another(made)
    name = made.subject.name
    made.subject.key = json_text(name[:-1])[:-1] + f'\\u{ord(name[-1]):04x}"'


def _metadata(raw: str, at: int | None = None) -> Finish:
    return lambda f: f.member('"__metadata__"', raw, at=at)


_RANGES = {
    "hole-of-one": _fault("a hole of one byte before a tensor", "OFF-07", HOLE, FILLED, change=_gap(1)),
    "hole-of-eight": _fault("a hole of eight bytes before a tensor", "OFF-07", HOLE, FILLED, change=_gap(8)),
    "hole-to-64": _fault(
        "a hole of zeros that aligns a tensor to a multiple of 64 bytes",
        "OFF-12 OFF-07",
        HOLE,
        FILLED,
        change=lambda f, _: f.gap(64 - f.position % 64),
    ),
    "byte-behind": _fault(
        "one byte after the last tensor", "OFF-08", "OFF_TRAILING", finish=lambda f: f.gap(1)
    ),
    "eight-behind": _fault(
        "eight bytes after the last tensor", "OFF-08", "OFF_TRAILING", finish=lambda f: f.gap(8, 7)
    ),
    "zeros-behind-to-64": _fault(
        "zeros after the last tensor that pad the data to a multiple of 64 bytes",
        "OFF-08",
        "OFF_TRAILING",
        finish=lambda f: f.gap(64 - f.position % 64),
    ),
    "overlap-of-one": _fault(
        "a range that begins on the last byte of the previous one",
        "OFF-06",
        "OFF_OVERLAP",
        FILLED,
        BEHIND_FULL,
        change=_overlap_of_one,
    ),
    "overlap-of-all": _fault(
        "the same range as the previous tensor",
        "OFF-06",
        "OFF_OVERLAP",
        FILLED,
        BEHIND_FULL,
        declare=_overlap_of_all,
    ),
    "backwards": _fault(
        "a range with begin and end swapped", "OFF-03", ("OFF_REVERSED", *LAYOUT), FILLED, change=_reversed
    ),
    "backwards-empty": _fault(
        "an empty tensor whose range ends one byte before it begins",
        "OFF-03",
        ("OFF_REVERSED", *LAYOUT),
        EMPTY,
        change=_reversed,
    ),
    "backwards-to-zero": _fault(
        "an empty tensor whose range ends at 0",
        "OFF-03",
        ("OFF_REVERSED", *LAYOUT),
        EMPTY_BEHIND_FULL,
        change=_back_to_zero,
    ),
    "empty-inside": _fault(
        "an empty tensor inside the previous one",
        "OFF-09",
        ("OFF_OVERLAP", "OFF_HOLE"),
        EMPTY_BEHIND_FULL,
        change=_moved(-1, -1),
    ),
    "empty-beyond": _fault(
        "an empty tensor far past the end of the buffer",
        "OFF-09 OFF-04",
        ("OFF_OUT_OF_BOUNDS", "OFF_HOLE"),
        EMPTY,
        change=_far,
    ),
    "byte-cut-off": _fault(
        "a file that lacks its last byte",
        "OFF-04",
        "OFF_OUT_OF_BOUNDS",
        FILLED,
        AT_END,
        finish=lambda f: setattr(f, "cut", 1),
    ),
    "eight-cut-off": _fault(
        "a file that lacks its last eight bytes",
        "OFF-04",
        "OFF_OUT_OF_BOUNDS",
        FILLED,
        AT_END,
        WITH_DIMS,
        finish=lambda f: setattr(f, "cut", 8),
    ),
    "end-one-more": _fault("a range that ends one byte too late", "OFF-05", LAYOUT, change=_moved(0, 1)),
    "begin-one-more": _fault(
        "a range that begins one byte too late", "OFF-05", LAYOUT, FILLED, change=_moved(1, 0)
    ),
    **{
        f"range-2p{bits}-behind": _fault(
            f"a range with both offsets 2^{bits} too high",
            lambda row: ("OFF-04",) if row["size"] != "void" else ("OFF-09", "OFF-04"),
            ("OFF_OUT_OF_BOUNDS", "OFF_HOLE"),
            change=_moved(1 << bits, 1 << bits),
        )
        for bits in (31, 32, 53, 63)
    },
    "end-2p32-behind": _fault(
        "a range whose end is 2^32 too high", "OFF-05 OFF-04", LAYOUT, change=_moved(0, 1 << 32)
    ),
    "end-2p64-behind": _fault(
        "a range whose end is 2^64 too high",
        "OFF-02 OFF-04",
        ("ENT_BAD_INTEGER", *LAYOUT, "OFF_BAD_PAIR"),
        change=_offsets(lambda a, b: f"[{a},{b + (1 << 64)}]"),
    ),
}
_LENGTHS = {
    "length-2p32-more": _fault(
        "a header length that is 2^32 too large",
        "FRM-02 FRM-04",
        LENGTH,
        length=lambda header, _: header + (1 << 32),
    ),
    "length-highest-bit": _fault(
        "a header length whose highest bit is set",
        "FRM-05",
        LENGTH,
        length=lambda header, _: header + (1 << 63),
    ),
    "length-from-end": _fault(
        "a header length that, as a signed number, counts from the end of the file",
        "FRM-05",
        LENGTH,
        FILLED,
        length=lambda header, file: header + 8 - file,
    ),
    "length-before-end": _fault(
        "a header length that, as a signed number, counts from the end and includes its own bytes",
        "FRM-05",
        LENGTH,
        FILLED,
        length=lambda header, file: header - file,
    ),
    "length-of-file": _fault(
        "a header length equal to the size of the file", "FRM-04", LENGTH[::-1], length=lambda _, file: file
    ),
    "length-big-endian": _fault(
        "a big-endian header length",
        "FRM-02",
        LENGTH,
        length=lambda header, _: int.from_bytes(header.to_bytes(8, "big"), "little"),
    ),
    "length-zero": _fault(
        "a header length of zero",
        "FRM-07",
        ("FRM_HEADER_EMPTY", "HDR_NOT_JSON", "HDR_NOT_OBJECT", "HDR_BAD_START"),
        length=lambda *_: 0,
    ),
}
_SHAPES = {
    "dim-one-more": _fault(
        "a dimension that is one larger than the range allows",
        "OFF-05",
        "OFF_SIZE_MISMATCH",
        FILLED,
        WITH_DIMS,
        declare=_dimension(lambda dim, _: dim + 1),
    ),
    "dim-one-less": _fault(
        "a dimension that is one smaller than the range requires",
        "OFF-05",
        "OFF_SIZE_MISMATCH",
        FILLED,
        WITH_DIMS,
        declare=_dimension(lambda dim, _: dim - 1),
    ),
    "shape-doubled": _fault(
        "an extra dimension of two that does not match the range",
        "OFF-05",
        "OFF_SIZE_MISMATCH",
        FILLED,
        declare=lambda made: made.subject.shape.append(2),
    ),
    "shape-wraps-2p32": _fault(
        "a size that is right when truncated to 32 bits",
        "OFF-05 SHP-05",
        ("OFF_SIZE_MISMATCH", "SHP_OVERFLOW"),
        FILLED,
        WITH_DIMS,
        declare=_dimension(_wrapped(32)),
    ),
    "shape-wraps-2p64": _fault(
        "a size that is right when truncated to 64 bits",
        "SHP-05",
        ("SHP_OVERFLOW", "OFF_SIZE_MISMATCH"),
        FILLED,
        WITH_DIMS,
        {"dtype": ("f32", "bf16", "i64")},
        declare=_dimension(_wrapped(64)),
    ),
    "small-dims-wrap-2p32": _fault(
        "small dimensions whose product is right when truncated to 32 bits",
        "OFF-05 SHP-05",
        ("OFF_SIZE_MISMATCH", "SHP_OVERFLOW"),
        {"size": ("small",), **WITH_DIMS},
        declare=_small_dims,
    ),
    "small-dims-wrap-2p64": _fault(
        "32-bit dimensions whose product is right when truncated to 64 bits",
        "SHP-05",
        ("SHP_OVERFLOW", "OFF_SIZE_MISMATCH"),
        {"size": ("small",), **WITH_DIMS},
        declare=lambda made: made.subject.shape.extend(ONE_IN_64_BITS),
    ),
    "bytes-of-empty": _fault(
        "a range of eight bytes for an empty tensor",
        "SHP-04 OFF-05",
        "OFF_SIZE_MISMATCH",
        EMPTY,
        declare=lambda made: setattr(made.subject, "data", bytes(range(1, 9))),
    ),
    "dim-negative": _fault(
        "a first dimension of minus one",
        "SHP-01",
        DIMENSION,
        WITH_DIMS,
        declare=_dimensions(lambda d: ["-1", *d[1:]]),
    ),
    "dim-with-half": _fault(
        "a last dimension with the fraction .5",
        "SHP-01",
        DIMENSION,
        WITH_DIMS,
        declare=_dimensions(lambda d: [*d[:-1], f"{d[-1]}.5"]),
    ),
    "dim-as-text": _fault(
        "a last dimension inside a string",
        "SHP-01",
        NO_NUMBER,
        WITH_DIMS,
        declare=_dimensions(lambda d: [*d[:-1], f'"{d[-1]}"']),
    ),
    "dim-null": _fault(
        "null after the dimensions", "SHP-01", NO_NUMBER, declare=_dimensions(lambda d: [*d, "null"])
    ),
    "shape-nested": _fault(
        "dimensions inside a nested array",
        "SHP-01",
        NO_NUMBER,
        declare=_dimensions(lambda d: [f"[{','.join(d)}]"]),
    ),
    "shape-text": _fault(
        "a shape inside a string",
        "SHP-01",
        "SHP_BAD_TYPE",
        declare=lambda made: made.subject.fields.update(shape=json_text(json_text(made.subject.shape))),
    ),
    "shape-number": _fault(
        "a plain number as a shape of one dimension",
        "SHP-01",
        "SHP_BAD_TYPE",
        {"rank": ("r1",)},
        declare=lambda made: made.subject.fields.update(shape=str(made.subject.shape[0])),
    ),
    "shape-object": _fault(
        "a shape written as an object",
        "SHP-01",
        "SHP_BAD_TYPE",
        declare=lambda made: made.subject.fields.update(
            shape=json_text({str(n): dim for n, dim in enumerate(made.subject.shape)})
        ),
    ),
    "dim-true": _fault(
        "true in place of a dimension of one",
        "SHP-01",
        NO_NUMBER,
        WITH_DIMS,
        {"size": ("one",)},
        declare=_dimensions(lambda dims: ["true", *dims[1:]]),
    ),
    "shape-null": _fault("null as the shape", "SHP-01", "SHP_BAD_TYPE", declare=_field("shape", "null")),
}
_FIELDS = {
    "begin-negative": _fault(
        "a negative begin", "OFF-01 OFF-02", INTEGER, change=_offsets(lambda a, b: f"[-{a + 1},{b}]")
    ),
    "begin-minus-zero": _fault(
        "a begin of minus zero",
        "OFF-02",
        INTEGER,
        {"place": ("only", "first"), "beside": ("even", "alike")},
        change=_offsets(lambda _, b: f"[-0,{b}]"),
    ),
    "end-with-half": _fault(
        "an end with the fraction .5",
        "OFF-01 OFF-02",
        INTEGER,
        change=_offsets(lambda a, b: f"[{a},{b}.5]"),
    ),
    "end-as-text": _fault(
        "an end inside a string", "OFF-01", INTEGER, change=_offsets(lambda a, b: f'[{a},"{b}"]')
    ),
    "begin-null": _fault("null as the begin", "OFF-01", INTEGER, change=_offsets(lambda _, b: f"[null,{b}]")),
    "offsets-nested": _fault(
        "offsets inside another array", "OFF-01", PAIR, change=_offsets(lambda a, b: f"[[{a},{b}]]")
    ),
    "offsets-booleans": _fault(
        "false and true in place of the offsets zero and one",
        "OFF-01",
        INTEGER,
        {"size": ("one",), "dtype": ("u8", "f8"), "place": ("only", "first"), "beside": ("even", "alike")},
        change=_offsets(lambda _a, _b: "[false,true]"),
    ),
    "offsets-from-file": Topic(
        "offsets that count from the start of the file",
        _from_file,
        lambda row: (*(() if any(t.data for t in scene(row).tensors) else ("OFF-09",)), "OFF-07", "OFF-04"),
        ("OFF_HOLE", "OFF_OUT_OF_BOUNDS"),
    ),
    "third-offset": _fault(
        "a range of three offsets", "OFF-01", PAIR, change=_offsets(lambda a, b: f"[{a},{b},{b}]")
    ),
    "single-offset": _fault("a range of one offset", "OFF-01", PAIR, change=_offsets(lambda _, b: f"[{b}]")),
    "offsets-object": _fault(
        "offsets as an object", "OFF-01", PAIR, change=_offsets(lambda a, b: f'{{"begin":{a},"end":{b}}}')
    ),
    "no-dtype": _fault("a missing dtype", "ENT-03", "ENT_MISSING_FIELD", declare=_field("dtype", None)),
    "no-shape": _fault("a missing shape", "ENT-03", "ENT_MISSING_FIELD", declare=_field("shape", None)),
    "no-offsets": _fault(
        "missing offsets", "ENT-03", ("ENT_MISSING_FIELD", *LAYOUT), declare=_field("data_offsets", None)
    ),
    "dtype-misnamed": _fault(
        "a dtype field named Dtype", "ENT-05", MISSPELLED, declare=_misspelled("dtype", "Dtype")
    ),
    "offsets-renamed": _fault(
        "a data_offsets field named offsets",
        "ENT-03",
        MISSPELLED,
        change=_renamed_offsets("offsets"),
    ),
    "offsets-camel": _fault(
        "a data_offsets field named dataOffsets",
        "ENT-05 ENT-03",
        MISSPELLED,
        change=_renamed_offsets("dataOffsets"),
    ),
    "field-and-space": _fault(
        "a dtype field whose name ends with a space",
        "ENT-05 ENT-03",
        MISSPELLED,
        declare=_misspelled("dtype", "dtype "),
    ),
    "shape-misnamed": _fault(
        "a shape field named shapes",
        "ENT-05",
        MISSPELLED,
        declare=_misspelled("shape", "shapes"),
    ),
    "dtype-twice": _fault(
        "an entry with two different dtypes",
        "HDR-12",
        ("HDR_DUP_KEY", "OFF_SIZE_MISMATCH"),
        declare=_twice("dtype", lambda t: '"F16"' if t.dtype == "BF16" else '"I8"'),
    ),
    "dtype-twice-alike": _fault(
        "an entry with the same dtype twice",
        "HDR-12",
        "HDR_DUP_KEY",
        declare=_twice("dtype", lambda t: json_text(t.dtype)),
    ),
    "shape-twice": _fault(
        "an entry with two different shapes",
        "HDR-12",
        ("HDR_DUP_KEY", "OFF_SIZE_MISMATCH"),
        declare=_twice("shape", lambda _: "[3]"),
    ),
    "dtype-unknown": _fault(
        "a dtype that does not exist", "DTY-01", "DTY_UNKNOWN", declare=_dtype(lambda _: "F33")
    ),
    "dtype-lower": _fault("a dtype in lower case", "DTY-01", "DTY_UNKNOWN", declare=_dtype(str.lower)),
    "dtype-bare": _fault(
        "a dtype without quotes",
        "HDR-07",
        ("HDR_NOT_JSON", "DTY_BAD_TYPE"),
        declare=lambda made: made.subject.fields.update(dtype=made.subject.dtype),
    ),
    "dtype-wide": _fault(
        "a dtype with a fullwidth first letter",
        "DTY-01",
        "DTY_UNKNOWN",
        declare=_dtype(lambda code: chr(ord(code[0]) + 0xFEE0) + code[1:]),
    ),
    "dtype-and-nul": _fault(
        "a dtype followed by an escaped NUL",
        "DTY-01",
        "DTY_UNKNOWN",
        declare=_dtype(lambda code: f"{code}\0"),
    ),
    "dtype-object": _fault(
        "a dtype inside an object",
        "DTY-02",
        "DTY_BAD_TYPE",
        declare=lambda made: made.subject.fields.update(dtype=json_text({"name": made.subject.dtype})),
    ),
    "word-cut": _fault(
        "an unknown field whose value is an incomplete word",
        "HDR-07",
        ("HDR_NOT_JSON", "ENT_UNKNOWN_FIELD"),
        declare=lambda made: made.subject.fields.update(extra="tru"),
    ),
    "dtype-and-space": _fault(
        "a dtype followed by a space", "DTY-01", "DTY_UNKNOWN", declare=_dtype(lambda code: code + " ")
    ),
    "dtype-null": _fault("null as the dtype", "DTY-03", "DTY_BAD_TYPE", declare=_field("dtype", "null")),
    "entry-null": _fault("null as an entry", "ENT-01", ("ENT_NOT_OBJECT", *LAYOUT), declare=_entry("null")),
    "entry-text": _fault(
        "a string as an entry", "ENT-01", ("ENT_NOT_OBJECT", *LAYOUT), declare=_entry('"F32"')
    ),
    "name-twice": _fault(
        "two tensors with the same name and different entries",
        "HDR-09",
        ("HDR_DUP_KEY", "OFF_HOLE", "OFF_TRAILING"),
        FILLED,
        AMONG,
        declare=_name_of_another,
    ),
    "name-twice-escaped": _fault(
        "two tensors with the same name, which is escaped once",
        "HDR-10",
        ("HDR_DUP_KEY", "OFF_HOLE", "OFF_TRAILING"),
        FILLED,
        AMONG,
        {"names": ("plain",)},
        declare=_escaped_name_of_another,
    ),
    "metadata-twice": _fault(
        "a second metadata map after all tensors",
        "HDR-11",
        "HDR_DUP_KEY",
        {"metadata": ("mfirst", "mlast")},
        finish=_metadata('{"format":"np"}'),
    ),
    "metadata-array": _fault(
        "metadata as an array", "MET-01", "MET_NOT_MAP", BARE, finish=_metadata('["format","pt"]', 0)
    ),
    "metadata-number": _fault(
        "a number in a metadata map after all tensors",
        "MET-01",
        "MET_VALUE_NOT_STRING",
        BARE,
        finish=_metadata('{"a":"b","step":7}'),
    ),
    "metadata-number-first": _fault(
        "a number in a metadata map before all tensors",
        "MET-01",
        "MET_VALUE_NOT_STRING",
        BARE,
        finish=_metadata('{"step":7,"a":"b"}', 0),
    ),
    "metadata-nested": _fault(
        "an object in a metadata map after all tensors",
        "MET-01",
        "MET_VALUE_NOT_STRING",
        BARE,
        finish=_metadata('{"a":{"b":"c"}}'),
    ),
}
FAULTS = {**_LENGTHS, **_RANGES, **_SHAPES, **_FIELDS}
"""Name of the topic -> topic."""
