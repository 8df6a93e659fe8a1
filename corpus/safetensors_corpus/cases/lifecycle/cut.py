"""Lifecycle: a file that somebody cuts while it is open.

Where a file is mapped, the rest of its last memory page reads as zeros and everything behind ends the
process, so each cut is made in a file within one page and in one of many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...author.case import ACCEPT, accepts, chooses, reject
from ...author.lifecycle import LifecycleBuilder

if TYPE_CHECKING:
    from ...author.case import Accept, Reject

PART = 64 * 1024
"""Bytes of each tensor of the file of many pages: more than any usual page."""
CUT: dict[str, Accept | Reject] = {"error": reject("API_TRUNCATED"), "old": ACCEPT}
ELSEWHERE: dict[str, Accept | Reject] = {"tensor": ACCEPT, "error": reject("API_TRUNCATED")}
REPORT = "https://github.com/NVIDIA/TensorRT-LLM/issues/17368"


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
    "changed-elsewhere-after-open", "API-11", options=ELSEWHERE, over={"small": "small", "large": "large"}
)
def cut_behind_the_tensor(f: LifecycleBuilder, file: str) -> None:
    """The file is cut behind the tensor that is asked for ($slug); all of its bytes are there."""
    FILES[file](f)
    f.opened()
    f.truncated(cut_size(f, 3))
    f.asked("a")


@chooses("changed-elsewhere-after-open", "API-11", options=ELSEWHERE)
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
