"""Cases in this process: what writers are given and must leave, and inputs that a program replaces."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from safetensors_corpus import ManifestError, load_manifest
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

ROW: dict[str, Any] = {"name": "t", "dtype": "U8", "shape": [2], "storage": "m"}
ROW |= {"offset": 1, "strides": None, "byteorder": "little"}
ACTION: dict[str, Any] = {
    "do": "write",
    "storages": {"m": [{"hex": "00010203"}]},
    "tensors": [ROW, {**ROW, "name": {"parts": [{"hex": "eda080"}]}, "nbytes": 3, "strides": [-1]}],
    "metadata": None,
    "target": "new",
}
SOUND = load_manifest().by_id["writer/two-tensors-and-metadata"]
Change = Callable[[Path], object]


def case(tmp_path: Path, wanted: str, outcome: str = "accept", **action: Any) -> Case:
    """A case that demands one property of the file."""
    old = tmp_path / "corpus" / "old.safetensors"
    old.parent.mkdir()
    old.write_bytes(file({"old": b"x"}))
    accepts = outcome == "accept"
    content, codes = ({"tensor_count": 1}, ()) if accepts else (None, ("IO_ERROR",))
    source = Input()
    if action.get("target", "new") in ("file", "link", "input"):
        source = Input(file=old, sha256=hashlib.sha256(old.read_bytes()).hexdigest(), size=old.stat().st_size)
    return replace(
        SOUND,
        input=source,
        action={**ACTION, "tensors": [ROW], **action},
        expect=Expectation(outcome, content, codes, (wanted,)),
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

    def __init__(self, write: Change, resave: Change | None = None) -> None:
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


def test_tensors_are_views_and_share_their_storage() -> None:
    first, second = given_tensors(ACTION)
    assert (first.name, first.shape, first.offset, first.strides, first.nbytes) == ("t", (2,), 1, None, None)
    assert (second.name, second.strides, second.nbytes) == ("\ud800", (-1,), 3)
    assert first.storage is second.storage
    assert first.storage == b"\0\1\2\3"


def test_texts_and_metadata_are_spelled_out() -> None:
    for value in (7, ["a"], {"items": "text"}):
        assert given_text(value) == given_metadata(value) == value
    assert given_text({"parts": [{"repeat": {"text": "é"}, "count": 2}]}) == "éé"
    assert given_metadata({"a": {"parts": [{"hex": "eda080"}]}}) == {"a": "\ud800"}
    members = {"items": [[7, "a"], [{"parts": [{"text": "k"}]}, 1]]}
    assert [given_metadata(value) for value in (None, members)] == [None, {7: "a", "k": 1}]


def test_foreign_bytes_are_those_outside_all_tensors() -> None:
    action = {"storages": {"m": [{"text": "0123456789abcdefghij"}]}, "tensors": [{**ROW, "offset": 9}]}
    assert foreign_windows(action) == {b"01234567", b"12345678", b"bcdefghi", b"cdefghij"}


GOOD = file({"t": b"\1\2"})


def good(path: Path) -> None:
    path.write_bytes(GOOD)


def writes(data: bytes) -> Change:
    return lambda path: path.write_bytes(data)


def another_each_time() -> Change:
    counter = iter(range(100))
    return lambda path: path.write_bytes(file({f"t{next(counter)}": b"\1\2"}))


def nothing(path: Path) -> None:
    pass


def raises(error: Exception) -> Change:
    def write(path: Path) -> None:
        raise error

    return write


def beside(name: str, data: bytes = b"") -> Change:
    return lambda path: path.with_name(name).write_bytes(data)


def compact(spelling: str) -> Change:
    """Write a file that is compact but for the spelling of its only name."""

    def spell(members: Any) -> str:
        return json.dumps(members, separators=(",", ":")).replace('"t"', f'"{spelling}"')

    return writes(file({"t": b"\1"}, text=spell))


def after(*steps: Change) -> Change:
    def write(path: Path) -> None:
        for step in steps:
            step(path)

    return write


HOLDS: list[tuple[str, str, Change]] = [
    *((wanted, "new", good) for wanted in ("header-padded", "aligned", "compact-json", "deterministic")),
    *(("keeps-mode", target, good) for target in ("new", "file")),
    *(("one-file", target, good) for target in ("new", "link")),
    ("keeps-link", "link", good),
    ("no-foreign-bytes", "file", good),
    ("target-unchanged", "file", good),
    *(("compact-json", "new", compact(s)) for s in ("\\u0001", "\\n", "\\u000A", "\\u007f", "\\\\u0001")),
]
LACKS: list[tuple[str, str, Change]] = [
    ("header-padded", "new", writes(file({"t": b"\1\2"}, pad=False))),
    ("compact-json", "new", writes(file({"t": b"\1"}, text=json.dumps))),
    ("compact-json", "new", writes(b"\2\0\0\0\0\0\0\0{{")),
    *(("compact-json", "new", compact(s)) for s in ("\\u00e9", "\\/", "\\u0041")),
    ("deterministic", "new", another_each_time()),
    *(("keeps-mode", t, after(good, lambda path: path.chmod(0o600))) for t in ("new", "file")),
    ("keeps-link", "link", after(Path.unlink, good)),
    ("one-file", "new", after(good, beside("left.tmp"))),
    ("no-foreign-bytes", "new", writes(file({"t": b"456789ab"}))),
    ("header-padded", "new", nothing),
]
HOLDS_AFTER_A_REFUSAL: list[tuple[str, str, Change]] = [
    *(("target-unchanged", target, nothing) for target in ("new", "file", "missing-folder")),
    ("target-unchanged", "file", lambda path: path.write_bytes(path.read_bytes())),
    ("target-unchanged", "new", beside("x.tmp")),
    ("target-unchanged", "missing-folder", lambda path: path.parent.mkdir()),
    *(("one-file", target, nothing) for target in ("new", "file")),
    ("header-padded", "new", nothing),
]
LACKS_AFTER_A_REFUSAL: list[tuple[str, str, Change]] = [
    *(("target-unchanged", target, writes(b"")) for target in ("new", "file")),
    ("target-unchanged", "file", Path.unlink),
    ("one-file", "new", beside("x.tmp")),
    ("no-foreign-bytes", "new", beside("x", b"0123456789")),
]
FOREIGN = {"storages": {"m": [{"text": "0123456789abcdefghij"}]}, "tensors": [{**ROW, "offset": 12}]}


@pytest.mark.parametrize(
    ("row", "outcome", "passes"),
    [
        *((row, "accept", True) for row in HOLDS),
        *((row, "accept", False) for row in LACKS),
        *((row, "reject", True) for row in HOLDS_AFTER_A_REFUSAL),
        *((row, "reject", False) for row in LACKS_AFTER_A_REFUSAL),
    ],
)
def test_properties(tmp_path: Path, row: tuple[str, str, Change], outcome: str, passes: bool) -> None:
    wanted, target, write = row
    more = FOREIGN if wanted == "no-foreign-bytes" and not (passes and outcome == "accept") else {}
    the_case = case(tmp_path, wanted, outcome, target=target, **more)
    end = raises(OSError("disk full")) if outcome == "reject" else nothing
    assert result(tmp_path, the_case, Writer(after(write, end))) == (outcome, passes)


def test_alignment_counts_elements_only(tmp_path: Path) -> None:
    first = '"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'
    entry = '{"t":{"dtype":"F32","shape":[%s],"data_offsets":[1,%d]},' + first + "}"
    for shape, end, passes in (("0", 1, True), ("1", 5, False)):
        folder = tmp_path / shape
        folder.mkdir()
        header = (entry % (shape, end)).encode()
        header += b" " * (-len(header) % 8)
        write = writes(len(header).to_bytes(8, "little") + header + bytes(end))
        found = run_case(case(folder, "aligned"), Writer(write), folder)
        assert ("aligned" not in {flaw.property for flaw in found.flaws}) == passes


@pytest.mark.parametrize(
    ("resave", "expected"),
    [
        (nothing, ("accept", True)),
        (writes(GOOD + b"x"), ("accept", False)),
        (raises(ValueError()), ("accept", False)),
        (None, ("unsupported", True)),
    ],
)
def test_saving_again(tmp_path: Path, resave: Change | None, expected: tuple[str, bool]) -> None:
    assert result(tmp_path, case(tmp_path, "idempotent"), Writer(good, resave)) == expected


@pytest.mark.parametrize("target", ["file", "link"])
def test_the_old_file_has_its_mode_and_the_link_leads_to_it(tmp_path: Path, target: str) -> None:
    seen = []

    def write(path: Path) -> None:
        seen.append((path.is_symlink(), path.resolve().stat().st_mode & 0o777, path.exists()))

    result(tmp_path, case(tmp_path, "one-file", target=target), Writer(write))
    assert seen == [(target == "link", MODE, True)]


def test_the_limit_on_file_size_is_that_of_a_full_disk(tmp_path: Path) -> None:
    the_case = case(tmp_path, "one-file", "reject", file_size_limit=100)

    def write(path: Path) -> None:
        path.write_bytes(bytes(100))
        (tmp_path / "taken").touch()
        try:
            path.write_bytes(bytes(200))
        finally:
            path.unlink()

    assert result(tmp_path, the_case, Writer(write)) == ("reject", True)
    assert (tmp_path / "taken").exists()
    (tmp_path / "after").write_bytes(bytes(200))


@pytest.mark.parametrize(
    ("writer", "target", "outcome"),
    [
        (object(), "new", "unsupported"),
        (object(), "input", "unsupported"),
        (Writer(raises(MemoryError())), "new", "exhausted"),
    ],
)
def test_lacks_that_are_no_refusal(tmp_path: Path, writer: Any, target: str, outcome: str) -> None:
    assert run_case(case(tmp_path, "one-file", "reject", target=target), writer, tmp_path).outcome == outcome


@pytest.mark.parametrize("thing", ["fifo", "zeros", "huge"])
def test_what_a_writer_leaves_is_read_only_when_it_is_a_file_of_some_size(tmp_path: Path, thing: str) -> None:
    target = tmp_path / "file.safetensors"
    if thing == "fifo":
        os.mkfifo(target)
    elif thing == "zeros":
        target.symlink_to("/dev/zero")
    else:
        target.touch()
        os.truncate(target, 1 << 40)
    answer = written_file(target)
    # Which rule that breaks is for the case to say.
    assert [(flaw.property, flaw.rule) for flaw in answer.flaws] == [("missing", "")]
    assert answer.tensors is None
    assert snapshot(tmp_path).keys() == ({target.name} if thing == "huge" else set())


LIGHT = [case for case in load_manifest().cases if not case.heavy]
SCRIPTS = [(case, case.action["script"]) for case in LIGHT if case.kind == "lifecycle" and case.action]
CASES = {
    step: next(case for case, script in SCRIPTS if [row["step"] for row in script][1:2] == [step])
    for step in ("truncate", "rewrite", "replace")
}


def by_link(path: Path, victim: Path) -> None:
    path.unlink()
    path.symlink_to(victim)


def by_hard_link(path: Path, victim: Path) -> None:
    path.unlink()
    os.link(victim, path)


def of_the_folder(path: Path, victim: Path) -> None:
    path.parent.rename(path.parent.with_name("moved"))
    path.parent.symlink_to(victim.parent)


class Replacing:
    """Replaces its input when it opens the file."""

    def __init__(self, replace: Change) -> None:
        self._replace = replace

    def hold(self, path: Path) -> Any:
        self._replace(path)
        return self

    def tensor(self, name: str) -> Any:
        return name, "U8", [0], b""

    def close(self) -> None:
        pass


@pytest.mark.parametrize("step", CASES)
@pytest.mark.parametrize("how", [by_link, by_hard_link, of_the_folder])
def test_a_replaced_input_leads_to_no_other_file(how: Any, step: str, tmp_path: Path) -> None:
    victims, folder = tmp_path / "victims", tmp_path / "case"
    victims.mkdir()
    folder.mkdir()
    for name in ("file.safetensors", CASES[step].path.name):
        (victims / name).write_bytes(b"somebody else's")
    answer = run_case(CASES[step], Replacing(lambda path: how(path, victims / path.name)), folder)
    assert {path.read_bytes() for path in victims.iterdir()} == {b"somebody else's"}
    if step != "replace" and how is not of_the_folder:
        assert (answer.outcome, "replaced its input" in answer.message) == ("harness-error", True)


def test_a_reader_that_is_stopped_while_it_opens_a_file_hangs(tmp_path: Path) -> None:
    answer = run_case(CASES["truncate"], Replacing(raises(TimeoutError("stopped"))), tmp_path)
    assert (answer.outcome, answer.message) == ("hang", "stopped")


@pytest.mark.parametrize("kind", ["recipe", "file"])
def test_an_input_is_not_written_through_a_link(kind: str, tmp_path: Path) -> None:
    case = next(case for case in LIGHT if getattr(case.input, kind))
    (tmp_path / "victim").write_bytes(b"somebody else's")
    (tmp_path / "file.safetensors").symlink_to("victim")
    with pytest.raises((OSError, ManifestError)):
        case.set_up(tmp_path)
    assert (tmp_path / "victim").read_bytes() == b"somebody else's"
