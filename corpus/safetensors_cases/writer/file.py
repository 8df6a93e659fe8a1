"""Writer: the layout of the file, and how a save replaces an existing file."""

from __future__ import annotations

from safetensors_corpus.author.case import accepts, chooses, rejects
from safetensors_corpus.author.write import WriteBuilder
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
    issue="https://github.com/safetensors/safetensors/issues/762",
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


@rejects("WRT-19", codes="IO_ERROR", importance="high")
def disk_full(f: WriteBuilder) -> None:
    """The disk becomes full during a save, and the target must not be a partial file."""
    too_much(f)
    f.properties = ["target-unchanged"]


@rejects("WRT-19", codes="IO_ERROR", level="should")
def disk_full_leaves_nothing(f: WriteBuilder) -> None:
    """The disk becomes full during a save, and the writer must remove its temporary file."""
    too_much(f)
    f.properties = ["one-file"]


@rejects("WRT-19 WRT-14", codes="IO_ERROR", importance="high", bugs="FB-77")
def disk_full_over_an_old_file(f: WriteBuilder) -> None:
    """The disk becomes full while an old file is being replaced, and the old file must stay unchanged."""
    _over(f, "file")
    too_much(f)
    f.properties = ["target-unchanged"]


@rejects("WRT-19 WRT-14", codes="IO_ERROR", importance="high")
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
