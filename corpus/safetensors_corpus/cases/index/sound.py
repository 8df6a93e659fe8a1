"""Index: checkpoints in several shards that every loader must load."""

from __future__ import annotations

from string import Template

from ...author.case import accepts
from ...author.index import IndexBuilder, numbered

A, B = numbered(1, 2), numbered(2, 2)


@accepts("IDX-01", "IDX-15", importance="high")
def two_shards(f: IndexBuilder) -> None:
    """Two shards with two tensors each."""
    f.shard(A, "a", "b")
    f.shard(B, "c", "d")
    f.index({"a": A, "b": A, "c": B, "d": B})


@accepts("IDX-01", "IDX-08", "IDX-09", "IDX-14", "IDX-15", over={"1": 1, "3": 3, "5": 5})
def one_tensor_per_shard(f: IndexBuilder, count: int) -> None:
    """As many shards as tensors: $value."""
    shards = {f"layers.{i}.weight": numbered(i + 1, count) for i in range(count)}
    for tensor, shard in shards.items():
        f.shard(shard, tensor)
    f.index(shards)


@accepts("IDX-01", "HDR-17")
def order_of_map(f: IndexBuilder) -> None:
    """The map goes back and forth between the shards, and not in the order of their tensors."""
    f.shard(A, "a", "b", "c")
    f.shard(B, "d", "e")
    f.index({"e": B, "c": A, "d": B, "a": A, "b": A})


@accepts("IDX-01")
def dtypes_and_shapes(f: IndexBuilder) -> None:
    """Tensors of several dtypes, a scalar and a tensor without bytes in two shards."""
    f.shard(A, scalar=("F64", []), none=("F32", [0, 3]), half=("F16", [2, 2]))
    f.shard(B, "plain", byte=("U8", [3]), brain=("BF16", [1, 5]))
    f.index({"scalar": A, "byte": B, "none": A, "brain": B, "half": A, "plain": B})


@accepts("IDX-01", "MET-01")
def shards_with_metadata(f: IndexBuilder) -> None:
    """The shards have metadata of their own, each its own."""
    f.shard(A, "a").metadata({"format": "pt", "part": "1"})
    f.shard(B, "b").metadata({"format": "pt", "part": "2", "b": "no tensor"})
    f.index({"a": A, "b": B})


NAMES = {
    "unnumbered": "weights.safetensors",
    "two-dots-inside": "a..b.safetensors",
    "suffix-twice": "a.safetensors.safetensors",
    "tilde": "~a.safetensors",
}


@accepts("IDX-01", "IDX-04", "IDX-05", "IDX-07", "IDX-15", over=NAMES)
def shard_name(f: IndexBuilder, name: str) -> None:
    """A bare file name that does not follow the convention: $value.

    Nothing in it leads out of the folder, and a check that refuses it looks for the wrong thing.
    """
    f.shard(name, "a")
    f.shard(B, "b")
    f.index({"a": name, "b": B})


@accepts("IDX-15", "IDX-05", "IDX-01")
def shard_name_percent(f: IndexBuilder) -> None:
    """A shard is called 100%.safetensors.

    Nothing in the name leads out of the folder. A loader that makes addresses of shard names may refuse it
    all the same, since there the sign begins an escape.
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


@accepts("IDX-01", "IDX-12", "ENT-09", importance="high", over=TENSORS)
def tensor_name(f: IndexBuilder, name: str) -> None:
    """The name of a tensor looks like something else: $slug.

    Names of tensors are data. Only names of shards are ever opened.
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
    """The JSON text is laid out in an unusual way: $slug."""
    f.shard(A, "a")
    f.shard(B, "b")
    f.index({"a": A, "b": B}, raw=Template(value).substitute(a=A, b=B, e=B.replace("a", "\\u0061")))


@accepts("IDX-01", "IDX-15", importance="high", bugs=("FB-103", "FB-223"))
def consolidated_beside_shards(f: IndexBuilder) -> None:
    """A file with all tensors and more lies beside the shards, and the index does not name it.

    Whoever loads every file of the folder loads the tensors twice, and other ones in the end.
    """
    f.shard(A, "a")
    f.shard(B, "b")
    f.shard("consolidated.safetensors", "a", "b", "c")
    f.shard("model.safetensors", "a", "b", "d")
    f.index({"a": A, "b": B})


@accepts("IDX-01", "IDX-15", importance="high", bugs=("FB-103", "FB-223"))
def stray_shard(f: IndexBuilder) -> None:
    """A third shard of an earlier version lies in the folder, and the index does not name it."""
    f.shard(A, "a")
    f.shard(B, "b")
    f.shard("model-00003-of-00003.safetensors", "b", "old")
    f.index({"a": A, "b": B})


@accepts("IDX-01", "IDX-15")
def broken_file_beside_shards(f: IndexBuilder) -> None:
    """Files lie beside the shards that are no safetensors files, though they are called so."""
    f.shard(A, "a")
    f.shard(B, "b")
    f.file("extra.safetensors", b"no safetensors file")
    f.file("config.json", b"{}")
    f.index({"a": A, "b": B})
