"""Indexes: a folder with shards, and an index that maps tensors to them.

A plan has these keys:

- ``shards``: each has a ``name`` relative to the checkpoint's folder, ``tensors`` with ``name``, ``dtype``
  and ``shape``, ``metadata``, and a ``fault``, which is None for a valid shard.
- ``map``: pairs of a tensor and a shard, in file order.
- ``metadata``: JSON text of the index's metadata, or None. ``$n`` stands for the total size of all tensors.
- ``text``: layout or fault of the index file.
- ``others``: name and kind of each additional file in the folder.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any, ClassVar

from safetensors_corpus.author.file import filled
from safetensors_corpus.author.index import INDEX_NAME, IndexBuilder, break_shard, numbered
from safetensors_corpus.manifest import ROOT_MARK
from safetensors_reference.rules.dtypes import DTYPE_BITS

from . import index_rules
from .question import PlanError, PlanFault, PlanKind, PlanQuestion, build_question
from .values import (
    FAULTY_NAME,
    RESERVED,
    Dice,
    Plan,
    Twist,
    changed,
    drawing,
    fewer,
    setting,
    texts,
    whole_bytes,
)

PAST_ANY_END = 60_000
"""A header length, in bytes, that is larger than any shard."""
USUAL = '{"total_size":$n}'
PICKLE = pickle.dumps({"b": [1.0, 2.0]}, protocol=2)
OTHERS = {
    "junk": b"no safetensors file",
    "object": b"{}",
    "pickle": PICKLE,
    "index": b'{"metadata":{},"weight_map":{"a":"other.safetensors","b":"other.safetensors"}}',
}


def _check(plan: Plan) -> None:
    names = [shard["name"] for shard in plan["shards"]] + [name for name, _ in plan["others"]]
    if len({*names, INDEX_NAME}) != len(names) + 1:
        raise PlanError("two files have the same path")
    for shard in plan["shards"]:
        if ".." in shard["name"].removeprefix("../").split("/"):
            raise PlanError(f"invalid shard path: {shard['name']!r}")
        tensors = [tensor["name"] for tensor in shard["tensors"]]
        if len({*tensors, RESERVED, FAULTY_NAME}) != len(tensors) + 2:
            raise PlanError("a shard has a duplicate or reserved tensor name")


def _total(plan: Plan, shards: Mapping[str, Mapping[str, Any]]) -> int:
    """Return the total size in bytes of the mapped tensors that exist in their shards. Raises PlanError."""
    sizes = {}
    for name, shard in shards.items():
        for tensor in shard["tensors"]:
            bits = prod(tensor["shape"]) * DTYPE_BITS[tensor["dtype"]]
            if bits % 8:
                raise PlanError(f"invalid shape for a small file: {tensor['shape']}")
            sizes[name, tensor["name"]] = bits // 8
    where = {(tensor, str(name)): index_rules.resolve_shard(name, shards) for tensor, name in plan["map"]}
    return sum(sizes.get((w[0], t), 0) for (t, _), w in where.items() if not isinstance(w, PlanFault))


def _add_shard(builder: IndexBuilder, name: str, shard: Mapping[str, Any]) -> None:
    if shard["fault"] in ("empty-file", "pickle"):
        builder.file(name, PICKLE if shard["fault"] == "pickle" else b"")
        return
    made = builder.shard(name)
    for tensor in shard["tensors"]:
        dtype, shape = tensor["dtype"], tensor["shape"]
        size = prod(shape) * DTYPE_BITS[dtype] // 8
        data = filled(f"{name}: {tensor['name']}", dtype, size) if dtype == "BOOL" else None
        made.tensor(tensor["name"], dtype, shape, data)
    if shard["metadata"] is not None:
        made.metadata(shard["metadata"])
    fault = shard["fault"]
    if fault is None:
        return
    if (fault == "name-twice" and not shard["tensors"]) or (fault == "overlap" and made.position < 4):
        raise PlanError("the shard contains nothing to which this fault applies")
    first = shard["tensors"][0]["name"] if shard["tensors"] else FAULTY_NAME
    break_shard(made, fault, first=first, last=FAULTY_NAME, length=PAST_ANY_END)


def _without_shards(plan: Plan) -> Iterator[Plan]:
    for shards in fewer(plan["shards"]):
        # This is a list because names in the map may be unhashable values.
        gone = [shard["name"] for shard in plan["shards"] if shard not in shards]
        yield {**plan, "shards": shards, "map": [pair for pair in plan["map"] if pair[1] not in gone]}
        yield {**plan, "shards": shards}


def _without_tensor(plan: Plan) -> Iterator[Plan]:
    for name in sorted({tensor["name"] for shard in plan["shards"] for tensor in shard["tensors"]}):
        shards = [
            {**shard, "tensors": [t for t in shard["tensors"] if t["name"] != name]}
            for shard in plan["shards"]
        ]
        yield {**plan, "shards": shards, "map": [pair for pair in plan["map"] if pair[0] != name]}


def _renamed(plan: Plan) -> Iterator[Plan]:
    shards = plan["shards"]
    tensors = {tensor["name"] for shard in shards for tensor in shard["tensors"]}
    for name in sorted(tensors | {tensor for tensor, _ in plan["map"]}):
        for other in texts(name):
            renamed = [
                {**s, "tensors": [{**t, "name": other} if t["name"] == name else t for t in s["tensors"]]}
                for s in shards
            ]
            pairs = [[other if tensor == name else tensor, shard] for tensor, shard in plan["map"]]
            yield {**plan, "shards": renamed, "map": pairs}
    for at, shard in enumerate(shards):
        for other in ("a.safetensors", "b.safetensors"):
            if (len(other), other) >= (len(shard["name"]), shard["name"]):
                break
            named = changed(plan, "shards", at, {**shard, "name": other})
            yield {**named, "map": _sent(plan, shard["name"], other)}


def _sent(plan: Plan, shard: str, other: str) -> list[list[Any]]:
    return [[tensor, other if name == shard else name] for tensor, name in plan["map"]]


BARE = (
    "weights.safetensors", "a..b.safetensors", "100%.safetensors", "a.safetensors.safetensors",
    "~a.safetensors",
)  # fmt: skip
TENSORS = (
    "../../outside", "/etc/hostname", "weight_map", "metadata", "", "\u00e9\u4e2d\U0001f600", "e\u0301", "A",
    "a.weight", "model-00001-of-00002.safetensors", "a\x7f", 'a"b', "a\\b", "total_size",
)  # fmt: skip
LEADS = (
    "x.safetensors", "sub/y.safetensors", "../outside/x.safetensors", "../owner/repository/x.safetensors",
)  # fmt: skip
"""Shards at the paths that bad names refer to. A loader that follows such a name finds a file there."""
BAD = (
    "../outside/x.safetensors", "sub/../../outside/x.safetensors", "../model/x.safetensors",
    "....//outside/x.safetensors", "sub/../x.safetensors", "@ROOT@/outside/x.safetensors",
    "@ROOT@/model/x.safetensors", "x.safetensors/", "..\\outside\\x.safetensors", "sub\\y.safetensors",
    "..\\outside/x.safetensors", "C:\\outside\\x.safetensors", "\\\\localhost\\outside\\x.safetensors",
    "%2e%2e/outside/x.safetensors", "%2e%2e%2foutside%2fx.safetensors",
    "%252e%252e%252foutside%252fx.safetensors", "\uff0e\uff0e\uff0foutside\uff0fx.safetensors",
    "~/x.safetensors", "x.safetensors\0", "x.safetensors\0.safetensors", "x.safetensors\n",
    "https://localhost/owner/repository/x.safetensors", "file://@ROOT@/outside/x.safetensors",
    "owner/repository/x.safetensors", "../../owner/repository/resolve/main/x.safetensors",
    "owner:x.safetensors", "", ".", "..", "sub", INDEX_NAME, "x.safetensors.", "x.safetensors ",
    "x.safetensors?download=true", "x.safetensors#b", "x.safetensor", "x.SAFETENSORS", "x.*", "*.safetensors",
    "?.safetensors", "y.safetensors", "sub//y.safetensors",
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
    str.upper,
    "./{}".format, "sub/../{}".format, "@ROOT@/model/{}".format, "file://@ROOT@/model/{}".format,
    "https://localhost/{}".format, "~/{}".format, " {}".format, "{} ".format, "{}.".format, "{}\0".format,
    "{}\n".format, "{}/".format, "{}?a".format, "{}#a".format, "{0}\0{0}".format,
)  # fmt: skip
"""Spellings of a path that lead to the shard only if a loader decodes, normalizes or truncates paths."""
ODD_VALUES: tuple[Any, ...] = (None, 2, True, 1.5, ["x.safetensors"], {"file": "x.safetensors"})
METADATA = (
    None, "{}", "null", '"16"', "[]", "7", '{"total_size":0}', '{"total_size":1$n}', '{"total_size":-$n}',
    '{"total_size":18446744073709551632}', f'{{"total_size":{"1" * 400}}}', '{"total_size":$n.0}',
    '{"total_size":$ne0}', '{"total_size":"$n"}', '{"total_size":1e308}', '{"total_size":null}',
    '{"total_size":1}',
)  # fmt: skip
MORE = '{"total_size":$n,"total_parameters":4,"by":"x","nested":{"a":[1,null,true,1.5]}}'
PICKLES = ("x.bin", "x.pt", "x.safetensors.bin", "pytorch_model.bin")


def _shard(name: str, *tensors: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "tensors": list(tensors), "metadata": None, "fault": None}


def _tensor(rng: Dice, name: str) -> dict[str, Any]:
    dtype = rng.choice((*rng.dtypes, "F32", "F32", "F32", "F16", "BF16"))
    shape = [rng.choice((0, 1, 2, 2, 3, 4)) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    whole_bytes(shape, dtype)
    return {"name": name, "dtype": dtype, "shape": shape}


def _rename(rng: Dice, out: Plan) -> None:
    shard, name = rng.choice(out["shards"]), rng.choice(BARE)
    if any(other["name"] == name for other in out["shards"]):
        return
    out["map"] = _sent(out, shard["name"], name)
    shard["name"] = name


def _tensor_names(rng: Dice, out: Plan) -> None:
    for shard in out["shards"]:
        for tensor in shard["tensors"]:
            name = rng.choice((*TENSORS, out["shards"][0]["name"]))
            if rng.random() < 0.6 and name not in {mapped for mapped, _ in out["map"]}:
                out["map"] = [[name if t == tensor["name"] else t, where] for t, where in out["map"]]
                tensor["name"] = name


def _shard_metadata(rng: Dice, out: Plan) -> None:
    for shard in out["shards"]:
        shard["metadata"] = rng.choice((None, {}, {"format": "pt"}, {"part": "1", "b": "no tensor"}))


def _strays(rng: Dice, out: Plan) -> None:
    names = {tensor for tensor, _ in out["map"]}
    kept = rng.sample(sorted(names), rng.randint(1, len(names))) if names else []
    tensors = [{"name": name, "dtype": "F32", "shape": [2]} for name in (*kept, "old")]
    name = rng.choice(("consolidated.safetensors", "model.safetensors", "model-00009-of-00009.safetensors"))
    out["shards"].append(_shard(name, *tensors))
    if rng.random() < 0.5:
        out["others"].append(rng.choice((["extra.safetensors", "junk"], ["config.json", "object"])))


def _spelled(rng: Dice, out: Plan) -> None:
    names = {shard["name"]: shard for shard in out["shards"]}
    pairs = [pair for pair in out["map"] if pair[1] in names]
    if not pairs:
        return
    pair = rng.choice(pairs)
    shard = names[pair[1]]
    if rng.random() < 0.5:
        pair[1] = rng.choice(("./", "././")) + pair[1]
        return
    name = rng.choice(("sub/", "sub/sub/")) + pair[1]
    out["map"] = _sent(out, pair[1], name)
    shard["name"] = name


def _twice(rng: Dice, out: Plan) -> None:
    if len(out["shards"]) < 2:
        return
    one, two = rng.sample(out["shards"], 2)
    name = f"twice {len(out['map'])}"
    tensor = _tensor(rng, name)
    one["tensors"].append(tensor)
    two["tensors"].append(dict(tensor) if rng.random() < 0.6 else _tensor(rng, name))
    out["map"].append([name, one["name"]])


def _second_index(rng: Dice, out: Plan) -> None:
    name = rng.choice(("other", "model.fp16", "a")) + ".safetensors.index.json"
    out["others"].append([name if rng.random() < 0.7 else "pytorch_model.bin.index.json", "index"])
    out["shards"].append(_shard("other.safetensors", *(_tensor(rng, name) for name in "ab")))


def _leads(rng: Dice, out: Plan, value: Any) -> None:
    name = "b" if "b" not in {tensor for tensor, _ in out["map"]} else "led"
    for lead in LEADS:
        if lead not in {shard["name"] for shard in out["shards"]}:
            out["shards"].append(_shard(lead, {"name": name, "dtype": "F32", "shape": [2]}))
    out["map"].insert(rng.randint(0, len(out["map"])), [name, value])


def _bad_name(rng: Dice, out: Plan) -> None:
    if rng.random() < 0.5:
        _leads(rng, out, rng.choice(BAD))
        return
    name = rng.choice(LEADS)
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice(SPELLINGS)(name)
    _leads(rng, out, name)


def _pickle(rng: Dice, out: Plan) -> None:
    name = rng.choice(PICKLES)
    if rng.random() < 0.5:
        out["others"].append([name, "pickle"])
    else:
        out["shards"].append(_shard(name, {"name": "pickled", "dtype": "F32", "shape": [2]}))
    out["map"].append(["pickled", name])


def _missing(rng: Dice, out: Plan) -> None:
    shard = rng.choice(out["shards"])
    where = rng.choice(("", "sub/", "../outside/", "inside"))
    if where == "":
        out["shards"].remove(shard)
    elif where == "inside":
        shard["name"] = f"{shard['name']}/{shard['name']}"
    else:
        shard["name"] = where + shard["name"]
    if rng.random() < 0.5 and out["shards"]:
        # The tensors still exist, but the map does not assign them to the shard that now contains them.
        out["shards"][0]["tensors"] += [t for t in shard["tensors"] if out["shards"][0] is not shard]


def _pattern(rng: Dice, out: Plan) -> None:
    pairs = [pair for pair in out["map"] if isinstance(pair[1], str)]
    if pairs:
        pair = rng.choice(pairs)
        pair[1] = rng.choice(
            (pair[1].replace("0", "*", 1), pair[1].replace("model", "m?del"), "*" + pair[1][1:])
        )


def _wrong_shard(rng: Dice, out: Plan) -> None:
    shard = rng.choice(out["shards"])["name"]
    if rng.random() < 0.5 and out["map"]:
        rng.choice(out["map"])[1] = shard
    else:
        out["map"].append(
            [rng.choice(("c.weight", "A", "__metadata__", "a.weight", "e\u0301", "none")), shard]
        )
        out["shards"][0]["metadata"] = {"none": "text"}


def _repeat(rng: Dice, out: Plan) -> None:
    tensor, shard = rng.choice(out["map"])
    other = rng.choice(
        (shard, rng.choice(out["shards"])["name"], "gone.safetensors", "../outside/x.safetensors")
    )
    out["map"].insert(rng.randint(0, len(out["map"])), [tensor, other])
    for row in out["shards"]:
        if row["name"] == other and tensor not in {t["name"] for t in row["tensors"]}:
            row["tensors"].append(_tensor(rng, tensor))


def _broken_shard(rng: Dice, out: Plan) -> None:
    rng.choice(out["shards"])["fault"] = rng.choice(tuple(index_rules.SHARD_FAULTS))


_layout = drawing("text", tuple(index_rules.LAYOUTS))
_metadata = drawing("metadata", METADATA)
_bad_text = drawing("text", tuple(index_rules.FAULTY))
UNUSUAL: tuple[Twist, ...] = (
    _rename, _tensor_names, _shard_metadata, _layout, _layout, setting(metadata=MORE), _strays,
)  # fmt: skip
CHOOSING: tuple[Twist, ...] = (
    _spelled, _metadata, _metadata, drawing("text", tuple(index_rules.CHOICES)),
    lambda rng, out: rng.choice(out["shards"])["tensors"].append(
        _tensor(rng, rng.choice(("surplus", "a.weight", "A")))
    ),
    _twice, _twice, setting(map=[]), _second_index,
)  # fmt: skip
FAULTS: tuple[Twist, ...] = (
    *(_bad_name,) * 7, *(_bad_text,) * 5, *(_missing,) * 2, *(_repeat,) * 2, *(_broken_shard,) * 2,
    lambda rng, out: _leads(rng, out, rng.choice(ODD_VALUES)), _pickle, _pattern, _wrong_shard,
)  # fmt: skip


class Indexes(PlanKind):
    """Plans that load a sharded checkpoint."""

    step = "index"
    drastic = (
        _without_shards,
        lambda plan: ({**plan, "map": pairs} for pairs in fewer(plan["map"])),
        lambda plan: ({**plan, "others": others} for others in fewer(plan["others"])),
        lambda plan: [{**plan, "metadata": USUAL}],
        lambda plan: [{**plan, "shards": [{**shard, "metadata": None} for shard in plan["shards"]]}],
        _without_tensor,
        _renamed,
    )
    plain: ClassVar[Plan] = {"text": "plain", "fault": None}
    kept = ("map", "metadata", "name", "others", "text", "fault")

    def draw(self, rng: Dice) -> Plan:
        count = rng.choice((1, 2, 2, 2, 3, 4, 5))
        shards = [_shard(numbered(number + 1, count)) for number in range(count)]
        out: Plan = {"shards": shards, "map": [], "metadata": USUAL, "text": "plain", "others": []}
        for number in range(rng.randint(count, count + 3)):
            shard = shards[number] if number < count else rng.choice(shards)
            tensor = _tensor(rng, "abcdefgh"[number])
            shard["tensors"].append(tensor)
            out["map"].append([tensor["name"], shard["name"]])
        rng.shuffle(out["map"])
        roll = rng.random()
        twists = UNUSUAL if roll < 0.4 else CHOOSING if roll < 0.56 else FAULTS if roll < 0.9 else ()
        for _ in range(rng.choice((1, 1, 1, 2)) if twists else 0):
            if out["shards"]:
                rng.choice(twists)(rng, out)
        return out

    def question(self, plan: Plan) -> PlanQuestion:
        _check(plan)
        shards = {shard["name"]: shard for shard in plan["shards"]}
        total = _total(plan, shards)
        loaded = index_rules.judge_checkpoint(plan, shards, total)
        builder = IndexBuilder()
        for name, shard in shards.items():
            _add_shard(builder, name, shard)
        for name, kind in plan["others"]:
            builder.file(name, OTHERS[kind])
        pairs = [(tensor, name) for tensor, name in plan["map"]]
        parts = index_rules.IndexParts(pairs, index_rules.metadata_text(plan, total), total)
        text = index_rules.RENDERERS[plan["text"]](parts)
        mark = ROOT_MARK.decode() in str(plan["map"])
        builder.index(dict(loaded.found), raw=text, template=mark)
        builder.expect(*loaded.found)
        builder.expect(*loaded.found, *loaded.surplus, option="load")
        return build_question(self, plan, builder, loaded.ruling)
