"""Answers of adapters as hosts send them: odd values are content, failures of the host are not rejections."""

from __future__ import annotations

import importlib
import itertools
import json
import math
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from safetensors_conformance.host import python_host as host
from safetensors_conformance.host.library import UNTOLD, Refused, attribute, call, each, item, marked, opened
from safetensors_conformance.implementations.descriptor import HERE
from safetensors_conformance.implementations.selectors import Target, resolve
from safetensors_conformance.outcome import StepResult
from safetensors_conformance.worker.worker import Limits, StartError, make_worker

from ..support import REPOSITORY


@pytest.fixture(autouse=True)
def _soon_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host.library, "MAX_VALUES", 10_000)


REQUEST = {"seq": 1, "step": "read", "path": "/nothing"}


def read(gives: Any, *, own: bool = False, **more: Any) -> dict[str, Any]:
    """Answer ``read`` with ``gives`` or its result; the adapter is ``marked`` if it is our ``own``."""

    def method(_path: str) -> Any:
        return gives() if callable(gives) else gives

    adapter = SimpleNamespace(read=marked(method) if own else method, **more)
    return sent(host.run(adapter, REQUEST))


def sent(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer that arrives at the other end of the pipe."""
    out, into = os.pipe()
    with os.fdopen(out, "rb") as arrives:
        with os.fdopen(into, "wb"):
            host.send(into, answer)
        told: dict[str, Any] = json.loads(arrives.read())
    return told


class Raises:
    """Fails on every access."""

    def __iter__(self) -> Any:
        raise KeyError("access")

    __len__ = __repr__ = __str__ = __iter__


class LongBytes(bytes):
    """Says that it is longer."""

    def __len__(self) -> int:
        return 100


DEEP: list[Any] = []
for _ in range(600):
    DEEP = [DEEP]
CYCLE: dict[str, Any] = {}
CYCLE["again"] = [CYCLE]
MANY: list[Any] = []
MANY += [MANY] * 100
"""Has hundred ways on each of its levels."""


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        (None, None),
        (1, 1),
        (True, True),
        ("23", "23"),
        ({"a": 1}, {"a": 1}),
        ((2, None, "x", 1.5), [2, None, "x", 1.5]),
        (range(3), [0, 1, 2]),
        (memoryview(bytes(2)), [0, 0]),
        ([[2]], [[2]]),
        ([math.nan, math.inf, -math.inf], ["NaN", "Infinity", "-Infinity"]),
        ([2**64, -(2**70), 10**4000], [2**64, -(2**70), 10**4000]),
        ([10**5000], [f"{hex(10**5000)[:40]}... (16,610 bits)"]),
    ],
)
def test_odd_shapes_are_content(shape: Any, told: Any) -> None:
    answer = read([("w", "F32", shape, LongBytes(b"ab"))])
    assert answer["outcome"] == "accept"
    assert (answer["tensors"][0]["shape"], answer["tensors"][0]["nbytes"]) == (told, 2)


def no_results() -> list[Any]:
    """Return what is no result of ``read``. Generators in it can be used once."""
    rows: list[Any] = [
        *(
            ("w", "F32", map(int, ("2", "half way"))),
            ("w", "F32", itertools.repeat(1)),
            ("w", "F32", Raises()),
            ("w", "F32", [object()]),
        ),
        *(("w", object(), [2]), ("w", Raises(), [2]), ("w", "F32", [2], 8), ("w", "F32", [2], "text")),
        *(("w", "F32", [2], Raises()), ("w", "F32"), ("w", "F32", [2], b"", b"")),
        *(Raises(), None, 5, "w"),
    ]
    maps: list[Any] = [MANY, Raises(), {"a": Raises()}, {1: "a", "1": "b"}, {"a": object()}]
    answers = (None, 5, Raises(), {"metadata": None}, {"tensors": None}, {"tensors": 5})
    return [*([row] for row in rows), *answers, *({"tensors": [], "metadata": found} for found in maps)]


@pytest.mark.parametrize("own", [True, False])
def test_what_is_no_result_is_a_mistake_of_the_adapter(own: bool) -> None:
    answers = [read(gives, own=own) for gives in no_results()]
    answers += [
        host.run(SimpleNamespace(check=lambda _, x=x: x), REQUEST) for x in (None, 1, "yes", Raises())
    ]
    for number, answer in enumerate(answers):
        assert answer["outcome"] == "harness-error", (number, answer)
        assert answer["message"].startswith("the adapter failed: "), (number, answer)
        assert "exception" not in answer


@pytest.mark.parametrize("metadata", [{"a": DEEP}, CYCLE, [1], "text", 5, {"a": math.nan}, {"a": b"\xff"}])
def test_odd_metadata_is_content(metadata: Any) -> None:
    answer = read({"tensors": [], "metadata": metadata})
    assert answer["outcome"] == "accept"
    assert answer["metadata"] is not None


def test_nothing_is_what_a_marked_adapter_was_told_and_untold_what_it_was_not() -> None:
    assert read([("w", None, None, None)])["tensors"] == [{"name": "w", "dtype": None, "shape": None}]
    (row,) = read([("w", None, None)], own=True)["tensors"]
    assert (row["dtype"], row["shape"]) == ("None", "None")
    assert read([("w", "F32", [2], None)], own=True)["outcome"] == "harness-error"
    (row,) = read([("w", UNTOLD, UNTOLD)], own=True)["tensors"]
    assert (row["dtype"], row["shape"]) == (None, None)


def raises() -> Any:
    raise KeyError("no")


def context(**more: Any) -> Any:
    return type("Manager", (), {"__enter__": lambda _: 1, "__exit__": lambda *_: None, **more})


def using(manager: Any, body: Callable[[], Any] = list) -> Any:
    with opened(manager):
        return body()


def mixed() -> dict[str, Callable[[], Any]]:
    """Readings in which the library or, by names that begin with ``own``, the adapter raises a KeyError."""
    odd = type("Odd", (), {"__getitem__": lambda *_: raises(), "size": property(lambda _: raises())})

    def rows(given: Any) -> Iterator[Any]:
        yield ("w", "F32", [])
        yield from given()

    return {
        "call": lambda: call(raises),
        "item": lambda: item(odd(), 1),
        "attribute": lambda: attribute(odd(), "size"),
        "each": lambda: list(each(rows(raises))),
        "each, lazily": lambda: each(rows(raises)),
        "a generator of the adapter": lambda: rows(lambda: call(raises)),
        "entering": lambda: using(context(__enter__=lambda _: raises())),
        "leaving": lambda: using(context(__exit__=lambda *_: raises())),
        "own": raises,
        "own, after a call": lambda: (call(list), raises()),
        "own, lazily": lambda: rows(raises),
        "own, in a context": lambda: using(context(), raises),
        "own item": lambda: item(None, 1),
        "own attribute": lambda: attribute(None, "size"),
        "own each": lambda: list(each(5)),  # type: ignore[arg-type]
        "own manager": lambda: opened(lambda: 5).__enter__(),
        "own arguments": lambda: call(raises, 1),
    }


@pytest.mark.parametrize("where", mixed())
def test_only_what_comes_out_of_a_mark_is_a_refusal(where: str) -> None:
    answer = read(mixed()[where], own=True, rejects=(KeyError,))
    if where.startswith("own"):
        assert answer["outcome"] == "harness-error", answer
        assert "test_python_host.py" in answer["message"] or "library.py" in answer["message"]
    else:
        assert (answer["outcome"], answer.get("exception")) == ("reject", "KeyError"), answer
        assert answer["documented"] is True
    if where in ("call", "own", "own, lazily"):  # an adapter without marks is believed
        assert read(mixed()[where])["outcome"] == "reject"


def test_a_signature_that_cannot_be_found_does_not_replace_the_error() -> None:
    """Since Python 3.14, annotations are evaluated when the signature is requested."""
    signature = property(lambda _: raises())
    odd = type("Odd", (), {"__call__": lambda _: 1, "__signature__": signature})
    with pytest.raises(TypeError):
        call(odd(), 1)


def test_a_method_that_replaces_a_marked_one_is_believed() -> None:
    def fails(_: Any, path: str) -> Any:
        raise ValueError(path)

    adapter = marked(type("Adapter", (), {"read": fails}))
    other = type("Other", (adapter,), {"read": lambda _, path: fails(_, path)})
    assert host.run(adapter(), REQUEST)["outcome"] == "harness-error"
    assert host.run(other(), REQUEST)["outcome"] == "reject"


def test_a_name_that_an_adapter_does_not_know_is_its_mistake_and_the_librarys_is_not() -> None:
    library: dict[str, Any] = {}
    exec(compile("def load(): return unknown", "library.py", "exec"), library)
    assert read(lambda: unknown)["outcome"] == "harness-error"  # type: ignore[name-defined]  # noqa: F821
    assert read(lambda: library["load"]())["exception"] == "NameError"


def test_a_refusal_that_is_no_exception_names_none() -> None:
    answer = read(Mock(side_effect=Refused("it gave None")), own=True, rejects=(ValueError,))
    assert (answer["outcome"], answer["message"]) == ("reject", "it gave None")
    assert "exception" not in answer
    assert "documented" not in answer


def test_a_step_that_is_not_there_and_a_request_that_cannot_be_carried_out_are_no_refusal() -> None:
    adapter = SimpleNamespace(read=lambda _: [])
    for step in ("open", "slice", "index", "write", "resave", "sharded", "hold", "nonsense"):
        request = {**REQUEST, "step": step, "tensor": "w", "index": []}
        assert host.run(adapter, request)["outcome"] == "unsupported", step
    for step in ("get", "look"):
        host.HELD.clear()
        assert host.run(adapter, {**REQUEST, "step": step, "tensor": "w"})["outcome"] == "harness-error", step
    adapter = SimpleNamespace(write=lambda *_: None, save_sharded=lambda *_: None)
    what: dict[str, Any] = {"storages": {"s": [{"what": 1}]}, "tensors": [], "metadata": None}
    for more in ({}, what):
        for step in ("write", "sharded"):
            answer = host.run(adapter, {**REQUEST, "step": step, "max_shard_size": 8, **more})
            assert answer["outcome"] == "harness-error"


REJECTS = "rejects of the adapter must be a tuple of exception types"


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"rejects": ValueError}, f"{REJECTS}, such as (ValueError,), not <class 'ValueError'>"),
        ({"rejects": (5,)}, REJECTS),
        ({"lacks": "dtype-f4"}, 'lacks of the adapter must be a tuple of names, such as ("dtype-f4",)'),
        ({"lacks": (5,)}, "lacks of the adapter must be a tuple of names"),
        ({"open": 5}, "open of the adapter must be a method, not int"),
        ({"profile": "hardened"}, "profile of the adapter must be a method, not str"),
        ({"profile": lambda _: int("no")}, "ValueError: invalid literal for int() with base 10: 'no'"),
        ({"version": Raises()}, "KeyError"),
    ],
)
def test_an_adapter_that_is_none_is_told_at_the_start(attributes: dict[str, Any], words: str) -> None:
    adapter = SimpleNamespace(read=lambda _: [], **attributes)
    answer = host.start_or_error(adapter, {"profile": "hardened"})
    assert words in answer["error"]["message"]


def test_the_marked_adapter_of_the_documentation_says_whose_mistake_it_was() -> None:
    page = (REPOSITORY / "docs" / "plug-in.md").read_text(encoding="utf-8")
    (text,) = (part for part in page.split("```")[1::2] if "@marked" in part)
    tensor: Any = SimpleNamespace(dtype="F32", shape=(2,), tobytes=lambda: bytes(8))
    kind = {"__enter__": lambda self: self, "__exit__": lambda *_: None, "names": lambda _: iter(["w"])}
    file: Any = type("File", (), {**kind, "get": lambda *_: tensor})()
    names: dict[str, Any] = {"mylib": SimpleNamespace(open=lambda _: file)}
    exec(text.removeprefix("python\n"), names)
    made = names["Adapter"]()
    assert host.run(made, REQUEST)["tensors"][0]["shape"] == [2]
    tensor.tobytes = None
    assert host.run(made, REQUEST)["outcome"] == "harness-error"
    file.names = lambda: map(int, ["no"])
    assert host.run(made, REQUEST)["exception"] == "ValueError"


def test_the_collector_does_not_look_through_what_was_loaded(tmp_path: Path) -> None:
    adapter = tmp_path / "counting.py"
    adapter.write_text(
        "import gc\nLOADED = [[] for _ in range(100_000)]\n"
        "class Adapter:\n"
        "    def read(self, path):\n"
        "        return {'tensors': [], 'metadata': {'frozen': str(gc.get_freeze_count() >= 100_000)}}\n"
    )
    with closing(make_worker(resolve(f"py:{adapter}:Adapter"), Limits())) as worker:
        worker.start()
        assert worker.ask("read", str(adapter)).metadata == {"frozen": "True"}


NODE = """
let nest = []; for (let i = 0; i < 100000; i++) nest = [nest];
const big = 10n ** 5000n;
const fail = () => { throw new RangeError("of the library"); };
const own = () => undefined.field;
const row = (more) => [{ name: "w", dtype: "F32", shape: [2], data: new Uint8Array(8), ...more }];
export const make = (load, { call, refused, UNTOLD }) => ({
  name: "odd", version: "1", marked: MARKED,
  read: (expression) => eval(expression),
});
"""

ROW = {"name": "w", "dtype": "F32", "shape": [2]}
ODD = ["NaN", "Infinity", 2**64 + 1, "(a list)", "undefined", None, True, f"1{'0' * 39}... (5001 digits)"]
DIGITS = r"({ tensors: [], metadata: { a: '\u00015\u0001', b: nest, __proto__: null, c: null } })"
NOTHING = "row({ shape: null, dtype: undefined })"
CONTENT: dict[str, dict[str, Any]] = {
    "row()": {"shape": [2]},
    "row({ shape: 1 })": {"shape": 1},
    "row({ shape: '23' })": {"shape": "23"},
    "row({ shape: { length: 3 } })": {"shape": "(an object)"},
    NOTHING: {"shape": "null", "dtype": "undefined"},
    "row({ shape: UNTOLD, dtype: UNTOLD })": {"shape": None, "dtype": None},
    "row({ shape: [NaN, Infinity, 2n ** 64n + 1n, nest, undefined, null, true, big] })": {"shape": ODD},
    "row({ data: new Float32Array(2) })": {"nbytes": 8},
}
OWN = {"own()": "reject", "throw new Error('mine')": "reject", "unknown": "harness-error"}
"""Mistakes, with the outcome for an adapter without marks."""
MISTAKES = (
    *(
        f"row({{ {part} }})"
        for part in ("data: 8", "data: [1, 2]", "data: null", "name: undefined", "name: nest")
    ),
    *("null", "5", "[null]", "({ tensors: 5 })", "[{ name: 'w', get shape() { return own(); } }]"),
    *("(async () => own())()", *OWN),
)
REFUSALS = {
    "call(fail)": "RangeError",
    "call(async () => fail())": "RangeError",
    "call(() => { throw 'no'; })": "string",
    "call(() => { throw null; })": "object",
    "call(() => unknown)": "ReferenceError",
    "throw refused('it gave null')": None,
}

node = pytest.mark.skipif(shutil.which("node") is None, reason="no Node.js here")


def javascript(folder: Path, text: str) -> Any:
    adapter = folder / "odd.mjs"
    adapter.write_text(text, encoding="utf-8")
    argv = ("node", str(HERE.parent / "host" / "node_host.mjs"), str(adapter), str(folder))
    return make_worker(Target("odd", "node", argv), Limits())


def in_javascript(folder: Path, marks: str, *ways: str) -> dict[str, StepResult]:
    """Return the JavaScript host's answers to odd values of an adapter."""
    with closing(javascript(folder, NODE.replace("MARKED", marks))) as worker:
        assert worker.start().steps == ("read",)
        return {way: worker.ask("read", way) for way in ways}


@node
def test_javascript_tells_content_mistakes_of_an_adapter_and_refusals_of_a_library(tmp_path: Path) -> None:
    answers = in_javascript(tmp_path, "true", *CONTENT, *MISTAKES, *REFUSALS, DIGITS)
    for way, wants in CONTENT.items():
        told = (answers[way].tensors or [{}])[0]
        row = wants if "nbytes" in wants else {**ROW, **wants}
        assert (way, answers[way].outcome, {key: told.get(key) for key in row}) == (way, "accept", row)
    for way in MISTAKES:
        assert (way, answers[way].outcome) == (way, "harness-error")
        assert answers[way].message.startswith("the adapter failed: ")
    for way, exception in REFUSALS.items():
        assert (way, answers[way].outcome, answers[way].exception) == (way, "reject", exception)
    assert answers[DIGITS].metadata == {"a": "\x015\x01", "b": "(a list)", "c": None}
    # An adapter without marks is believed.
    outcomes = {**OWN, "call(fail)": "reject"}
    answers = in_javascript(tmp_path, "false", *outcomes, NOTHING)
    told = (answers.pop(NOTHING).tensors or [ROW])[0]
    assert {way: answer.outcome for way, answer in answers.items()} == outcomes
    assert told.keys().isdisjoint({"dtype", "shape"})


@node
def test_an_adapter_in_javascript_that_is_none_is_told_at_the_start(tmp_path: Path) -> None:
    for attributes, words in (
        ('lacks: "dtype-f4"', "lacks of the adapter must be an array of names"),
        ("open: 5", "open of the adapter must be a method, not of the type number"),
    ):
        text = f"export const make = () => ({{ name: 'odd', read: () => [], {attributes} }});"
        with pytest.raises(StartError, match=words):
            javascript(tmp_path, text).start()


def test_what_a_writer_imports_late_leaves_no_bytecode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imported_late.py").write_text(f"NAMES = {[f'name {n}' for n in range(500)]}", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    with host.file_size_limit(100):
        importlib.import_module("imported_late")
    assert not sys.dont_write_bytecode
    assert not [*tmp_path.rglob("*.pyc")]
