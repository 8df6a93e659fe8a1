"""Header: keys that are repeated, similar, equal after decoding, or in an unusual order."""

from __future__ import annotations

from safetensors_corpus.author.case import ACCEPT, accepts, chooses, reject, rejects
from safetensors_corpus.author.file import FileBuilder, pattern
from safetensors_corpus.author.parts import ENTRY, PLACES, renamed_field, three_tensors

HALF = '{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'


@chooses(
    "duplicate-tensor-names",
    codes="HDR_DUP_KEY",
    importance="high",
    over={"adjacent": 1, "apart": 2},
    bugs="FB-06 FB-105 FB-118",
    issue="ggml-org/llama.cpp#1603",
)
def name_twice(f: FileBuilder, value: int) -> None:
    """The same tensor name appears twice with the same entry, and the two members are $slug.

    This duplicate is harmless, but a reader that does not notice it will not notice harmful duplicates
    either.
    """
    f.tensors("wx", "F32", [2])
    f.member('"w"', ENTRY, at=value)


@chooses("duplicate-tensor-names", codes="HDR_DUP_KEY", importance="high", bugs="FB-06 FB-105")
def name_twice_dtypes(f: FileBuilder) -> None:
    """The same tensor name appears twice with the same range but different dtypes and shapes."""
    f.tensor("w", "F32", [2], seen_by=["first-wins"])
    views = {"last-wins": pattern("w", 8)}
    f.tensor("w", "U8", [8], b"", begin=0, end=8, seen_by=["last-wins"], views=views)


@chooses("duplicate-tensor-names", codes="HDR_DUP_KEY", importance="high")
def name_twice_shapes(f: FileBuilder) -> None:
    """The same tensor name appears twice, apart, with the same range but different shapes.

    Neither the layout nor the neighbours of an entry reveal the repetition.
    """
    data = pattern("w", 24)
    f.tensor("w", "F32", [2, 3], data, seen_by=["first-wins"])
    f.tensor("x", "F32", [2])
    f.tensor("w", "F32", [3, 2], b"", begin=0, end=24, seen_by=["last-wins"], views={"last-wins": data})


@chooses("duplicate-tensor-names", codes="HDR_DUP_KEY", importance="high", bugs="FB-06 FB-105")
def names_twice_swapped(f: FileBuilder) -> None:
    """Two tensor names appear twice, the second time with their ranges swapped.

    The first and the last values both yield a complete file, so a scanner and a loader can see different
    weights.
    """
    a, b = pattern("a", 8), pattern("b", 8)
    f.tensor("a", "F32", [2], a, views={"last-wins": b})
    f.tensor("b", "F32", [2], b, views={"last-wins": a})
    f.member('"a"', ENTRY.replace("[0,8]", "[8,16]"))
    f.member('"b"', ENTRY)


@chooses(
    "duplicate-tensor-names",
    options={
        "reject": reject("HDR_DUP_KEY OFF_SIZE_MISMATCH"),
        "last-wins": ACCEPT,
        "first-wins": reject("OFF_SIZE_MISMATCH"),
    },
    importance="high",
    bugs="FB-06 FB-105",
)
def name_twice_first_of_another_size(f: FileBuilder) -> None:
    """The same tensor name appears twice, and the shape of the first entry does not match its range."""
    f.member('"w"', ENTRY.replace("[2]", "[3]"))
    f.tensor("w", "F32", [2])


@chooses(
    "duplicate-tensor-names",
    options={"reject": reject("HDR_DUP_KEY"), "last-wins": ACCEPT, "first-wins": reject("OFF_TRAILING")},
    importance="high",
    bugs="FB-06 FB-105",
)
def name_twice_last_fits(f: FileBuilder) -> None:
    """The same tensor name appears twice, and only the last entry covers all of the data."""
    f.member('"w"', HALF)
    f.tensor("w", "F32", [2])


@chooses(
    "duplicate-tensor-names",
    options={"reject": reject("HDR_DUP_KEY"), "last-wins": reject("OFF_TRAILING"), "first-wins": ACCEPT},
    importance="high",
    bugs="FB-03 FB-105",
)
def name_twice_first_fits(f: FileBuilder) -> None:
    """The same tensor name appears twice, and only the first entry covers all of the data."""
    f.tensor("w", "F32", [2])
    f.member('"w"', HALF)


@rejects(
    "HDR-09", "HDR_DUP_KEY OFF_HOLE OFF_TRAILING", issue="safetensors/safetensors#401", bugs="FB-78 FB-105"
)
def name_twice_ranges(f: FileBuilder) -> None:
    """The same tensor name appears twice, and each entry has its own range.

    Dropping either entry leaves bytes that belong to no tensor.
    """
    f.tensor("w", "F32", [2])
    f.tensor("w", "F32", [2])


@chooses(
    "duplicate-tensor-names",
    "HDR-10",
    codes="HDR_DUP_KEY",
    importance="high",
    bugs="FB-06 FB-105",
    over={
        "code-point": ("w", r"\u0077"),
        "solidus": ("a/b", r"a\/b"),
        "pair": ("\U0001f600", r"\ud83d\ude00"),
    },
)
def name_twice_escaped(f: FileBuilder, name: str, spelled: str) -> None:
    """The same tensor name appears twice, once written with an escape ($slug).

    A reader that compares keys before decoding their escapes sees two different names.
    """
    f.tensor(name, "F32", [2])
    f.member(f'"{spelled}"', ENTRY)


@rejects(
    "HDR-12",
    "HDR_DUP_KEY OFF_SIZE_MISMATCH OFF_TRAILING",
    over={
        "dtype-same": '"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]',
        "dtype-differs": '"dtype":"F64","dtype":"F32","shape":[2],"data_offsets":[0,8]',
        "dtype-escaped": r'"dtype":"F32","shape":[2],"data_offsets":[0,8],"\u0064type":"F32"',
        "shape-same": '"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]',
        "offsets-same": '"dtype":"F32","shape":[2],"data_offsets":[0,8],"data_offsets":[0,8]',
        "offsets-differs": '"data_offsets":[0,4],"dtype":"F32","shape":[2],"data_offsets":[0,8]',
    },
    bugs="FB-118",
)
def field_twice(f: FileBuilder, value: str) -> None:
    """A tensor entry contains one of its fields twice ($slug)."""
    f.tensor("w", "F32", [2], value="{" + value + "}")


@accepts(
    "HDR-19",
    over={
        "case": ("w", "W"),
        "normal-form": ("\xe9", "e\u0301"),
        "trailing-nul": ("w", "w\0"),
        "trailing-space": ("w", "w "),
        "byte-order-mark": ("w", "\ufeffw"),
    },
)
def similar_names(f: FileBuilder, value: tuple[str, str]) -> None:
    """Two tensors have names that differ only slightly ($slug).

    Case folding, normalising, trimming or truncating the names makes one of the tensors disappear.
    """
    f.tensors(value, "F32", [2])


@accepts("HDR-17")
def entries_shuffled(f: FileBuilder) -> None:
    """Three tensor entries appear neither in data order nor in reverse order."""
    for name, place in (("a", 0), ("b", 0), ("c", 1)):
        f.tensor(name, "F32", [2], at=place)


@accepts("HDR-19 HDR-09")
def long_names_differ_at_end(f: FileBuilder) -> None:
    """Two names of a thousand characters differ only in the last character.

    The names look like duplicates to a reader that compares only a prefix or a short hash.
    """
    f.tensor("n" * 999 + "a", "F32", [1])
    f.tensor("n" * 999 + "b", "F32", [1])


@accepts("HDR-09 HDR-13")
def name_also_in_metadata(f: FileBuilder) -> None:
    """The same string is a tensor name, a metadata key and a metadata value.

    Keys must be unique only within their own object.
    """
    f.metadata({"w": "w", "x": "w"})
    f.tensors("wx", "F32", [1])


@rejects("HDR-10 HDR-09", "HDR_DUP_KEY OFF_HOLE OFF_TRAILING")
def name_twice_escaped_with_ranges(f: FileBuilder) -> None:
    """One tensor name appears twice, once escaped, and each entry has its own range.

    To a reader that compares names before decoding them, the file looks complete.
    """
    f.tensor("weight", "F32", [2])
    f.tensor("weight", "F32", [2], key=r'"\u0077eight"')


@accepts("HDR-10 HDR-19")
def name_with_text_of_escape(f: FileBuilder) -> None:
    """One name is the letter w, and the other consists of the six characters of its escape.

    The names differ after one decoding, but are equal after two.
    """
    f.tensor("w", "F32", [1])
    f.tensor("\\u0077", "F32", [1])


@rejects("HDR-12 HDR-10", "HDR_DUP_KEY", over=PLACES)
def field_twice_in(f: FileBuilder, value: int) -> None:
    """The $slug of three entries has a second shape field, whose name is written with an escape."""
    three_tensors(f, value, fields={r"sh\u0061pe": "[2]"})


@accepts("HDR-12 HDR-09")
def field_names_at_every_level(f: FileBuilder) -> None:
    """The words dtype and shape appear in the metadata, as tensor names and as field names."""
    f.metadata({"dtype": "dtype", "shape": "shape"})
    f.tensor("dtype", "F32", [1])
    f.tensor("shape", "F32", [1])


@accepts("HDR-19 MET-04 HDR-13")
def similar_metadata_keys(f: FileBuilder) -> None:
    """Metadata keys differ only in case, a space, a NUL or their Unicode normal form.

    The keys are different, but case folding or trimming makes some of them duplicates.
    """
    keys = ("k", "K", "k ", "k\0", "\ufb01", "fi", "\xe9", "e\u0301")
    f.metadata({key: str(index) for index, key in enumerate(keys)})
    f.tensor("w", "F32", [2])


@accepts("MET-05 HDR-11")
def one_metadata_key_among_similar(f: FileBuilder) -> None:
    """The header contains the metadata key and tensor names that resemble it.

    Similar names do not count as a second metadata key.
    """
    f.metadata({"__metadata__": "inner"})
    for name in ("__metadata", "_metadata_", "__Metadata__", "__metadata__ ", "__meta_data__", "metadata"):
        f.tensor(name, "F32", [1])


@rejects("HDR-11 HDR-10 MET-06", "HDR_DUP_KEY")
def metadata_key_twice_both_escaped(f: FileBuilder) -> None:
    """The metadata key appears twice, and a different letter is escaped each time."""
    f.member(r'"\u005f_metadata__"', '{"a":"b"}')
    f.tensor("w", "F32", [2])
    f.member(r'"__metadata_\u005f"', '{"c":"d"}')


@rejects("HDR-11", "HDR_DUP_KEY")
def metadata_key_twice_both_empty(f: FileBuilder) -> None:
    """The metadata key appears twice, and its value is an empty map each time.

    Either map could be dropped without loss, so only a comparison of the keys themselves finds the fault.
    """
    f.member('"__metadata__"', "{}")
    f.tensor("w", "F32", [2])
    f.member('"__metadata__"', "{}")


@rejects("OFF-07 HDR-17", "OFF_HOLE")
def reversed_order_with_hole(f: FileBuilder) -> None:
    """Three entries appear in reverse order, and four bytes before the last range belong to no tensor.

    Entries may appear in any order, but their ranges must cover the data without gaps.
    """
    f.tensor("a", "F32", [1], at=0)
    f.tensor("b", "F32", [1], at=0)
    f.gap(4)
    f.tensor("c", "F32", [1], at=0)


@rejects("OFF-06 HDR-17", "OFF_OVERLAP")
def reversed_order_with_overlap(f: FileBuilder) -> None:
    """Three entries appear in reverse order, and the last range begins inside the previous range."""
    f.tensor("a", "U8", [8], at=0)
    f.tensor("b", "U8", [8], at=0)
    f.tensor("c", "U8", [8], b"tail", begin=12, end=20, at=0)


FIELD_NAME_LIKE = {
    "wide-letter": ("dtype", "\uff44type"),
    "long-s": ("shape", "\u017fhape"),
    "zero-width-space": ("shape", "shape\u200b"),
    "wide-low-line": ("data_offsets", "data\uff3foffsets"),
}


@rejects("ENT-05 HDR-19", "ENT_MISSING_FIELD ENT_UNKNOWN_FIELD", over=FIELD_NAME_LIKE)
def field_name_like(f: FileBuilder, plain: str, spelled: str) -> None:
    """The name of a required field is correct only after normalising or case folding: $slug."""
    renamed_field(f, plain, spelled)


@rejects("MET-05 HDR-19", "ENT_MISSING_FIELD ENT_UNKNOWN_FIELD")
def metadata_under_wide_low_lines(f: FileBuilder) -> None:
    """A map of strings appears under the metadata key, which is written with fullwidth low lines.

    Compatibility normalisation turns the name into the reserved key, but an exact comparison shows that it
    differs.
    """
    f.tensor("w", "F32", [2])
    f.member('"\uff3f\uff3fmetadata\uff3f\uff3f"', '{"format":"pt"}')


@rejects(
    "HDR-12",
    "HDR_DUP_KEY DTY_UNKNOWN SHP_BAD_TYPE OFF_BAD_PAIR",
    importance="medium",
    over={
        "dtype": '"dtype":"","dtype":"F32","shape":[2],"data_offsets":[0,8]',
        "shape": '"dtype":"F32","shape":[],"shape":[2],"data_offsets":[0,8]',
        "shape-null": '"dtype":"F32","shape":null,"shape":[2],"data_offsets":[0,8]',
        "offsets": '"dtype":"F32","shape":[2],"data_offsets":[],"data_offsets":[0,8]',
    },
)
def field_twice_and_first_empty(f: FileBuilder, value: str) -> None:
    """A tensor entry contains one of its fields twice, and the first value is empty ($slug).

    Many languages treat an empty value like a missing value, so a check for an earlier value misses it.
    """
    f.tensor("w", "F32", [2], value="{" + value + "}")


@rejects(
    "HDR-09",
    "HDR_DUP_KEY ENT_MISSING_FIELD ENT_NOT_OBJECT",
    importance="medium",
    over={"object": "{}", "null": "null"},
)
def name_twice_and_first_empty(f: FileBuilder, value: str) -> None:
    """The same tensor name appears twice, and the first value is empty ($slug)."""
    f.member('"w"', value)
    f.tensor("w", "F32", [2])


@rejects("HDR-11", "HDR_DUP_KEY", importance="medium")
def metadata_twice_and_first_empty(f: FileBuilder) -> None:
    """The metadata appears twice, and the first map is empty."""
    f.member('"__metadata__"', "{}")
    f.metadata({"format": "pt"})
    f.tensor("w", "F32", [2])


@chooses(
    "unknown-entry-fields",
    codes="ENT_UNKNOWN_FIELD",
    over={"dtype": {"DTYPE": '"I32"'}, "both": {"Dtype": '"U8"', "Shape": "[8]"}},
)
def field_in_other_case(f: FileBuilder, value: dict[str, str]) -> None:
    """An entry has an unknown field that differs from a known field only in case ($slug)."""
    f.tensor("w", "F32", [2], fields=value)
