"""Model of tensors: their number, shape, size, dtype, position and neighbours."""

from __future__ import annotations

from safetensors_corpus.author.file import FileBuilder

from .model import Model, Property, Row, Topic, excludes, permitting
from .scene import CODES, scene
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
            "k128": "tensor of more than 131,072 bytes",
        },
        ("small", "void", "large"),
    ),
    "dtype": Property(
        "dtype of the subject",
        {level: f"dtype {code}" for level, code in CODES.items()} | {"f32": ""},
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
            "digits": "names that look like integers",
            "words": "names that are reserved words",
            "astral": "names written with surrogate pairs",
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

EXCLUSIONS = (
    excludes("a scalar has one element", rank="r0", size="void page buffer large k128"),
    excludes("a tensor cannot have half a byte", dtype="f4", size="one"),
    excludes("a tensor cannot have half a byte", dtype="f4", rank="r0"),
    excludes("there are no other tensors", place="only", count="n16 n300"),
    excludes("there are no neighbours", place="only", beside="odd alike reshaped wider fnuz"),
    excludes("there is no tensor before the subject", place="first", beside="odd"),
    excludes(
        "the file would be large", count="n16 n300", beside="alike reshaped", size="page buffer large k128"
    ),
    excludes("some tensors would have the same bytes", beside="alike reshaped", dtype="bool"),
    excludes("some tensors would have the same bytes", count="n300", beside="alike reshaped", dtype="u8 f8"),
    excludes(
        "several tensors would have the same bytes",
        place="first middle last",
        content="zeros spaces braces archives nans",
    ),
    excludes(
        "readers may choose how to treat bytes other than 0 and 1",
        dtype="bool",
        content="spaces braces archives nans",
    ),
    excludes(
        "a name of six-byte escapes cannot fill the header to the exact size",
        padding="text4096",
        names="escaped astral",
    ),
    excludes("there is no metadata", metadata="bare", map="emptymap manykeys"),
    excludes("a single tensor has no order", place="only", order="rev"),
    excludes("there is only one name", place="only", names="twins"),
    excludes("metadata between tensors requires two tensors", place="only", metadata="mmid"),
)

LEVELS = {
    "r0": "a scalar",
    "void": "a tensor of zero bytes",
    "lvoid": "an empty tensor after other tensors",
    "rvoid": "an empty tensor after other tensors",
    "f8": "DTY-01",
    "f4": "DTY-01",
    "c64": "DTY-01",
    "fnuz": "DTY-01",
    "tight": "a tensor that does not begin at a multiple of its element size",
    "odd": "a tensor that does not begin at a multiple of its element size",
    "emptymap": "an empty metadata map",
    "rev": "entries in a different order than the data",
    "mmid": "metadata that is not the first member",
    "mlast": "metadata that is not the first member",
    "escaped": "an escape in a name or in the metadata",
    "osd": "fields in an unusual order",
    "sod": "fields in an unusual order",
    "spaced": "whitespace between tokens",
    "wider": "DTY-01",
    "text4096": "a long name",
    "n300": "many tensors",
    "longnames": "a long name",
    "digits": "a name that looks like a path, a number, a pattern or code",
    "words": "a name that looks like a path, a number, a pattern or code",
    "astral": "an escape in a name or in the metadata",
    "r7": "a dimension of size 1 among others",
    "r8": "a dimension of size 1 among others",
    "r12": "a dimension of size 1 among others",
}
"""Level -> the feature that it adds, or the rule that permits it. Frequent causes of rejection come first."""


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
    {"whole": Topic("a valid file", _valid, permitting(LEVELS, "FRM-01 SHP-11")), **FAULTS},
    core=("place", "size", "beside", "order", "metadata"),
)
