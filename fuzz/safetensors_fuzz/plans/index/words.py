"""Names, values and metadata that a random index is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from safetensors_corpus.author.index import INDEX_NAME

BARE = (
    "weights.safetensors",
    "a..b.safetensors",
    "100%.safetensors",
    "a.safetensors.safetensors",
    "~a.safetensors",
)
TENSORS = (
    "../../outside", "/etc/hostname", "weight_map", "metadata", "", "\u00e9\u4e2d\U0001f600", "e\u0301", "A",
    "a.weight", "model-00001-of-00002.safetensors", "a\x7f", 'a"b', "a\\b", "total_size",
)  # fmt: skip
LEADS = (
    "x.safetensors",
    "sub/y.safetensors",
    "../outside/x.safetensors",
    "../owner/repository/x.safetensors",
)
"""Shards that lie where bad names lead, so that a loader that follows them finds something."""
BAD = (
    "../outside/x.safetensors", "sub/../../outside/x.safetensors", "../model/x.safetensors",
    "....//outside/x.safetensors", "sub/../x.safetensors", "@ROOT@/outside/x.safetensors",
    "@ROOT@/model/x.safetensors", "x.safetensors/", "..\\outside\\x.safetensors", "sub\\y.safetensors",
    "..\\outside/x.safetensors", "C:\\outside\\x.safetensors", "\\\\localhost\\outside\\x.safetensors",
    "%2e%2e/outside/x.safetensors", "%2e%2e%2foutside%2fx.safetensors",
    "%252e%252e%252foutside%252fx.safetensors",
    "\uff0e\uff0e\uff0foutside\uff0fx.safetensors", "~/x.safetensors", "x.safetensors\0",
    "x.safetensors\0.safetensors", "x.safetensors\n", "https://localhost/owner/repository/x.safetensors",
    "file://@ROOT@/outside/x.safetensors", "owner/repository/x.safetensors",
    "../../owner/repository/resolve/main/x.safetensors", "owner:x.safetensors", "", ".", "..", "sub",
    INDEX_NAME,
    "x.safetensors.", "x.safetensors ", "x.safetensors?download=true", "x.safetensors#b", "x.safetensor",
    "x.SAFETENSORS", "x.*", "*.safetensors", "?.safetensors", "y.safetensors", "sub//y.safetensors",
)  # fmt: skip
WIDE = str.maketrans({chr(c): chr(c + 0xFEE0) for c in range(0x21, 0x7F)})
SPELLINGS: tuple[Callable[[str], str], ...] = (
    lambda name: name.replace(".", "%2e"),
    lambda name: name.replace("/", "%2F"),
    lambda name: "".join(f"%{ord(c):02x}" if c in "./" else c for c in name),
    lambda name: "".join(f"%25{ord(c):02x}" if c in "./" else c for c in name),
    lambda name: name.replace("x.", "%78."),
    lambda name: "".join(c.translate(WIDE) if c in "./" else c for c in name[:-12]) + name[-12:],
    lambda name: name[:-12].translate(WIDE) + name[-12:],
    lambda name: name.replace("/", "\\"),
    lambda name: name.replace("/", "//"),
    lambda name: name.replace("..", "...."),
    lambda name: name.upper(),
    lambda name: f"./{name}",
    lambda name: f"sub/../{name}",
    lambda name: f"@ROOT@/model/{name}",
    lambda name: f"file://@ROOT@/model/{name}",
    lambda name: f"https://localhost/{name}",
    lambda name: f"~/{name}",
    lambda name: f" {name}",
    lambda name: f"{name} ",
    lambda name: f"{name}.",
    lambda name: f"{name}\0",
    lambda name: f"{name}\n",
    lambda name: f"{name}/",
    lambda name: f"{name}?a",
    lambda name: f"{name}#a",
    lambda name: f"{name}\0{name}",
)
"""Ways to spell a path, so that it leads there only for loaders that decode, unfold or cut it."""
ODD_VALUES: tuple[Any, ...] = (None, 2, True, 1.5, ["x.safetensors"], {"file": "x.safetensors"})
METADATA = (
    None, "{}", "null", '"16"', "[]", "7", '{"total_size":0}', '{"total_size":1$n}', '{"total_size":-$n}',
    '{"total_size":18446744073709551632}', f'{{"total_size":{"1" * 400}}}', '{"total_size":$n.0}',
    '{"total_size":$ne0}', '{"total_size":"$n"}', '{"total_size":1e308}', '{"total_size":null}',
    '{"total_size":1}',
)  # fmt: skip
MORE = '{"total_size":$n,"total_parameters":4,"by":"x","nested":{"a":[1,null,true,1.5]}}'
PICKLES = ("x.bin", "x.pt", "x.safetensors.bin", "pytorch_model.bin")
