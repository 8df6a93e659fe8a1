"""Model of tensors: their number, shape, size, dtype, place and neighbours."""

from __future__ import annotations

from ...author.file import FileBuilder
from .model import Exclusion, Model, Property, Row, Topic
from .scene import scene
from .tensor_faults import FAULTS

PROPERTIES = {
    "place": Property(
        "place of the subject among the tensors in the data buffer",
        {"only": "", "first": "first of several", "middle": "between others", "last": "last of several"},
    ),
    "count": Property(
        "number of other tensors",
        {"few": "", "n16": "sixteen others", "n300": "three hundred others"},
        ("few", "n16"),
    ),
    "before": Property("the tensor before it", {"full": "", "lvoid": "after an empty one"}),
    "behind": Property("the tensor after it", {"more": "", "rvoid": "before an empty one"}),
    "rank": Property(
        "number of dimensions",
        {"r1": "", "r0": "rank 0", **{f"r{n}": f"rank {n}" for n in (*range(2, 9), 12)}},
        ("r1", "r0", "r3", "r8"),
    ),
    "size": Property(
        "size of the subject",
        {
            "small": "",
            "void": "empty",
            "one": "one element",
            "page": "4,096 bytes",
            "buffer": "65,536 bytes",
            "large": "more than 65,536 bytes",
        },
        ("small", "void", "large"),
    ),
    "dtype": Property(
        "dtype of the subject",
        {
            "f32": "",
            "u8": "U8",
            "bool": "BOOL",
            "i16": "I16",
            "bf16": "BF16",
            "f64": "F64",
            "i64": "I64",
            "f8": "F8_E4M3",
            "f4": "F4",
            "c64": "C64",
        },
        ("f32", "u8", "bf16", "i64"),
    ),
    "beside": Property(
        "its neighbours",
        {
            "even": "",
            "odd": "neighbours of three bytes",
            "alike": "neighbours of the same dtype and shape",
            "reshaped": "neighbours of the same dtype and element count",
            "wider": "neighbours of U64",
            "fnuz": "neighbours of F8_E4M3FNUZ",
        },
        ("even", "odd", "alike"),
    ),
    "content": Property(
        "bytes of all tensors",
        {
            "mixed": "",
            "zeros": "all bytes zero",
            "spaces": "all bytes spaces",
            "braces": "all bytes braces",
            "archives": "bytes of an archive signature",
            "nans": "elements that are signalling NaNs",
        },
        ("mixed",),
    ),
    "order": Property(
        "header order compared with data order", {"ordered": "", "rev": "header in reverse order"}
    ),
    "metadata": Property(
        "place of the metadata in the header",
        {
            "bare": "",
            "mfirst": "metadata first",
            "mmid": "metadata in the middle",
            "mlast": "metadata last",
        },
        ("bare", "mfirst", "mlast"),
    ),
    "map": Property(
        "the metadata map",
        {"pairs": "", "emptymap": "an empty metadata map", "manykeys": "thirty metadata keys"},
        ("pairs",),
    ),
    "padding": Property(
        "where the header ends",
        {
            "pad8": "",
            "tight": "header not padded",
            "pad64": "data at a multiple of 64",
            "pad4096": "data at a multiple of 4,096",
            "longpad": "5,000 spaces of padding",
            "head4096": "a header of a multiple of 4,096 bytes",
            "text4096": "a header of a multiple of 4,096 bytes without padding",
            "t64": "file size a multiple of 64",
            "t4096": "file size a multiple of 4,096",
        },
        ("pad8", "tight", "longpad", "t64"),
    ),
    "names": Property(
        "names of the tensors",
        {
            "plain": "",
            "twins": "similar names",
            "utf8": "names beyond ASCII",
            "escaped": "names written with escapes",
            "longnames": "names of 300 characters",
        },
        ("plain", "twins", "utf8"),
    ),
    "fields": Property(
        "order of the fields of the subject",
        {"dso": "", "osd": "offsets first", "sod": "shape, offsets, dtype"},
        ("dso", "osd"),
    ),
    "spacing": Property("space between members", {"compact": "", "spaced": "spaces around commas"}),
}


def _alone(row: Row) -> bool:
    return row["place"] == "only"


EXCLUSIONS = (
    Exclusion(
        ("rank", "size"),
        lambda r: r["rank"] == "r0" and r["size"] not in ("small", "one"),
        "a scalar has one element",
    ),
    Exclusion(
        ("dtype", "size", "rank"),
        lambda r: r["dtype"] == "f4" and (r["size"] == "one" or r["rank"] == "r0"),
        "a tensor cannot have half a byte",
    ),
    Exclusion(("place", "count"), lambda r: _alone(r) and r["count"] != "few", "there are no others"),
    Exclusion(("place", "beside"), lambda r: _alone(r) and r["beside"] != "even", "there are no neighbours"),
    Exclusion(
        ("place", "beside"),
        lambda r: r["place"] == "first" and r["beside"] == "odd",
        "there is no tensor before it",
    ),
    Exclusion(
        ("count", "beside", "size"),
        lambda r: (
            r["count"] != "few"
            and r["beside"] in ("alike", "reshaped")
            and r["size"] in ("page", "buffer", "large")
        ),
        "the file would be large",
    ),
    Exclusion(
        ("count", "beside", "dtype"),
        lambda r: (
            r["beside"] in ("alike", "reshaped")
            and (r["dtype"] == "bool" or (r["count"] == "n300" and r["dtype"] in ("u8", "f8")))
        ),
        "there are more tensors than values",
    ),
    Exclusion(
        ("place", "content"),
        lambda r: not _alone(r) and r["content"] != "mixed",
        "tensors with the same bytes could be confused",
    ),
    Exclusion(
        ("dtype", "content"),
        lambda r: r["dtype"] == "bool" and r["content"] not in ("mixed", "zeros"),
        "other bytes than 0 and 1 are a choice",
    ),
    Exclusion(
        ("padding", "names"),
        lambda r: r["padding"] == "text4096" and r["names"] == "escaped",
        "escapes of six bytes cannot fill the size exactly",
    ),
    Exclusion(
        ("metadata", "map"), lambda r: r["metadata"] == "bare" and r["map"] != "pairs", "there is no metadata"
    ),
    Exclusion(("place", "order"), lambda r: _alone(r) and r["order"] == "rev", "one tensor has no order"),
    Exclusion(
        ("place", "names"), lambda r: _alone(r) and r["names"] == "twins", "one name has no similar one"
    ),
    Exclusion(
        ("place", "metadata"), lambda r: _alone(r) and r["metadata"] == "mmid", "one tensor has no middle"
    ),
)

_VALID_BY = {
    "r0": "SHP-03",
    "void": "SHP-04",
    "lvoid": "OFF-09",
    "rvoid": "OFF-09",
    "f8": "DTY-01",
    "f4": "DTY-01",
    "c64": "DTY-01",
    "fnuz": "DTY-01",
    "tight": "OFF-11",
    "odd": "OFF-11",
    "emptymap": "MET-03",
    "rev": "HDR-17",
    "mmid": "HDR-17",
    "mlast": "HDR-17",
    "escaped": "HDR-15",
    "osd": "ENT-06",
    "sod": "ENT-06",
    "spaced": "HDR-08",
    "wider": "DTY-01",
    "text4096": "ENT-10",
    "n300": "ENT-11",
    "longnames": "ENT-10",
    "r7": "SHP-11",
    "r8": "SHP-11",
    "r12": "SHP-11",
}
"""Level -> the rule that permits it; those that readers break most often come first."""


def _valid_by(row: Row) -> tuple[str, ...]:
    rules = (rule for level, rule in _VALID_BY.items() if level in row.values())
    return tuple(dict.fromkeys((*rules, "FRM-01", "SHP-11")))


def _valid(row: Row, f: FileBuilder) -> None:
    made = scene(row)
    if row["padding"] == "text4096":
        trial = FileBuilder()
        made.write(trial)
        made.subject.name += "x" * (-trial.header_size % 4096)
    made.write(f)
    made.pad(f)


TENSORS = Model(
    "tensors",
    PROPERTIES,
    EXCLUSIONS,
    {"whole": Topic("a valid file", _valid, _valid_by), **FAULTS},
    core=("place", "size", "beside", "order", "metadata"),
)
