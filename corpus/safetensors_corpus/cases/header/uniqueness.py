"""Header: strings that must be kept apart or count as equal, and the order of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...author.case import accepts, rejects
from ...author.parts import PLACES

if TYPE_CHECKING:
    from ...author.file import FileBuilder

FIELDS = '"dtype":"F32","shape":[2],"data_offsets":[{},{}]'


@accepts("HDR-19", "HDR-09")
def long_names_differ_at_end(f: FileBuilder) -> None:
    """Two names of a thousand characters differ only in the last.

    Comparing a prefix, or a short hash without the text, takes them for duplicates.
    """
    f.tensor("n" * 999 + "a", "F32", [1])
    f.tensor("n" * 999 + "b", "F32", [1])


@accepts("HDR-09", "HDR-13")
def name_also_in_metadata(f: FileBuilder) -> None:
    """One string is a tensor name, a metadata key and a metadata value.

    Keys are unique within their object; across objects they are strangers.
    """
    f.metadata({"w": "w", "x": "w"})
    f.tensor("w", "F32", [1])
    f.tensor("x", "F32", [1])


@rejects("HDR-10", "HDR-09", codes=("HDR_DUP_KEY", "OFF_HOLE", "OFF_TRAILING"), importance="high")
def name_twice_escaped_with_ranges(f: FileBuilder) -> None:
    """One tensor name stands twice, once escaped, and each entry has a range of its own.

    Compared as they are written the names differ, and the file looks complete.
    """
    f.tensor("weight", "F32", [2])
    f.tensor("weight", "F32", [2], key=r'"\u0077eight"')


@accepts("HDR-10", "HDR-19")
def name_with_text_of_escape(f: FileBuilder) -> None:
    """One name is the letter w, the other the six characters of its escape.

    Decoding once keeps them apart, decoding twice makes them equal.
    """
    f.tensor("w", "F32", [1])
    f.tensor("\\u0077", "F32", [1])


@rejects("HDR-12", "HDR-10", codes="HDR_DUP_KEY", importance="high", over=PLACES)
def field_twice_in(f: FileBuilder, value: int) -> None:
    """The $slug of three entries holds its shape twice, the second time with an escaped name."""
    for index, name in enumerate("abc"):
        text = FIELDS.format(8 * index, 8 * index + 8)
        if index == value:
            text += r',"sh\u0061pe":[2]'
        f.tensor(name, "F32", [2], value="{" + text + "}")


@accepts("HDR-12", "HDR-09")
def field_names_at_every_level(f: FileBuilder) -> None:
    """The names dtype and shape stand in the metadata, as tensors and in their entries, once each."""
    f.metadata({"dtype": "dtype", "shape": "shape"})
    f.tensor("dtype", "F32", [1])
    f.tensor("shape", "F32", [1])


@accepts("HDR-19", "MET-04", "HDR-13")
def similar_metadata_keys(f: FileBuilder) -> None:
    """Metadata keys differ only in case, a space, a NUL or a normal form.

    They are different keys; folding or trimming makes duplicates of them.
    """
    keys = ("k", "K", "k ", "k\0", "\ufb01", "fi", "\xe9", "e\u0301")
    f.metadata({key: str(index) for index, key in enumerate(keys)})
    f.tensor("w", "F32", [2])


@accepts("MET-05", "HDR-11")
def one_metadata_key_among_similar(f: FileBuilder) -> None:
    """The metadata key stands beside tensors whose names only resemble it.

    There is one metadata key, however many names look like it.
    """
    f.metadata({"__metadata__": "inner"})
    for name in ("__metadata", "_metadata_", "__Metadata__", "__metadata__ ", "__meta_data__", "metadata"):
        f.tensor(name, "F32", [1])


@rejects("HDR-11", "HDR-10", "MET-06", codes="HDR_DUP_KEY", importance="high")
def metadata_key_twice_both_escaped(f: FileBuilder) -> None:
    """The metadata key stands twice, each time with another letter escaped."""
    f.member(r'"\u005f_metadata__"', '{"a":"b"}')
    f.tensor("w", "F32", [2])
    f.member(r'"__metadata_\u005f"', '{"c":"d"}')


@rejects("HDR-11", codes="HDR_DUP_KEY", importance="high")
def metadata_key_twice_both_empty(f: FileBuilder) -> None:
    """The metadata key stands twice with an empty map each time.

    Nothing is lost by either reading, so only a check for the key itself notices.
    """
    f.member('"__metadata__"', "{}")
    f.tensor("w", "F32", [2])
    f.member('"__metadata__"', "{}")


@rejects("OFF-07", "HDR-17", codes="OFF_HOLE", importance="high")
def reversed_order_with_hole(f: FileBuilder) -> None:
    """Three entries stand in reversed order, and four bytes before the last range belong to nobody.

    The order in the header is free; the chain of the ranges is not.
    """
    f.tensor("a", "F32", [1], at=0)
    f.tensor("b", "F32", [1], at=0)
    f.gap(4)
    f.tensor("c", "F32", [1], at=0)


@rejects("OFF-06", "HDR-17", codes="OFF_OVERLAP", importance="high")
def reversed_order_with_overlap(f: FileBuilder) -> None:
    """Three entries stand in reversed order, and the last range begins inside its predecessor."""
    f.tensor("a", "U8", [8], at=0)
    f.tensor("b", "U8", [8], at=0)
    f.tensor("c", "U8", [8], b"tail", begin=12, end=20, at=0)


@rejects(
    "ENT-05",
    "HDR-19",
    codes=("ENT_MISSING_FIELD", "ENT_UNKNOWN_FIELD"),
    over={
        "wide-letter": ("dtype", "\uff44type"),
        "long-s": ("shape", "\u017fhape"),
        "zero-width-space": ("shape", "shape\u200b"),
        "wide-low-line": ("data_offsets", "data\uff3foffsets"),
    },
)
def field_name_like(f: FileBuilder, value: tuple[str, str]) -> None:
    """A required field has a name that only normalising or folding turns into the right one: $slug."""
    plain, spelled = value
    texts = {"dtype": '"F32"', "shape": "[2]", "data_offsets": "[0,8]"}
    f.tensor("w", "F32", [2], fields={plain: None, spelled: texts[plain]})


@rejects("MET-05", "HDR-19", codes=("ENT_MISSING_FIELD", "ENT_UNKNOWN_FIELD"))
def metadata_under_wide_low_lines(f: FileBuilder) -> None:
    """A map of strings stands under the metadata key spelled with wide low lines.

    Compatibility normalisation turns it into the reserved key; exact comparison does not.
    """
    f.tensor("w", "F32", [2])
    f.member('"\uff3f\uff3fmetadata\uff3f\uff3f"', '{"format":"pt"}')
