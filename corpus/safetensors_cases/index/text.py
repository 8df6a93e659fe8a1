"""Index: files that are not an index, or that have incomplete, unusual or contradictory content."""

from __future__ import annotations

from safetensors_corpus.author.case import accepts, chooses, rejects
from safetensors_corpus.author.file import json_text
from safetensors_corpus.author.index import IndexBuilder, numbered

from .shards import SIZE, A, B, two

MAP = f'"weight_map":{{"a":"{A}","b":"{B}"}}'
WHOLE = f"{{{SIZE},{MAP}}}"
SAME = f'"a":"{A}","b":"{B}"'
NOT_OBJECT = {
    "nothing": "",
    "array": f"[{WHOLE}]",
    "string": '"weight_map"',
    "null": "null",
    "safetensors-file": b"\x02\0\0\0\0\0\0\0{}",
}


@rejects("IDX-01", "IDX_NOT_JSON IDX_NO_WEIGHT_MAP", importance="high", over=NOT_OBJECT)
def not_object(f: IndexBuilder, raw: str | bytes) -> None:
    """The index is not a JSON object: $slug."""
    two(f, raw)


GRAMMAR = {
    "cut-off": WHOLE[:-1],
    "comma-at-end-of-map": WHOLE[:-2] + ",}}",
    "comma-at-end": WHOLE[:-1] + ",}",
    "comment": "/* index */" + WHOLE,
    "single-quotes": WHOLE.replace('"', "'"),
    "nan": WHOLE.replace("16", "NaN"),
    "leading-zero": WHOLE.replace("16", "016"),
    "second-object": WHOLE + WHOLE,
    "nul-behind": WHOLE + "\0",
    "raw-line-feed-in-string": WHOLE.replace("16", '16,"by":"a\nb"'),
}


@rejects("IDX-01", "IDX_NOT_JSON", over=GRAMMAR)
def grammar(f: IndexBuilder, raw: str) -> None:
    """The text breaks the JSON grammar: $slug."""
    two(f, raw)


ENCODINGS = {
    "utf-16": WHOLE.encode("utf-16-le"),
    "utf-16-with-mark": WHOLE.encode("utf-16"),
    "lone-byte-in-tensor-name": WHOLE.encode().replace(b'"a"', b'"a\xe9"'),
    "lone-byte-in-metadata": WHOLE.encode().replace(b"16", b'16,"by":"Andr\xe9"'),
    "surrogate": WHOLE.encode().replace(b'"a"', b'"a\xed\xa0\x80"'),
}


@rejects("IDX-01", "IDX_NOT_JSON", over=ENCODINGS)
def encoding(f: IndexBuilder, raw: bytes) -> None:
    """The text is not UTF-8: $slug."""
    two(f, raw)


@chooses("index-bom", codes="IDX_NOT_JSON")
def byte_order_mark(f: IndexBuilder) -> None:
    """The text begins with the UTF-8 byte-order mark."""
    two(f, b"\xef\xbb\xbf" + WHOLE.encode())


NO_MAP = {
    "missing": f"{{{SIZE}}}",
    "null": f'{{{SIZE},"weight_map":null}}',
    "string": f'{{{SIZE},"weight_map":"{A}"}}',
    "array": f'{{{SIZE},"weight_map":["{A}","{B}"]}}',
    "other-case": WHOLE.replace("weight_map", "Weight_Map"),
    "in-metadata": f'{{"metadata":{{"total_size":16,{MAP}}}}}',
}


@rejects("IDX-01", "IDX_NO_WEIGHT_MAP", importance="high", over=NO_MAP)
def weight_map(f: IndexBuilder, raw: str) -> None:
    """The weight_map of the index is missing or is not an object: $slug."""
    two(f, raw)


@chooses("index-flat-map", codes="IDX_NO_WEIGHT_MAP")
def flat_map(f: IndexBuilder) -> None:
    """The index has no weight_map, and its top-level object maps tensors to shards."""
    two(f, f'{{"a":"{A}","b":"{B}"}}')


VALUES = {"null": "null", "number": "2", "array": f'["{B}"]', "object": f'{{"file":"{B}"}}'}


@rejects("IDX-01", "IDX_NO_WEIGHT_MAP IDX_BAD_FILENAME", importance="high", over=VALUES)
def shard_is(f: IndexBuilder, value: str) -> None:
    """The index maps a tensor to something that is not a string: $slug."""
    two(f, WHOLE.replace(f'"{B}"', value))


@rejects(
    "IDX-12",
    "HDR_DUP_KEY IDX_TENSOR_DUPLICATE IDX_SHARD_MISSING IDX_BAD_FILENAME",
    over={
        "to-other-shard-last": f'"b":"{B}","a":"{A}","b":"{A}"',
        "to-other-shard-first": f'"b":"{A}","a":"{A}","b":"{B}"',
        "escaped": f'{SAME},"\\u0062":"{A}"',
        "to-missing-shard-first": f'"b":"gone.safetensors",{SAME}',
        "to-outside-first": f'"b":"../outside/x.safetensors",{SAME}',
    },
)
def tensor_twice_in_map(f: IndexBuilder, members: str) -> None:
    """A tensor appears twice in the map: $slug.

    Both shards contain the tensor, with different bytes. Parsers that keep the first value disagree with
    those that keep the last.
    """
    f.shard(A, "a", "b")
    f.shard(B, "b")
    f.index(raw=f'{{{SIZE},"weight_map":{{{members}}}}}')


@rejects("IDX-12", "HDR_DUP_KEY", over={"plainly": '"b"', "escaped": '"\\u0062"'})
def tensor_twice_in_map_alike(f: IndexBuilder, key: str) -> None:
    """A tensor appears twice in the map with the same shard, and its second key is written $slug."""
    two(f, f'{{{SIZE},"weight_map":{{{SAME},{key}:"{B}"}}}}')


MAPS = {
    "same": (SAME, SAME),
    "other-shards": (f'"a":"{B}","b":"{A}"', SAME),
    "split": (f'"a":"{A}"', f'"b":"{B}"'),
}


@rejects("IDX-12", "HDR_DUP_KEY", over=MAPS)
def two_weight_maps(f: IndexBuilder, first: str, second: str) -> None:
    """The index has two members named weight_map: $slug."""
    two(f, f'{{{SIZE},"weight_map":{{{first}}},"weight_map":{{{second}}}}}')


META = {"absent": f"{{{MAP}}}", "without-total-size": f'{{"metadata":{{}},{MAP}}}'}
OPEN = "UNCLASSIFIED IDX_SIZE_MISMATCH"


@chooses("index-metadata", codes=OPEN, over=META)
def metadata(f: IndexBuilder, raw: str) -> None:
    """The metadata of the index is incomplete: $slug."""
    two(f, raw)


@chooses("index-metadata-type", codes=OPEN, over={"null": "null", "string": '"16"', "array": "[]"})
def metadata_is(f: IndexBuilder, value: str) -> None:
    """The metadata of the index is not an object: $slug."""
    two(f, f'{{"metadata":{value},{MAP}}}')


SIZES = {
    "0": "0",
    "less-by-1": "15",
    "of-files": "$files",
    "negative": "-16",
    "of-a-larger-model": "141107412992",
    "2p64-plus-16": str(2**64 + 16),
    "400-digits": "1" * 400,
}


@chooses("index-total-size", codes="IDX_SIZE_MISMATCH", importance="high", over=SIZES)
def total_size(f: IndexBuilder, value: str) -> None:
    """The total size in the metadata differs from the size of the tensors: $slug.

    A loader must not use this size to allocate memory or to read data.
    """
    f.budget = {"peak_bytes": 64 << 20}
    files = sum(len(f.shard(shard, tensor).render()) for shard, tensor in ((A, "a"), (B, "b")))
    two(f, WHOLE.replace("16", value.replace("$files", str(files))))


SPELLINGS = {"float": "16.0", "exponent": "1.6e1", "string": '"16"', "1e308": "1e308"}


@chooses("index-total-size-type", codes="IDX_SIZE_MISMATCH", over=SPELLINGS)
def total_size_spelled(f: IndexBuilder, value: str) -> None:
    """The total size is not written as a whole number: $slug."""
    two(f, WHOLE.replace("16", value))


@accepts("IDX-02", level="may")
def metadata_with_more(f: IndexBuilder) -> None:
    """The metadata of the index also contains a parameter count and values of all JSON types."""
    more = '16,"total_parameters":4,"by":"x","nested":{"a":[1,null,true,1.5]}'
    two(f, WHOLE.replace("16", more))


@chooses(
    "foreign-errors",
    "IDX-02",
    codes="IDX_NOT_JSON UNCLASSIFIED",
    over={"in-metadata": f'16,"total_parameters":{"9" * 5000}', "nested": f'16,"by":{{"a":[{"9" * 5000}]}}'},
)
def integer_of_5000_digits(f: IndexBuilder, more: str) -> None:
    """The metadata of the index contains the total size and an integer of 5,000 digits: $slug.

    Python refuses to convert more than 4,300 digits and raises its own error.
    """
    two(f, WHOLE.replace("16", more))


MEMBERS = {
    "first": f'{{"version":1,{SIZE},{MAP}}}',
    "last": f'{{{SIZE},{MAP},"files":["x.safetensors",{{"a":"{B}"}}]}}',
}


@chooses("index-unknown-members", codes="UNCLASSIFIED", over=MEMBERS)
def unknown_member(f: IndexBuilder, raw: str) -> None:
    """The index has a member other than metadata and weight_map: $slug."""
    two(f, raw)


@chooses("index-empty-map", codes="IDX_NO_WEIGHT_MAP UNCLASSIFIED")
def empty_map(f: IndexBuilder) -> None:
    """The map is empty, although a shard exists in the folder."""
    f.shard(A, "a")
    f.index({})


REAL_SIZES = {"13-5-mb": 13_500_000, "20-1-mb": 20_100_000, "23-5-mb": 23_500_000}


@accepts("IDX-13 IDX-01", heavy=True, over=REAL_SIZES, bugs={"20-1-mb": "FB-92", "23-5-mb": "FB-92"})
def as_large_as_real_ones(f: IndexBuilder, size: int) -> None:
    """The index has $value bytes, most of which are spaces before the map.

    The largest real index takes up 23.5 MB. A loader that reads a fixed number of bytes, or has a smaller
    buffer, does not see the map.
    """
    f.shard(A, "a")
    f.shard(B, "b")
    f.padded_index({"a": A, "b": B}, size)


ONLY = "model.safetensors"
ONE = f"""{{
  "metadata": {{
    "total_size": 20
  }},
  "weight_map": {{
    "bias": "{ONLY}",
    "weight": "{ONLY}"
  }}
}}
"""
"""Multi-line index that maps all tensors to one shard."""
LAYERS = {f"layers.{i}.weight": numbered(i + 1, 3) for i in range(3)}
THREE = json_text({"weight_map": LAYERS, "metadata": {"total_size": 24}})
"""One-line index of three shards with one tensor each. The map precedes the metadata."""


def _three_shards(f: IndexBuilder, raw: str | bytes, *more: str) -> None:
    """Write three shards and the index ``raw``. The last shard also contains the tensors in ``more``."""
    for tensor, shard in LAYERS.items():
        last = shard == numbered(3, 3)
        f.shard(shard, *(more if last else ())).tensor(tensor, "BF16", [4])
    f.index(LAYERS | dict.fromkeys(more, numbered(3, 3)), raw=raw)


GRAMMAR_OF_ONE = {
    "cut-off-behind-last-shard": ONE.rpartition('"')[0] + '"',
    "comment-between-members": ONE.replace('"weight_map"', '/* shards */ "weight_map"'),
    "single-quotes-of-a-key": ONE.replace('"weight_map"', "'weight_map'"),
    "infinity": ONE.replace("20", "Infinity"),
    "leading-zeros": ONE.replace("20", "0020"),
    "raw-tab-in-metadata": ONE.replace("20", '20,\n    "by": "a\tb"'),
    "nul-and-line-feed-behind": ONE + "\0\n",
}


@rejects("IDX-01", "IDX_NOT_JSON", over=GRAMMAR_OF_ONE)
def grammar_of_one_shard(f: IndexBuilder, raw: str) -> None:
    """The multi-line index of one shard breaks the JSON grammar: $slug."""
    f.shard(ONLY, weight=("F16", [2, 3]), bias=("F64", []))
    f.index({"bias": ONLY, "weight": ONLY}, raw=raw)


GRAMMAR_OF_THREE = {
    "cut-off-in-metadata": THREE[:-2],
    "comment-at-the-end": THREE + "/* end */",
    "single-quotes-of-a-shard": THREE.replace(f'"{numbered(2, 3)}"', f"'{numbered(2, 3)}'"),
    "nan-in-array": THREE.replace("24", '24,"losses":[0.5,NaN]'),
    "leading-zero-of-a-fraction": THREE.replace("24", '24,"version":01.5'),
    "comma-at-end-of-array": THREE.replace("24", '24,"parts":[1,2,3,]'),
    "nul-and-object-behind": THREE + '\0{"weight_map":{}}',
}


@rejects("IDX-01", "IDX_NOT_JSON", over=GRAMMAR_OF_THREE)
def grammar_of_three_shards(f: IndexBuilder, raw: str) -> None:
    """The one-line index of three shards breaks the JSON grammar: $slug."""
    _three_shards(f, raw)


@rejects("IDX-01", "IDX_NOT_JSON")
def grammar_of_three_shards_raw_tab_in_tensor_name(f: IndexBuilder) -> None:
    """A tensor name in the index contains an unescaped tab, and a shard contains that tensor."""
    text = THREE.replace('"weight_map":{', f'"weight_map":{{"a\tb":"{numbered(3, 3)}",')
    _three_shards(f, text.replace("24", "32"), "a\tb")


@rejects("IDX-01", "IDX_NOT_JSON")
def encoding_utf_16_be_of_three_shards(f: IndexBuilder) -> None:
    """The text of an index of three shards is big-endian UTF-16."""
    _three_shards(f, THREE.encode("utf-16-be"))


TEXTS_OF_ONE = {
    "over-lines": """{
  "metadata": {
    "total_size": 16
  },
  "weight_map": {
    "\\u00e9.weight": "model.safetensors",
    "é.bias": "model.safetensors"
  }
}
""",
    "map-first": '{"weight_map":{"\\u00E9.bias":"model\\u002esafetensors","é.weight":"model.safetensors"},'
    '"metadata":{"total_size":16}}',
}


@accepts("IDX-01", over=TEXTS_OF_ONE)
def text_with_escapes_and_one_shard(f: IndexBuilder, raw: str) -> None:
    """The index of one shard contains non-ASCII letters, both raw and escaped: $slug."""
    f.shard(ONLY, "é.bias").tensor("é.weight", "F16", [2, 2])
    f.index({"é.weight": ONLY, "é.bias": ONLY}, raw=raw)


@accepts("IDX-02", level="may")
def metadata_with_total_parameters(f: IndexBuilder) -> None:
    """The metadata in an index of three shards contains a parameter count, which some writers add."""
    _three_shards(f, THREE.replace("24", '24,"total_parameters":12'))
