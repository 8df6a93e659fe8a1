"""Sharded indexes: every rule kept and broken, with real shards in a directory."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from safetensors.numpy import save_file

from safetensors_reference import UnreadableError, rule_book
from safetensors_reference.model import index as shard_index
from safetensors_reference.model.read import (
    IndexExplanation,
    InvalidIndexError,
    explain_index,
    open_index,
)
from safetensors_reference.rules.errors import InvalidError
from safetensors_reference.rules.faults import Fault

from ..support import peak, refusal

A, B = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
INDEX = "model.safetensors.index.json"
TENSORS: dict[str, dict[str, npt.NDArray[Any]]] = {
    A: {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros(0, np.int64)},
    B: {"c": np.array(7, np.uint8), "d": np.ones((5,), np.float16)},
}
TOTAL = 24 + 0 + 1 + 10


@dataclass
class Model:
    """A sound sharded model; tests change what they are about and then write the index."""

    folder: Path
    weight_map: dict[str, Any] = field(default_factory=lambda: {"a": A, "b": A, "c": B, "d": B})
    metadata: Any = field(default_factory=lambda: {"total_size": TOTAL})

    def __post_init__(self) -> None:
        self.path = self.folder / INDEX
        for shard, tensors in TENSORS.items():
            save_file(tensors, self.folder / shard, {"format": "np"} if shard == A else None)

    def write(self, text: str | bytes | None = None) -> Path:
        if text is None:
            text = json.dumps({"metadata": self.metadata, "weight_map": self.weight_map})
        self.path.write_bytes(text.encode() if isinstance(text, str) else text)
        return self.path

    def explain(self, text: str | bytes | None = None) -> IndexExplanation:
        seen = explain_index(self.write(text))
        well_formed(seen)
        return seen

    def faults(self, text: str | bytes | None = None) -> list[tuple[str, str]]:
        return [(f.code, f.rule) for f in self.explain(text).faults]

    def one(self, text: str | bytes | None = None) -> tuple[Fault, bytes]:
        """The only fault, and the bytes of the index it points to."""
        (fault,) = self.explain(text).faults
        return fault, self.path.read_bytes()[fault.start : fault.end]


def well_formed(seen: IndexExplanation) -> None:
    book = rule_book()
    for fault in seen.faults + seen.tolerated:
        assert fault.code in book.rules[fault.rule].codes
        assert 0 <= fault.start <= fault.end <= seen.size
        assert len(fault.message) < 1000
    for note in seen.notes:
        assert note.rule in book.rules
        assert 0 <= note.start <= note.end <= seen.size
    places = [(f.start, f.end) for f in seen.faults]
    assert places == sorted(places)


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return Model(tmp_path)


def test_a_sound_model_has_no_faults_and_gives_the_entries_of_all_shards(model: Model) -> None:
    model.metadata["note"] = [1, {"x": "é"}, None, 2.5]
    seen = model.explain()
    assert (seen.faults, seen.tolerated, seen.notes, seen.complete) == ([], [], [], True)
    assert (seen.weight_map, list(seen.shards), seen.sizes) == (model.weight_map, [A, B], {A: 24, B: 11})
    header = open_index(str(model.path))
    assert list(header.tensors) == ["a", "b", "c", "d"]
    assert (header.total_size, header.metadata) == (TOTAL, model.metadata)
    for name, (shard, info) in header.tensors.items():
        assert shard == model.weight_map[name]
        expected = TENSORS[shard][name]
        assert (info.name, info.shape, info.nbytes) == (name, expected.shape, expected.nbytes)
        raw = (model.folder / shard).read_bytes()
        begin = header.shards[shard].data_start + info.begin
        assert raw[begin : begin + info.nbytes] == expected.tobytes()


# ---- IDX-01: a UTF-8 JSON object with a weight_map ----


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        # The places of other faults of grammar are tested with those of headers.
        (b"", b""), (b"[]", b"["), (b"\xef\xbb\xbf{}", b"\xef\xbb\xbf"), (b'{"weight_map":{', b""),
        (b'{"weight_map":{"a"}}', b"}"), (b'{"weight_map":{}}x', b"x"), (b'{"weight_map":{}} {}', b"{}"),
        (b'{"weight_map":{},}', b","), (b'{"weight_map":{},"x":[1,[+2]]}', b"+2"),
        (b'{"weight_map":{},"x":"\xff"}', b"\xff"), (b'{"weight_map":{},"x":"\\ud800"}', b"\\ud800"),
        (b'{"weight_map":{},"x":"open}', b'"open}'),
    ],
)  # fmt: skip
def test_text_that_is_no_utf8_json_object_is_refused(model: Model, text: bytes, marked: bytes) -> None:
    (fault,) = (f for f in model.explain(text).faults if f.code == "IDX_NOT_JSON")
    assert (fault.rule, text[fault.start : fault.end]) == ("IDX-01", marked)
    assert "header" not in fault.message


MAP = json.dumps({"a": A, "b": A, "c": B, "d": B})
MORE = f'{{"metadata":{{}},"weight_map":{MAP[:-1]},%s}}}}'
SIZES = (TOTAL - 1, TOTAL + 1, "1" * 5000, "-0", f'"{TOTAL}"', "null", f"{TOTAL}.5", f"{TOTAL + 1}.0")
ONE_FAULT: list[tuple[str, tuple[str, ...] | None, str, tuple[object, ...]]] = [
    # code and rule, path, the index with the bytes that the fault points to marked, and what may be in it
    ("HDR_TOO_DEEP HDR-16", None, '{"weight_map":{},"x":%s', ("[" * 126 + "<<[>>" + "[" * 10**5,)),
    ("IDX_NO_WEIGHT_MAP IDX-01", (), "<<{%s}>>", ("", f'"a":"{A}"', '"metadata":{"weight_map":{}}')),
    ("IDX_NO_WEIGHT_MAP IDX-01", ("weight_map",), '{"metadata":{"total_size":0},"weight_map":<<%s>>}',
     ("null", '"x"', 3, '[["a","b"]]')),
    ("IDX_NO_WEIGHT_MAP IDX-01", ("weight_map", "e"), MORE % '"e":<<%s>>',
     ("null", 1, "true", '["x"]', f'{{"file":"{A}"}}')),
    ("IDX_SIZE_MISMATCH IDX-03", ("metadata", "total_size"),
     f'{{"metadata":{{"total_size":<<%s>>}},"weight_map":{MAP}}}', (*SIZES, f"{TOTAL}e0", "1e999", "[35]")),
    ("IDX_TENSOR_MISSING IDX-09", ("weight_map", "e"), MORE % '"e":<<"%s">>', (B,)),
    ("IDX_SHARD_MISSING IDX-08", ("weight_map", "e"), MORE % '"e":<<"%s">>', ("gone.safetensors",)),
    ("HDR_DUP_KEY IDX-12", ("weight_map", "a"), MORE % f'<<"%s">>:"{A}"', ("a", r"\u0061")),
    ("HDR_DUP_KEY IDX-12", ("weight_map",), '{"weight_map":{},<<"weight_map">>:%s}', ("{}", '{"a":"../x"}')),
    ("HDR_DUP_KEY IDX-12", ("metadata",), '{"metadata":{%s},"weight_map":{}}',
     ('},<<"metadata">>:{"total_size":0', '"total_size":0,<<"total_size">>:0', '"x":{"y":1,<<"y">>:1}')),
    ("HDR_DUP_KEY IDX-12", ("x",), '{"x":%s,"weight_map":{}}', ('[{"y":1,<<"y">>:1}]', '1,<<"x">>:1')),
]  # fmt: skip
ONE_FAULT_EACH = [(code, path, text % value) for code, path, text, values in ONE_FAULT for value in values]


@pytest.mark.parametrize(("code", "path", "text"), ONE_FAULT_EACH, ids=itertools.count())
def test_one_fault_is_reported_with_its_rule_path_and_bytes(
    model: Model, code: str, path: tuple[str, ...] | None, text: str
) -> None:
    fault, _ = model.one(text.replace("<<", "").replace(">>", ""))
    assert (f"{fault.code} {fault.rule}", fault.path) == (code, path)
    assert (fault.start, fault.end) == (text.index("<<"), text.index(">>") - 2)
    assert fault.choice == ("deep-nesting" if fault.code == "HDR_TOO_DEEP" else None)


@pytest.mark.parametrize(
    ("text", "noted"),
    [
        ('{"weight_map":{}}', ["IDX-02"]),
        (' {"weight_map" : { } }\r\n', ["IDX-02"]),
        ('{"x":[],"weight_map":{}}', ["IDX-02"]),
        (f'{{"weight_map":{MAP}}}'.replace('"a"', '"\\u0061"').replace("-of-", "\\u002dof-"), ["IDX-02"]),
        ('{"metadata":{"weight_map":{},"x":[{"x":1},{"x":1}]},"weight_map":{},"x":{"x":{"x":0}}}', []),
        (f'{{"metadata":{{}},"weight_map":{MAP}}}', []),
        (f'{{"metadata":{{"total_size":{TOTAL}.0}},"weight_map":{MAP}}}', ["IDX-03"]),
        *((f'{{"metadata":{value},"weight_map":{MAP}}}', ["IDX-02"]) for value in ("null", "[1]")),
    ],
)
def test_json_may_be_spelled_in_any_way_and_metadata_may_hold_anything(
    model: Model, text: str, noted: list[str]
) -> None:
    seen = model.explain(text)
    assert (seen.faults, [n.rule for n in seen.notes]) == ([], noted)
    assert (open_index(model.path).metadata is None) == ("IDX-02" in noted)


@pytest.mark.parametrize("copy", [TENSORS[A]["a"], np.zeros(3, np.int8)])
def test_a_second_copy_of_a_tensor_is_reported(model: Model, copy: Any) -> None:
    save_file({**TENSORS[B], "a": copy}, model.folder / B)
    fault, at = model.one()
    assert (fault.code, fault.rule, fault.path) == ("IDX_TENSOR_DUPLICATE", "IDX-11", ("weight_map", "a"))
    assert (at.decode(), B in fault.message) == (f'"{A}"', True)
    for shard in (A, B):
        save_file({**TENSORS[shard], "x": np.zeros(1)}, model.folder / shard)
    assert model.faults() == [("IDX_TENSOR_UNINDEXED", "IDX-10"), ("IDX_TENSOR_DUPLICATE", "IDX-11")]


# ---- IDX-06, IDX-07, IDX-08: the shards as files (names: test_shard_names.py) ----


def test_shards_behind_symbolic_links_are_read_and_noted(model: Model, tmp_path: Path) -> None:
    """The layout of the Hub cache: a snapshot of links to blobs, the index among them."""
    index = model.write().read_bytes()
    snapshot = tmp_path / "snapshots" / "main"
    snapshot.mkdir(parents=True)
    for number, name in enumerate((A, B, INDEX)):
        (tmp_path / name).rename(tmp_path / f"blob{number}")
        (snapshot / name).symlink_to(f"../../blob{number}")
    seen = explain_index(snapshot / INDEX)
    notes = [(n.rule, index[n.start : n.end].decode()) for n in seen.notes]
    assert (seen.faults, notes) == ([], [("IDX-06", f'"{A}"'), ("IDX-06", f'"{B}"')])
    assert "../../blob1" in seen.notes[1].message


@pytest.mark.parametrize(
    "make", [Path.mkdir, os.mkfifo, lambda p: p.symlink_to(p), lambda p: p.symlink_to("/dev/zero")]
)
def test_a_shard_that_is_no_regular_file_is_refused_without_waiting(
    model: Model, make: Callable[[Path], object]
) -> None:
    (model.folder / B).unlink()
    make(model.folder / B)
    fault, _ = model.one()
    assert (fault.code, fault.rule) == ("IDX_SHARD_MISSING", "IDX-08")
    assert ("cannot be read" in fault.message, str(model.folder) in fault.message) == (True, False)


# ---- IDX-09, IDX-10, IDX-11, IDX-14: what the shards hold ----


def test_a_tensor_that_the_index_does_not_name_is_reported_where_it_would_be_added(model: Model) -> None:
    del model.weight_map["d"]
    fault, at = model.one()
    told = ("IDX_TENSOR_UNINDEXED", "IDX-10", ("weight_map",), b"")
    assert (fault.code, fault.rule, fault.path, at) == told
    data = model.path.read_bytes()
    data = data[: fault.start] + f',"d":"{B}"'.encode() + data[fault.start :]
    assert json.loads(data)["weight_map"]["d"] == B


@pytest.mark.parametrize(
    ("name", "shard", "faults"),
    [
        ("d", A, [("IDX_TENSOR_MISSING", "IDX-09"), ("IDX_TENSOR_UNINDEXED", "IDX-10")]),
        ("d", "link.safetensors", [("IDX_TENSOR_DUPLICATE", "IDX-11")] * 2),
        # Nothing is claimed about the content of a broken shard, nor about the total size.
        ("d", "broken.safetensors", [("FRM_TOO_SHORT", "FRM-03"), ("IDX_TENSOR_UNINDEXED", "IDX-10")]),
    ],
)
def test_what_the_shards_hold(model: Model, name: str, shard: str, faults: list[tuple[str, str]]) -> None:
    os.link(model.folder / B, model.folder / "link.safetensors")
    (model.folder / "broken.safetensors").write_bytes(b"\x00")
    model.weight_map[name] = shard
    assert sorted(model.faults()) == faults


def test_total_size_may_count_a_surplus_tensor_or_not(model: Model) -> None:
    del model.weight_map["d"]
    for size, expected in ((TOTAL, False), (TOTAL - 10, False), (TOTAL - 1, True)):
        model.metadata = {"total_size": size}
        assert (("IDX_SIZE_MISMATCH", "IDX-03") in model.faults()) == expected


# ---- IDX-13: the size of an index, and other limits ----


@pytest.mark.parametrize(("limit", "code"), [("METADATA_CAP", "LIM_METADATA"), ("INDEX_CAP", "LIM_MEMORY")])
def test_metadata_and_an_index_of_exactly_the_cap_are_read(
    model: Model, monkeypatch: pytest.MonkeyPatch, limit: str, code: str
) -> None:
    text = json.dumps(model.metadata) if limit == "METADATA_CAP" else model.write().read_text()
    monkeypatch.setattr(shard_index, limit, len(text))
    assert model.faults() == []
    monkeypatch.setattr(shard_index, limit, len(text) - 1)
    fault, at = model.one()
    assert (fault.code, fault.rule) == (code, "LIM-06")
    assert limit == "INDEX_CAP" or at.decode() == text


def test_sizes_that_are_claimed_cost_no_memory(model: Model) -> None:
    model.metadata = {"total_size": 2**62}
    path = model.write()
    assert peak(lambda: explain_index(path)) < 1_000_000
    os.truncate(path, 2**40)
    assert peak(lambda: explain_index(path)) < 1_000_000
    (fault,) = explain_index(path).faults
    assert (fault.code, fault.rule, "IDX-13" in fault.message) == ("LIM_MEMORY", "LIM-06", True)


def test_text_without_meaning_costs_a_small_multiple_of_its_size(model: Model) -> None:
    for filler in (
        "[" + "0," * 20_000 + "0]",
        "[" + "[],{}," * 6_000 + "0]",
        "{" + ",".join(f'"{n}":0' for n in range(6_000)) + "}",
    ):
        text = f'{{"weight_map":{{}},"x":{filler}}}'
        model.path.write_text(text)
        assert peak(lambda: explain_index(model.path).faults) < 20 * len(text)


def test_faults_have_a_limit_that_is_told(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    model.weight_map.update({f"n{i}": i for i in range(20)})
    assert len(model.explain().faults) == 20
    monkeypatch.setattr(shard_index, "FAULT_LIMIT", 7)
    for weight_map in (model.weight_map, {f"n{i}": A for i in range(20)}):
        model.weight_map = weight_map
        seen = model.explain()
        assert (len(seen.faults), seen.complete) == (7, False)
        assert "no more faults" in seen.faults[-1].message


# ---- shards with faults, several faults, errors ----


def test_the_faults_of_a_shard_are_faults_of_the_index(model: Model) -> None:
    path = model.folder / B
    path.write_bytes(path.read_bytes() + b"!")
    size = path.stat().st_size
    fault, at = model.one()
    told = ("OFF_TRAILING", "OFF-08", ("weight_map", "c"), f'"{B}"')
    assert (fault.code, fault.rule, fault.path, at.decode()) == told
    assert fault.message.startswith(f'"{B}" at byte {size - 1:,}: ')
    (inner,) = explain_index(model.path).shards[B].faults
    assert (inner.start, inner.end) == (size - 1, size)


def test_a_shard_tolerated_by_the_profile_is_tolerated_in_the_index(model: Model) -> None:
    path = model.folder / B
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    path.write_bytes((length + 1).to_bytes(8, "little") + b" " + raw[8:])
    assert model.faults() == [("HDR_BAD_START", "HDR-02")]
    seen = explain_index(model.path, "official")
    tolerated = [(f.code, f.path) for f in seen.tolerated]
    assert (seen.faults, tolerated) == ([], [("HDR_BAD_START", ("weight_map", "c"))])
    assert open_index(model.path, "official").total_size == TOTAL
    with pytest.raises(InvalidIndexError):
        open_index(model.path)


def test_all_faults_are_collected_in_the_order_of_the_index(model: Model) -> None:
    (model.folder / B).unlink()
    text = (
        f'{{"metadata":{{"total_size":"x","total_size":1}},'
        f'"weight_map":{{"a":"{A}","a":7,"b":"../b.bin","c":"{B}","z":"{A}",}}}} ?'
    )
    assert model.faults(text) == [
        ("IDX_SIZE_MISMATCH", "IDX-03"), *[("HDR_DUP_KEY", "IDX-12")] * 2, ("IDX_NO_WEIGHT_MAP", "IDX-01"),
        ("IDX_BAD_FILENAME", "IDX-04"), ("IDX_BAD_EXTENSION", "IDX-07"), ("IDX_TENSOR_UNINDEXED", "IDX-10"),
        ("IDX_SHARD_MISSING", "IDX-08"), ("IDX_TENSOR_MISSING", "IDX-09"), *[("IDX_NOT_JSON", "IDX-01")] * 2,
    ]  # fmt: skip


def test_open_index_raises_with_all_faults(model: Model) -> None:
    model.weight_map.update(e=A, f="x.bin")
    with pytest.raises(InvalidIndexError) as caught:
        open_index(model.write())
    err = caught.value
    assert [f.code for f in err.explanation.faults] == ["IDX_TENSOR_MISSING", "IDX_BAD_EXTENSION"]
    assert (err.code, err.rule, isinstance(err, InvalidError)) == ("IDX_TENSOR_MISSING", "IDX-09", True)
    place = r" at byte \d+: .* \(and 1 more fault\)$"
    assert re.match(rf"{re.escape(str(model.path))}: IDX_TENSOR_MISSING \[IDX-09\]{place}", str(err))


def test_an_index_that_cannot_be_read_is_no_invalid_one(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "absent.index.json", tmp_path, tmp_path / "fifo", Path("a\x00b")):
        for function in (explain_index, open_index):
            refusal(UnreadableError, function, path)


def test_messages_stay_short_when_names_are_long(model: Model) -> None:
    name = "n" * 1_000_000
    model.weight_map = {name: A, f"{name}2": name, f"{name}3": f"{name}/x"}
    faults = model.explain().faults
    assert {f.code for f in faults} >= {"IDX_TENSOR_MISSING", "IDX_BAD_FILENAME"}
    assert all(len(str(fault.to_dict())) < 2000 for fault in faults)
