"""Model of tensors: their number, shape, size, dtype, position and neighbours."""

from __future__ import annotations

from ...author.file import FileBuilder
from .model import Exclusion, Model, Property, Row, Topic
from .scene import scene
from .tensor_faults import FAULTS

PROPERTIES = {
    "place": Property(
        "position of the subject among the tensors in the data buffer",
        {
            "only": "",
            "first": "first of several tensors",
            "middle": "tensor between others",
            "last": "last of several tensors",
        },
    ),
    "count": Property(
        "number of other tensors",
        {"few": "", "n16": "sixteen other tensors", "n300": "three hundred other tensors"},
        ("few", "n16"),
    ),
    "before": Property("tensor before the subject", {"full": "", "lvoid": "after an empty tensor"}),
    "behind": Property("tensor after the subject", {"more": "", "rvoid": "before an empty tensor"}),
    "rank": Property(
        "number of dimensions",
        {"r1": "", "r0": "rank 0", **{f"r{n}": f"rank {n}" for n in (*range(2, 9), 12)}},
        ("r1", "r0", "r3", "r8"),
    ),
    "size": Property(
        "size of the subject",
        {
            "small": "",
            "void": "no elements",
            "one": "one element",
            "page": "tensor of 4,096 bytes",
            "buffer": "tensor of 65,536 bytes",
            "large": "tensor of more than 65,536 bytes",
        },
        ("small", "void", "large"),
    ),
    "dtype": Property(
        "dtype of the subject",
        {
            "f32": "",
            "u8": "dtype U8",
            "bool": "dtype BOOL",
            "i16": "dtype I16",
            "bf16": "dtype BF16",
            "f64": "dtype F64",
            "i64": "dtype I64",
            "f8": "dtype F8_E4M3",
            "f4": "dtype F4",
            "c64": "dtype C64",
        },
        ("f32", "u8", "bf16", "i64"),
    ),
    "beside": Property(
        "neighbours of the subject",
        {
            "even": "",
            "odd": "three-byte neighbours",
            "alike": "neighbours with the same dtype and shape",
            "reshaped": "neighbours with the same dtype and element count",
            "wider": "neighbours with the dtype U64",
            "fnuz": "neighbours with the dtype F8_E4M3FNUZ",
        },
        ("even", "odd", "alike"),
    ),
    "content": Property(
        "bytes of all tensors",
        {
            "mixed": "",
            "zeros": "data consists of zeros",
            "spaces": "data consists of spaces",
            "braces": "data consists of braces",
            "archives": "data consists of archive signatures",
            "nans": "data consists of signalling NaNs",
        },
        ("mixed",),
    ),
    "order": Property(
        "order of the header compared with the order of the data",
        {"ordered": "", "rev": "header in reverse order"},
    ),
    "metadata": Property(
        "position of the metadata in the header",
        {
            "bare": "",
            "mfirst": "metadata before the tensors",
            "mmid": "metadata between the tensors",
            "mlast": "metadata after the tensors",
        },
        ("bare", "mfirst", "mlast"),
    ),
    "map": Property(
        "content of the metadata map",
        {"pairs": "", "emptymap": "empty metadata map", "manykeys": "thirty metadata keys"},
        ("pairs",),
    ),
    "padding": Property(
        "where the header ends",
        {
            "pad8": "",
            "tight": "unpadded header",
            "pad64": "data at a multiple of 64 bytes",
            "pad4096": "data at a multiple of 4,096 bytes",
            "longpad": "5,000 spaces of padding",
            "head4096": "header size is a multiple of 4,096 bytes",
            "text4096": "size of the unpadded header is a multiple of 4,096 bytes",
            "t64": "file size is a multiple of 64 bytes",
            "t4096": "file size is a multiple of 4,096 bytes",
        },
        ("pad8", "tight", "longpad", "t64"),
    ),
    "names": Property(
        "names of the tensors",
        {
            "plain": "",
            "twins": "similar names",
            "utf8": "names with non-ASCII characters",
            "escaped": "names written with escapes",
            "longnames": "names of 300 characters",
        },
        ("plain", "twins", "utf8"),
    ),
    "fields": Property(
        "order of the fields of the subject",
        {"dso": "", "osd": "offsets as the first field", "sod": "fields in the order shape, offsets, dtype"},
        ("dso", "osd"),
    ),
    "spacing": Property("whitespace between members", {"compact": "", "spaced": "spaces around commas"}),
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
    Exclusion(("place", "count"), lambda r: _alone(r) and r["count"] != "few", "there are no other tensors"),
    Exclusion(("place", "beside"), lambda r: _alone(r) and r["beside"] != "even", "there are no neighbours"),
    Exclusion(
        ("place", "beside"),
        lambda r: r["place"] == "first" and r["beside"] == "odd",
        "there is no tensor before the subject",
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
        "some tensors would have the same bytes",
    ),
    Exclusion(
        ("place", "content"),
        lambda r: not _alone(r) and r["content"] != "mixed",
        "several tensors would have the same bytes",
    ),
    Exclusion(
        ("dtype", "content"),
        lambda r: r["dtype"] == "bool" and r["content"] not in ("mixed", "zeros"),
        "readers may choose how to treat bytes other than 0 and 1",
    ),
    Exclusion(
        ("padding", "names"),
        lambda r: r["padding"] == "text4096" and r["names"] == "escaped",
        "a name of six-byte escapes cannot fill the header exactly",
    ),
    Exclusion(
        ("metadata", "map"), lambda r: r["metadata"] == "bare" and r["map"] != "pairs", "there is no metadata"
    ),
    Exclusion(
        ("place", "order"), lambda r: _alone(r) and r["order"] == "rev", "a single tensor has no order"
    ),
    Exclusion(("place", "names"), lambda r: _alone(r) and r["names"] == "twins", "there is no second name"),
    Exclusion(
        ("place", "metadata"),
        lambda r: _alone(r) and r["metadata"] == "mmid",
        "metadata between tensors requires two tensors",
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
"""Level -> the rule that permits it. Rules that readers break most often come first."""


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


TENSORS = Model(
    "tensors",
    PROPERTIES,
    EXCLUSIONS,
    {"whole": Topic("a valid file", _valid, _valid_by), **FAULTS},
    core=("place", "size", "beside", "order", "metadata"),
)
