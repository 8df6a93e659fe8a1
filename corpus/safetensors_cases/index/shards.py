"""Index: checkpoints that every loader must load, and indexes that disagree with their shards."""

from __future__ import annotations

from string import Template

from safetensors_corpus.author.case import accepts, chooses, rejects
from safetensors_corpus.author.file import pattern
from safetensors_corpus.author.index import INDEX_NAME, SHARD_FAULTS, IndexBuilder, break_shard, numbered

A, B, C = numbered(1, 2), numbered(2, 2), numbered(3, 3)


def two(f: IndexBuilder, raw: str | bytes | None = None) -> None:
    """Add two shards with one tensor each, and their index or the text ``raw`` in its place."""
    f.shard(A, "a")
    f.shard(B, "b")
    f.index({"a": A, "b": B}, raw=raw)


@accepts("IDX-01 IDX-15", importance="high")
def two_shards(f: IndexBuilder) -> None:
    """The checkpoint has two shards with two tensors each."""
    f.shard(A, "a", "b")
    f.shard(B, "c", "d")
    f.index({"a": A, "b": A, "c": B, "d": B})


@accepts("IDX-01 IDX-08 IDX-09 IDX-14 IDX-15", over=(1, 3, 5))
def one_tensor_per_shard(f: IndexBuilder, count: int) -> None:
    """Each shard contains one tensor; number of shards: $value."""
    shards = {f"layers.{i}.weight": numbered(i + 1, count) for i in range(count)}
    for tensor, shard in shards.items():
        f.shard(shard, tensor)
    f.index(shards)


@accepts("IDX-01 HDR-17")
def order_of_map(f: IndexBuilder) -> None:
    """The map alternates between the shards and does not follow the order of their tensors."""
    f.shard(A, "a", "b", "c")
    f.shard(B, "d", "e")
    f.index({"e": B, "c": A, "d": B, "a": A, "b": A})


@accepts("IDX-01")
def dtypes_and_shapes(f: IndexBuilder) -> None:
    """Two shards contain tensors of several dtypes, a scalar and an empty tensor."""
    f.shard(A, scalar=("F64", []), none=("F32", [0, 3]), half=("F16", [2, 2]))
    f.shard(B, "plain", byte=("U8", [3]), brain=("BF16", [1, 5]))
    f.index({"scalar": A, "byte": B, "none": A, "brain": B, "half": A, "plain": B})


@accepts("IDX-01 MET-01")
def shards_with_metadata(f: IndexBuilder) -> None:
    """Each shard has its own metadata."""
    f.shard(A, "a").metadata({"format": "pt", "part": "1"})
    f.shard(B, "b").metadata({"format": "pt", "part": "2", "b": "no tensor"})
    f.index({"a": A, "b": B})


NAMES = {
    "unnumbered": "weights.safetensors",
    "two-dots-inside": "a..b.safetensors",
    "suffix-twice": "a.safetensors.safetensors",
    "tilde": "~a.safetensors",
}


@accepts("IDX-01 IDX-04 IDX-05 IDX-07 IDX-15", over=NAMES)
def shard_name(f: IndexBuilder, name: str) -> None:
    """The name of a shard is a plain file name that does not follow the convention: $value.

    The name does not lead out of the folder, so a check must not reject it.
    """
    f.shard(name, "a")
    f.shard(B, "b")
    f.index({"a": name, "b": B})


@accepts("IDX-15 IDX-05 IDX-01")
def shard_name_percent(f: IndexBuilder) -> None:
    """A shard is named 100%.safetensors.

    The name does not lead out of the folder. A loader that builds URLs from shard names may still fail, since
    a percent sign begins an escape in a URL.
    """
    f.shard("100%.safetensors", "a")
    f.shard(B, "b")
    f.index({"a": "100%.safetensors", "b": B})


TENSORS = {
    "parents": "../../outside",
    "absolute": "/etc/hostname",
    "shard": A,
    "weight-map": "weight_map",
    "empty": "",
    "non-ascii": "\u00e9\u4e2d\U0001f600",
}


@accepts("IDX-01 IDX-12 ENT-09", importance="high", over=TENSORS)
def tensor_name(f: IndexBuilder, name: str) -> None:
    """A tensor has a name that looks like something other than a tensor name: $slug.

    Tensor names are only data. A loader opens files by their shard names.
    """
    f.shard(A, name)
    f.shard(B, "b")
    f.index({name: A, "b": B})


SIZE = '"metadata":{"total_size":16}'
TEXTS = {
    "pretty": '{\n  "metadata": {\n    "total_size": 16\n  },\n'
    '  "weight_map": {\n    "a": "$a",\n    "b": "$b"\n  }\n}\n',
    "map-first": f'{{"weight_map":{{"b":"$b","a":"$a"}},{SIZE}}}',
    "all-whitespace": f'\r\n\t {{\t"weight_map" :\r\n{{ "a" : "$a" , "b":"$b"}} , {SIZE} }}\r\n \t',
    "escapes": f'{{{SIZE},"weight\\u005fmap":{{"\\u0061":"$a","b":"$e"}}}}',
    "map-in-metadata": '{"metadata":{"weight_map":{"a":"$b","c":"$b"}},"weight_map":{"a":"$a","b":"$b"}}',
}


@accepts("IDX-01", over=TEXTS)
def text(f: IndexBuilder, value: str) -> None:
    """The layout of the JSON text is unusual: $slug."""
    two(f, Template(value).substitute(a=A, b=B, e=B.replace("a", "\\u0061")))


@accepts("IDX-01 IDX-15", importance="high", bugs="FB-103 FB-223")
def consolidated_beside_shards(f: IndexBuilder) -> None:
    """The folder of the shards also contains weights files that the index does not name.

    These files contain all tensors of the model and some others. A loader that reads every file in the folder
    loads tensors twice, and may end up with the wrong values.
    """
    two(f)
    f.shard("consolidated.safetensors", "a", "b", "c")
    f.shard("model.safetensors", "a", "b", "d")


@accepts("IDX-01 IDX-15", importance="high", bugs="FB-103 FB-223")
def stray_shard(f: IndexBuilder) -> None:
    """The folder contains a third shard from an earlier version, which the index does not name."""
    two(f)
    f.shard(C, "b", "old")


@accepts("IDX-01 IDX-15")
def broken_file_beside_shards(f: IndexBuilder) -> None:
    """An invalid file whose name ends in .safetensors is in the same folder as the shards."""
    two(f)
    f.file("extra.safetensors", b"no safetensors file")
    f.file("config.json", b"{}")


@rejects(
    "IDX-08",
    "IDX_SHARD_MISSING",
    issue="https://github.com/sgl-project/sglang/pull/32279",
    over={"first": 0, "last": 1},
    bugs="FB-101",
)
def shard_missing(f: IndexBuilder, place: int) -> None:
    """The $slug of two shards does not exist."""
    f.shard((B, A)[place], "ba"[place])
    f.index({"a": A, "b": B})


@rejects("IDX-08", "IDX_SHARD_MISSING")
def shards_all_missing(f: IndexBuilder) -> None:
    """Neither of the two shards exists."""
    f.index({"a": A, "b": B}, metadata={"total_size": 16})


@rejects("IDX-08", "IDX_SHARD_MISSING", over={"in-folder-below": "sub/" + B, "outside": "../outside/" + B})
def shard_only(f: IndexBuilder, place: str) -> None:
    """A shard is not in the folder of the index, but a file elsewhere has its name: $slug."""
    f.shard(A, "a")
    f.shard(place, "b")
    f.index({"a": A, "b": B}, metadata={"total_size": 16})


@rejects("IDX-08", "IDX_SHARD_MISSING")
def shard_missing_tensor_in_other(f: IndexBuilder) -> None:
    """A shard does not exist, and another shard contains its tensor with different bytes."""
    f.shard(A, "a", "b")
    f.index({"a": A, "b": B}, metadata={"total_size": 16})


@rejects("IDX-08", "IDX_SHARD_MISSING", importance="medium")
def shard_pattern(f: IndexBuilder) -> None:
    """A shard name is a glob pattern that matches an existing file."""
    f.shard(A, "a")
    f.shard(B, "b")
    f.index({"a": A, "b": "model-*2-of-00002.safetensors"}, metadata={"total_size": 16})


@rejects("FRM-03 IDX-08", "FRM_TOO_SHORT")
def shard_empty_file(f: IndexBuilder) -> None:
    """A shard is a file of 0 bytes, as after an interrupted download."""
    f.shard(A, "a")
    f.file(B, b"")
    f.index({"a": A, "b": B}, metadata={"total_size": 16})


@rejects("IDX-09", "IDX_TENSOR_MISSING", issue="huggingface/huggingface_hub#4725", bugs="FB-95")
def tensor_in_other_shard(f: IndexBuilder) -> None:
    """The index maps a tensor to one shard, but a different shard contains it."""
    f.shard(A, "a", "b")
    f.shard(B, "c")
    f.index({"a": A, "b": B, "c": B}, metadata={"total_size": 24})


@rejects("IDX-09", "IDX_TENSOR_MISSING")
def tensors_exchanged(f: IndexBuilder) -> None:
    """The index maps each of two tensors to the shard of the other tensor."""
    f.shard(A, "a")
    f.shard(B, "b")
    f.index({"a": B, "b": A}, metadata={"total_size": 16})


@rejects("IDX-09", "IDX_TENSOR_MISSING")
def index_of_an_earlier_division(f: IndexBuilder) -> None:
    """The index describes an earlier division of the same tensors among three shards.

    A save with another limit moved two tensors to the next shard. All shards exist, and together they contain
    exactly the tensors of the index.
    """
    first, second = numbered(1, 3), numbered(2, 3)
    f.shard(first, "a")
    f.shard(second, "b", "c")
    f.shard(C, "d", "e", "f")
    f.index({"a": first, "b": first, "c": second, "d": second, "e": C, "f": C}, metadata={"total_size": 48})


CLAIMED = {
    "name": "c",
    "prefix": "a.weight",
    "other-case": "A",
    "metadata-key": "__metadata__",
    "decomposed": "e\u0301",
}


@rejects("IDX-09 IDX-14", "IDX_TENSOR_MISSING", over=CLAIMED, bugs="FB-95")
def claimed(f: IndexBuilder, name: str) -> None:
    """The index names a tensor that no shard contains: $slug.

    A loader that compares the names in the model only with the index considers the checkpoint complete.
    """
    f.shard(A, "a").metadata({"c": "text"})
    f.shard(B, "b", "\u00e9")
    f.index({"a": A, name: A, "b": B, "\u00e9": B})


OTHERWISE = {
    "decomposed": ("cafe\u0301.weight", "caf\u00e9.weight"),
    "prefix-of-the-model": ("model.norm.weight", "norm.weight"),
}


@rejects("IDX-09 IDX-14", "IDX_TENSOR_MISSING", over=OTHERWISE)
def named_otherwise(f: IndexBuilder, in_index: str, in_shard: str) -> None:
    """The index and the only shard name the same tensor differently: $slug.

    Programs that export a part of a model or that normalize names change one of the two files.
    """
    f.shard(numbered(1, 1), in_shard, "a")
    f.index({in_index: numbered(1, 1), "a": numbered(1, 1)}, metadata={"total_size": 16})


@chooses(
    "index-surplus-tensor",
    codes="IDX_TENSOR_UNINDEXED",
    importance="high",
    over={"first": A, "last": B},
    bugs="FB-73 FB-206",
)
def surplus(f: IndexBuilder, place: str) -> None:
    """The $slug shard contains a tensor that the index does not name."""
    f.shard(A, *("ac" if place == A else "a"))
    f.shard(B, *("bc" if place == B else "b"))
    f.index({"a": A, "b": B})
    f.expect(("a", A), ("b", B), ("c", place), option="load")


@chooses(
    "index-tensor-twice",
    codes="IDX_TENSOR_DUPLICATE",
    importance="critical",
    issue="JustVugg/colibri#1479",
    over={"first": A, "last": B},
    bugs="FB-61 FB-102 FB-206",
)
def tensor_in_two_shards(f: IndexBuilder, mapped: str) -> None:
    """Two shards contain a tensor with different bytes, and the index maps it to the $slug shard.

    In a loader that reads all tensors of all shards, the last copy wins.
    """
    f.shard(A, "a", "twice")
    f.shard(B, "b", "twice")
    f.index({"a": A, "twice": mapped, "b": B})


@chooses(
    "index-tensor-twice",
    codes="IDX_TENSOR_DUPLICATE",
    importance="high",
    over={"dtype": ("I32", 2), "shape": ("F32", 3)},
)
def tensor_in_two_shards_of_other(f: IndexBuilder, dtype: str, length: int) -> None:
    """Another shard contains a copy of the tensor with a different $slug."""
    f.shard(A, "a", twice=(dtype, [length]))
    f.shard(B, "twice")
    f.shard(C, twice=(dtype, [length]), c=("F32", [2]))
    f.index({"a": A, "twice": B, "c": C})


@chooses("index-tensor-twice", codes="IDX_TENSOR_DUPLICATE")
def tensor_in_two_shards_alike(f: IndexBuilder) -> None:
    """Two shards contain the same tensor with the same bytes."""
    f.shard(A, "a").tensor("twice", "F32", [2], pattern("twice", 8))
    f.shard(B, "b").tensor("twice", "F32", [2], pattern("twice", 8))
    f.index({"a": A, "b": B, "twice": B})


OTHERS = {
    "same-kind": "other.safetensors.index.json",
    "variant": "model.fp16.safetensors.index.json",
    "variant-behind": "model.safetensors.index.fp16.json",
    "pickle": "pytorch_model.bin.index.json",
}


@chooses("index-several", codes="UNCLASSIFIED", over=OTHERS)
def second_index(f: IndexBuilder, name: str) -> None:
    """Another index in the same folder maps the tensors to other shards: $value."""
    two(f)
    f.shard("other-1.safetensors", "a", "b")
    other = f"other-1.{'bin' if 'bin' in name else 'safetensors'}"
    f.file(name, f'{{"metadata":{{}},"weight_map":{{"a":"{other}","b":"{other}"}}}}'.encode())


def broken_shard(f: IndexBuilder, fault: str) -> None:
    """One of three shards is broken, where possible in a tensor that the case does not read: $slug.

    A loader that has already loaded the good shards must not return half a model.
    """
    f.shard(A, "a")
    break_shard(f.shard(B, "b"), fault, first="b", last="c")
    f.shard(C, "d")
    f.index({"a": A, "b": B, "d": C}, metadata={"total_size": 24})


for _fault, (_rule, _code) in SHARD_FAULTS.items():
    rejects(_rule, _code, importance="high", over={_fault: _fault})(broken_shard)

PATTERNS = {
    "question-mark-for-one-of-three": ("model-?0003-of-00003.safetensors", 3),
    "brackets-for-the-only-one": ("model-[0-9][0-9][0-9][0-9][0-9]-of-00001.safetensors", 1),
}


@rejects("IDX-08", "IDX_SHARD_MISSING", importance="medium", over=PATTERNS)
def shard_pattern_with(f: IndexBuilder, name: str, count: int) -> None:
    """The last shard name is a glob pattern that matches an existing file: $slug."""
    shards = {f"layers.{i}.weight": numbered(i + 1, count) for i in range(count)}
    for tensor, shard in shards.items():
        f.shard(shard).tensor(tensor, "I16", [3])
    f.index(shards | {f"layers.{count - 1}.weight": name}, metadata={"total_size": 6 * count})


@accepts("IDX-01 ENT-09")
def tensors_called_like_members(f: IndexBuilder) -> None:
    """Tensors in three shards are named like members of the index and like the index file."""
    first, second = numbered(1, 3), numbered(2, 3)
    f.shard(first, metadata=("F16", [2, 2]))
    f.shard(second, total_size=("I64", []), weight_map=("U8", [5]))
    f.shard(C, INDEX_NAME)
    f.index({"total_size": second, INDEX_NAME: C, "metadata": first, "weight_map": second})
