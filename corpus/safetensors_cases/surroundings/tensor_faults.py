"""Faults of one tensor in a scene, or of the file around it.

The broken rule and the matching codes come from the specification, never from the output of a reader.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from safetensors_corpus.author.file import FileBuilder, json_text
from safetensors_reference.rules.dtypes import DTYPE_BITS

from .model import Ids, Levels, Row, Topic, merged
from .scene import Scene, Tensor, scene

Act = Callable[[Scene], None]
"""Function that adds a fault to a scene before the scene is written."""

FILLED: Levels = {"size": ("small", "large")}
WITH_DIMS: Levels = {"rank": ("r1", "r3", "r8")}
DIMS: Levels = {**FILLED, **WITH_DIMS}
SMALL: Levels = {"size": ("small",), **WITH_DIMS}
EMPTY: Levels = {"size": ("void",), **WITH_DIMS}
BEHIND_FULL: Levels = {"place": ("middle", "last"), "before": ("full",)}
BEHIND: Levels = {**FILLED, **BEHIND_FULL}
EMPTY_BEHIND_FULL: Levels = {**EMPTY, **BEHIND_FULL, "beside": ("even", "odd")}
AT_END: Levels = {"place": ("only", "last")}
AT_START: Levels = {"place": ("only", "first"), "beside": ("even", "alike")}
AMONG: Levels = {**FILLED, "place": ("first", "middle", "last")}
BARE: Levels = {"metadata": ("bare",)}

LAYOUT = "OFF_SIZE_MISMATCH OFF_OVERLAP OFF_HOLE OFF_TRAILING OFF_OUT_OF_BOUNDS"
FAR = "OFF_OUT_OF_BOUNDS OFF_HOLE"
INTEGER = "ENT_BAD_INTEGER OFF_BAD_PAIR"
LENGTH = "FRM_HEADER_OVER_LIMIT FRM_HEADER_PAST_EOF"
MISSPELLED = "ENT_MISSING_FIELD ENT_UNKNOWN_FIELD"
REPEATED = "HDR_DUP_KEY OFF_HOLE OFF_TRAILING"

Breach = tuple[Ids, str]
"""Rules, with the broken one first, and fault codes."""
HOLE: Breach = ("OFF-07", "OFF_HOLE OFF_OVERLAP")
TRAILING: Breach = ("OFF-08", "OFF_TRAILING")
OVERLAP: Breach = ("OFF-06", "OFF_OVERLAP")
CUT: Breach = ("OFF-04", "OFF_OUT_OF_BOUNDS")
SIZE: Breach = ("OFF-05", "OFF_SIZE_MISMATCH")
BACKWARDS: Breach = ("OFF-03", f"OFF_REVERSED {LAYOUT}")
RANGE: Breach = ("OFF-05", LAYOUT)
SIGN: Breach = ("FRM-05", LENGTH)
WRAPS_32: Breach = ("OFF-05 SHP-05", "OFF_SIZE_MISMATCH SHP_OVERFLOW")
WRAPS_64: Breach = ("SHP-05", "SHP_OVERFLOW OFF_SIZE_MISMATCH")
SPELLED: Breach = ("ENT-05", MISSPELLED)
SPELLED_OR_MISSING: Breach = ("ENT-05 ENT-03", MISSPELLED)
TWO_VALUES: Breach = ("HDR-12", "HDR_DUP_KEY OFF_SIZE_MISMATCH")
DIMENSION: Breach = ("SHP-01", "ENT_BAD_INTEGER SHP_BAD_TYPE")
NO_NUMBER: Breach = ("SHP-01", "SHP_BAD_TYPE ENT_BAD_INTEGER")
NO_SHAPE: Breach = ("SHP-01", "SHP_BAD_TYPE")
OFFSET: Breach = ("OFF-01", INTEGER)
OFFSET_SPELLED: Breach = ("OFF-01 OFF-02", INTEGER)
PAIR: Breach = ("OFF-01", "OFF_BAD_PAIR ENT_BAD_INTEGER")
MISSING: Breach = ("ENT-03", "ENT_MISSING_FIELD")
DTYPE: Breach = ("DTY-01", "DTY_UNKNOWN")
NO_ENTRY: Breach = ("ENT-01", f"ENT_NOT_OBJECT {LAYOUT}")
TEXT: Breach = ("MET-01", "MET_VALUE_NOT_STRING")


def _fault(about: str, breach: Breach, act: Act, *only: Levels) -> Topic:
    """Return the topic of a fault that can be combined with the levels in ``only``."""

    def make(row: Row, f: FileBuilder) -> None:
        made = scene(row, f.position)
        act(made)
        made.write(f)

    return Topic(about, make, *breach, merged(only))


def _at_end(finish: Callable[[FileBuilder], None]) -> Act:
    return lambda made: setattr(made, "at_end", finish)


def _range(form: Callable[[int, int], tuple[int, int]]) -> Act:
    """Declare the range that ``form`` computes from the true range."""

    def declare(made: Scene) -> None:
        made.subject.begin, made.subject.end = form(*made.range)

    return declare


def _moved(begin: int, end: int) -> Act:
    return _range(lambda a, b: (a + begin, b + end))


def _overlap_of_one(made: Scene) -> None:
    """Begin the range on the last byte of the previous tensor, without leaving any byte uncovered."""
    _moved(-1, -1)(made)
    made.subject.data = made.subject.data[1:]


def _overlap_of_all(made: Scene) -> None:
    front, own = made.tensors[made.at - 1], made.subject
    front.dtype, front.shape, front.data = own.dtype, own.shape, own.data
    _moved(-len(own.data), -len(own.data))(made)
    own.data = b""


def _from_file(row: Row, f: FileBuilder) -> None:
    """Count all offsets from the start of the file. Iterate, because longer offsets lengthen the header."""
    start = -1
    data_start = 0
    while data_start > start:
        start = data_start
        trial, made = type(f)(), scene(row)
        place = start
        for tensor in made.tensors:
            tensor.begin, place = place, place + len(tensor.data)
            tensor.end = place
        made.write(trial)
        data_start = 8 + int.from_bytes(trial.render()[:8], "little")
    made.write(f)


def _gap(count: int) -> Act:
    return lambda made: setattr(made, "gap", count)


def _length(form: Callable[[int, int], int]) -> Act:
    """Declare the header length that ``form`` computes from the sizes of the header and the file."""
    return lambda made: setattr(made, "length", form)


def _dimension(new: Callable[[int, Tensor], int]) -> Act:
    """Change the largest dimension, or the first one if several are equal, without changing the range."""

    def declare(made: Scene) -> None:
        shape = made.subject.shape
        index = shape.index(max(shape))
        shape[index] = new(shape[index], made.subject)

    return declare


def _wrapped(bits: int) -> Act:
    """Increase a dimension so that the size grows by two to the power of ``bits``."""
    return _dimension(lambda dim, t: dim + (1 << bits) // (prod(t.shape) // dim * DTYPE_BITS[t.dtype] // 8))


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


def _dimensions(form: Callable[[list[str]], list[str]]) -> Act:
    return _field("shape", lambda t: f"[{','.join(form([str(dim) for dim in t.shape]))}]")


def _field(name: str, text: str | Callable[[Tensor], str] | None) -> Act:
    """Set the JSON text of a field, or remove the field if ``text`` is None."""
    return lambda made: made.subject.fields.update({name: text(made.subject) if callable(text) else text})


def _offsets(text: str, name: str = "data_offsets", begin: int = 0, end: int = 0) -> Act:
    """Write ``text`` in a field called ``name``, with the offsets plus ``begin`` and ``end`` as A and B."""

    def write(made: Scene) -> None:
        a, b = made.range
        spelled = text.replace("A", str(a + begin)).replace("B", str(b + end))
        made.subject.fields.update({"data_offsets": None, name: spelled})

    return write


def _twice(name: str, other: Callable[[Tensor], str]) -> Act:
    return _field(name, lambda t: f'{other(t)},"{name}":{t.true_fields[name]}')


def _misspelled(name: str, other: str) -> Act:
    return lambda made: made.subject.fields.update({name: None, other: made.subject.true_fields[name]})


def _dtype(form: Callable[[str], str]) -> Act:
    return _field("dtype", lambda t: json_text(form(t.dtype)))


def _subject(name: str, value: object) -> Act:
    return lambda made: setattr(made.subject, name, value)


def _name_of_another(made: Scene) -> None:
    other = next(t for t in made.tensors if t is not made.subject and t.data)
    made.subject.name, made.subject.key = other.name, other.key


def _escaped_name_of_another(made: Scene) -> None:
    _name_of_another(made)
    name = made.subject.name
    made.subject.key = json_text(name[:-1])[:-1] + f'\\u{ord(name[-1]):04x}"'


def _metadata(raw: str, at: int | None = None) -> Act:
    return _at_end(lambda f: f.member('"__metadata__"', raw, at=at))


FAULTS = {
    "length-2p32-more": _fault(
        "a header length that is 2^32 too large",
        ("FRM-02 FRM-04", LENGTH),
        _length(lambda h, _: h + (1 << 32)),
    ),
    "length-highest-bit": _fault(
        "a header length whose highest bit is set", SIGN, _length(lambda h, _: h + (1 << 63))
    ),
    "length-from-end": _fault(
        "a header length that, as a signed number, counts from the end of the file",
        SIGN,
        _length(lambda h, size: h + 8 - size),
        FILLED,
    ),
    "length-before-end": _fault(
        "a header length that, as a signed number, counts from the end and includes its own bytes",
        SIGN,
        _length(lambda h, size: h - size),
        FILLED,
    ),
    "length-of-file": _fault(
        "a header length equal to the size of the file",
        ("FRM-04", "FRM_HEADER_PAST_EOF FRM_HEADER_OVER_LIMIT"),
        _length(lambda _, size: size),
    ),
    "length-big-endian": _fault(
        "a big-endian header length",
        ("FRM-02", LENGTH),
        _length(lambda h, _: int.from_bytes(h.to_bytes(8, "big"), "little")),
    ),
    "length-zero": _fault(
        "a header length of zero",
        ("FRM-07", "FRM_HEADER_EMPTY HDR_NOT_JSON HDR_NOT_OBJECT HDR_BAD_START"),
        _length(lambda *_: 0),
    ),
    "hole-of-one": _fault("a hole of one byte before a tensor", HOLE, _gap(1), FILLED),
    "hole-of-eight": _fault("a hole of eight bytes before a tensor", HOLE, _gap(8), FILLED),
    "hole-to-64": _fault(
        "a hole of zeros that aligns a tensor to a multiple of 64 bytes",
        ("OFF-12 OFF-07", HOLE[1]),
        lambda made: setattr(made, "gap", 64 - made.range[0] % 64),
        FILLED,
    ),
    "byte-behind": _fault("one byte after the last tensor", TRAILING, _at_end(lambda f: f.gap(1))),
    "eight-behind": _fault("eight bytes after the last tensor", TRAILING, _at_end(lambda f: f.gap(8, 7))),
    "zeros-behind-to-64": _fault(
        "zeros after the last tensor that pad the data to a multiple of 64 bytes",
        TRAILING,
        _at_end(lambda f: f.gap(64 - f.position % 64)),
    ),
    "overlap-of-one": _fault(
        "a range that begins on the last byte of the previous range", OVERLAP, _overlap_of_one, BEHIND
    ),
    "overlap-of-all": _fault("the same range as the previous tensor", OVERLAP, _overlap_of_all, BEHIND),
    "backwards": _fault(
        "a range with its offsets swapped", BACKWARDS, _range(lambda a, b: (max(b, a + 1), a)), FILLED
    ),
    "backwards-empty": _fault(
        "an empty tensor whose range ends one byte before it begins",
        BACKWARDS,
        _range(lambda a, _: (a + 1, a)),
        EMPTY,
    ),
    "backwards-to-zero": _fault(
        "an empty tensor whose range ends at 0", BACKWARDS, _range(lambda a, _: (a, 0)), EMPTY_BEHIND_FULL
    ),
    "empty-inside": _fault(
        "an empty tensor inside the previous tensor",
        ("OFF-09", "OFF_OVERLAP OFF_HOLE"),
        _moved(-1, -1),
        EMPTY_BEHIND_FULL,
    ),
    "empty-beyond": _fault(
        "an empty tensor far past the end of the buffer",
        ("OFF-09 OFF-04", FAR),
        _range(lambda *_: (1 << 20, 1 << 20)),
        EMPTY,
    ),
    "byte-cut-off": _fault(
        "a file that lacks its last byte", CUT, _at_end(lambda f: setattr(f, "cut", 1)), FILLED, AT_END
    ),
    "eight-cut-off": _fault(
        "a file that lacks its last eight bytes",
        CUT,
        _at_end(lambda f: setattr(f, "cut", 8)),
        FILLED,
        AT_END,
        WITH_DIMS,
    ),
    "end-one-more": _fault("a range that ends one byte too late", RANGE, _moved(0, 1)),
    "begin-one-more": _fault("a range that begins one byte too late", RANGE, _moved(1, 0), FILLED),
    **{
        f"range-2p{bits}-behind": _fault(
            f"a range with both offsets 2^{bits} too high",
            (lambda row: "OFF-04" if row["size"] != "void" else "OFF-09 OFF-04", FAR),
            _moved(1 << bits, 1 << bits),
        )
        for bits in (31, 32, 53, 63)
    },
    "end-2p32-behind": _fault(
        "a range whose end offset is 2^32 too high", ("OFF-05 OFF-04", LAYOUT), _moved(0, 1 << 32)
    ),
    "end-2p64-behind": _fault(
        "a range whose end offset is 2^64 too high",
        ("OFF-02 OFF-04", f"ENT_BAD_INTEGER {LAYOUT} OFF_BAD_PAIR"),
        _offsets("[A,B]", end=1 << 64),
    ),
    "dim-one-more": _fault(
        "a dimension that is one larger than the range allows", SIZE, _dimension(lambda dim, _: dim + 1), DIMS
    ),
    "dim-one-less": _fault(
        "a dimension that is one smaller than the range requires",
        SIZE,
        _dimension(lambda dim, _: dim - 1),
        DIMS,
    ),
    "shape-doubled": _fault(
        "an extra dimension of two that does not match the range",
        SIZE,
        lambda made: made.subject.shape.append(2),
        FILLED,
    ),
    "shape-wraps-2p32": _fault(
        "a size that is right when truncated to 32 bits", WRAPS_32, _wrapped(32), DIMS
    ),
    "shape-wraps-2p64": _fault(
        "a size that is right when truncated to 64 bits",
        WRAPS_64,
        _wrapped(64),
        DIMS,
        {"dtype": ("f32", "bf16", "i64")},
    ),
    "small-dims-wrap-2p32": _fault(
        "small dimensions whose product is right when truncated to 32 bits", WRAPS_32, _small_dims, SMALL
    ),
    "small-dims-wrap-2p64": _fault(
        "32-bit dimensions whose product is right when truncated to 64 bits",
        WRAPS_64,
        lambda made: made.subject.shape.extend(ONE_IN_64_BITS),
        SMALL,
    ),
    "bytes-of-empty": _fault(
        "a range of eight bytes for an empty tensor",
        ("SHP-04 OFF-05", "OFF_SIZE_MISMATCH"),
        _subject("data", bytes(range(1, 9))),
        EMPTY,
    ),
    "dim-negative": _fault(
        "a first dimension of minus one", DIMENSION, _dimensions(lambda d: ["-1", *d[1:]]), WITH_DIMS
    ),
    "dim-with-half": _fault(
        "a last dimension with the fraction .5",
        DIMENSION,
        _dimensions(lambda d: [*d[:-1], f"{d[-1]}.5"]),
        WITH_DIMS,
    ),
    "dim-as-text": _fault(
        "a last dimension inside a string",
        NO_NUMBER,
        _dimensions(lambda d: [*d[:-1], f'"{d[-1]}"']),
        WITH_DIMS,
    ),
    "dim-null": _fault("null after the dimensions", NO_NUMBER, _dimensions(lambda d: [*d, "null"])),
    "shape-nested": _fault(
        "dimensions inside a nested array", NO_NUMBER, _dimensions(lambda d: [f"[{','.join(d)}]"])
    ),
    "shape-text": _fault(
        "a shape inside a string", NO_SHAPE, _field("shape", lambda t: json_text(json_text(t.shape)))
    ),
    "shape-number": _fault(
        "a plain number as a shape of one dimension",
        NO_SHAPE,
        _field("shape", lambda t: str(t.shape[0])),
        {"rank": ("r1",)},
    ),
    "shape-object": _fault(
        "a shape written as an object",
        NO_SHAPE,
        _field("shape", lambda t: json_text({str(n): dim for n, dim in enumerate(t.shape)})),
    ),
    "dim-true": _fault(
        "true in place of a dimension of one",
        NO_NUMBER,
        _dimensions(lambda dims: ["true", *dims[1:]]),
        WITH_DIMS,
        {"size": ("one",)},
    ),
    "shape-null": _fault("null as the shape", NO_SHAPE, _field("shape", "null")),
    "begin-negative": _fault("a negative begin offset", OFFSET_SPELLED, _offsets("[-A,B]", begin=1)),
    "begin-minus-zero": _fault(
        "a begin offset of minus zero", ("OFF-02", INTEGER), _offsets("[-0,B]"), AT_START
    ),
    "end-with-half": _fault("an end offset with the fraction .5", OFFSET_SPELLED, _offsets("[A,B.5]")),
    "end-as-text": _fault("an end offset inside a string", OFFSET, _offsets('[A,"B"]')),
    "begin-null": _fault("null as the begin offset", OFFSET, _offsets("[null,B]")),
    "offsets-nested": _fault("offsets inside another array", PAIR, _offsets("[[A,B]]")),
    "offsets-booleans": _fault(
        "false and true in place of the offsets zero and one",
        OFFSET,
        _offsets("[false,true]"),
        {"size": ("one",), "dtype": ("u8", "f8"), **AT_START},
    ),
    "offsets-from-file": Topic(
        "offsets that count from the start of the file",
        _from_file,
        lambda row: "OFF-07 OFF-04" if any(t.data for t in scene(row).tensors) else "OFF-09 OFF-07 OFF-04",
        "OFF_HOLE OFF_OUT_OF_BOUNDS",
    ),
    "third-offset": _fault("a range of three offsets", PAIR, _offsets("[A,B,B]")),
    "single-offset": _fault("a range of one offset", PAIR, _offsets("[B]")),
    "offsets-object": _fault("offsets as an object", PAIR, _offsets('{"begin":A,"end":B}')),
    "no-dtype": _fault("a missing dtype", MISSING, _field("dtype", None)),
    "no-shape": _fault("a missing shape", MISSING, _field("shape", None)),
    "no-offsets": _fault(
        "missing offsets", ("ENT-03", f"ENT_MISSING_FIELD {LAYOUT}"), _field("data_offsets", None)
    ),
    "dtype-misnamed": _fault("a dtype field named Dtype", SPELLED, _misspelled("dtype", "Dtype")),
    "offsets-renamed": _fault(
        "a data_offsets field named offsets", ("ENT-03", MISSPELLED), _offsets("[A,B]", "offsets")
    ),
    "offsets-camel": _fault(
        "a data_offsets field named dataOffsets", SPELLED_OR_MISSING, _offsets("[A,B]", "dataOffsets")
    ),
    "field-and-space": _fault(
        "a dtype field whose name ends with a space", SPELLED_OR_MISSING, _misspelled("dtype", "dtype ")
    ),
    "shape-misnamed": _fault("a shape field named shapes", SPELLED, _misspelled("shape", "shapes")),
    "dtype-twice": _fault(
        "an entry with two different dtypes",
        TWO_VALUES,
        _twice("dtype", lambda t: '"F16"' if t.dtype == "BF16" else '"I8"'),
    ),
    "dtype-twice-alike": _fault(
        "an entry with the same dtype twice",
        ("HDR-12", "HDR_DUP_KEY"),
        _twice("dtype", lambda t: json_text(t.dtype)),
    ),
    "shape-twice": _fault("an entry with two different shapes", TWO_VALUES, _twice("shape", lambda _: "[3]")),
    "dtype-unknown": _fault("a dtype that does not exist", DTYPE, _dtype(lambda _: "F33")),
    "dtype-lower": _fault("a dtype in lower case", DTYPE, _dtype(str.lower)),
    "dtype-bare": _fault(
        "a dtype without quotes", ("HDR-07", "HDR_NOT_JSON DTY_BAD_TYPE"), _field("dtype", lambda t: t.dtype)
    ),
    "dtype-wide": _fault(
        "a dtype with a fullwidth first letter",
        DTYPE,
        _dtype(lambda code: chr(ord(code[0]) + 0xFEE0) + code[1:]),
    ),
    "dtype-and-nul": _fault("a dtype followed by an escaped NUL", DTYPE, _dtype(lambda code: f"{code}\0")),
    "dtype-object": _fault(
        "a dtype inside an object",
        ("DTY-02", "DTY_BAD_TYPE"),
        _field("dtype", lambda t: json_text({"name": t.dtype})),
    ),
    "word-cut": _fault(
        "an unknown field whose value is an incomplete word",
        ("HDR-07", "HDR_NOT_JSON ENT_UNKNOWN_FIELD"),
        _field("extra", "tru"),
    ),
    "dtype-and-space": _fault("a dtype followed by a space", DTYPE, _dtype(lambda code: code + " ")),
    "dtype-null": _fault("null as the dtype", ("DTY-03", "DTY_BAD_TYPE"), _field("dtype", "null")),
    "entry-null": _fault("null as an entry", NO_ENTRY, _subject("value", "null")),
    "entry-text": _fault("a string as an entry", NO_ENTRY, _subject("value", '"F32"')),
    "name-twice": _fault(
        "two tensors with the same name and different entries", ("HDR-09", REPEATED), _name_of_another, AMONG
    ),
    "name-twice-escaped": _fault(
        "two tensors with the same name, which is escaped in one entry",
        ("HDR-10", REPEATED),
        _escaped_name_of_another,
        AMONG,
        {"names": ("plain",)},
    ),
    "metadata-twice": _fault(
        "a second metadata map after all tensors",
        ("HDR-11", "HDR_DUP_KEY"),
        _metadata('{"format":"np"}'),
        {"metadata": ("mfirst", "mlast")},
    ),
    "metadata-array": _fault(
        "metadata as an array", ("MET-01", "MET_NOT_MAP"), _metadata('["format","pt"]', 0), BARE
    ),
    "metadata-number": _fault(
        "a number in a metadata map after all tensors", TEXT, _metadata('{"a":"b","step":7}'), BARE
    ),
    "metadata-number-first": _fault(
        "a number in a metadata map before all tensors", TEXT, _metadata('{"step":7,"a":"b"}', 0), BARE
    ),
    "metadata-nested": _fault(
        "an object in a metadata map after all tensors", TEXT, _metadata('{"a":{"b":"c"}}'), BARE
    ),
}
"""Name of the topic -> topic."""
