"""What a header costs: a small multiple of its size whatever it holds, and an answer where memory ends."""

from __future__ import annotations

import errno
import json
import mmap
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks.headers import KINDS, written
from benchmarks.memory import memory
from safetensors_reference import InvalidFileError, explain, read_header, safe_open, source
from safetensors_reference.arrays import buffers
from safetensors_reference.header import entries
from safetensors_reference.header import explain as explaining
from safetensors_reference.header import json_text as jsontext
from safetensors_reference.header.read import examine
from safetensors_reference.model.read import explain_index
from safetensors_reference.rules.book import ProfileName
from safetensors_reference.rules.errors import AccessError

from ..strategies import FEWER, mutants
from ..support import W, entry, make, peak, refusal

FIXED = 300_000
"""Bytes that any reading may take, however short the header is."""


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_header_costs_less_than_ten_times_its_size(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explaining, "FAULT_LIMIT", 100)
    monkeypatch.setattr(entries, "MANY_KEYS", 100)
    data = written(kind, 40_000)
    explain(data, "official")  # what is loaded once is no matter of the header
    assert peak(lambda: explain(data, "official")) < 10 * len(data) + FIXED


@pytest.mark.parametrize("kind", ["tensors", "unknown array of objects"])
def test_reading_a_long_header_costs_less_than_ten_times_its_size(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explaining, "FAULT_LIMIT", 100)
    data = written(kind, 1 << 20)
    assert peak(lambda: examine(data)) < 10 * len(data) + FIXED


def nested(depth: int, inner: str) -> bytes:
    """A file whose entry has an unknown field of so many arrays, the innermost of which has two elements."""
    return make(f'{{"w":{W[:-1]},"x":{"[" * depth}0,{inner}{"]" * depth}}}}}', b"abcd")


@FEWER
@given(mutants())
@example(nested(125, "[]"))
@example(nested(124, '{"k":[]}'))
def test_a_container_means_the_same_whether_its_nodes_are_kept_or_not(data: bytes) -> None:
    limit = jsontext.SHORT
    profiles: tuple[ProfileName, ...] = ("official", "hardened")
    for profile in profiles:
        try:
            jsontext.SHORT = 1 << 30
            kept = explain(data, profile)
            jsontext.SHORT = 0
            dropped = explain(data, profile)
        finally:
            jsontext.SHORT = limit
        assert replace(dropped, header=None) == replace(kept, header=None)
        assert dropped.header == kept.header
        assert pickle.loads(pickle.dumps(dropped)) == kept


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (b'[[],{"a b":[0,{"\\n":1e999}]},"1e999"]', ("w", "x", 1, "a b", 1, "\n")),
        (b'{"k":"v","":[{},[0],-1e400]}', ("w", "x", "", 2)),
        (b"[1" + b"0" * 309 + b"]", ("w", "x", 0)),
    ],
)
@pytest.mark.parametrize("limit", [0, 1 << 30])
def test_a_number_out_of_range_is_told_by_its_path_at_any_depth(
    text: bytes, path: tuple[object, ...], limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsontext, "SHORT", limit)
    data = make(b'{"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"x":' + text + b"}}")
    (fault,) = explain(data, "official").faults
    assert (fault.rule, fault.path) == ("HDR-18", path)


texts = st.text(max_size=4)


@FEWER
@given(
    st.dictionaries(texts, st.lists(st.integers(0, 2**64 - 1), max_size=5), max_size=60),
    st.dictionaries(texts, texts, max_size=60),
    st.integers(0, 30_000),
)
def test_many_names_numbers_and_keys_come_back(
    shapes: dict[str, list[int]], metadata: dict[str, str], long: int
) -> None:
    # Under the official profile, nothing overflows behind a zero.
    shapes = {name: [0, *shape] for name, shape in [*shapes.items(), ("long name", [*range(long)])]}
    entries_ = {n: {"dtype": "U8", "shape": shape, "data_offsets": [0, 0]} for n, shape in shapes.items()}
    data = make(json.dumps({"__metadata__": metadata, **entries_}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entries, "MANY_KEYS", 2)
        seen = explain(data, "official").header
    assert seen is not None
    for header in (seen, pickle.loads(pickle.dumps(seen))):
        assert [(t.name, [*t.shape]) for t in header.tensors.values()] == [*shapes.items()]
        assert all(header.tensors[name].name == name for name in shapes)
        assert header.metadata is not None
        assert [*header.metadata.items()] == [*metadata.items()]
        assert ("not there" in header.metadata, 1 in header.metadata) == (False, False)


def test_metadata_of_many_keys_are_a_map_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    data = make('{"__metadata__":{"a":"1","b":"2","c":"\\n"}}')
    few = read_header(data)
    monkeypatch.setattr(entries, "MANY_KEYS", 2)
    assert type(few.metadata) is dict
    assert few == explain(data).header
    with safe_open(data, "raw") as file:
        assert type(file.metadata()) is dict


def test_a_header_that_there_is_no_memory_for_is_an_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data = make(f'{{"w":{W}}}', b"abcd")
    (tmp_path / "a.safetensors").write_bytes(data)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text('{"metadata":{},"weight_map":{"w":"a.safetensors"}}')
    assert explain_index(index).valid
    no_memory = Mock(side_effect=MemoryError)
    monkeypatch.setattr(entries.EntryReader, "entry", no_memory)
    monkeypatch.setattr("safetensors_reference.model.read.examine", explain)  # as what is not proved
    (fault,) = explain(data).faults
    assert (fault.code, fault.rule) == ("LIM_MEMORY", "LIM-06")
    (fault,) = explain_index(index).faults
    assert fault.code == "LIM_MEMORY"
    monkeypatch.setattr(source.MemorySource, "read", lambda _, start, n: no_memory() if n > 8 else data[:8])
    assert refusal(InvalidFileError, read_header, data)[0] == "LIM_MEMORY"
    monkeypatch.setattr(source.PathSource, "read", no_memory)
    (fault,) = explain_index(index).faults
    assert (fault.code, fault.rule) == ("LIM_MEMORY", "LIM-06")


def test_a_tensor_that_there_is_no_memory_for_is_an_error_of_access(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = buffers.THREADED_FROM
    path = tmp_path / "large"
    path.write_bytes(make(f'{{"w":{entry("U8", f"[{size}]", f"[0,{size}]")}}}', bytes(size)))
    with safe_open(path, "raw") as opened:
        reads: tuple[Callable[[], memoryview], ...] = (
            lambda: opened.get_tensor("w"),
            opened.data,
            lambda: opened.get_slice("w")[:],
        )
        assert [read().nbytes for read in reads] == [size] * 3
        monkeypatch.setattr(mmap, "mmap", Mock(side_effect=OSError(errno.ENOMEM, "Cannot allocate memory")))
        for read in reads:
            with pytest.raises(AccessError, match="not enough memory") as caught:
                read()
            assert (caught.value.code, caught.value.rule) == ("LIM_MEMORY", "LIM-06")
            assert str(path) in str(caught.value)


@pytest.mark.nightly
def test_the_bench_prints_a_line_for_each_kind() -> None:
    from click.testing import CliRunner

    arguments = ["--kind", "tensors", "--kind", "deep", "--rounds", "1", "--size", "20000"]
    assert CliRunner().invoke(memory, arguments).exit_code == 2
    arguments[3] = "shape of ones"
    done = CliRunner().invoke(memory, arguments)
    assert done.exit_code == 0, done.output
    assert [line[:13] for line in done.output.splitlines()[-2:]] == ["tensors      ", "shape of ones"]
