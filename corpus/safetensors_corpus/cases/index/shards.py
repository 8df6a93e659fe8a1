"""Index: what the index says against what the shards hold."""

from __future__ import annotations

from ...author.case import ACCEPT, Accept, Reject, chooses, reject, rejects
from ...author.file import pattern
from ...author.index import IndexBuilder, numbered
from ...author.shard_faults import SHARD_FAULTS, break_shard

A, B, C = numbered(1, 2), numbered(2, 2), numbered(3, 3)
SGLANG = "https://github.com/sgl-project/sglang/pull/32279"
HELPER = "https://github.com/huggingface/huggingface_hub/issues/4725"
VLLM = "https://github.com/vllm-project/vllm/pull/54230"
OVERLAY = "https://github.com/JustVugg/colibri/issues/1479"


@rejects(
    "IDX-08",
    codes="IDX_SHARD_MISSING",
    importance="high",
    issue=SGLANG,
    over={"first": 0, "last": 1},
    bugs=("FB-101",),
)
def shard_missing(f: IndexBuilder, place: int) -> None:
    """The $slug of two shards does not exist."""
    f.shard((B, A)[place], "ba"[place])
    f.index({"a": A, "b": B})


@rejects("IDX-08", codes="IDX_SHARD_MISSING", importance="high")
def shards_all_missing(f: IndexBuilder) -> None:
    """Neither shard exists."""
    f.index({"a": A, "b": B}, metadata={"total_size": 16})


@rejects(
    "IDX-08",
    codes="IDX_SHARD_MISSING",
    importance="high",
    over={"in-folder-below": "sub/" + B, "outside": "../outside/" + B},
)
def shard_only(f: IndexBuilder, place: str) -> None:
    """A shard is not beside the index, but a file of its name lies elsewhere: $slug."""
    f.shard(A, "a")
    f.shard(place, "b")
    f.index({"a": A, "b": B}, metadata={"total_size": 16})


@rejects("IDX-08", codes="IDX_SHARD_MISSING", importance="high")
def shard_missing_tensor_in_other(f: IndexBuilder) -> None:
    """A shard does not exist, and the tensor mapped to it lies in another one, with other bytes."""
    f.shard(A, "a", "b")
    f.index({"a": A, "b": B}, metadata={"total_size": 16})


@rejects("IDX-08", codes="IDX_SHARD_MISSING")
def shard_pattern(f: IndexBuilder) -> None:
    """A shard name is a pattern that fits a file."""
    f.shard(A, "a")
    f.shard(B, "b")
    f.index({"a": A, "b": "model-*2-of-00002.safetensors"}, metadata={"total_size": 16})


@rejects("FRM-03", "IDX-08", codes="FRM_TOO_SHORT", importance="high")
def shard_empty_file(f: IndexBuilder) -> None:
    """A shard is a file of 0 bytes, as a download that was broken off leaves it."""
    f.shard(A, "a")
    f.file(B, b"")
    f.index({"a": A, "b": B}, metadata={"total_size": 16})


@rejects("IDX-09", codes="IDX_TENSOR_MISSING", importance="high", issue=HELPER, bugs=("FB-95",))
def tensor_in_other_shard(f: IndexBuilder) -> None:
    """The index maps a tensor to one shard, and another one holds it."""
    f.shard(A, "a", "b")
    f.shard(B, "c")
    f.index({"a": A, "b": B, "c": B}, metadata={"total_size": 24})


@rejects("IDX-09", codes="IDX_TENSOR_MISSING", importance="high")
def tensors_exchanged(f: IndexBuilder) -> None:
    """The index maps two tensors to each other's shards."""
    f.shard(A, "a")
    f.shard(B, "b")
    f.index({"a": B, "b": A}, metadata={"total_size": 16})


CLAIMED = {
    "name": "c",
    "prefix": "a.weight",
    "other-case": "A",
    "metadata-key": "__metadata__",
    "decomposed": "e\u0301",
}


@rejects("IDX-09", "IDX-14", codes="IDX_TENSOR_MISSING", importance="high", over=CLAIMED, bugs=("FB-95",))
def claimed(f: IndexBuilder, name: str) -> None:
    """The index names a tensor that no shard holds: $slug.

    A loader that compares the model only with the index believes that everything is there.
    """
    f.shard(A, "a").metadata({"c": "text"})
    f.shard(B, "b", "\u00e9")
    f.index({"a": A, name: A, "b": B, "\u00e9": B})


SURPLUS: dict[str, Accept | Reject] = {
    "ignore": ACCEPT,
    "load": ACCEPT,
    "reject": reject("IDX_TENSOR_UNINDEXED"),
}


@chooses(
    "index-surplus-tensor",
    options=SURPLUS,
    importance="high",
    over={"first": A, "last": B},
    bugs=("FB-73", "FB-206"),
)
def surplus(f: IndexBuilder, place: str) -> None:
    """The $slug shard holds a tensor that the index does not name."""
    f.shard(A, *("ac" if place == A else "a"))
    f.shard(B, *("bc" if place == B else "b"))
    f.index({"a": A, "b": B})
    f.finds(("a", A), ("b", B), ("c", place), option="load")


TWICE: dict[str, Accept | Reject] = {"index": ACCEPT, "reject": reject("IDX_TENSOR_DUPLICATE")}


@chooses(
    "index-tensor-twice",
    options=TWICE,
    importance="critical",
    issue=OVERLAY,
    over={"first": A, "last": B},
    bugs=("FB-61", "FB-102", "FB-206"),
)
def tensor_in_two_shards(f: IndexBuilder, mapped: str) -> None:
    """Two shards hold a tensor with other bytes; the index maps it to the $slug one.

    A loader that goes through all tensors of all shards lets the one that comes last win.
    """
    f.shard(A, "a", "twice")
    f.shard(B, "b", "twice")
    f.index({"a": A, "twice": mapped, "b": B})


@chooses(
    "index-tensor-twice", options=TWICE, importance="high", over={"dtype": ("I32", 2), "shape": ("F32", 3)}
)
def tensor_in_two_shards_of_other(f: IndexBuilder, form: tuple[str, int]) -> None:
    """The copy in the shard that does not count has another $slug."""
    f.shard(A, "a", twice=(form[0], [form[1]]))
    f.shard(B, "twice")
    f.shard(C, twice=(form[0], [form[1]]), c=("F32", [2]))
    f.index({"a": A, "twice": B, "c": C})


@chooses("index-tensor-twice", options=TWICE)
def tensor_in_two_shards_alike(f: IndexBuilder) -> None:
    """Two shards hold the same tensor with the same bytes."""
    f.shard(A, "a").tensor("twice", "F32", [2], pattern("twice", 8))
    f.shard(B, "b").tensor("twice", "F32", [2], pattern("twice", 8))
    f.index({"a": A, "b": B, "twice": B})


SEVERAL: dict[str, Accept | Reject] = {"opened": ACCEPT, "reject": reject("UNCLASSIFIED")}
OTHERS = {
    "same-kind": "other.safetensors.index.json",
    "variant": "model.fp16.safetensors.index.json",
    "pickle": "pytorch_model.bin.index.json",
}


@chooses("index-several", options=SEVERAL, over=OTHERS)
def second_index(f: IndexBuilder, name: str) -> None:
    """Another index lies beside the one that is opened and maps the tensors elsewhere: $value."""
    f.shard("other-1.safetensors", "a", "b")
    suffix = "bin" if "bin" in name else "safetensors"
    f.file(
        name, f'{{"metadata":{{}},"weight_map":{{"a":"other-1.{suffix}","b":"other-1.{suffix}"}}}}'.encode()
    )
    f.shard(A, "a")
    f.shard(B, "b")
    f.index({"a": A, "b": B})


def broken_shard(f: IndexBuilder, fault: str) -> None:
    """One of three shards is broken, in a tensor that nobody asks for where that is possible: $slug.

    A loader that has begun with the good shards must not end with half a model.
    """
    f.shard(A, "a")
    break_shard(f.shard(B, "b"), fault, first="b", last="c")
    f.shard(C, "d")
    f.index({"a": A, "b": B, "d": C}, metadata={"total_size": 24})


for _fault, (_rule, _code) in SHARD_FAULTS.items():
    rejects(_rule, codes=_code, importance="high", over={_fault: _fault})(broken_shard)
