"""Writer: names, metadata, the layout of the file, and how a save replaces an existing file.

Every Unicode string except the reserved key is a valid name, and no other value is. The cases save metadata
with and without tensors.
"""

from __future__ import annotations

from typing import Any

from safetensors_corpus.author.case import accepts, chooses, rejects
from safetensors_corpus.author.write import Text, WriteBuilder
from safetensors_reference.rules.dtypes import DTYPE_BITS

PAGES = 12_288
"""Size in bytes of a tensor that fills three typical memory pages."""
LIMIT = 4096
"""Maximum file size while a case simulates a full disk. A tensor of ``PAGES`` bytes does not fit."""


@accepts(
    "WRT-02",
    over={f"name-of-{n}": n for n in range(1, 9)},
    bugs={"name-of-1": "FB-34 FB-46 FB-90", "name-of-2": "FB-34 FB-46 FB-90"},
)
def padding(f: WriteBuilder, length: int) -> None:
    """The writer pads a header ($slug) with spaces to a multiple of eight bytes."""
    f.tensor("n" * length, "F32", [2])
    f.properties = ["header-padded"]


@accepts("WRT-01 HDR-03", importance="high", over={"name-of-1": 1, "name-of-3": 3})
def padding_bytes(f: WriteBuilder, length: int) -> None:
    """The padding consists of spaces, and the length prefix includes it ($slug)."""
    f.tensor("n" * length, "U8", [3])
    f.tensor("m" * length, "F32", [3])


def _over(f: WriteBuilder, target: str) -> None:
    f.target = target
    f.before.tensor("old", "F32", [2])


MIXES: dict[str, list[tuple[str, int]]] = {
    "narrow-first": [("BOOL", 3), ("U8", 1), ("F16", 1), ("F32", 1), ("F64", 1)],
    "complex": [("F32", 1), ("C64", 1), ("I8", 3), ("C64", 1)],
    "packed": [("F4", 2), ("F16", 1), ("F6_E2M3", 4), ("F32", 1), ("BOOL", 1), ("I64", 1)],
    "all": [(code, 4 if bits < 8 else 1) for code, bits in sorted(DTYPE_BITS.items())],
}


@accepts("WRT-04", over=MIXES)
def alignment(f: WriteBuilder, value: list[tuple[str, int]]) -> None:
    """The tensors have dtypes of different widths ($slug), and each is aligned to its width."""
    for number, (code, length) in enumerate(value):
        f.tensor(f"t{number}", code, [length], bytes(length) if code == "BOOL" else None)
    f.properties = ["aligned"]


@accepts("WRT-12")
def same_bytes_with_many_metadata_keys(f: WriteBuilder) -> None:
    """Saving twenty metadata keys several times writes the same bytes each time."""
    f.tensor("t")
    f.metadata({f"key {n}": str(n) for n in range(20)})
    f.properties = ["deterministic"]


@accepts("WRT-12")
def same_bytes_with_few_metadata_keys(f: WriteBuilder) -> None:
    """Saving the four metadata keys of a usual model several times writes the same bytes each time.

    Some maps keep a few keys in order and lose the order when they grow.
    """
    f.tensor("t")
    f.metadata({"format": "pt", "library": "peft", "version": "1.0", "base_model": "m"})
    f.properties = ["deterministic"]


@accepts("WRT-12")
def same_bytes_with_metadata_only(f: WriteBuilder) -> None:
    """Saving nine metadata keys without tensors several times writes the same bytes each time."""
    f.metadata(dict.fromkeys("ihgfedcba", ""))
    f.properties = ["deterministic"]


@accepts("WRT-12")
def same_bytes_with_many_tensors(f: WriteBuilder) -> None:
    """Saving forty tensors of two dtypes several times writes the same bytes each time."""
    for number in range(40):
        f.tensor(f"t{number}", "U8" if number % 2 else "F32", [1])
    f.properties = ["deterministic"]


@accepts("WRT-13", over={"one": 1, "nine": 9, "none": 0})
def saved_again(f: WriteBuilder, count: int) -> None:
    """A file without metadata is saved, loaded and saved again (number of tensors: $slug)."""
    for number in range(count):
        f.tensor(f"t{number * 5 % 9}", ("U8", "F32", "I64")[number % 3], [3])
    f.properties = ["idempotent"]


@accepts("WRT-13 SHP-04")
def saved_again_with_empty_tensors(f: WriteBuilder) -> None:
    """A file with empty tensors between others is saved, loaded and saved again.

    An empty tensor begins where the next tensor begins, so their offsets do not determine their order.
    """
    for name, length in (("a", 2), ("c", 0), ("b", 0), ("d", 2)):
        f.tensor(name, "F32", [length])
    f.properties = ["idempotent"]


@accepts("WRT-13 OFF-08", over={"none": 0, "two": 2})
def saved_again_over_an_old_file(f: WriteBuilder, count: int) -> None:
    """Tensors ($slug) are saved over a larger file. The new file is loaded and saved again."""
    f.target = "file"
    f.before.tensor("old", "F32", [64])
    for number in range(count):
        f.tensor(f"t{number}", "U8", [3])
    f.properties = ["idempotent"]


@accepts(
    "WRT-18",
    over={"ascii": "a/b.c", "unicode": "重み é \U0001f9ca", "needs-escapes": 'a"b\\c\n\x01\x7f\u2028'},
)
def compact_header(f: WriteBuilder, text: str) -> None:
    """The header has no spaces between its tokens and uses escapes only where they are required ($slug)."""
    f.tensor(text, "F32", [2, 3])
    f.tensor("t", "U8", [2])
    f.metadata({text: text, "key": "value"})
    f.properties = ["compact-json"]


@accepts("WRT-15", over={"new": "new", "existing": "file"}, bugs="FB-211")
def permissions(f: WriteBuilder, target: str) -> None:
    """The writer sets the usual permissions for a file that is $slug."""
    _over(f, target)
    f.tensor("t")
    f.properties = ["keeps-mode"]


@accepts("WRT-15")
def permissions_behind_a_link(f: WriteBuilder) -> None:
    """The target is a symbolic link, and the file that it points to keeps its permissions."""
    _over(f, "link")
    f.tensor("t")
    f.properties = ["keeps-mode"]


@accepts("WRT-15 WRT-14")
def symbolic_link(f: WriteBuilder) -> None:
    """The target is a symbolic link to an old file.

    The link must stay, and the writer must replace the file that it points to.
    """
    _over(f, "link")
    f.tensor("t")
    f.properties = ["keeps-link"]


@accepts("WRT-15 WRT-14")
def symbolic_link_and_no_tensors(f: WriteBuilder) -> None:
    """There are no tensors to save, and the target is a symbolic link, which must stay a link."""
    _over(f, "link")
    f.properties = ["keeps-link"]


@accepts("WRT-14", over={"new": "new", "existing": "file"})
def nothing_beside_the_file(f: WriteBuilder, target: str) -> None:
    """No temporary file is left next to a file that is $slug."""
    _over(f, target)
    f.tensor("t")
    f.properties = ["one-file"]


@accepts("WRT-01 OFF-08", importance="high", over={"longer": 300, "equal": 4, "shorter": 1})
def over_an_old_file(f: WriteBuilder, length: int) -> None:
    """The target is an old file that is $slug, and the writer must replace all of it."""
    f.target = "file"
    f.before.tensor("t", "F32", [length])
    f.tensor("t", "F32", [4])


@accepts(
    "WRT-01 WRT-14",
    importance="critical",
    issue="safetensors/safetensors#762",
    bugs={"small": "FB-37 FB-45", "several-pages": "FB-37 FB-110"},
    over={
        "small": [("a", "F32", 2), ("b", "U8", 3)],
        "several-pages": [("a", "F32", PAGES // 4), ("b", "F64", PAGES // 8), ("c", "U8", PAGES)],
        "other-order": [("b", "U8", 3), ("a", "F64", 2), ("c", "F16", 1)],
        "no-tensors": [],
    },
)
def over_its_own_source(f: WriteBuilder, value: list[tuple[str, str, int]]) -> None:
    """A file is loaded, and its content is saved to the same path ($slug).

    If the tensors are views of the mapped file, a writer that first truncates the target destroys the data.
    """
    f.target = "input"
    for name, code, length in value:
        f.before.tensor(name, code, [length])


def too_much(f: WriteBuilder) -> None:
    f.file_size_limit = LIMIT
    f.tensor("a", "F32", [2])
    f.tensor("b", "U8", [PAGES], b"\x07" * PAGES)


@rejects("WRT-19", "IO_ERROR")
def disk_full(f: WriteBuilder) -> None:
    """The disk becomes full during a save, and the target must not be a partial file."""
    too_much(f)
    f.properties = ["target-unchanged"]


@rejects("WRT-19", "IO_ERROR", importance="medium", level="should")
def disk_full_leaves_nothing(f: WriteBuilder) -> None:
    """The disk becomes full during a save, and the writer must remove its temporary file."""
    too_much(f)
    f.properties = ["one-file"]


@rejects("WRT-19 WRT-14", "IO_ERROR", bugs="FB-77")
def disk_full_over_an_old_file(f: WriteBuilder) -> None:
    """The disk becomes full while an old file is being replaced, and the old file must stay unchanged."""
    _over(f, "file")
    too_much(f)
    f.properties = ["target-unchanged"]


@rejects("WRT-19 WRT-14", "IO_ERROR")
def disk_full_behind_a_link(f: WriteBuilder) -> None:
    """The disk becomes full during a save to a symbolic link, and the link and the old file must stay."""
    _over(f, "link")
    too_much(f)
    f.properties = ["target-unchanged"]


@chooses("missing-folder", codes="IO_ERROR", level="must")
def missing_folder(f: WriteBuilder) -> None:
    """The folder of the target does not exist."""
    f.target = "missing-folder"
    f.tensor("t")
    f.properties = ["target-unchanged"]


@chooses("missing-folder", codes="IO_ERROR", level="must")
def missing_folder_for_no_tensors(f: WriteBuilder) -> None:
    """The folder of the target does not exist, and there are no tensors to save."""
    f.target = "missing-folder"
    f.properties = ["target-unchanged"]


@chooses("missing-folder", codes="IO_ERROR", level="must")
def missing_folder_for_three_tensors(f: WriteBuilder) -> None:
    """The folder of the target does not exist, and there are three tensors to save."""
    f.target = "missing-folder"
    for name, code in (("a", "F32"), ("b", "I64"), ("c", "U8")):
        f.tensor(name, code, [PAGES // 8], b"\1" * (PAGES // 8 * DTYPE_BITS[code] // 8))
    f.properties = ["target-unchanged"]


@accepts("WRT-05 OFF-08", importance="high", over={"old-file": "file", "link": "link"})
def no_tensors_empty_metadata_over(f: WriteBuilder, target: str) -> None:
    """A file with empty metadata and no tensors is saved over an old file: $slug."""
    _over(f, target)
    f.metadata({})


NAMES = {
    "empty": "",
    "space": " ",
    "latin-1": "é",
    "han": "重み",
    "astral": "\U0001f9ca",
    "nul": "a\0b",
    "nul-last": "a\0",
    "control": "\x01\t\n\r\x1f",
    "delete": "a\x7fb",
    "line-separator": "a\u2028b",
    "noncharacter": "a\uffff",
    "right-to-left": "a\u202eb",
    "quote": 'a"b',
    "backslash": "a\\",
    "escape-text": "\\u0041",
    "slash": "a/b",
    "path": "../../a",
    "json": '"},"b":{"',
    "number": "0",
    "field": "dtype",
    "prototype": "__proto__",
}
NO_TEXTS: dict[str, Any] = {"integer": 7, "null": None, "boolean": True, "fraction": 1.5}
ISSUE_466 = "safetensors/safetensors#466"
RESERVED = "__metadata__"


@accepts("WRT-01 WRT-10 ENT-08", importance="high", over=NAMES)
def name(f: WriteBuilder, text: str) -> None:
    """A writer might truncate a tensor name, escape it wrongly or misinterpret it: $slug."""
    f.tensor(text, "U8", [3], b"abc")


@accepts("MET-05 WRT-06 WRT-01")
def name_like_the_reserved(f: WriteBuilder) -> None:
    """The reserved key with an extra underscore is a name like any other."""
    f.tensor("__metadata___", "U8", [3], b"abc")


@accepts("MET-05 WRT-06 WRT-01", over={"in-capitals": "__METADATA__", "with-blank": "__metadata__ "})
def name_reserved(f: WriteBuilder, text: str) -> None:
    """A name that only resembles the reserved key is a name like any other: $slug."""
    f.tensor(text, "U8", [3], b"abc")


@accepts("WRT-01 HDR-19")
def names_that_look_alike(f: WriteBuilder) -> None:
    """Three names are the same letter in composed form, in decomposed form and in upper case."""
    for number, text in enumerate(("\u00e9", "e\u0301", "\u00c9")):
        f.tensor(text, "U8", [1], bytes([number + 1]))


@accepts("WRT-01 ENT-10")
def name_of_a_thousand_letters(f: WriteBuilder) -> None:
    """A tensor name has a thousand letters, so it does not fit into common fixed buffers."""
    f.tensor("n" * 1000, "U8", [3])


@rejects(
    "WRT-06",
    "WRT_BAD_NAME MET_NOT_MAP",
    issue="safetensors/safetensors#849",
    bugs="FB-26",
    over={"alone": None, "with-empty-metadata": {}, "with-metadata": {"key": "value"}},
)
def reserved_name(f: WriteBuilder, metadata: dict[str, str] | None) -> None:
    """A tensor has the name that the format reserves for metadata ($slug).

    Readers reject such a file. If the file also has metadata, the reserved key appears twice.
    """
    f.tensor(RESERVED)
    f.metadata(metadata)


@rejects("WRT-06", "WRT_BAD_NAME")
def reserved_name_last_of_three(f: WriteBuilder) -> None:
    """The third of three tensors has the reserved name."""
    f.tensor("a")
    f.tensor("b")
    f.tensor(RESERVED)


@rejects("WRT-06", "WRT_BAD_NAME", importance="medium")
def reserved_name_without_elements(f: WriteBuilder) -> None:
    """An empty tensor has the reserved name."""
    f.tensor(RESERVED, "F32", [0])


@rejects("WRT-10", "WRT_BAD_NAME", over=NO_TEXTS)
def name_of_another_type(f: WriteBuilder, value: Any) -> None:
    """A tensor name is not a string ($slug), and must not be converted to one.

    After such a conversion, two keys that differ only in type would become the same name.
    """
    f.tensor(value)


SURROGATES = {"high": "a\ud800", "low": "\udc00a", "swapped": "\udc00\ud800"}


@rejects("WRT-10", "WRT_BAD_NAME", importance="high", over=SURROGATES)
def name_with_lone_surrogate(f: WriteBuilder, text: str) -> None:
    """A tensor name contains half a surrogate pair ($slug), so it is not valid Unicode.

    If the writer stores it as an escape or as three bytes, readers reject the header. If the writer replaces
    it with a question mark, two names may become equal.
    """
    f.tensor(text)


@rejects("WRT-10 WRT-19", "WRT_BAD_NAME")
def name_with_lone_surrogate_last_of_three(f: WriteBuilder) -> None:
    """The last of three names is invalid, and the writer must detect this before it writes anything."""
    f.tensor("a")
    f.tensor("b")
    f.tensor("c\ud800")
    f.properties = ["target-unchanged"]


@rejects("HDR-09 WRT-01", "HDR_DUP_KEY WRT_BAD_NAME", importance="medium")
def one_name_twice(f: WriteBuilder) -> None:
    """Two tensors have the same name, which is possible if a writer accepts a list of tensors."""
    f.tensor("a", "U8", [1], b"\1")
    f.tensor("a", "U8", [1], b"\2")


@rejects(
    "WRT-11 LIM-01", "WRT_HEADER_OVER_LIMIT", heavy=True, bugs="FB-25", issue="safetensors/safetensors#668"
)
def header_over_the_cap(f: WriteBuilder) -> None:
    """A tensor name of 100,000,000 bytes makes the header too long for every reader.

    A writer that saves such a file loses the data.
    """
    f.tensor(Text(({"repeat": {"text": "n"}, "count": 100_000_000},)), "U8", [3], b"abc")
    f.properties = ["target-unchanged"]


@accepts("WRT-11 LIM-01", heavy=True)
def header_of_24_million_bytes(f: WriteBuilder) -> None:
    """A tensor name of 24,000,000 bytes makes a header that is short enough for every reader."""
    f.tensor(Text(({"repeat": {"text": "n"}, "count": 24_000_000},)), "U8", [3], b"abc")
    f.count_only = True


@accepts("WRT-01 FRM-09", importance="high", issue=ISSUE_466, over={"no-metadata": None})
@accepts("WRT-05 MET-03 FRM-09", importance="high", issue=ISSUE_466, over={"empty-metadata": {}})
@accepts(
    "WRT-01 MET-01", importance="high", issue=ISSUE_466, bugs="FB-209", over={"metadata": {"key": "value"}}
)
def no_tensors(f: WriteBuilder, metadata: dict[str, str] | None) -> None:
    """A file without tensors is saved ($slug).

    A writer that concatenates braces, commas and the map by hand may write invalid JSON here.
    """
    f.metadata(metadata)


@accepts("WRT-01 MET-01", over={"no-metadata": None}, bugs="FB-10")
@accepts("WRT-01 MET-03", over={"empty-metadata": {}})
def one_tensor(f: WriteBuilder, metadata: dict[str, str] | None) -> None:
    """A file with one tensor is saved ($slug)."""
    f.tensor("t")
    f.metadata(metadata)


TEXTS = {
    "empty": {"": ""},
    "unicode": {"schlüssel": "重み \U0001f9ca"},
    "control": {"a\0b": "\x01\n\x1f\x7f"},
    "quotes": {'a"b\\': '{"c": "\\u0041"}'},
    "line-separators": {"a": "b\u2028c\u2029d"},
    "noncharacters": {"a": "\uffff\ufdd0"},
    "tensor-name": {"t": "F32"},
    "reserved-key": {"__metadata__": "text"},
    "entry-fields": {"dtype": "F32", "shape": "[2]", "data_offsets": "[0,8]"},
    "words-of-json": {"null": "null", "true": "1", "0": "0"},
    "format": {"format": "pt"},
}


@accepts("WRT-01 WRT-10 MET-04", over=TEXTS)
def metadata_text(f: WriteBuilder, value: dict[str, str]) -> None:
    """The metadata must be stored without changing any character: $slug."""
    f.tensor("t")
    f.metadata(value)


@accepts("WRT-01 MET-10")
def metadata_of_a_thousand_keys(f: WriteBuilder) -> None:
    """The metadata has a thousand keys."""
    f.tensor("t")
    f.metadata({f"key {number}": f"value {number}" for number in range(1000)})


@rejects("WRT-10 MET-01", "WRT_BAD_METADATA", over=NO_TEXTS | {"list": ["a"], "map": {"a": "b"}})
def metadata_value_of_another_type(f: WriteBuilder, value: Any) -> None:
    """A metadata value is not a string ($slug), so readers would reject the file.

    If the writer converts the value to a string, reading does not return the same value.
    """
    f.tensor("t")
    f.metadata({"good": "text", "key": value})


@rejects("WRT-10 MET-01", "WRT_BAD_METADATA", over=NO_TEXTS)
def metadata_key_of_another_type(f: WriteBuilder, value: Any) -> None:
    """A metadata key is not a string ($slug)."""
    f.tensor("t")
    f.metadata({"good": "text", value: "text"})


@rejects(
    "WRT-10 MET-01",
    "WRT_BAD_METADATA",
    over={"list": ["key", "value"], "text": "key", "integer": 7, "true": True},
)
def metadata_is_no_map(f: WriteBuilder, value: Any) -> None:
    """The metadata is not a map but $slug."""
    f.tensor("t")
    f.metadata(value)


METADATA_WITH_LONE_SURROGATE = {
    "value": {"key": "a\ud800"},
    "value-swapped": {"key": "\udc00\ud800"},
    "key": {"a\ud800": "text"},
    "low-in-key": {"\udfff": "text"},
}


@rejects("WRT-10", "WRT_BAD_METADATA", importance="high", over=METADATA_WITH_LONE_SURROGATE)
def metadata_with_lone_surrogate(f: WriteBuilder, value: dict[str, str]) -> None:
    """The metadata contains half a surrogate pair ($slug), which UTF-8 cannot encode."""
    f.tensor("t")
    f.metadata(value)


TWICE: dict[str, tuple[tuple[str, list[int]], ...]] = {
    "apart": (("F32", [2]), ("I64", []), ("F32", [2])),
    "with-other-dtypes": (("BF16", [2, 3]), ("U8", [5])),
}


@rejects("HDR-09 WRT-01", "HDR_DUP_KEY WRT_BAD_NAME", importance="medium", over=TWICE)
def one_name_twice_in_a_list(f: WriteBuilder, value: tuple[tuple[str, list[int]], ...]) -> None:
    """Two tensors in a list have the same name, and the file has metadata: $slug."""
    for place, (code, shape) in enumerate(value):
        f.tensor("b" if place == 1 and len(value) > 2 else "layers.0.weight", code, shape)
    f.metadata({"format": "pt"})
