"""``python -m proof.same``: what counts as the same, and what fails."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
import pytest
from click.testing import CliRunner

from proof import items, public, same
from proof.commands import FailedError
from proof.document import Document
from proof.items import Item, mutants_of

OPEN = "framing/one open"
CASES = {
    OPEN: {"outcome": "accept", "verdict": "pass"},
    "framing/one read": {"outcome": "reject", "verdict": "late-reject"},
}


def item(entries: dict[str, Any], notes: dict[str, str] | None = None) -> Item:
    return Item("verdicts", lambda: Document(entries, notes or {}))


def failed() -> Document:
    raise FailedError("stc run: exit status 2: no such reader")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder in which one item is recorded."""
    assert same.record_items({"run": item(CASES)}, tmp_path)
    monkeypatch.setattr(same, "foreign", lambda: "")
    return tmp_path


def compare(folder: Path, made: Item) -> tuple[int, list[list[str]]]:
    """Return the exit status and the words of each line."""
    with patch.object(same, "ITEMS", {"run": made}):
        result = CliRunner().invoke(same.same, ["compare", str(folder)])
    return result.exit_code, [line.split() for line in result.output.splitlines()]


def test_the_same_is_the_same(folder: Path) -> None:
    status, lines = compare(folder, item(dict(reversed(CASES.items()))))
    assert (status, len(lines), lines[0][:2]) == (0, 1, ["same", "run"])


@pytest.mark.parametrize(
    ("after", "line"),
    [
        (CASES | {OPEN: {**CASES[OPEN], "verdict": "fail"}}, "framing/one open: verdict pass -> fail"),
        ({OPEN: CASES[OPEN]}, "framing/one read: gone"),
        (CASES | {"layout/two read": {}}, "layout/two read: new"),
    ],
    ids=["changed", "gone", "new"],
)
def test_a_difference_is_told(folder: Path, after: dict[str, Any], line: str) -> None:
    status, lines = compare(folder, item(after))
    assert status == 1
    assert [lines[0][:2], lines[1]] == [["different", "run"], line.split()]


@pytest.mark.parametrize("content", [None, "", "[]", '{"format": 0}', '{"format": 1}'])
def test_without_a_readable_record_nothing_is_the_same(folder: Path, content: str | None) -> None:
    path = folder / "run.json"
    path.unlink()
    if content is not None:
        path.write_text(content)
    status, lines = compare(folder, item(CASES))
    assert (status, lines[0][:2]) == (1, ["failed", "run"])


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Document({}), ""),
        (failed, "FailedError: stc run: exit status 2: no such reader"),
        (lambda: Document(CASES["gone"]), "KeyError: 'gone'"),
    ],
    ids=["no entries", "cannot run", "defect"],
)
def test_an_item_that_gives_no_result_is_never_the_same(
    folder: Path, make: Callable[[], Document], why: str
) -> None:
    status, lines = compare(folder, Item("", make))
    assert (status, lines[0][:2]) == (1, ["failed", "run"])
    assert why.partition(": ")[2] in " ".join(lines[0])


def test_a_failed_record_leaves_no_earlier_one(folder: Path) -> None:
    assert not same.record_items({"run": Item("verdicts", failed)}, folder)
    assert not list(folder.iterdir())


def test_notes_are_told_and_fail_nothing(folder: Path) -> None:
    same.record_items({"run": item(CASES, {"digest": "a"})}, folder)
    status, lines = compare(folder, item(CASES, {"digest": "b"}))
    assert (status, lines[1]) == (0, ["note:", "digest:", "a", "->", "b"])


def test_packages_from_elsewhere_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(same, "foreign", lambda: "/elsewhere/safetensors_reference/__init__.py")
    result = CliRunner().invoke(same.same, ["record", str(tmp_path)])
    assert result.exit_code == 2
    assert "/elsewhere" in result.output
    assert not list(tmp_path.iterdir())


def test_items_are_chosen_by_name_and_glob() -> None:
    table = {"a-1": item({}), "a-2": item({}), "b": Item("", lambda: Document({}), full=True)}
    assert list(same.choose(table, (), full=False)) == ["a-1", "a-2"]
    assert list(same.choose(table, (), full=True)) == ["a-1", "a-2", "b"]
    assert list(same.choose(table, ("a-*", "b"), full=False)) == ["a-1", "a-2", "b"]
    with pytest.raises(click.UsageError):
        same.choose(table, ("c",), full=False)


def test_mutants_stay_the_same_when_their_module_moves() -> None:
    name = "header.explain:"
    committed: dict[str, Any] = {"mutants": 4, "killed": 2, "equivalent": 1, "reasons": {}, "score": 1.0}
    committed |= {
        "killers": {f"{name}check:compare:1": "layout/hole", f"{name}-:element:1": "data/one"},
        "stillborn": [f"{name}-:element:2"],
        "survivors": [{"name": f"{name}check:compare:2", "class": "report", "reason": "Words."}],
    }
    text = json.dumps(committed)
    moved = json.loads(text.replace("header.explain", "rules.ranges").replace(":element:2", ":element:9"))
    revived = json.loads(text.replace("compare:2", "compare:3"))
    assert mutants_of(moved) == mutants_of(committed)
    assert mutants_of(revived) != mutants_of(committed)


def test_signatures_tell_parameters_and_defaults() -> None:
    class Renamed:
        def load(self, path: str, *, profile: str = "hardened") -> Document:
            raise NotImplementedError

        @classmethod
        def make(cls, size: int) -> Document:
            raise NotImplementedError

    Renamed.__module__ = "safetensors_reference.elsewhere"
    members = {"load": "(self, path, *, profile='hardened')", "make": "classmethod (cls, size)"}
    assert public.describe(Renamed) == {"": "()", **members}
    assert public.describe(Renamed.load) == members["load"]
    assert public._plain("<safetensors_reference.header.model.Header object at 0x7f12>") == "<Header object>"


def test_a_planted_reader_answers(tmp_path: Path) -> None:
    file = tmp_path / "file.safetensors"
    header = b'{"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}'
    file.write_bytes(len(header).to_bytes(8, "little") + header + b"ab")
    requests: list[dict[str, Any]] = [{"cmd": "start", "protocol": 1, "profile": None}]
    requests += [{"cmd": "run", "seq": 1, "step": "read", "path": str(file)}, {"cmd": "stop"}]
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    for name in ({*items.BEHAVIOURS} - {"noise"}) | {"careless"}:
        program = [sys.executable, str(items.PLANTED), name]
        done = subprocess.run(program, input=lines, capture_output=True, text=True, check=True, timeout=60)
        start, answer = map(json.loads, done.stdout.splitlines())
        assert start["implementation"]["name"] == f"planted {name}"
        assert (answer["outcome"], answer["tensors"][0]["nbytes"]) == ("accept", 2)
