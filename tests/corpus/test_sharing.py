"""Several readers at the same time: what becomes of each, and what is passed over."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from safetensors_corpus.sharing import run_concurrent

forking = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def children() -> list[psutil.Process]:
    """Return the children of this process, those that ended and were not waited for included."""
    return psutil.Process().children()


def plain(name: str) -> str:
    if name not in "abcd":
        raise KeyError(name)
    return name


class Subject:
    """An implementation that takes tensors with a function, and may fail to open or close the file.

    ``log`` contains the calls in order.
    """

    def __init__(self, take: Callable[[str], str] = plain, **errors: Exception) -> None:
        self.log: list[str] = []
        self._take, self._errors = take, errors

    def open(self) -> object:
        self._do("open")
        return object()

    def _do(self, what: str) -> None:
        if what in self._errors:
            raise self._errors[what]
        self.log.append(what)

    def take(self, handle: object, name: str) -> str:
        self.log.append(f"take {name}")
        return self._take(name)

    def look(self, name: str, taken: Any) -> dict[str, Any]:
        return {"name": name, "sha256": taken}

    def close(self, handle: object) -> None:
        self._do("close")

    def failed(self, err: BaseException) -> dict[str, Any]:
        kinds: dict[type[BaseException], str] = {NotImplementedError: "unsupported", TimeoutError: "hang"}
        return {"outcome": kinds.get(type(err), "reject"), "message": str(err)}


def failing(name: str, fail: Callable[[], object]) -> Callable[[str], str]:

    def take(asked: str) -> str:
        if asked == name:
            fail()
        return plain(asked)

    return take


def no_b() -> Any:
    raise OSError("no b today")


def late(*_: object) -> Any:
    raise TimeoutError("late")


def action(*readers: str, by: str = "threads", **more: Any) -> dict[str, Any]:
    """Readers of the tensors that are named by single letters; one of capitals asks for what is not there."""
    rows = [{"tensors": list(names), "unknown": names.isupper()} for names in readers]
    usual = {"opened": "once", "before": [], "times": 2, "closed": 0, "after": []}
    return {"do": "concurrent", "by": by, "readers": rows, **usual, **more}


def rows(answer: dict[str, Any]) -> list[tuple[str, str]]:
    assert answer["outcome"] == "accept", answer
    return [(row["name"], row["sha256"]) for row in answer["tensors"]]


both = pytest.mark.parametrize("by", ["threads", pytest.param("processes", marks=forking)])


@both
@pytest.mark.parametrize(
    ("asked", "take", "told"),
    [
        (action("ab", "ba", "c", before=["d"], after=["a"]), plain, "dabc"),
        # The refusal of an unknown name is passed over, and an answer to it is not.
        (action("a", "Z"), plain, "a"),
        (action("a", "Z"), lambda name: name.replace("Z", "a"), "aZ"),
        (action("a", "b", "c", opened="each"), plain, "abc"),
    ],
)
def test_every_row_comes_once(by: str, asked: Any, take: Any, told: str) -> None:
    found = rows(run_concurrent(asked | {"by": by}, Subject(take)))
    assert sorted(found) == sorted((name, take(name)) for name in told)


@both
def test_what_one_reader_alone_is_told_is_there_too(by: str) -> None:
    owner = os.getpid()

    def take(name: str) -> str:
        alone = threading.current_thread() is threading.main_thread() and os.getpid() == owner
        return name if alone else "other"

    answer = run_concurrent(action("ab", "b", by=by, before=["a"]), Subject(take))
    assert rows(answer) == [("a", "a"), ("a", "other"), ("b", "other")]


@both
def test_a_reader_or_an_opening_that_is_refused_refuses_all(by: str) -> None:
    answer = run_concurrent(action("ab", "a", by=by), Subject(failing("b", no_b)))
    place = {"threads": "in a thread", "processes": "in a process"}[by]
    assert answer == {"outcome": "reject", "message": f"{place}: no b today"}
    shut = Subject(open=OSError("shut"))
    assert run_concurrent(action("a", "b", by=by), shut) == {"outcome": "reject", "message": "shut"}
    assert shut.log == []


@both
def test_rows_that_contradict_each_other_outweigh_a_refusal(by: str) -> None:
    def take(name: str) -> str:
        if name == "b":
            no_b()
        return "other" if threading.current_thread() is not threading.main_thread() else name

    answer = run_concurrent(action("ab", "a", by=by, before=["a"]), Subject(take))
    assert answer["outcome"] == ("accept" if by == "threads" else "reject")
    assert by == "processes" or rows(answer) == [("a", "a"), ("a", "other")]


@both
def test_closing_meanwhile_takes_nothing_away_that_was_told_before(by: str) -> None:
    def take(name: str) -> str:
        if "close" in subject.log:
            raise ValueError("closed")
        return plain(name)

    subject = Subject(take)
    asked = action("a", "b", by=by, times=4, closed=2)
    assert rows(run_concurrent(asked, subject)) == [("a", "a"), ("b", "b")]
    assert subject.log.count("close") == 1


def test_what_happens_besides_closing_is_not_passed_over() -> None:
    early = Subject(failing("a", no_b))
    assert run_concurrent(action("a", "b", times=3, closed=2), early)["outcome"] == "reject"
    busy = Subject(close=RuntimeError("busy"))
    assert rows(run_concurrent(action("a", "b", closed=2), busy)) == [("a", "a"), ("b", "b")]
    assert run_concurrent(action("a", "b"), busy)["outcome"] == "reject"
    never = Subject(close=NotImplementedError("nothing to close"))
    for opened in ("once", "each"):
        assert rows(run_concurrent(action("a", "b", opened=opened), never)) == [("a", "a"), ("b", "b")]
    assert run_concurrent(action("a", "b", closed=1), never)["outcome"] == "unsupported"


def test_every_reader_opens_the_file_for_itself_where_it_should() -> None:
    subject = Subject()
    run_concurrent(action("a", "b", "c", opened="each"), subject)
    assert subject.log[:3] == ["open"] * 3
    assert subject.log.count("open") == subject.log.count("close") == 3


def test_a_round_is_looked_at_when_all_have_taken_theirs() -> None:
    class Shared(Subject):
        last = ""

        def take(self, handle: object, name: str) -> str:
            self.last = super().take(handle, name)
            return name

        def look(self, name: str, taken: Any) -> dict[str, Any]:
            return {"name": name, "sha256": self.last}

    for _ in range(20):
        told = rows(run_concurrent(action("a", "b", times=1), Shared()))
        assert told in ([("a", "a"), ("b", "a")], [("a", "b"), ("b", "b")])


@forking
@pytest.mark.parametrize(
    ("how", "message"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "a process was killed by SIGKILL"),
        (lambda: os._exit(3), "a process ended with exit status 3"),
        (late, "in a process: late"),
    ],
)
def test_the_end_or_hang_of_a_process_outweighs_a_refusal(how: Any, message: str) -> None:
    def take(name: str) -> str:
        return how() if name == "b" else no_b() if name == "a" else name

    before = children()
    answer = run_concurrent(action("a", "b", "c", by="processes"), Subject(take))
    assert answer == {"outcome": "hang" if how is late else "crash", "message": message}
    assert children() == before


@both
def test_whoever_is_stopped_from_outside_leaves_nobody_behind(by: str) -> None:
    """As the time limit of the matrix does: an exception in the middle of a wait."""
    stuck = threading.Event()
    own = children()
    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(TimeoutError, match="late"):
            run_concurrent(action("a", "b", by=by), Subject(failing("b", lambda: stuck.wait(5))))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        stuck.set()
    if by == "processes":
        assert children() == own


def test_a_thread_without_memory_for_its_stack_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness then asks again without a limit on the address space."""
    start, started = threading.Thread.start, list[threading.Thread]()

    def second_fails(self: threading.Thread) -> None:
        if started:
            raise RuntimeError("can't start new thread")
        started.append(self)
        start(self)

    monkeypatch.setattr(threading.Thread, "start", second_fails)
    with pytest.raises(MemoryError, match="can't start new thread"):
        run_concurrent(action("a", "b"), Subject())
    started[0].join(5)
    assert not started[0].is_alive()
