"""Lifecycle: a reader opens a file before its writer has finished, or another program truncates the file."""

from __future__ import annotations

from safetensors_corpus.author.actions import LifecycleBuilder
from safetensors_corpus.author.case import accepts, chooses, rejects
from safetensors_corpus.author.file import FileBuilder

from .open_files import ERROR, A, data_start, exchanged, of_four, open_pair, pair

PART = 64 * 1024
"""Size in bytes of each tensor in the file that spans many pages. It is larger than a typical memory page."""
REPORT = "NVIDIA/TensorRT-LLM#17368"
STAGES = ("nothing", "part-of-the-length", "part-of-the-header", "header", "part-of-the-data")


def unfinished(f: LifecycleBuilder, stage: str) -> bytes:
    """Write the beginning of a file with two tensors, and return the rest."""
    file = pair(f)
    start = data_start(file)
    size = (0, 5, start // 2, start, start + 12)[STAGES.index(stage)]
    f.truncate(size)
    return file[size:]


@accepts("DAT-06 API-12", importance="high", over=STAGES)
def opened_before_it_is_finished(f: LifecycleBuilder, stage: str) -> None:
    """The file is opened after only part of it is written ($slug), then finished and reopened.

    An earlier failure to open the file must not affect the complete file.
    """
    rest = unfinished(f, stage)
    f.try_open()
    f.append(rest)
    f.open()
    f.read("b")


@accepts("DAT-06 API-12", importance="high")
def opened_at_every_stage_of_writing(f: LifecycleBuilder) -> None:
    """The file grows in ten pieces, and is opened before each piece and when it is complete."""
    rest = unfinished(f, "nothing")
    step = -(-len(rest) // 10)
    for at in range(0, len(rest), step):
        f.try_open()
        f.append(rest[at : at + step])
    f.open()
    f.read("b")


@rejects("OFF-04", "OFF_OUT_OF_BOUNDS API_TRUNCATED", importance="high", over=("header", "part-of-the-data"))
def taken_before_it_is_finished(f: LifecycleBuilder, stage: str) -> None:
    """The first tensor of a partly written file is requested; written so far: $slug.

    Even if that tensor is complete, the file is not. The reader must reject the file when it is opened or
    when the tensor is requested.
    """
    unfinished(f, stage)
    f.open()
    f.read("a")


@accepts("DAT-06 API-12", importance="high")
def renamed_into_place(f: LifecycleBuilder) -> None:
    """An unfinished file is opened, and then a complete file is renamed into its place and opened."""
    unfinished(f, "part-of-the-data")
    f.try_open()
    f.replace(of_four(FileBuilder()))
    f.open()
    f.read("b")
    f.expect(b"\x33" * 4, dtype="U8", shape=[4])


@accepts("DAT-06 API-12")
def deleted_and_renamed_into_place(f: LifecycleBuilder) -> None:
    """The file is opened while it is unfinished, after it is deleted, and after it is back in place."""
    file = pair(f)
    f.truncate(len(file) - 1)
    f.try_open()
    f.unlink()
    f.try_open()
    f.replace(file)
    f.open()
    f.read("b")


@accepts("DAT-06 API-12", importance="high")
def truncated_and_written_anew(f: LifecycleBuilder) -> None:
    """A file is read, closed, emptied, rewritten with another tensor and opened again."""
    open_pair(f)
    f.read("b")
    f.close()
    f.truncate(0)
    f.try_open()
    f.append(of_four(FileBuilder()))
    f.open()
    f.read("b")
    f.expect(b"\x33" * 4, dtype="U8", shape=[4])


@chooses("header-rewritten-after-open", codes=ERROR, importance="high")
def truncated_and_written_anew_while_open(f: LifecycleBuilder) -> None:
    """The open file is emptied and rewritten with a header that swaps the ranges of the tensors."""
    file = open_pair(f)
    f.truncate(0)
    f.append(exchanged())
    assert len(exchanged()) == len(file)
    f.read("b")
    f.expect(A, "new")


BOTH = ("small", "large")
PLACES = ("last-byte", "half-of-the-tensor", "the-tensor", "all-data", "part-of-the-header", "everything")


def open_two(f: LifecycleBuilder, file: str) -> None:
    """Open a file with two tensors that share a memory page (``small``) or span many pages (``large``)."""
    large = file == "large"
    for name, fill in (("a", b"\x5a"), ("b", b"\xa5")):
        f.tensor(name, "U8", [PART if large else 16], fill * PART if large else None)
    f.open()


def cut_size(f: LifecycleBuilder, place: str = "the-tensor") -> int:
    size, data = len(f.render()), f.position
    sizes = (size - 1, size - data // 4, size - data // 2, size - data, 20, 0)
    return sizes[PLACES.index(place)]


CUTS = {f"{place}-{file}": (file, place) for file in BOTH for place in PLACES}


@chooses(
    "truncated-after-open",
    codes="API_TRUNCATED",
    level="should",
    importance="critical",
    issue=REPORT,
    bugs={"everything-large": "FB-111", "the-tensor-large": "FB-111"},
    over=CUTS,
)
def cut(f: LifecycleBuilder, file: str, place: str) -> None:
    """The open file is truncated, and the last tensor is requested; missing part: $slug."""
    open_two(f, file)
    f.truncate(cut_size(f, place))
    f.read("b")


@chooses("truncated-after-open", codes="API_TRUNCATED", level="should", importance="high", over=BOTH)
def cut_between_two_tensors(f: LifecycleBuilder, file: str) -> None:
    """The file ($slug) is truncated after one tensor was read and before the next is requested."""
    open_two(f, file)
    f.read("a")
    f.truncate(cut_size(f))
    f.read("b")


@chooses("changed-elsewhere-after-open", "API-11", codes="API_TRUNCATED", over=BOTH)
def cut_behind_the_tensor(f: LifecycleBuilder, file: str) -> None:
    """The file ($slug) is truncated after the end of the requested tensor, which stays complete."""
    open_two(f, file)
    f.truncate(cut_size(f))
    f.read("a")


@chooses("changed-elsewhere-after-open", "API-11", codes="API_TRUNCATED")
def cut_and_restored(f: LifecycleBuilder) -> None:
    """The file is truncated, and the bytes are restored before the tensor is requested."""
    open_two(f, "small")
    whole = f.render()
    f.truncate(cut_size(f))
    f.append(whole[cut_size(f) :])
    f.read("b")


@accepts("API-11 DAT-07", importance="critical", over=CUTS, issue=REPORT)
def cut_after_the_tensor_was_taken(f: LifecycleBuilder, file: str, place: str) -> None:
    """The file is truncated after a tensor was returned and before it is checked; missing part: $slug."""
    open_two(f, file)
    f.read("b")
    f.truncate(cut_size(f, place))
