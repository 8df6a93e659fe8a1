"""Sharded: existing files in the folder, and their state after a save."""

from __future__ import annotations

from ...author.case import ACCEPT, accepts, chooses, rejects
from ...author.index import INDEX_NAME, numbered
from ...author.sharded import ShardedBuilder
from ..writer.file import LIMIT, PAGES

EITHER = {"remove": ACCEPT, "keep": ACCEPT}
SINGLE = "model.safetensors"


def _either(f: ShardedBuilder) -> None:
    f.under = {"remove": ["earlier-removed"], "keep": ["earlier-kept"]}


@accepts("IDX-17 IDX-19", importance="high")
def same_names_again(f: ShardedBuilder) -> None:
    """An earlier model has the same tensors and number of shards, so the save replaces every file."""
    f.earlier("ab", "cd")
    f.tensors("abcd")


@accepts("IDX-17 IDX-19", importance="high")
def other_tensors_before(f: ShardedBuilder) -> None:
    """An earlier model has the same number of shards, and tensors that the new index does not name."""
    f.earlier("xy", "zc")
    f.tensors("abcd")


@accepts("IDX-17 IDX-19", importance="high", over={"first": ("xab", "cd"), "last": ("ab", "cdy")})
def one_tensor_more_before(f: ShardedBuilder, shards: tuple[str, ...]) -> None:
    """The $slug shard of an earlier model contains a tensor that is missing from the new model."""
    f.earlier(*shards)
    f.tensors("abcd")


@chooses(
    "sharded-earlier-save",
    "IDX-17",
    options=EITHER,
    level="should",
    importance="high",
    over={"more": ("ab", "c", "d", "e"), "fewer": ("abcd",)},
)
def shards_before(f: ShardedBuilder, shards: tuple[str, ...]) -> None:
    """An earlier model has $slug shards than the new one, so the save does not reuse any file name."""
    f.earlier(*shards)
    f.tensors("abcd")
    _either(f)


@chooses("sharded-earlier-save", "IDX-17", options=EITHER, level="should", importance="high")
def single_file_before(f: ShardedBuilder) -> None:
    """An earlier model is a single file.

    Loaders that prefer a single file do not see the new model if the old file is left.
    """
    f.folder.shard(SINGLE, "a", "b", "c", "d")
    f.tensors("abcd")
    _either(f)


@chooses(
    "sharded-earlier-save",
    "IDX-17",
    options=EITHER,
    level="should",
    importance="high",
    issue="https://github.com/huggingface/diffusers/issues/14719",
)
def single_file_after_shards(f: ShardedBuilder) -> None:
    """The new model fits into one file, and an earlier model has two shards and an index.

    If the index is left without its shards, loaders that prefer an index fail because files are missing.
    """
    f.earlier("ab", "cd")
    f.tensors("abcd")
    f.max_shard_size = 1 << 20
    _either(f)


OTHERS = {
    "variant": ("model.fp16-00001-of-00002.safetensors", "model.fp16-00002-of-00002.safetensors"),
    "name-that-begins-alike": ("model_ema-00001-of-00002.safetensors", "model-old.safetensors"),
    "suffix-behind": ("model.safetensors.bin", "model-00001-of-00002.safetensors.json"),
    "other-model": ("adapter_model.safetensors", "vae-00001-of-00003.safetensors"),
}


@accepts(
    "IDX-20", importance="high", over=OTHERS, bugs={"variant": ("FB-225",), "suffix-behind": ("FB-226",)}
)
def other_files(f: ShardedBuilder, names: tuple[str, ...]) -> None:
    """The folder contains files that do not belong to the saved model, and they must stay: $slug."""
    for name in names:
        f.folder.shard(name, "a")
    f.tensors("abcd")


OUTSIDE = "../outside/x.safetensors"
LEADS = {
    "parents": OUTSIDE,
    "parents-behind-a-dot": f"./{OUTSIDE}",
    "absolute": "@ROOT@/outside/x.safetensors",
}


@accepts("IDX-20 IDX-04", importance="critical", over=LEADS, bugs=("FB-100",))
def index_leads_outside(f: ShardedBuilder, shard: str) -> None:
    """The index of an earlier model maps its tensors to a file outside the folder: $slug.

    The file exists. A save must neither change nor remove it.
    """
    f.folder.shard(OUTSIDE, "a", "b")
    f.folder.shard(numbered(2, 2), "c", "d")
    second = numbered(2, 2)
    raw = (
        f'{{"metadata":{{"total_size":32}},"weight_map":'
        f'{{"a":"{shard}","b":"{shard}","c":"{second}","d":"{second}"}}}}'
    )
    f.folder.index(raw=raw, template=True)
    f.tensors("abcd")


@accepts("IDX-20 IDX-04", importance="critical", bugs=("FB-100",))
def index_leads_to_a_new_file(f: ShardedBuilder) -> None:
    """The index of an earlier model maps a tensor to a nonexistent path outside the folder."""
    f.folder.shard("../outside/other.safetensors", "x")
    f.folder.index(raw='{"metadata":{},"weight_map":{"a":"../outside/new.safetensors"}}')
    f.tensors("abcd")


BROKEN = {"empty": b"", "cut-off": b'{"weight_map":{"a":', "no-text": b"\xff\xfe\0", "array": b"[]"}


@accepts("IDX-17", over=BROKEN)
def index_before_is_broken(f: ShardedBuilder, data: bytes) -> None:
    """The new index replaces a broken one: $slug."""
    f.folder.file(INDEX_NAME, data)
    f.tensors("abcd")


def _too_much(f: ShardedBuilder) -> None:
    """Save a small shard, and then one that does not fit on the disk."""
    f.tensors("ab")
    f.tensor("c", "U8", [PAGES], b"\x07" * PAGES)
    f.max_shard_size = PAGES
    f.file_size_limit = LIMIT
    f.properties = ["no-mixture"]


@rejects(
    "IDX-21", codes="IO_ERROR", importance="high", over={"same-names": ("ab", "cd"), "other-names": ("abcd",)}
)
def disk_full_at_the_second_shard(f: ShardedBuilder, shards: tuple[str, ...]) -> None:
    """The disk is full after the first of two shards is written over an earlier model: $slug.

    The writer must not leave an index that describes shards of both saves.
    """
    f.earlier(*shards)
    _too_much(f)


@rejects("IDX-21 IDX-17", codes="IO_ERROR", importance="high")
def disk_full_in_a_new_folder(f: ShardedBuilder) -> None:
    """The disk is full after the first of two shards, so no index may name the second one."""
    _too_much(f)
