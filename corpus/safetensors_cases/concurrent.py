"""Concurrent: several threads or processes read one file at the same time.

Each reader must get the same bytes that it would get on its own. Known failures: readers share the position
in one open file (ooples/AiDotNet.Tensors#258), a second reader sees half-initialised state, a lock is never
released, or a forked process shares state with its parent unintentionally.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from safetensors_corpus.author.actions import ConcurrentBuilder
from safetensors_corpus.author.case import accepts, chooses

THREADS = "API-16 DAT-06"
PROCESSES = "API-20 DAT-06"
FORKED = "IO_ERROR API_CLOSED"
FORK = "opened-before-fork"
SEEK = "https://github.com/ooples/AiDotNet.Tensors/pull/258"
NAMES = "abcdefgh"
LARGE = 192 * 1024
"""Size of a large tensor in bytes. It spans many memory pages and needs more than one buffered read."""
FEW = {"two": 2, "eight": 8}


def small(f: ConcurrentBuilder, names: str = NAMES) -> None:
    for place, name in enumerate(names):
        f.tensor(name, ("F32", "I16", "U8")[place // 3], [place + 2])


def large(f: ConcurrentBuilder, names: str = "abcd") -> None:
    for place, name in enumerate(names):
        f.tensor(name, "U8", [LARGE], bytes([0x11 * (place + 1)]) * LARGE)


def readers(f: ConcurrentBuilder, *names: str) -> None:
    """Add a reader for each string. The reader reads the tensors named by its letters."""
    for letters in names:
        f.reader(*letters)


def rotated(f: ConcurrentBuilder, names: str, count: int) -> None:
    """Add ``count`` readers that read all tensors, each starting at a different one."""
    readers(f, *(names[place % len(names) :] + names[: place % len(names)] for place in range(count)))


def pages(f: ConcurrentBuilder) -> None:
    for place, name in enumerate("abcd"):
        f.tensor(name, "U8", [8192], bytes([0x11 * (place + 5)]) * 8192)


def forked(
    f: ConcurrentBuilder,
    tensors: Callable[[ConcurrentBuilder], None] = small,
    opened: Literal["once", "each"] = "once",
) -> None:
    """Add tensors that forked processes read from a file that they share or that each of them opens."""
    tensors(f)
    f.by, f.opened = "processes", opened


@accepts(THREADS, importance="high", over={**FEW, "thirty-two": 32, "forty": 40, "sixty-four": 64})
def threads_same_tensor(f: ConcurrentBuilder, count: int) -> None:
    """Threads ($slug) read the same tensor from a file that has just been opened.

    All threads race to create whatever the reader initialises on first use.
    """
    small(f)
    readers(f, *"c" * count)


@accepts(THREADS, importance="high", issue=SEEK, over=FEW)
def threads_another_tensor_each(f: ConcurrentBuilder, count: int) -> None:
    """Threads ($slug) each read a different tensor.

    If seeking and reading are separate steps, a thread may read from a position that another thread has set.
    """
    small(f)
    readers(f, *NAMES[:count])


@accepts(THREADS, importance="high", issue=SEEK)
def threads_large_tensors(f: ConcurrentBuilder) -> None:
    """Four threads each read a tensor that spans many memory pages and takes several read calls."""
    large(f)
    readers(f, *"abcd")


@accepts(THREADS)
def threads_large_tensor_beside_small_ones(f: ConcurrentBuilder) -> None:
    """One thread reads a large tensor while three threads read small tensors many times."""
    large(f, "a")
    small(f, "bcd")
    readers(f, "a", *(name * 50 for name in "bcd"))


@accepts(THREADS, over={"by-one": "a", "by-all": "h"})
def threads_after_a_tensor_was_taken(f: ConcurrentBuilder, first: str) -> None:
    """A tensor that was read before the threads started is requested again: $slug.

    A reader must not return a cached tensor when a different tensor is requested.
    """
    small(f)
    f.taken_before = (first,)
    for name in "abcd":
        f.reader(name if first == "a" else first, name)


@accepts(THREADS)
def threads_forwards_and_backwards(f: ConcurrentBuilder) -> None:
    """Two threads read all tensors in file order, and two in reverse order."""
    small(f)
    readers(f, *(NAMES, NAMES[::-1]) * 2)


@accepts(THREADS, over=FEW)
def threads_all_tensors_rotated(f: ConcurrentBuilder, count: int) -> None:
    """Threads ($slug) read all tensors, each starting at a different one."""
    small(f)
    rotated(f, NAMES, count)


@accepts(THREADS)
def threads_many_tensors(f: ConcurrentBuilder) -> None:
    """The file has 300 tensors, and each of four threads reads tensors from all parts of it.

    Building a lookup table from the header on first use takes long enough for threads to race.
    """
    names = [f"layer.{number}.weight" for number in range(300)]
    f.tensors(names, "U8", [2])
    for place in range(4):
        f.reader(*names[place::37])


@accepts(THREADS)
def threads_tensors_without_bytes_between(f: ConcurrentBuilder) -> None:
    """Some of the tensors are empty, so a reader does not need to read any bytes for them."""
    for name in "abcdef":
        f.tensor(name, "F32", [0 if name in "bde" else 3])
    rotated(f, "abcdef", 6)


@accepts(THREADS)
def threads_same_shape_and_dtype(f: ConcurrentBuilder) -> None:
    """All tensors have the same dtype and shape, and differ only in their bytes."""
    f.tensors(NAMES, "F32", [16])
    readers(f, *(name * 2 for name in NAMES))


@accepts(THREADS)
def threads_many_rounds(f: ConcurrentBuilder) -> None:
    """Four threads each read two tensors, a hundred times."""
    small(f)
    f.times = 100
    readers(f, "ab", "cd", "ef", "gh")


@accepts("API-16 DAT-06 API-02", importance="high", over={"one": 1, "two": 2, "all-but-one": 3})
def threads_unknown_name(f: ConcurrentBuilder, count: int) -> None:
    """A tensor name that the file does not contain is requested by $slug of four threads.

    The error must affect only that request. A reader that does not release its lock after the error blocks
    all other threads.
    """
    small(f)
    f.times = 4
    for _ in range(count):
        f.reader("no such tensor", unknown=True)
    readers(f, *NAMES[: 4 - count])


@accepts("API-10 DAT-06", importance="high", over={"small": small, "two-pages": pages, "large": large})
def threads_closed_meanwhile(f: ConcurrentBuilder, tensors: Callable[[ConcurrentBuilder], None]) -> None:
    """Three threads read tensors ($slug), and the file is closed during their second read.

    Reads after the close may fail, but any data that they return must be correct.
    """
    tensors(f)
    f.times = 3
    f.closed = 2
    readers(f, "ad", "bd", "ad")


@accepts("API-10 DAT-06", importance="high")
def threads_closed_in_the_last_of_many_rounds(f: ConcurrentBuilder) -> None:
    """Eight threads read small tensors six times, and the file is closed during the last round."""
    small(f)
    f.times = 6
    f.closed = 6
    rotated(f, NAMES, 8)


@accepts(THREADS, over={**FEW, "five": 5})
def threads_opening_each(f: ConcurrentBuilder, count: int) -> None:
    """Threads ($slug) open the file at the same time and each read all tensors."""
    small(f)
    f.opened = "each"
    rotated(f, NAMES, count)


@chooses(FORK, codes=FORKED, importance="high", over=FEW)
def forked_same_tensor(f: ConcurrentBuilder, count: int) -> None:
    """Processes ($slug) are forked while the file is open, and all of them read the same tensor.

    A library whose worker threads do not survive the fork may wait for them forever.
    """
    forked(f)
    readers(f, *"c" * count)


@chooses(FORK, codes=FORKED, importance="high", over=FEW)
def forked_another_tensor_each(f: ConcurrentBuilder, count: int) -> None:
    """Processes ($slug) are forked while the file is open, and each reads a different tensor.

    The processes share the read position of the open file.
    """
    forked(f)
    readers(f, *NAMES[:count])


@chooses(FORK, codes=FORKED, importance="high")
def forked_large_tensors(f: ConcurrentBuilder) -> None:
    """Four processes, forked while the file is open, each read a tensor that spans many memory pages."""
    forked(f, large)
    readers(f, *"abcd")


@chooses(FORK, codes=FORKED, importance="high", over={"the-same": "b", "another": "a"})
def forked_after_a_tensor_was_taken(f: ConcurrentBuilder, first: str) -> None:
    """One tensor is read before the fork, and the processes start by reading $slug.

    Each process might assume that the file position is still where the parent left it.
    """
    forked(f)
    f.taken_before = (first,)
    readers(f, *["bc"] * 4)


@chooses(FORK, codes=FORKED)
def forked_all_tensors_rotated(f: ConcurrentBuilder) -> None:
    """Four processes are forked while the file is open, and read all tensors in different orders."""
    forked(f)
    rotated(f, NAMES, 4)


@chooses(FORK, codes=FORKED, importance="high")
def forked_and_parent_goes_on(f: ConcurrentBuilder) -> None:
    """The parent reads one tensor before the fork, and others after its children have finished."""
    forked(f)
    f.taken_before = ("a",)
    readers(f, "de", "f")
    f.taken_after = ("b", "g")


@chooses(FORK, codes=FORKED, importance="high", over={"small": small, "large": large})
def forked_parent_closes_meanwhile(
    f: ConcurrentBuilder, tensors: Callable[[ConcurrentBuilder], None]
) -> None:
    """The children read $slug tensors once, the parent closes the file, and the children continue reading.

    A process must not release memory that it shares with the others.
    """
    forked(f, tensors)
    f.closed = 2
    readers(f, "ad", "bd", "ad")


@chooses(FORK, codes=FORKED)
def forked_parent_closes_in_the_last_of_many_rounds(f: ConcurrentBuilder) -> None:
    """Four children read small tensors five times. The parent closes the file, and they read once more."""
    forked(f)
    f.times = 6
    f.closed = 6
    rotated(f, NAMES, 4)


@chooses(FORK, codes=FORKED)
def forked_unknown_name(f: ConcurrentBuilder) -> None:
    """One of three processes requests a name that the file does not contain. The others read as usual."""
    forked(f)
    f.reader("no such tensor", unknown=True)
    readers(f, "a", "b")


@accepts(PROCESSES, importance="high", over=FEW)
def processes_opening_each(f: ConcurrentBuilder, count: int) -> None:
    """Processes ($slug) open the file at the same time and each read all tensors."""
    forked(f, opened="each")
    rotated(f, NAMES, count)


@accepts(PROCESSES)
def processes_opening_each_large(f: ConcurrentBuilder) -> None:
    """Four processes each open the file and read a tensor that spans many memory pages."""
    forked(f, large, opened="each")
    readers(f, *"abcd")


@accepts(PROCESSES)
def processes_opening_each_beside_the_parent(f: ConcurrentBuilder) -> None:
    """The parent has opened the file and read a tensor, and its children open the file again."""
    forked(f, opened="each")
    f.taken_before = ("a",)
    readers(f, "ah", "bh", "ch")
