"""Sharded: the model, its division into shards, its index, and existing files in the folder."""

from __future__ import annotations

from safetensors_corpus.author.case import accepts, chooses, rejects
from safetensors_corpus.author.file import pattern
from safetensors_corpus.author.index import INDEX_NAME, numbered
from safetensors_corpus.author.write import ShardedBuilder

from .writer.file import LIMIT, PAGES

NAMED = ["conventional-names"]
LIMITED = ["within-limit"]


@accepts("IDX-17 IDX-15 IDX-03", importance="high")
def two_shards(f: ShardedBuilder) -> None:
    """Four tensors are saved in two shards of two tensors each."""
    f.tensors("abcd")
    f.properties = [*NAMED, *LIMITED]


@accepts("IDX-17 IDX-15", importance="high")
def everything_fits(f: ShardedBuilder) -> None:
    """The limit is larger than the whole model, which is saved in one file with or without an index."""
    f.tensors("abc")
    f.max_shard_size = 1 << 20
    f.properties = NAMED


@accepts("IDX-18 IDX-17", over=(3, 12))
def every_tensor_above_the_limit(f: ShardedBuilder, count: int) -> None:
    """Each of $value tensors is larger than the limit and is saved in its own shard."""
    f.tensors([f"layers.{number}.weight" for number in range(count)])
    f.max_shard_size = 1
    f.properties = LIMITED


@accepts("IDX-18 IDX-17", over={"first": "abcd", "middle": "bcad", "last": "bcda"})
def one_above_the_limit(f: ShardedBuilder, names: str) -> None:
    """One tensor is larger than the limit and comes $slug."""
    for name in names:
        f.tensor(name, "F32", [40 if name == "a" else 4])
    f.properties = LIMITED


@accepts("IDX-18", over={"just-filled": 32, "one-byte-less": 31})
def limit(f: ShardedBuilder, size: int) -> None:
    """Four tensors of 16 bytes are saved with a limit of $value bytes, which does not include headers."""
    f.tensors("abcd")
    f.max_shard_size = size
    f.properties = LIMITED


@accepts("IDX-17 IDX-15", over=(101, 100, 112))
def many_shards(f: ShardedBuilder, count: int) -> None:
    """A model is saved in $value shards, whose numbers have the usual five digits."""
    for number in range(count):
        f.tensor(f"t{number}", "U8", [2])
    f.max_shard_size = 2
    f.properties = NAMED


@accepts("IDX-17 IDX-03", over={"between": "aeb", "first": "eab", "last": "abe"})
def tensor_without_bytes(f: ShardedBuilder, names: str) -> None:
    """An empty tensor comes $slug, and is saved and mapped like any other tensor."""
    for name in names:
        f.tensor(name, "F32", [0, 3] if name == "e" else [4])
    f.max_shard_size = 16


@accepts("IDX-17 IDX-03", importance="high")
def total_size_of_dtypes(f: ShardedBuilder) -> None:
    """The model has dtypes of one to eight bytes, a scalar, and tensors of odd lengths.

    The total_size must count only the bytes of the tensors.
    """
    f.tensor("flags", "BOOL", [3], b"\1\0\1")
    f.tensor("bytes", "U8", [5])
    f.tensor("half", "BF16", [3])
    f.tensor("scalar", "F32", [])
    f.tensor("long", "I64", [2])
    f.tensor("double", "F64", [1])


@accepts("IDX-17 IDX-20 ENT-09", importance="high")
def tensors_named_like_paths(f: ShardedBuilder) -> None:
    """Tensors are named like other files, but the writer must not use their names as file names."""
    f.tensors(["../outside/x.safetensors", "/etc/hostname", "model-00002-of-00002.safetensors", "weight_map"])


LIKE_FILES = {
    "shard-above": ("../model-00001-of-00002.safetensors", "b", "c", "d"),
    "absolute": ("/x", "/x/y.safetensors", "C:\\x", "a"),
    "parents": ("..", "../x", "../../outside/x.safetensors", "a"),
    "shards": ("model.safetensors", "model-00001-of-00002.safetensors", "model.safetensors.index.json", "a"),
}


@accepts("IDX-17 IDX-20 ENT-09", importance="high", over=LIKE_FILES)
def tensors_with_names_of_files(f: ShardedBuilder, names: tuple[str, ...]) -> None:
    """Tensors are named like files that a save writes, or like paths outside the folder: $slug."""
    f.tensors(names)


NAMES = {
    "quotes": ('a"b', "c\\d", "a", "b"),
    "quotes-at-the-ends": ('"a"', "\\", "b\\", '"'),
    "backslashes": ("layers\\0", "layers\\1", "c", 'd"'),
    "accents": ("poids.\u00e9", "\u00df", "\u00e4\u00f6\u00fc", "a"),
    "beyond-the-first-plane": ("\U0001f40d", "\U0001d400", "b", "a"),
    "non-ascii": ("\u00e9", "\u4e2d\u6587", "\U0001f600", "a"),
    "digits-and-dots": ("0", "1.", "..", "a"),
}


@accepts("IDX-17 IDX-01 ENT-08", over=NAMES)
def tensor_names(f: ShardedBuilder, names: tuple[str, ...]) -> None:
    """Tensor names contain characters that JSON escapes or that have a special meaning elsewhere: $slug."""
    f.tensors(names)


@accepts("WRT-16 IDX-17", level="should", bugs="FB-41")
def parts_of_one_storage(f: ShardedBuilder) -> None:
    """Four tensors share a storage but no bytes, like the parts of a flat buffer.

    The tensors are independent, so the writer divides the model among shards as usual.
    """
    f.storage("memory", pattern("t", 64))
    for number, name in enumerate("abcd"):
        f.tensor(name, "F32", [4], storage="memory", offset=16 * number)


@accepts("IDX-17 IDX-02 IDX-01")
def metadata(f: ShardedBuilder) -> None:
    """Metadata keys are named like members of the index, and must stay inside the metadata."""
    f.tensors("abcd")
    f.metadata({"format": "pt", "weight_map": "none", "a": "model.safetensors"})


@accepts(
    "IDX-17 IDX-02 IDX-01",
    over={"one-key": {"weight_map": "{}"}, "all-members": {"weight_map": "", "metadata": ""}},
)
def metadata_like_members(f: ShardedBuilder, mapping: dict[str, str]) -> None:
    """The metadata of a model of six shards has keys named like members of the index: $slug."""
    f.tensors("abcdef")
    f.max_shard_size = 16
    f.metadata(mapping)


@chooses(
    "sharded-total-size",
    codes="WRT_BAD_METADATA",
    level="should",
    over={"one-file": 1 << 20, "two-shards": 32},
)
def metadata_named_total_size(f: ShardedBuilder, limit: int) -> None:
    """The metadata has a key named total_size, but an index must still contain the tensor size: $slug."""
    f.tensors("abcd")
    f.max_shard_size = limit
    f.metadata({"total_size": "7"})


@chooses(
    "sharded-total-size",
    codes="WRT_BAD_METADATA",
    level="should",
    over={"of-a-larger-model": "141107412992", "right-as-text": "64"},
)
def metadata_from_another_index(f: ShardedBuilder, size: str) -> None:
    """The caller passes the metadata of another index, which contains its total_size as a string: $slug."""
    f.tensors("abcd")
    f.metadata({"total_size": size, "format": "pt"})


@chooses(
    "sharded-text",
    "IDX-17",
    codes="WRT_UNSUPPORTED_DTYPE",
    level="must",
    bugs="FB-96",
    over={"one-file": 1 << 20, "two-shards": 32},
)
def text_among_tensors(f: ShardedBuilder, limit: int) -> None:
    """The state of the model contains tensors and a string, as in some quantised models: $slug.

    The writer cannot save the string. A writer that omits the string must omit it from the index too.
    """
    f.tensors("abc")
    f.tensor("state", "STRING", [1])
    f.max_shard_size = limit
    f.expect("a", "b", "c")


@chooses("sharded-text", "IDX-17", codes="WRT_UNSUPPORTED_DTYPE", level="must")
def texts_between_tensors(f: ShardedBuilder) -> None:
    """The state of a model of three shards contains strings before the first and between other tensors."""
    for name in ("version", "a", "b", "state", "c"):
        if len(name) == 1:
            f.tensor(name, "F32", [4])
        else:
            f.tensor(name, "STRING", [1])
    f.max_shard_size = 16
    f.expect("a", "b", "c")


SINGLE = "model.safetensors"


def _either(f: ShardedBuilder) -> None:
    f.under = {"remove": ["earlier-removed"], "keep": ["earlier-kept"]}


@accepts("IDX-17 IDX-19", importance="high")
def same_names_again(f: ShardedBuilder) -> None:
    """An earlier model has the same tensors and as many shards, so the save replaces every file."""
    f.earlier("ab", "cd")
    f.tensors("abcd")


@accepts("IDX-17 IDX-19", importance="high")
def other_tensors_before(f: ShardedBuilder) -> None:
    """An earlier model has the same number of shards, and has tensors that the new index does not name."""
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
    level="should",
    importance="high",
    over={"more": ("ab", "c", "d", "e"), "fewer": ("abcd",)},
)
def shards_before(f: ShardedBuilder, shards: tuple[str, ...]) -> None:
    """An earlier model has $slug shards than the new model, so the save does not reuse any file name."""
    f.earlier(*shards)
    f.tensors("abcd")
    _either(f)


@chooses("sharded-earlier-save", "IDX-17", level="should", importance="high")
def shards_before_without_an_index(f: ShardedBuilder) -> None:
    """An earlier save wrote three shards and was interrupted before it wrote its index."""
    for number, names in enumerate(("ab", "c", "d"), 1):
        f.folder.shard(numbered(number, 3), *names)
    f.tensors("abcd")
    _either(f)


@chooses("sharded-earlier-save", "IDX-17", level="should", importance="high")
def single_file_before(f: ShardedBuilder) -> None:
    """An earlier model is a single file.

    Loaders that prefer a single file do not see the new model if the old file remains.
    """
    f.folder.shard(SINGLE, "a", "b", "c", "d")
    f.tensors("abcd")
    _either(f)


@chooses(
    "sharded-earlier-save", "IDX-17", level="should", importance="high", issue="huggingface/diffusers#14719"
)
def single_file_after_shards(f: ShardedBuilder) -> None:
    """The new model fits into one file, and an earlier model has two shards and an index.

    If the index remains without its shards, loaders that prefer an index fail because files are missing.
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


@accepts("IDX-20", importance="high", over=OTHERS, bugs={"variant": "FB-225", "suffix-behind": "FB-226"})
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


@accepts("IDX-20 IDX-04", importance="critical", over=LEADS, bugs="FB-100")
def index_leads_outside(f: ShardedBuilder, shard: str) -> None:
    """The index of an earlier model maps its tensors to a file outside the folder: $slug.

    The file exists. A save must neither change nor remove that file.
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


@accepts("IDX-20 IDX-04", importance="critical", bugs="FB-100")
def index_leads_to_a_new_file(f: ShardedBuilder) -> None:
    """The index of an earlier model maps a tensor to a nonexistent path outside the folder."""
    f.folder.shard("../outside/other.safetensors", "x")
    f.folder.index(raw='{"metadata":{},"weight_map":{"a":"../outside/new.safetensors"}}')
    f.tensors("abcd")


BROKEN = {"empty": b"", "cut-off": b'{"weight_map":{"a":', "no-text": b"\xff\xfe\0", "array": b"[]"}


@accepts("IDX-17", over=BROKEN)
def index_before_is_broken(f: ShardedBuilder, data: bytes) -> None:
    """The new index replaces a broken index: $slug."""
    f.folder.file(INDEX_NAME, data)
    f.tensors("abcd")


def _too_much(f: ShardedBuilder) -> None:
    """Save a small shard, and then a shard that does not fit on the disk."""
    f.tensors("ab")
    f.tensor("c", "U8", [PAGES], b"\x07" * PAGES)
    f.max_shard_size = PAGES
    f.file_size_limit = LIMIT
    f.properties = ["no-mixture"]


FULL = {
    "same-names": ("ab", "cd"),
    "other-names": ("abcd",),
    "other-tensors": ("ax", "yc"),
    "other-division": ("a", "bc"),
}


@rejects("IDX-21", "IO_ERROR", over=FULL)
def disk_full_at_the_second_shard(f: ShardedBuilder, shards: tuple[str, ...]) -> None:
    """The disk is full after the first of two shards is written over an earlier model: $slug.

    The writer must not leave an index that describes shards of both saves.
    """
    f.earlier(*shards)
    _too_much(f)


@rejects("IDX-21 IDX-17", "IO_ERROR")
def disk_full_in_a_new_folder(f: ShardedBuilder) -> None:
    """The disk is full after the first of two shards, so no index may name the second shard."""
    _too_much(f)
