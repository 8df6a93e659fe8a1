"""Lifecycle: a file that somebody changes, replaces, deletes or cuts while it is open.

Where a file is mapped, the rest of its last memory page reads as zeros and everything behind ends the
process, so each cut is made in a file within one page and in one of many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...author.case import ACCEPT, accepts, chooses, reject
from ...author.file import FileBuilder
from ...author.lifecycle import LifecycleBuilder

if TYPE_CHECKING:
    from ...author.case import Accept, Reject

ERROR = reject("API_TRUNCATED", "IO_ERROR")
ELSEWHERE: dict[str, Accept | Reject] = {"tensor": ACCEPT, "error": ERROR}
OLD_NEW: dict[str, Accept | Reject] = {"old": ACCEPT, "new": ACCEPT, "error": ERROR}
INVALID = reject(
    "API_NO_SUCH_TENSOR",
    "FRM_TOO_SHORT",
    "FRM_HEADER_EMPTY",
    "HDR_BAD_START",
    "HDR_NOT_JSON",
    "OFF_OUT_OF_BOUNDS",
)
OLD_ONLY: dict[str, Accept | Reject] = {"old": ACCEPT, "new": INVALID, "error": ERROR}
A = b"\x11" * 8
B = b"\x22" * 8
NEW = b"\x33" * 8
PART = 64 * 1024
"""Bytes of each tensor of the file of many pages: more than any usual page."""
CUT: dict[str, Accept | Reject] = {"error": reject("API_TRUNCATED"), "old": ACCEPT}
CUT_ELSEWHERE: dict[str, Accept | Reject] = {"tensor": ACCEPT, "error": reject("API_TRUNCATED")}
REPORT = "https://github.com/NVIDIA/TensorRT-LLM/issues/17368"


def pair(f: FileBuilder, first: bytes = A, second: bytes = B, names: str = "ab") -> bytes:
    """Two tensors of eight bytes; return the file."""
    f.tensor(names[0], "F32", [2], first)
    f.tensor(names[1], "F32", [2], second)
    return f.render()


def data_start(file: bytes) -> int:
    """Return where the data begin."""
    return 8 + int.from_bytes(file[:8], "little")


@chooses(
    "changed-elsewhere-after-open",
    options=ELSEWHERE,
    over={"a-byte": b"\0", "a-page": bytes(4096), "what-a-tensor-has": B},
)
def appended(f: LifecycleBuilder, data: bytes) -> None:
    """Bytes are added behind the end of the open file ($slug).

    A reader that counts from the end, or lets the last tensor reach to the end, now gives other bytes.
    """
    pair(f)
    f.opened()
    f.appended(data)
    f.asked("b")


@chooses("changed-elsewhere-after-open", options=ELSEWHERE)
def other_tensor_rewritten(f: LifecycleBuilder) -> None:
    """The bytes of another tensor are overwritten."""
    file = pair(f)
    f.opened()
    f.rewritten(NEW, data_start(file))
    f.asked("b")


@chooses("changed-elsewhere-after-open", options=ELSEWHERE)
def rewritten_with_the_same_bytes(f: LifecycleBuilder) -> None:
    """The whole file is overwritten with the bytes that it has."""
    file = pair(f)
    f.opened()
    f.rewritten(file, 0)
    f.asked("b")


REWRITES = {"whole": (NEW, 0), "first-byte": (b"\x33", 0), "last-byte": (b"\x33", 7)}


@chooses("data-rewritten-after-open", options=OLD_NEW, over=REWRITES)
def data_rewritten(f: LifecycleBuilder, value: tuple[bytes, int]) -> None:
    """The bytes of the tensor that is asked for are overwritten: $slug."""
    new, at = value
    file = pair(f)
    f.opened()
    f.rewritten(new, data_start(file) + 8 + at)
    f.asked("b")
    f.gives(B[:at] + new + B[at + len(new) :], "new")


@chooses("data-rewritten-after-open", options=OLD_NEW)
def data_rewritten_after_another_tensor(f: LifecycleBuilder) -> None:
    """One tensor was taken already when the bytes of the next are overwritten."""
    file = pair(f)
    f.opened()
    f.asked("a")
    f.rewritten(NEW, data_start(file) + 8)
    f.asked("b")
    f.gives(NEW, "new")


@chooses("header-rewritten-after-open", options=OLD_NEW)
def header_with_offsets_exchanged(f: LifecycleBuilder) -> None:
    """A new header of the same length gives each of two tensors the range of the other."""
    file = pair(f)
    other = FileBuilder()
    other.tensor("b", "F32", [2], A, at=0)
    other.tensor("a", "F32", [2], B, at=0)
    f.opened()
    f.rewritten(other.render()[: data_start(file)], 0)
    f.asked("b")
    f.gives(A, "new")


@chooses("header-rewritten-after-open", options=OLD_NEW)
def header_with_another_dtype(f: LifecycleBuilder) -> None:
    """A new header of the same length gives the tensor another dtype of the same width."""
    file = pair(f)
    f.opened()
    f.rewritten(file[: data_start(file)].replace(b"F32", b"I32"), 0)
    f.asked("b")
    f.gives(B, "new", dtype="I32")


@chooses("header-rewritten-after-open", options=OLD_ONLY, over={"nul": b"\0", "letters": b"x", "brace": b"{"})
def header_destroyed(f: LifecycleBuilder, fill: bytes) -> None:
    """The header is overwritten with bytes that are no header ($slug)."""
    file = pair(f)
    f.opened()
    f.rewritten(fill * (data_start(file) - 8), 8)
    f.asked("b")


@chooses("header-rewritten-after-open", options=OLD_ONLY, importance="high")
def header_pointing_outside(f: LifecycleBuilder) -> None:
    """A new header of the same length puts the tensor behind the end of the file."""
    file = pair(f)
    f.opened()
    f.rewritten(file[: data_start(file)].replace(b"[8,16]", b"[8,99]"), 0)
    f.asked("b")


def of_four(f: FileBuilder) -> bytes:
    """A shorter file: ``b`` has four bytes and comes first."""
    f.tensor("b", "U8", [4], b"\x33" * 4)
    return f.render()


@chooses("replaced-after-open", options=OLD_NEW, importance="high")
def replaced_by_other_values(f: LifecycleBuilder) -> None:
    """Another file of the same layout is renamed over the open one."""
    pair(f)
    f.opened()
    f.replaced(pair(FileBuilder(), NEW, NEW))
    f.asked("b")
    f.gives(NEW, "new")


@chooses("replaced-after-open", options=OLD_NEW, importance="high")
def replaced_by_another_order(f: LifecycleBuilder) -> None:
    """The new file has the tensors in the other order: old offsets in it give the wrong tensor."""
    pair(f)
    f.opened()
    f.replaced(pair(FileBuilder(), NEW, b"\x44" * 8, "ba"))
    f.asked("b")
    f.gives(NEW, "new")


@chooses("replaced-after-open", options=OLD_NEW, importance="high")
def replaced_by_a_shorter_file(f: LifecycleBuilder) -> None:
    """The new file is shorter, and its tensor has another dtype and shape."""
    pair(f)
    f.opened()
    f.replaced(of_four(FileBuilder()))
    f.asked("b")
    f.gives(b"\x33" * 4, "new", dtype="U8", shape=[4])


@chooses("replaced-after-open", options=OLD_NEW)
def replaced_by_a_longer_header(f: LifecycleBuilder) -> None:
    """The new file holds the same tensors behind a longer header: old offsets in it lead into the text."""
    pair(f)
    other = FileBuilder()
    other.metadata({"key": "v" * 64})
    f.opened()
    f.replaced(pair(other, NEW, NEW))
    f.asked("b")
    f.gives(NEW, "new")


OTHERS = {
    "without-the-tensor": lambda: pair(FileBuilder(), NEW, NEW, "cd"),
    "that-is-empty": lambda: b"",
    "of-zeros": lambda: bytes(200),
}


@chooses("replaced-after-open", options=OLD_ONLY, importance="high", over=OTHERS)
def replaced_by_a_file(f: LifecycleBuilder, make: object) -> None:
    """A file $slug is renamed over the open one."""
    pair(f)
    f.opened()
    assert callable(make)
    f.replaced(make())
    f.asked("b")


@accepts("DAT-06", "API-12", importance="high")
def opened_again_after_replacing(f: LifecycleBuilder) -> None:
    """The file is closed, replaced and opened again: now the new content counts.

    Headers or data remembered by path are out of date.
    """
    pair(f)
    f.opened()
    f.asked("b")
    f.closed()
    f.replaced(of_four(FileBuilder()))
    f.opened()
    f.asked("b")
    f.gives(b"\x33" * 4, dtype="U8", shape=[4])


@accepts("DAT-06", "API-12", importance="high")
def opened_again_after_rewriting(f: LifecycleBuilder) -> None:
    """The file is closed, its data are overwritten, and it is opened again: now the new bytes count."""
    file = pair(f)
    f.opened()
    f.asked("b")
    f.closed()
    f.rewritten(NEW, data_start(file) + 8)
    f.opened()
    f.asked("b")
    f.gives(NEW)


@chooses("unlinked-after-open", options=ELSEWHERE, over={"before-reading": "", "between-two": "a"})
def unlinked(f: LifecycleBuilder, before: str) -> None:
    """The open file is deleted ($slug)."""
    pair(f)
    f.opened()
    for name in before:
        f.asked(name)
    f.unlinked()
    f.asked("b")


@accepts("DAT-06", "API-12", over={"deleted": False, "replaced": True})
def taken_before_the_file_was(f: LifecycleBuilder, replaced: bool) -> None:
    """A tensor is taken, then the file is $slug, then the tensor is looked at."""
    pair(f)
    f.opened()
    f.asked("b")
    if replaced:
        f.replaced(pair(FileBuilder(), NEW, NEW))
    else:
        f.unlinked()


@chooses(
    "rewritten-after-taken",
    "DAT-07",
    options={"old": ACCEPT, "new": ACCEPT},
    over={"small": 8, "large": 64 * 1024},
)
def data_rewritten_after_the_tensor_was_taken(f: LifecycleBuilder, size: int) -> None:
    """The bytes of a tensor are overwritten after it was handed out ($slug)."""
    f.tensor("b", "U8", [size], b"\x22" * size)
    f.opened()
    f.asked("b")
    f.rewritten(b"\x33" * size, data_start(f.render()))
    f.gives(b"\x33" * size, "new")


def small(f: LifecycleBuilder) -> int:
    """Two tensors within one memory page; return the size of the file."""
    f.tensor("a", "U8", [16])
    f.tensor("b", "U8", [16])
    return len(f.render())


def large(f: LifecycleBuilder) -> int:
    """Two tensors of many memory pages; return the size of the file."""
    f.tensor("a", "U8", [PART], b"\x5a" * PART)
    f.tensor("b", "U8", [PART], b"\xa5" * PART)
    return len(f.render())


FILES = {"small": small, "large": large}


PLACES = {
    "last-byte": 1,
    "half-of-the-tensor": 2,
    "the-tensor": 3,
    "all-data": 4,
    "part-of-the-header": 5,
    "everything": 6,
}


def cut_size(f: LifecycleBuilder, place: int) -> int:
    """Return the size that the file is cut to."""
    size, data = len(f.render()), f.position
    return [size - 1, size - data // 4, size - data // 2, size - data, 20, 0][place - 1]


CUTS = {f"{place}-{file}": (file, number) for file in FILES for place, number in PLACES.items()}


@chooses(
    "truncated-after-open",
    options=CUT,
    level="should",
    importance="critical",
    issue=REPORT,
    bugs={"everything-large": ("FB-111",), "the-tensor-large": ("FB-111",)},
    over=CUTS,
)
def cut(f: LifecycleBuilder, value: tuple[str, int]) -> None:
    """After opening the file is cut, and the last tensor is asked for: $slug is gone."""
    FILES[value[0]](f)
    f.opened()
    f.truncated(cut_size(f, value[1]))
    f.asked("b")


@chooses(
    "truncated-after-open",
    options=CUT,
    level="should",
    importance="high",
    over={"small": small, "large": large},
)
def cut_between_two_tensors(f: LifecycleBuilder, make: object) -> None:
    """The file is cut after one tensor was taken from it and before the next ($slug)."""
    FILES["small" if make is small else "large"](f)
    f.opened()
    f.asked("a")
    f.truncated(cut_size(f, 3))
    f.asked("b")


@chooses(
    "changed-elsewhere-after-open", "API-11", options=CUT_ELSEWHERE, over={"small": "small", "large": "large"}
)
def cut_behind_the_tensor(f: LifecycleBuilder, file: str) -> None:
    """The file is cut behind the tensor that is asked for ($slug); all of its bytes are there."""
    FILES[file](f)
    f.opened()
    f.truncated(cut_size(f, 3))
    f.asked("a")


@chooses("changed-elsewhere-after-open", "API-11", options=CUT_ELSEWHERE)
def cut_and_restored(f: LifecycleBuilder) -> None:
    """The file is cut, and the bytes are put back before they are asked for."""
    small(f)
    f.opened()
    whole = f.render()
    f.truncated(cut_size(f, 3))
    f.appended(whole[cut_size(f, 3) :])
    f.asked("b")


@accepts("API-11", "DAT-07", importance="critical", over=CUTS, issue=REPORT)
def cut_after_the_tensor_was_taken(f: LifecycleBuilder, value: tuple[str, int]) -> None:
    """The file is cut after the tensor was handed out and before it is looked at: $slug is gone."""
    FILES[value[0]](f)
    f.opened()
    f.asked("b")
    f.truncated(cut_size(f, value[1]))
