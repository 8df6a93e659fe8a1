"""Handing write cases to a writer: what it is given, and every property with and without."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from safetensors_corpus.author.file import FileBuilder
from safetensors_corpus.in_process import (
    given_metadata,
    given_tensors,
    given_text,
    mismatch,
    run_case,
    written_file,
)
from safetensors_corpus.judging.written_file import MODE, foreign_windows, snapshot
from safetensors_corpus.manifest import Case, Expectation, Input

ROW = {
    "name": "t",
    "dtype": "U8",
    "shape": [2],
    "storage": "m",
    "offset": 1,
    "strides": None,
    "byteorder": "little",
}
ACTION: dict[str, Any] = {
    "do": "write",
    "storages": {"m": [{"hex": "00010203"}]},
    "tensors": [ROW, {**ROW, "name": {"parts": [{"hex": "eda080"}]}, "nbytes": 3, "strides": [-1]}],
    "metadata": None,
    "target": "new",
}


def case(tmp_path: Path, wanted: str, outcome: str = "accept", **action: Any) -> Case:
    """A case that demands one property of the file."""
    old = tmp_path / "corpus" / "old.safetensors"
    old.parent.mkdir()
    old.write_bytes(file({"old": b"x"}))
    content = {"tensor_count": 1} if outcome == "accept" else None
    codes = () if outcome == "accept" else ("IO_ERROR",)
    expect = Expectation(outcome, content, codes, (wanted,))
    source = Input()
    if action.get("target", "new") in ("file", "link", "input"):
        source = Input(file=old, sha256=hashlib.sha256(old.read_bytes()).hexdigest(), size=old.stat().st_size)
    return Case(
        id="writer/x",
        kind="write",
        title="x",
        description="",
        rules=("WRT-01",),
        level="must",
        importance="medium",
        features=(),
        steps=("write",),
        input=source,
        action={**ACTION, "tensors": [ROW], **action},
        budget=None,
        heavy=False,
        choice=None,
        expect=expect,
        options={},
        smoke=False,
        affects=(),
        source={},
    )


def file(tensors: dict[str, bytes], *, pad: bool = True, text: Callable[[Any], str] | None = None) -> bytes:
    """A file of U8 tensors."""
    members, end = {}, 0
    for name, data in tensors.items():
        members[name] = {"dtype": "U8", "shape": [len(data)], "data_offsets": [end, end + len(data)]}
        end += len(data)
    spell = text or (lambda value: json.dumps(value, separators=(",", ":"), ensure_ascii=False))
    header = spell(members).encode()
    header += b" " * (-len(header) % 8) if pad else b" " * ((-len(header) + 1) % 8)
    return len(header).to_bytes(8, "little") + header + b"".join(tensors.values())


class Writer:
    """Calls a function with the target, and another for saving again."""

    def __init__(
        self, write: Callable[[Path], object], resave: Callable[[Path], object] | None = None
    ) -> None:
        self._write = write
        if resave is not None:
            self.resave = resave

    def write(self, path: Path, tensors: object, metadata: object) -> None:
        self._write(path)


def result(tmp_path: Path, the_case: Case, writer: Writer) -> tuple[str, bool]:
    """Outcome, and whether the case passes."""
    folder = tmp_path / "folder"
    folder.mkdir()
    done = run_case(the_case, writer, folder)
    return done.outcome, mismatch(the_case, done) is None


GOOD = file({"t": b"\1\2"})


def test_the_content_of_a_written_file_has_the_form_of_an_expected_one(tmp_path: Path) -> None:
    told = FileBuilder()
    told.tensor("a", "F32", [2, 1])
    told.tensor("b", "U8", [0])
    told.metadata({"k": "v"})
    path = tmp_path / "file.safetensors"
    path.write_bytes(told.render())
    found = written_file(path)
    assert (found.content, found.flaws) == (told.content(), ())


def test_tensors_are_views_and_share_their_storage() -> None:
    first, second = given_tensors(ACTION)
    assert (first.name, first.shape, first.offset, first.strides, first.nbytes) == ("t", (2,), 1, None, None)
    assert (second.name, second.strides, second.nbytes) == ("\ud800", (-1,), 3)
    assert first.storage is second.storage
    assert first.storage == b"\0\1\2\3"


def test_texts_and_metadata_are_spelled_out() -> None:
    assert given_text("a") == "a"
    assert given_text({"parts": [{"repeat": {"text": "é"}, "count": 2}]}) == "éé"
    assert given_text(7) == 7
    assert given_text({"a": "b"}) == {"a": "b"}
    assert given_metadata(None) is None
    assert given_metadata(["a"]) == ["a"]
    assert given_metadata({"items": "text"}) == {"items": "text"}
    assert given_metadata({"a": {"parts": [{"hex": "eda080"}]}}) == {"a": "\ud800"}
    assert given_metadata({"items": [[7, "a"], [{"parts": [{"text": "k"}]}, 1]]}) == {7: "a", "k": 1}


def test_foreign_bytes_are_those_outside_all_tensors() -> None:
    action = {"storages": {"m": [{"text": "0123456789abcdefghij"}]}, "tensors": [{**ROW, "offset": 9}]}
    assert foreign_windows(action) == {b"01234567", b"12345678", b"bcdefghi", b"cdefghij"}


PASSING: list[tuple[str, str, Callable[[Path], object]]] = [
    ("header-padded", "new", lambda path: path.write_bytes(GOOD)),
    ("aligned", "new", lambda path: path.write_bytes(GOOD)),
    ("compact-json", "new", lambda path: path.write_bytes(GOOD)),
    ("deterministic", "new", lambda path: path.write_bytes(GOOD)),
    ("keeps-mode", "new", lambda path: path.write_bytes(GOOD)),
    ("keeps-mode", "file", lambda path: path.write_bytes(GOOD)),
    ("keeps-link", "link", lambda path: path.write_bytes(GOOD)),
    ("one-file", "new", lambda path: path.write_bytes(GOOD)),
    ("one-file", "link", lambda path: path.write_bytes(GOOD)),
    ("no-foreign-bytes", "file", lambda path: path.write_bytes(GOOD)),
    ("target-unchanged", "file", lambda path: path.write_bytes(GOOD)),
]


@pytest.mark.parametrize(("wanted", "target", "write"), PASSING)
def test_a_property_that_holds(
    tmp_path: Path, wanted: str, target: str, write: Callable[[Path], object]
) -> None:
    assert result(tmp_path, case(tmp_path, wanted, target=target), Writer(write)) == ("accept", True)


def another_each_time() -> Callable[[Path], object]:
    counter = iter(range(100))
    return lambda path: path.write_bytes(file({f"t{next(counter)}": b"\1\2"}))


def private(path: Path) -> None:
    path.write_bytes(GOOD)
    path.chmod(0o600)


def link_replaced(path: Path) -> None:
    path.unlink()
    path.write_bytes(GOOD)


def with_leftover(path: Path) -> None:
    path.write_bytes(GOOD)
    path.with_name("left.tmp").write_bytes(b"")


FOREIGN: dict[str, Any] = {"storages": {"m": [{"text": "0123456789abcdefghij"}]}}
LACKING: list[tuple[str, str, Callable[[Path], object]]] = [
    ("header-padded", "new", lambda path: path.write_bytes(file({"t": b"\1\2"}, pad=False))),
    ("compact-json", "new", lambda path: path.write_bytes(file({"t": b"\1"}, text=json.dumps))),
    ("compact-json", "new", lambda path: path.write_bytes(b"\2\0\0\0\0\0\0\0{{")),
    ("deterministic", "new", another_each_time()),
    ("keeps-mode", "new", private),
    ("keeps-mode", "file", private),
    ("keeps-link", "link", link_replaced),
    ("one-file", "new", with_leftover),
    ("no-foreign-bytes", "new", lambda path: path.write_bytes(file({"t": b"56789abcdefg"}))),
    ("header-padded", "new", lambda path: None),
]


@pytest.mark.parametrize(("wanted", "target", "write"), LACKING)
def test_a_property_that_does_not_hold(
    tmp_path: Path, wanted: str, target: str, write: Callable[[Path], object]
) -> None:
    the_case = case(tmp_path, wanted, target=target, **(FOREIGN if wanted == "no-foreign-bytes" else {}))
    assert result(tmp_path, the_case, Writer(write)) == ("accept", False)


def test_alignment_counts_elements_only(tmp_path: Path) -> None:
    first = '"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'
    entry = '{"t":{"dtype":"F32","shape":[%s],"data_offsets":[1,%d]},' + first + "}"
    for shape, end, passes in (("0", 1, True), ("1", 5, False)):
        folder = tmp_path / shape
        folder.mkdir()
        header = (entry % (shape, end)).encode()
        header += b" " * (-len(header) % 8)
        data = len(header).to_bytes(8, "little") + header + bytes(end)
        the_case = case(folder, "aligned")
        found = run_case(the_case, Writer(lambda path, data=data: path.write_bytes(data)), folder)  # type: ignore[misc]
        assert ("aligned" not in {flaw.property for flaw in found.flaws}) == passes


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("\\u0001", True),
        ("\\n", True),
        ("\\u000A", True),
        ("\\u007f", True),
        ("\\\\u0001", True),
        ("\\u00e9", False),
        ("\\/", False),
        ("\\u0041", False),
    ],
)
def test_one_character_may_have_one_spelling_or_several(tmp_path: Path, text: str, same: bool) -> None:
    def spell(members: Any) -> str:
        return json.dumps(members, separators=(",", ":")).replace('"t"', f'"{text}"')

    write = Writer(lambda path: path.write_bytes(file({"t": b"\1"}, text=spell)))
    assert result(tmp_path, case(tmp_path, "compact-json"), write) == ("accept", same)


def test_saving_again(tmp_path: Path) -> None:
    def refuse(path: Path) -> None:
        raise ValueError

    def write(path: Path) -> None:
        path.write_bytes(GOOD)

    seen = []
    for name, resave in (
        ("a", lambda p: None),
        ("b", lambda p: p.write_bytes(GOOD + b"x")),
        ("c", refuse),
        ("d", None),
    ):
        folder = tmp_path / name
        folder.mkdir()
        seen.append(result(folder, case(folder, "idempotent"), Writer(write, resave)))
    assert seen == [("accept", True), ("accept", False), ("accept", False), ("unsupported", True)]


def fail_after(change: Callable[[Path], object]) -> Callable[[Path], object]:
    def write(path: Path) -> None:
        change(path)
        raise OSError("disk full")

    return write


@pytest.mark.parametrize(
    ("wanted", "target", "change", "passes"),
    [
        ("target-unchanged", "new", lambda path: None, True),
        ("target-unchanged", "file", lambda path: None, True),
        ("target-unchanged", "file", lambda path: path.write_bytes(path.read_bytes()), True),
        ("target-unchanged", "new", lambda path: path.with_name("x.tmp").write_bytes(b""), True),
        ("target-unchanged", "missing-folder", lambda path: None, True),
        ("target-unchanged", "missing-folder", lambda path: path.parent.mkdir(), True),
        ("target-unchanged", "new", lambda path: path.write_bytes(b""), False),
        ("target-unchanged", "file", lambda path: path.unlink(), False),
        ("target-unchanged", "file", lambda path: path.write_bytes(b""), False),
        ("one-file", "new", lambda path: None, True),
        ("one-file", "file", lambda path: None, True),
        ("one-file", "new", lambda path: path.with_name("x.tmp").write_bytes(b""), False),
        ("no-foreign-bytes", "new", lambda path: path.with_name("x").write_bytes(b"0123456789"), False),
        ("header-padded", "new", lambda path: None, True),
    ],
)
def test_properties_after_a_refusal(
    tmp_path: Path, wanted: str, target: str, change: Callable[[Path], object], passes: bool
) -> None:
    more = FOREIGN | {"tensors": [{**ROW, "offset": 12}]} if wanted == "no-foreign-bytes" else {}
    the_case = case(tmp_path, wanted, "reject", target=target, **more)
    assert result(tmp_path, the_case, Writer(fail_after(change))) == ("reject", passes)


def test_the_old_file_has_its_mode_and_the_link_leads_to_it(tmp_path: Path) -> None:
    seen = []

    def write(path: Path) -> None:
        seen.append((path.is_symlink(), path.resolve().stat().st_mode & 0o777, path.exists()))

    for target in ("file", "link", "new"):
        folder = tmp_path / target
        folder.mkdir()
        if target != "new":
            result(folder, case(folder, "one-file", target=target), Writer(write))
    assert seen == [(False, MODE, True), (True, MODE, True)]


def test_the_limit_on_file_size_is_that_of_a_full_disk(tmp_path: Path) -> None:
    the_case = case(tmp_path, "one-file", "reject", file_size_limit=100)

    def write(path: Path) -> None:
        try:
            path.write_bytes(bytes(200))
        finally:
            path.unlink()

    assert result(tmp_path, the_case, Writer(write)) == ("reject", True)
    (tmp_path / "after").write_bytes(bytes(200))


@pytest.mark.parametrize("target", ["new", "input"])
def test_a_writer_without_the_method_does_not_support_the_case(tmp_path: Path, target: str) -> None:
    the_case = case(tmp_path, "one-file", target=target)
    assert run_case(the_case, object(), tmp_path).outcome == "unsupported"


def test_memory_that_runs_out_is_no_refusal(tmp_path: Path) -> None:
    def write(path: Path) -> None:
        raise MemoryError

    assert result(tmp_path, case(tmp_path, "one-file", "reject"), Writer(write)) == ("exhausted", False)
    assert os.path.exists(tmp_path)


@pytest.mark.parametrize("thing", ["fifo", "zeros", "huge"])
def test_what_a_writer_leaves_is_read_only_when_it_is_a_file_of_some_size(tmp_path: Path, thing: str) -> None:
    target = tmp_path / "file.safetensors"
    if thing == "fifo":
        os.mkfifo(target)
    elif thing == "zeros":
        target.symlink_to("/dev/zero")
    else:
        with target.open("wb") as file:
            file.truncate(1 << 40)
    answer = written_file(target)
    # Which rule that breaks is for the case to say.
    assert [(flaw.property, flaw.rule) for flaw in answer.flaws] == [("missing", "")]
    assert answer.tensors is None
    assert snapshot(tmp_path).keys() == ({target.name} if thing == "huge" else set())
