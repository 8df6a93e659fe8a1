"""Concurrent: one file read by several threads, or by several processes, at the same time.

Each reader gets the bytes that it would get alone. What goes wrong in the field: one position in one open
file, which one reader moves while another is about to read (ooples/AiDotNet.Tensors#258); state of a library
that is half made when the second reader comes; a lock that is never given back; and what a forked process
shares with its parent without knowing it.
"""

from __future__ import annotations

from collections.abc import Callable

from ..author.case import ACCEPT, Options, accepts, chooses, reject
from ..author.concurrent import ConcurrentBuilder

THREADS = "API-16 DAT-06"
PROCESSES = "API-20 DAT-06"
FORKED: Options = {"tensor": ACCEPT, "error": reject("IO_ERROR", "API_CLOSED")}
FORK = "opened-before-fork"
SEEK = "https://github.com/ooples/AiDotNet.Tensors/pull/258"
NAMES = "abcdefgh"
LARGE = 192 * 1024
"""Bytes of a large tensor: many memory pages, and more than a buffered reader asks for at once."""
FEW = {"two": 2, "eight": 8}


def small(f: ConcurrentBuilder, names: str = NAMES) -> None:
    """Small tensors of three dtypes, the widest first, and of shapes that differ."""
    for place, name in enumerate(names):
        f.tensor(name, ("F32", "I16", "U8")[place // 3], [place + 2])


def large(f: ConcurrentBuilder, names: str = "abcd") -> None:
    """Tensors of many memory pages, each of one byte of its own."""
    for place, name in enumerate(names):
        f.tensor(name, "U8", [LARGE], bytes([0x11 * (place + 1)]) * LARGE)


def rotated(f: ConcurrentBuilder, names: str, count: int) -> None:
    """Readers that take all tensors, each beginning with another one."""
    for place in range(count):
        start = place % len(names)
        f.reader(*names[start:], *names[:start])


def pages(f: ConcurrentBuilder) -> None:
    """Four tensors of two memory pages, each of one byte of its own."""
    for place, name in enumerate("abcd"):
        f.tensor(name, "U8", [8192], bytes([0x11 * (place + 5)]) * 8192)


# Threads that share an open file


@accepts(THREADS, importance="high", over={**FEW, "thirty-two": 32, "forty": 40, "sixty-four": 64})
def threads_same_tensor(f: ConcurrentBuilder, count: int) -> None:
    """Threads ($slug) take the same tensor out of one open file, which nobody has read from before.

    What is made when the first tensor is asked for, is made by all of them at once.
    """
    small(f)
    for _ in range(count):
        f.reader("c")


@accepts(THREADS, importance="high", issue=SEEK, over=FEW)
def threads_another_tensor_each(f: ConcurrentBuilder, count: int) -> None:
    """Threads ($slug) take one tensor each, every one another.

    Where going to a position and reading there are two steps, each gets what another went to.
    """
    small(f)
    for name in NAMES[:count]:
        f.reader(name)


@accepts(THREADS, importance="high", issue=SEEK)
def threads_large_tensors(f: ConcurrentBuilder) -> None:
    """Four threads take a tensor of many memory pages each; reading one takes several calls."""
    large(f)
    for name in "abcd":
        f.reader(name)


@accepts(THREADS)
def threads_large_tensor_beside_small_ones(f: ConcurrentBuilder) -> None:
    """One thread takes a large tensor, and three take small ones many times meanwhile."""
    large(f, "a")
    small(f, "bcd")
    f.reader("a")
    for name in "bcd":
        f.reader(*name * 50)


@accepts(THREADS, over={"by-one": "a", "by-all": "h"})
def threads_after_a_tensor_was_taken(f: ConcurrentBuilder, first: str) -> None:
    """One tensor was taken before the threads begin; it is wanted again ($slug).

    What is remembered of it must not become the answer to other questions.
    """
    small(f)
    f.taken_before = (first,)
    for name in "abcd":
        f.reader(name if first == "a" else first, name)


@accepts(THREADS)
def threads_forwards_and_backwards(f: ConcurrentBuilder) -> None:
    """Two threads take all tensors in the order of the file, two in the other."""
    small(f)
    for names in (NAMES, NAMES[::-1]) * 2:
        f.reader(*names)


@accepts(THREADS, over=FEW)
def threads_all_tensors_rotated(f: ConcurrentBuilder, count: int) -> None:
    """Threads ($slug) take all tensors, each beginning with another one."""
    small(f)
    rotated(f, NAMES, count)


@accepts(THREADS)
def threads_many_tensors(f: ConcurrentBuilder) -> None:
    """The file has 300 tensors, and four threads take some out of each part of it.

    A table that is made of the header on first use takes its time here.
    """
    names = [f"layer.{number}.weight" for number in range(300)]
    for name in names:
        f.tensor(name, "U8", [2])
    for place in range(4):
        f.reader(*names[place::37])


@accepts(THREADS)
def threads_tensors_without_bytes_between(f: ConcurrentBuilder) -> None:
    """Tensors without bytes stand between others, and a reader has nothing to read for them."""
    for name in "abcdef":
        f.tensor(name, "F32", [0 if name in "bde" else 3])
    rotated(f, "abcdef", 6)


@accepts(THREADS)
def threads_same_shape_and_dtype(f: ConcurrentBuilder) -> None:
    """All tensors have one dtype and one shape; nothing but the bytes tells them apart."""
    for name in NAMES:
        f.tensor(name, "F32", [16])
    for name in NAMES:
        f.reader(name, name)


@accepts(THREADS)
def threads_many_rounds(f: ConcurrentBuilder) -> None:
    """Four threads take two tensors each, a hundred times."""
    small(f)
    f.times = 100
    for place in range(4):
        f.reader(*NAMES[2 * place : 2 * place + 2])


@accepts("API-16 DAT-06 API-02", importance="high", over={"one": 1, "two": 2, "all-but-one": 3})
def threads_unknown_name(f: ConcurrentBuilder, count: int) -> None:
    """Of four threads, $slug asks for a name that the file does not have; the others are told as ever.

    A refusal ends one question. A lock that is not given back by it stops all others.
    """
    small(f)
    f.times = 4
    for _ in range(count):
        f.reader_of_unknown("no such tensor")
    for name in NAMES[: 4 - count]:
        f.reader(name)


@accepts("API-10 DAT-06", importance="high", over={"small": small, "two-pages": pages, "large": large})
def threads_closed_meanwhile(f: ConcurrentBuilder, tensors: Callable[[ConcurrentBuilder], None]) -> None:
    """Three threads read tensors ($slug), and the file is closed while they read a second time.

    From then on a thread may be refused. What it is handed out is right all the same.
    """
    tensors(f)
    f.times = 3
    f.closed = 2
    for name in "aba":
        f.reader(name, "d")


@accepts("API-10 DAT-06", importance="high")
def threads_closed_in_the_last_of_many_rounds(f: ConcurrentBuilder) -> None:
    """Eight threads read small tensors six times, and the file is closed while they do it a last time."""
    small(f)
    f.times = 6
    f.closed = 6
    rotated(f, NAMES, 8)


@accepts(THREADS, over={**FEW, "five": 5})
def threads_opening_each(f: ConcurrentBuilder, count: int) -> None:
    """Threads ($slug) open the file for themselves, all at once, and take all tensors."""
    small(f)
    f.opened = "each"
    rotated(f, NAMES, count)


# Processes that share a file opened before they were forked


def forked(f: ConcurrentBuilder) -> None:
    """Readers are processes, forked when the file was open."""
    f.by = "processes"


@chooses(FORK, options=FORKED, importance="high", over=FEW)
def forked_same_tensor(f: ConcurrentBuilder, count: int) -> None:
    """Processes ($slug), forked when the file was open, take the same tensor.

    A library whose threads were left behind by the fork waits for them for ever.
    """
    small(f)
    forked(f)
    for _ in range(count):
        f.reader("c")


@chooses(FORK, options=FORKED, importance="high", over=FEW)
def forked_another_tensor_each(f: ConcurrentBuilder, count: int) -> None:
    """Processes ($slug), forked when the file was open, take one tensor each, every one another.

    They share the position in the open file.
    """
    small(f)
    forked(f)
    for name in NAMES[:count]:
        f.reader(name)


@chooses(FORK, options=FORKED, importance="high")
def forked_large_tensors(f: ConcurrentBuilder) -> None:
    """Four processes, forked when the file was open, take a tensor of many memory pages each."""
    large(f)
    forked(f)
    for name in "abcd":
        f.reader(name)


@chooses(FORK, options=FORKED, importance="high", over={"the-same": "b", "another": "a"})
def forked_after_a_tensor_was_taken(f: ConcurrentBuilder, first: str) -> None:
    """One tensor was taken before the fork; the processes take $slug.

    Each believes that the file stands where the parent left it.
    """
    small(f)
    forked(f)
    f.taken_before = (first,)
    for _ in range(4):
        f.reader("b", "c")


@chooses(FORK, options=FORKED)
def forked_all_tensors_rotated(f: ConcurrentBuilder) -> None:
    """Four processes, forked when the file was open, take all tensors, each beginning with another one."""
    small(f)
    forked(f)
    rotated(f, NAMES, 4)


@chooses(FORK, options=FORKED, importance="high")
def forked_and_parent_goes_on(f: ConcurrentBuilder) -> None:
    """The parent takes a tensor before the fork, and others when its children have read and ended."""
    small(f)
    forked(f)
    f.taken_before = ("a",)
    f.reader("d", "e")
    f.reader("f")
    f.taken_after = ("b", "g")


@chooses(FORK, options=FORKED, importance="high", over={"small": small, "large": large})
def forked_parent_closes_meanwhile(
    f: ConcurrentBuilder, tensors: Callable[[ConcurrentBuilder], None]
) -> None:
    """The parent closes the file when its children have taken $slug tensors once; they go on.

    Memory that all of them share must not be given back by one.
    """
    tensors(f)
    forked(f)
    f.closed = 2
    for name in "aba":
        f.reader(name, "d")


@chooses(FORK, options=FORKED)
def forked_unknown_name(f: ConcurrentBuilder) -> None:
    """One of three processes asks for a name that the file does not have, the others for their tensors."""
    small(f)
    forked(f)
    f.reader_of_unknown("no such tensor")
    f.reader("a")
    f.reader("b")


# Processes that open the file for themselves


@accepts(PROCESSES, importance="high", over=FEW)
def processes_opening_each(f: ConcurrentBuilder, count: int) -> None:
    """Processes ($slug) open the file for themselves, all at once, and take all tensors."""
    small(f)
    forked(f)
    f.opened = "each"
    rotated(f, NAMES, count)


@accepts(PROCESSES)
def processes_opening_each_large(f: ConcurrentBuilder) -> None:
    """Four processes open the file for themselves and take a tensor of many memory pages each."""
    large(f)
    forked(f)
    f.opened = "each"
    for name in "abcd":
        f.reader(name)


@accepts(PROCESSES)
def processes_opening_each_beside_the_parent(f: ConcurrentBuilder) -> None:
    """The parent has the file open and took a tensor; its children open the file again for themselves."""
    small(f)
    forked(f)
    f.opened = "each"
    f.taken_before = ("a",)
    for name in "abc":
        f.reader(name, "h")
