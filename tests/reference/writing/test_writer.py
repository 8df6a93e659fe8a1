"""The framework-neutral writer: the layout of the file, its JSON, and every refusal."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from safetensors_reference import DTYPE_BITS, explain
from safetensors_reference.rules.errors import WriteError
from safetensors_reference.writing.writer import FILE_ORDER, DeferredBytes, TensorData, plan

from .. import naive
from ..strategies import FEWER, Model, models
from ..support import refusal
from .support import read_official

ONE = ("U8", (1,), 0, 1)


def wide(data: bytes) -> memoryview:
    return memoryview(data).cast("H" if len(data) % 2 == 0 else "B")


def deferred(data: bytes) -> DeferredBytes:
    return DeferredBytes(len(data), lambda: data)


@FEWER
@given(models(), st.lists(st.sampled_from([bytes, bytearray, wide, deferred]), min_size=3, max_size=3))
@example(Model({"😀": ONE, "\uffee": ONE}, {"😀": "", "\uffee": ""}, b"", b"ab"), [bytes] * 3)
def test_what_was_written_is_read_by_all_readers_and_laid_out_as_the_rules_say(
    model: Model, kinds: list[Any]
) -> None:
    wanted = {n: (code, shape, model.data[a:b]) for n, (code, shape, a, b) in model.tensors.items()}
    given_tensors = [
        TensorData(name, code, shape, kind(data))
        for (name, (code, shape, data)), kind in zip(wanted.items(), kinds, strict=False)
    ]
    strings = model.metadata
    file = plan(given_tensors, strings).to_bytes()
    assert plan(given_tensors[::-1], strings).to_bytes() == file
    assert explain(file).faults == []
    content = naive.read(file)
    assert content.metadata == strings
    start = 8 + int.from_bytes(file[:8], "little")
    header, data = file[8:start], file[start:]
    found = {n: (code, shape, data[begin:end]) for n, (code, shape, begin, end) in content.tensors.items()}
    assert found == wanted == read_official(file)
    tree = json.loads(header)
    # Compact JSON: parsing and writing it again gives the same text, so there is no optional space in it.
    again = json.dumps(tree, ensure_ascii=False, separators=(",", ":")).encode()
    assert header == again + b" " * (-len(again) % 8)
    if strings is not None:
        assert next(iter(tree)) == "__metadata__"
        assert list(tree.pop("__metadata__")) == sorted(strings, key=str.encode)
    # Names are sorted by their UTF-8: UTF-16, which some languages sort by, has another order.
    order = [(FILE_ORDER.index(entry["dtype"]), name.encode()) for name, entry in tree.items()]
    assert order == sorted(order)
    ends = [0, *(entry["data_offsets"][1] for entry in tree.values())]
    assert [entry["data_offsets"][0] for entry in tree.values()] == ends[:-1]


def test_every_dtype_has_its_place_in_the_file() -> None:
    assert sorted(FILE_ORDER) == sorted(DTYPE_BITS) == sorted(naive.BITS)
    widths = [DTYPE_BITS[code] for code in FILE_ORDER if code != "BOOL"]
    assert widths[: widths.index(6)] == sorted(widths[: widths.index(6)], reverse=True)


REFUSED: list[tuple[str, str, list[tuple[str, tuple[Any, ...], Any]]]] = [
    # code, rule, and the dtype, shape and data of what is refused beside another tensor; the corpus has more
    ("WRT_UNSUPPORTED_DTYPE", "WRT-09", [("F128", (1,), bytes(16)), ("u8", (1,), b"a")]),
    ("WRT_SIZE_MISMATCH", "WRT-17", [
        ("U8", (2,), DeferredBytes(1, bytes)), ("F4", (3,), b"a"),
        *(("U8", shape, b"a") for shape in ((-1, -1), (1.0,), (True,))),
    ]),
    ("SHP_OVERFLOW", "WRT-20", [
        *(("U8", shape, b"") for shape in ((2**63, 2, 0), (0, 2**63, 2), (0, 2**64), (2,) * 100_000)),
    ]),
    ("WRT_NOT_CONTIGUOUS", "WRT-07", [("U8", (2,), memoryview(b"abcd")[::2])]),
]  # fmt: skip


@pytest.mark.parametrize(("code", "rule", "refused"), REFUSED)
def test_refused_tensors(code: str, rule: str, refused: list[tuple[str, Any, Any]]) -> None:
    for number, last in enumerate(refused):
        tensors = [TensorData("first", "U8", (1,), b"a"), TensorData("x", *last)]
        assert refusal(WriteError, plan, tensors) == (code, rule), number
    for odd in [TensorData(name, "U8", (1,), b"a") for name in (1, b"a", None)]:  # type: ignore[arg-type]
        assert refusal(WriteError, plan, [odd]) == ("WRT_BAD_NAME", "WRT-10")


@pytest.mark.parametrize("more", range(9))
def test_padding_counts_towards_the_cap(more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("safetensors_reference.header.read.HEADER_CAP", 1000)
    strings = {"": "x" * (993 - len(b'{"__metadata__":{"":""}}') + more)}
    if more <= 7:
        assert len(plan([], strings).to_bytes()) == 1008
    else:
        refusal(WriteError, plan, [], strings)


@pytest.mark.parametrize("size", [0, 1, 3])
def test_deferred_data_of_another_size_than_announced(size: int) -> None:
    file = plan([TensorData("x", "U8", (2,), DeferredBytes(2, lambda: bytes(size)))])
    with pytest.raises(WriteError, match=rf"the data has {size} bytes?$") as caught:
        file.to_bytes()
    assert caught.value.code == "WRT_SIZE_MISMATCH"
