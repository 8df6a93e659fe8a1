"""Lifecycle: an open file stays unchanged, or another program changes, replaces, deletes or truncates it.

Tensors must stay valid after the file is closed or changed. In a mapped file, the rest of the last memory
page reads as zeros, and any access beyond it kills the process. Each truncation is therefore tested both in a
file that fits into one page and in a longer file.
"""

from __future__ import annotations

from safetensors_corpus.author.actions import LifecycleBuilder
from safetensors_corpus.author.case import ACCEPT, Options, accepts, chooses, reject, rejects
from safetensors_corpus.author.file import FileBuilder, pattern

ERROR = "API_TRUNCATED IO_ERROR"
INVALID = reject(
    "API_NO_SUCH_TENSOR FRM_TOO_SHORT FRM_HEADER_EMPTY HDR_BAD_START HDR_NOT_JSON OFF_OUT_OF_BOUNDS",
)
OLD_ONLY: Options = {"old": ACCEPT, "new": INVALID, "error": reject(ERROR)}
A = b"\x11" * 8
B = b"\x22" * 8
NEW = b"\x33" * 8


def open_three(f: LifecycleBuilder, metadata: dict[str, str] | None = None) -> None:
    f.tensor("a", "F32", [2])
    f.tensor("b", "I16", [3])
    f.tensor("c", "U8", [5])
    if metadata is not None:
        f.metadata(metadata)
    f.open()


@accepts("DAT-06 API-02", smoke=True, over={"first": "a", "middle": "b", "last": "c"})
def one_tensor(f: LifecycleBuilder, name: str) -> None:
    """The reader opens the file, reads the $slug tensor and closes the file."""
    open_three(f)
    f.read(name)
    f.close()


@accepts("DAT-06", over={"twice": "aa", "forwards": "ab", "backwards": "cba", "back-to-the-first": "aca"})
def several_tensors(f: LifecycleBuilder, names: str) -> None:
    """Tensors are read one after the other ($slug), and earlier reads do not affect later ones."""
    open_three(f)
    f.read(*names)


@accepts("DAT-06 API-16")
def opened_twice(f: LifecycleBuilder) -> None:
    """The file is opened while it is already open, and the second handle works like the first."""
    open_three(f)
    f.read("a")
    f.open()
    f.read("b")


@accepts("DAT-06 API-10")
def opened_again_after_closing(f: LifecycleBuilder) -> None:
    """The file is closed and opened again. Closing the first handle must not affect the second one."""
    open_three(f)
    f.read("a")
    f.close()
    f.open()
    f.read("a")


@accepts("DAT-06 API-10", importance="high", bugs="FB-125")
def tensor_kept_after_closing(f: LifecycleBuilder) -> None:
    """A tensor is read, the file is closed, and only then is the tensor checked.

    If closing the file releases the memory, the tensor contains whatever was allocated there since, or the
    process crashes. The tensor fills whole memory pages, which disappear when the file is unmapped. A reader
    might copy a smaller tensor instead of mapping it.
    """
    f.tensor("a", "F32", [2])
    f.tensor("b", "F32", [8192])
    f.tensor("c", "U8", [5])
    f.open()
    f.read("b")
    f.close()


@accepts("DAT-06 API-10", importance="high", bugs="FB-125")
def tensor_kept_after_closing_and_deleting(f: LifecycleBuilder) -> None:
    """A tensor is read, the file is closed and deleted, and only then is the tensor checked."""
    open_three(f)
    f.read("b")
    f.close()
    f.unlink()


@accepts("DAT-06 API-10", importance="high")
def tensor_kept_after_closing_and_replacing(f: LifecycleBuilder) -> None:
    """A tensor is read, the file is closed and replaced, and only then is the tensor checked."""
    open_three(f)
    f.read("b")
    f.close()
    f.replace(bytes(len(f.render())))


@rejects("API-10", "API_CLOSED")
def use_after_closing(f: LifecycleBuilder) -> None:
    """A tensor is requested after the file has been closed."""
    open_three(f)
    f.close()
    f.read("a")


@rejects("API-10", "API_CLOSED", importance="medium", over={"the-same": "a", "another": "c"})
def use_after_reading_and_closing(f: LifecycleBuilder, name: str) -> None:
    """One tensor is read, the file is closed, and then $slug is requested.

    A handle that caches tensors must not return them after it is closed.
    """
    open_three(f)
    f.read("a")
    f.close()
    f.read(name)


UNKNOWN = {
    "no-such": "d",
    "empty": "",
    "reserved": "__metadata__",
    "in-capitals": "A",
    "with-nul": "a\0",
    "with-space": "a ",
    "longer": "aa",
    "list-of-names": "a,b",
}


@rejects("API-02", "API_NO_SUCH_TENSOR", importance="high", over=UNKNOWN)
def unknown_name(f: LifecycleBuilder, name: str) -> None:
    """The request uses a name that the file does not contain: $slug."""
    open_three(f)
    f.read(name)


@rejects("API-02", "API_NO_SUCH_TENSOR", over={"reserved": "__metadata__", "its-key": "key"})
def unknown_name_beside_metadata(f: LifecycleBuilder, name: str) -> None:
    """The file has metadata, which is requested as a tensor ($slug)."""
    open_three(f, {"key": "value"})
    f.read(name)


@rejects("API-02", "API_NO_SUCH_TENSOR", over={"before-nul": "ab", "shorter": "weigh", "number": "0"})
def unknown_name_beside_similar_ones(f: LifecycleBuilder, name: str) -> None:
    """The requested name is a prefix of a name in the file, or the number of a tensor: $slug."""
    f.tensor("ab\0c", "U8", [2])
    f.tensor("weight", "U8", [2])
    f.open()
    f.read(name)


def pair(f: FileBuilder, first: bytes = A, second: bytes = B, names: str = "ab") -> bytes:
    f.tensor(names[0], "F32", [2], first)
    f.tensor(names[1], "F32", [2], second)
    return f.render()


def open_pair(f: LifecycleBuilder) -> bytes:
    file = pair(f)
    f.open()
    return file


def exchanged() -> bytes:
    """Return the file of ``pair``, except that the header swaps the ranges of the tensors."""
    other = FileBuilder()
    other.tensor("b", "F32", [2], A, at=0)
    other.tensor("a", "F32", [2], B, at=0)
    return other.render()


def data_start(file: bytes) -> int:
    return 8 + int.from_bytes(file[:8], "little")


@chooses(
    "changed-elsewhere-after-open",
    codes=ERROR,
    over={"a-byte": b"\0", "a-page": bytes(4096), "what-a-tensor-has": B},
)
def appended(f: LifecycleBuilder, data: bytes) -> None:
    """Bytes are appended to the open file ($slug).

    A reader that counts from the end of the file, or extends the last tensor to the end, now returns other
    bytes.
    """
    open_pair(f)
    f.append(data)
    f.read("b")


@chooses("changed-elsewhere-after-open", codes=ERROR)
def other_tensor_rewritten(f: LifecycleBuilder) -> None:
    """The bytes of a tensor other than the requested tensor are overwritten."""
    file = open_pair(f)
    f.rewrite(NEW, data_start(file))
    f.read("b")


@chooses("changed-elsewhere-after-open", codes=ERROR)
def rewritten_with_the_same_bytes(f: LifecycleBuilder) -> None:
    """The whole file is overwritten with the same bytes."""
    file = open_pair(f)
    f.rewrite(file, 0)
    f.read("b")


REWRITES = {"whole": (NEW, 0), "first-byte": (b"\x33", 0), "last-byte": (b"\x33", 7)}


@chooses("data-rewritten-after-open", codes=ERROR, over=REWRITES)
def data_rewritten(f: LifecycleBuilder, new: bytes, at: int) -> None:
    """The bytes of the requested tensor are overwritten: $slug."""
    file = open_pair(f)
    f.rewrite(new, data_start(file) + 8 + at)
    f.read("b")
    f.expect(B[:at] + new + B[at + len(new) :], "new")


@chooses("data-rewritten-after-open", codes=ERROR)
def data_rewritten_after_another_tensor(f: LifecycleBuilder) -> None:
    """The bytes of a tensor are overwritten after another tensor has been read."""
    file = open_pair(f)
    f.read("a")
    f.rewrite(NEW, data_start(file) + 8)
    f.read("b")
    f.expect(NEW, "new")


@chooses("header-rewritten-after-open", codes=ERROR)
def header_with_offsets_exchanged(f: LifecycleBuilder) -> None:
    """The header is overwritten with one of the same length that swaps the ranges of two tensors."""
    file = open_pair(f)
    f.rewrite(exchanged()[: data_start(file)], 0)
    f.read("b")
    f.expect(A, "new")


@chooses("header-rewritten-after-open", codes=ERROR)
def header_with_another_dtype(f: LifecycleBuilder) -> None:
    """The header is overwritten with one of the same length that has a different dtype of the same width."""
    file = open_pair(f)
    f.rewrite(file[: data_start(file)].replace(b"F32", b"I32"), 0)
    f.read("b")
    f.expect(B, "new", dtype="I32")


@chooses("header-rewritten-after-open", options=OLD_ONLY, over={"nul": b"\0", "letters": b"x", "brace": b"{"})
def header_destroyed(f: LifecycleBuilder, fill: bytes) -> None:
    """The header is overwritten with bytes that do not form a header ($slug)."""
    file = open_pair(f)
    f.rewrite(fill * (data_start(file) - 8), 8)
    f.read("b")


@chooses("header-rewritten-after-open", options=OLD_ONLY, importance="high")
def header_pointing_outside(f: LifecycleBuilder) -> None:
    """The header is overwritten with one of the same length that has a range past the end of the file."""
    file = open_pair(f)
    f.rewrite(file[: data_start(file)].replace(b"[8,16]", b"[8,99]"), 0)
    f.read("b")


def of_four(f: FileBuilder) -> bytes:
    """Add a single tensor ``b`` of four bytes, and return the file."""
    f.tensor("b", "U8", [4], b"\x33" * 4)
    return f.render()


@chooses("replaced-after-open", codes=ERROR, importance="high")
def replaced_by_other_values(f: LifecycleBuilder) -> None:
    """Another file of the same layout is renamed over the open file."""
    open_pair(f)
    f.replace(pair(FileBuilder(), NEW, NEW))
    f.read("b")
    f.expect(NEW, "new")


@chooses("replaced-after-open", codes=ERROR, importance="high")
def replaced_by_another_order(f: LifecycleBuilder) -> None:
    """The new file has its tensors in the opposite order, so the old offsets point to the wrong tensor."""
    open_pair(f)
    f.replace(pair(FileBuilder(), NEW, b"\x44" * 8, "ba"))
    f.read("b")
    f.expect(NEW, "new")


@chooses("replaced-after-open", codes=ERROR, importance="high")
def replaced_by_a_shorter_file(f: LifecycleBuilder) -> None:
    """The new file is shorter, and its tensor has a different dtype and shape."""
    open_pair(f)
    f.replace(of_four(FileBuilder()))
    f.read("b")
    f.expect(b"\x33" * 4, "new", dtype="U8", shape=[4])


@chooses("replaced-after-open", codes=ERROR)
def replaced_by_a_longer_header(f: LifecycleBuilder) -> None:
    """The new file has a longer header before the same tensors, so the old offsets point into the header."""
    open_pair(f)
    other = FileBuilder()
    other.metadata({"key": "v" * 64})
    f.replace(pair(other, NEW, NEW))
    f.read("b")
    f.expect(NEW, "new")


OTHERS = {
    "without-the-tensor": pair(FileBuilder(), NEW, NEW, "cd"),
    "that-is-empty": b"",
    "of-zeros": bytes(200),
}


@chooses("replaced-after-open", options=OLD_ONLY, importance="high", over=OTHERS)
def replaced_by_a_file(f: LifecycleBuilder, other: bytes) -> None:
    """A file $slug is renamed over the open file."""
    open_pair(f)
    f.replace(other)
    f.read("b")


@accepts("DAT-06 API-12", importance="high")
def opened_again_after_replacing(f: LifecycleBuilder) -> None:
    """The file is closed, replaced and opened again, and the new content must be returned.

    Any header or data that a reader cached by path is out of date.
    """
    open_pair(f)
    f.read("b")
    f.close()
    f.replace(of_four(FileBuilder()))
    f.open()
    f.read("b")
    f.expect(b"\x33" * 4, dtype="U8", shape=[4])


@accepts("DAT-06 API-12", importance="high")
def opened_again_after_rewriting(f: LifecycleBuilder) -> None:
    """The file is closed, its data is overwritten, and reopening it must return the new bytes."""
    file = open_pair(f)
    f.read("b")
    f.close()
    f.rewrite(NEW, data_start(file) + 8)
    f.open()
    f.read("b")
    f.expect(NEW)


@chooses("unlinked-after-open", codes=ERROR, over={"before-reading": "", "between-two": "a"})
def unlinked(f: LifecycleBuilder, before: str) -> None:
    """The open file is deleted ($slug)."""
    open_pair(f)
    f.read(*before)
    f.unlink()
    f.read("b")


@accepts("DAT-06 API-12", over={"deleted": False, "replaced": True})
def taken_before_the_file_was(f: LifecycleBuilder, replaced: bool) -> None:
    """A tensor is read, then the file is $slug, and then the tensor is checked."""
    open_pair(f)
    f.read("b")
    if replaced:
        f.replace(pair(FileBuilder(), NEW, NEW))
    else:
        f.unlink()


@chooses("rewritten-after-taken", "DAT-07", over={"small": 8, "large": 64 * 1024})
def data_rewritten_after_the_tensor_was_taken(f: LifecycleBuilder, size: int) -> None:
    """The bytes of a tensor ($slug) are overwritten after it was returned."""
    f.tensor("b", "U8", [size], b"\x22" * size)
    f.open()
    f.read("b")
    f.rewrite(b"\x33" * size, data_start(f.render()))
    f.expect(b"\x33" * size, "new")


@rejects("API-10", "API_CLOSED")
def use_after_reading_all_and_closing(f: LifecycleBuilder) -> None:
    """All three tensors are read, the file is closed, and then the second tensor is requested again."""
    open_three(f, {"key": "value"})
    f.read(*"abc")
    f.close()
    f.read("b")


@rejects("API-10", "API_CLOSED")
def use_after_closing_for_the_second_time(f: LifecycleBuilder) -> None:
    """A file of one large tensor is opened, read and closed twice, and then the tensor is requested."""
    f.tensor("w", "F32", [8192])
    for _ in range(2):
        f.open()
        f.read("w")
        f.close()
    f.read("w")


@rejects(
    "API-02",
    "API_NO_SUCH_TENSOR",
    over={"empty-metadata": {}, "metadata-between-tensors": {"format": "pt", "w": "text"}},
)
def unknown_name_reserved_after_reading(f: LifecycleBuilder, metadata: dict[str, str]) -> None:
    """A tensor is read, and then the reserved key is requested as a tensor: $slug."""
    f.tensor("w", "BF16", [2, 3])
    f.metadata(metadata)
    if metadata:
        f.tensor("b", "F64", [])
    f.open()
    f.read("w", "__metadata__")


NUMBERS: dict[str, tuple[str, dict[str, str] | None]] = {
    "last-of-three": ("2", None),
    "first-with-metadata": ("0", {"0": "text"}),
}


@rejects("API-02", "API_NO_SUCH_TENSOR", over=NUMBERS)
def unknown_name_number(f: LifecycleBuilder, name: str, metadata: dict[str, str] | None) -> None:
    """The request uses the number of a tensor, which is not a name in the file: $slug."""
    open_three(f, metadata)
    f.read("b", name)


REPLACEMENTS: dict[str, tuple[str, dict[str, str] | None]] = {
    "in-another-order": ("cab", None),
    "with-metadata": ("abc", {"format": "pt"}),
}


@accepts("DAT-06 API-12", importance="high", over=REPLACEMENTS)
def opened_again_after_replacing_by_one(
    f: LifecycleBuilder, order: str, metadata: dict[str, str] | None
) -> None:
    """A file of three dtypes is read, closed, replaced by a file $slug and opened again.

    The reader must return the new content. The tensors keep their names, dtypes and shapes, but are at other
    positions or after a longer header.
    """
    open_three(f)
    f.read(*"abc")
    f.close()
    other = FileBuilder()
    for name in order:
        told = f.tensor_named(name)
        other.tensor(name, told.dtype, told.shape, pattern(f"new {name}", len(told.data)))
    if metadata is not None:
        other.metadata(metadata)
    f.replace(other.render())
    f.open()
    f.read(order[0])
    f.expect(other.tensor_named(order[0]).data)
