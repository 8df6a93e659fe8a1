"""Models of several files as one unit: whole, or what is missing, doubled, left over."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetensors_reference import explain
from safetensors_reference.files.names import find_models, shard_name
from safetensors_reference.model.judge import MAX_DUPLICATES, ModelJudgement, judge_model
from safetensors_reference.model.read import Shard, shard_of
from safetensors_reference.rules.book import rule_book
from safetensors_reference.rules.errors import AccessError

from ..support import make

INDEX = "model.safetensors.index.json"
A, B, C = (shard_name("model", n, 3) for n in (1, 2, 3))


def shard(*names: str) -> Shard:
    """A file with a tensor of four bytes for each name."""
    header = {
        n: {"dtype": "U8", "shape": [4], "data_offsets": [4 * i, 4 * i + 4]} for i, n in enumerate(names)
    }
    return shard_of(explain(make(json.dumps(header), bytes(4 * len(names)))))


BROKEN = shard_of(explain(make('{"w":1}')))


@dataclass
class Folder:
    """A whole model of three shards; tests change what they are about."""

    shards: dict[str, Shard] = field(default_factory=lambda: {A: shard("a"), B: shard("b"), C: shard("c")})
    weight_map: dict[str, Any] | None = field(default_factory=lambda: {"a": A, "b": B, "c": C})
    total: int = 12
    more: tuple[str, ...] = ()

    def judge(self) -> ModelJudgement:
        text = json.dumps({"metadata": {"total_size": self.total}, "weight_map": self.weight_map}).encode()
        names = {*self.shards, *self.more, *([] if self.weight_map is None else [INDEX])}
        model = next(m for m in find_models(names) if m.stem == "model")
        judged = judge_model(model, None if self.weight_map is None else text, self.shards, names)
        for finding in judged.findings:
            rule = rule_book().rules[finding.issue.rule]
            assert finding.code is None or finding.inner or finding.code in rule.codes
            assert json.loads(json.dumps(finding.to_dict()))["rule"] == rule.id
        return judged


ONE, OLD = "model.safetensors", shard_name("model", 1, 2)
SECOND = {A: shard("a"), C: shard("c")}
Told = tuple[str, str | None, str, str | None]
FOLDERS: dict[str, tuple[Folder, list[Told]]] = {
    "whole": (Folder(), []),
    "whole without an index": (Folder(weight_map=None), [(A, None, "IDX-15", None)]),
    "a missing shard": (Folder(SECOND), [(INDEX, "IDX_SHARD_MISSING", "IDX-08", "$['weight_map']['b']")]),
    "a missing shard without an index": (
        Folder(SECOND, weight_map=None),
        [(B, "IDX_SHARD_MISSING", "IDX-08", None), (A, None, "IDX-15", None)],
    ),
    "a gap in the numbers": (Folder(SECOND, {"a": A, "c": C}, 8), [(INDEX, None, "IDX-15", None)]),
    "one file with an index": (Folder({ONE: shard("a")}, {"a": ONE}, 4), []),
    "a tensor elsewhere and twice": (
        Folder({**SECOND, B: shard("a", "c")}),
        [
            (INDEX, "IDX_TENSOR_DUPLICATE", "IDX-11", "$['weight_map']['a']"),
            (INDEX, "IDX_TENSOR_MISSING", "IDX-09", "$['weight_map']['b']"),
            (INDEX, "IDX_TENSOR_DUPLICATE", "IDX-11", "$['weight_map']['c']"),
        ],
    ),
    "a tensor twice without an index": (
        Folder({**SECOND, B: shard("a", "b")}, weight_map=None),
        [(B, "IDX_TENSOR_DUPLICATE", "IDX-11", "$['a']"), (A, None, "IDX-15", None)],
    ),
    "a broken shard": (
        Folder({**SECOND, B: BROKEN}, weight_map=None),
        [(B, "ENT_NOT_OBJECT", "ENT-01", "$['w']"), (A, None, "IDX-15", None)],
    ),
    "shards of an earlier save": (Folder(more=(OLD,)), [(OLD, None, "IDX-19", None)]),
    "shards of an earlier save without an index": (
        Folder(weight_map=None, more=(OLD,)),
        [
            (shard_name("model", 2, 2), "IDX_SHARD_MISSING", "IDX-08", None),
            (OLD, None, "IDX-15", None),
            (A, None, "IDX-19", None),
        ],
    ),
    "other candidates": (
        Folder(more=(ONE, "consolidated.safetensors", "b.safetensors.index.json")),
        [
            (ONE, None, "IDX-15", None),
            (INDEX, None, "IDX-16", None),
            ("consolidated.safetensors", None, "IDX-15", None),
        ],
    ),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_what_is_told_of_a_folder(name: str) -> None:
    folder, told = FOLDERS[name]
    judged = folder.judge()
    assert [(f.file, f.code, f.issue.rule, f.field) for f in judged.findings] == told
    whole = not judged.of("fault")
    assert judged.status == ("valid" if whole else "invalid")
    sizes = (len(folder.shards), folder.total) if whole else (None, None)
    assert (judged.tensors, judged.data_size) == sizes


def test_messages_say_what_is_missing() -> None:
    for name, words in (
        ("whole without an index", 'the 3 shards of "model" have no index, which some loaders need'),
        ("a missing shard", f'"{B}" does not exist'),
        ("a missing shard without an index", f'"{B}" does not exist; according to the names of the other'),
        ("a gap in the numbers", 'the index names 2 of 3 shards of "model", but not number 2'),
    ):
        assert words in FOLDERS[name][0].judge().findings[0].issue.message


def test_a_shard_that_was_not_read_leaves_it_open() -> None:
    folder = Folder()
    folder.shards[B] = Shard(unread="HTTP 503")
    judged = folder.judge()
    assert (judged.status, judged.unread, judged.tensors) == ("unreadable", {B: "HTTP 503"}, None)
    assert judged.findings == []
    folder.weight_map = None
    assert folder.judge().status == "unreadable"
    folder = Folder(more=(B,))
    del folder.shards[B]
    assert folder.judge().unread == {B: "it was not read"}


def test_copies_of_a_shard_are_cut() -> None:
    names = [f"t{n}" for n in range(MAX_DUPLICATES + 5)]
    folder = Folder({A: shard(*names), B: shard(*names), C: shard()}, weight_map=None)
    judged = folder.judge()
    assert (len(judged.of("fault")), judged.complete) == (MAX_DUPLICATES, False)


def test_a_shard_that_the_index_does_not_name() -> None:
    folder = Folder(weight_map={"a": A, "c": C}, total=8)
    folder.shards[B] = shard("a", "b")
    (note,) = folder.judge().findings
    assert (note.file, note.issue.rule) == (B, "IDX-19")
    assert "; 1 of its tensors are also in the model" in note.issue.message


def test_an_index_that_is_no_json_and_an_unknown_profile() -> None:
    (model,) = find_models([INDEX])
    judged = judge_model(model, b"[", {}, [INDEX])
    assert (judged.status, judged.of("fault")[0].code) == ("invalid", "IDX_NOT_JSON")
    with pytest.raises(AccessError):
        judge_model(model, b"{}", {}, [INDEX], "lax")  # type: ignore[arg-type]


@given(
    st.sets(st.sampled_from([A, B, C])), st.booleans(), st.integers(0, 20), st.sets(st.sampled_from("abc"))
)
def test_it_is_whole_just_when_nothing_is_missing(
    gone: set[str], indexed: bool, total: int, held: set[str]
) -> None:
    folder = Folder(total=total) if indexed else Folder(weight_map=None)
    for name, tensor in zip((A, B, C), "abc", strict=True):
        if indexed and tensor not in held:
            folder.shards[name] = shard()
        if name in gone:
            del folder.shards[name]
    if not folder.shards and not indexed:
        return
    whole = not gone and (not indexed or (total == 12 and held == set("abc")))
    assert (folder.judge().status == "valid") == whole
