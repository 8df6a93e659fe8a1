"""Lifecycle: a file that nobody touches while it is open, and tensors that outlive it."""

from __future__ import annotations

from ...author.case import accepts, rejects
from ...author.lifecycle import LifecycleBuilder


def three(f: LifecycleBuilder) -> None:
    """A file of three small tensors."""
    f.tensor("a", "F32", [2])
    f.tensor("b", "I16", [3])
    f.tensor("c", "U8", [5])


@accepts("DAT-06", "API-02", smoke=True, over={"first": "a", "middle": "b", "last": "c"})
def one_tensor(f: LifecycleBuilder, name: str) -> None:
    """Open, take the $slug tensor, close."""
    three(f)
    f.opened()
    f.asked(name)
    f.closed()


@accepts("DAT-06", over={"twice": "aa", "forwards": "ab", "backwards": "cba", "back-to-the-first": "aca"})
def several_tensors(f: LifecycleBuilder, names: str) -> None:
    """Tensors are taken one after the other ($slug); a tensor does not depend on those before it."""
    three(f)
    f.opened()
    for name in names:
        f.asked(name)


@accepts("DAT-06", "API-16")
def opened_twice(f: LifecycleBuilder) -> None:
    """The file is opened while it is open already; the second handle works like the first."""
    three(f)
    f.opened()
    f.asked("a")
    f.opened()
    f.asked("b")


@accepts("DAT-06", "API-10")
def opened_again_after_closing(f: LifecycleBuilder) -> None:
    """Closing ends one handle, not the use of the file."""
    three(f)
    f.opened()
    f.asked("a")
    f.closed()
    f.opened()
    f.asked("a")


@accepts("DAT-06", "API-10", importance="high", bugs=("FB-125",))
def tensor_kept_after_closing(f: LifecycleBuilder) -> None:
    """A tensor is taken, the file is closed, and only then the tensor is looked at.

    Where closing gives the memory back, the tensor shows what was put there since, or the process ends. The
    tensor fills whole pages of memory, which go away with a mapping; a small one is easily copied instead.
    """
    f.tensor("a", "F32", [2])
    f.tensor("b", "F32", [8192])
    f.tensor("c", "U8", [5])
    f.opened()
    f.asked("b")
    f.closed()


@accepts("DAT-06", "API-10", importance="high", bugs=("FB-125",))
def tensor_kept_after_closing_and_deleting(f: LifecycleBuilder) -> None:
    """A tensor is taken, the file closed and deleted, and only then the tensor is looked at."""
    three(f)
    f.opened()
    f.asked("b")
    f.closed()
    f.unlinked()


@accepts("DAT-06", "API-10", importance="high")
def tensor_kept_after_closing_and_replacing(f: LifecycleBuilder) -> None:
    """A tensor is taken, the file closed and replaced, and only then the tensor is looked at."""
    three(f)
    f.opened()
    f.asked("b")
    f.closed()
    f.replaced(bytes(len(f.render())))


@rejects("API-10", codes="API_CLOSED", importance="high")
def use_after_closing(f: LifecycleBuilder) -> None:
    """A tensor is asked for after the file was closed."""
    three(f)
    f.opened()
    f.closed()
    f.asked("a")


@rejects("API-10", codes="API_CLOSED", over={"the-same": "a", "another": "c"})
def use_after_reading_and_closing(f: LifecycleBuilder, name: str) -> None:
    """One tensor was taken before the file was closed; now $slug is asked for.

    A handle that remembers what it gave must not give it after it is closed.
    """
    three(f)
    f.opened()
    f.asked("a")
    f.closed()
    f.asked(name)


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


@rejects("API-02", codes="API_NO_SUCH_TENSOR", importance="high", over=UNKNOWN)
def unknown_name(f: LifecycleBuilder, name: str) -> None:
    """A name is asked for that the file does not hold: $slug."""
    three(f)
    f.opened()
    f.asked(name)


@rejects("API-02", codes="API_NO_SUCH_TENSOR", over={"reserved": "__metadata__", "its-key": "key"})
def unknown_name_beside_metadata(f: LifecycleBuilder, name: str) -> None:
    """The file has metadata, and it is asked for as a tensor ($slug)."""
    three(f)
    f.metadata({"key": "value"})
    f.opened()
    f.asked(name)


@rejects("API-02", codes="API_NO_SUCH_TENSOR", over={"before-nul": "ab", "shorter": "weigh", "number": "0"})
def unknown_name_beside_similar_ones(f: LifecycleBuilder, name: str) -> None:
    """A name is asked for that only begins like one of the file, or counts its tensors: $slug."""
    f.tensor("ab\0c", "U8", [2])
    f.tensor("weight", "U8", [2])
    f.opened()
    f.asked(name)
