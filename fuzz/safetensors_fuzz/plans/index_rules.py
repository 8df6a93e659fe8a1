"""The expected result of loading a checkpoint: a rejection, a choice left to the loader, or its tensors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from safetensors_corpus.author import index
from safetensors_corpus.author.case import reject
from safetensors_corpus.author.file import json_text

from .question import PlanError, PlanFault, Ruling, accept_ruling, choice_ruling, reject_ruling
from .values import Plan

NOT_JSON = PlanFault(("IDX-01",), ("IDX_NOT_JSON",))
NO_OBJECT = PlanFault(("IDX-01",), ("IDX_NOT_JSON", "IDX_NO_WEIGHT_MAP"))
NO_MAP = PlanFault(("IDX-01",), ("IDX_NO_WEIGHT_MAP",))
TWICE = PlanFault(("IDX-12",), ("HDR_DUP_KEY",))


@dataclass(frozen=True)
class IndexParts:
    """Parts of an index."""

    pairs: Sequence[tuple[str, Any]]
    """Tensor and shard of each member of the map. The shard may be any JSON value."""
    metadata: str | None
    total: int

    def map(self, *, comma: str = ",", colon: str = ":", escaped: bool = False) -> str:
        def spell(text: str) -> str:
            units = text.encode("utf-16-be").hex(" ", 2).split()
            return '"' + "".join(f"\\u{unit}" for unit in units) + '"' if escaped else json_text(text)

        return "{" + comma.join(f"{spell(t)}{colon}{json_text(s)}" for t, s in self.pairs) + "}"

    @property
    def first(self) -> str:
        if not self.pairs:
            raise PlanError("the map has no tensor to change")
        return json_text(self.pairs[0][0])

    def whole(self, *, metadata: str | None = None, members: Sequence[str] = ()) -> str:
        """Return the JSON text of the index, optionally with different metadata and additional members."""
        metadata = self.metadata if metadata is None else metadata
        head = [] if metadata is None else [f'"metadata":{metadata}']
        return "{" + ",".join([*head, f'"weight_map":{self.map()}', *members]) + "}"

    def with_total(self, text: str) -> str:
        return self.whole(metadata=f'{{"total_size":{text}}}')


def _pretty(p: IndexParts) -> str:
    head = "" if p.metadata is None else f'  "metadata": {p.metadata},\n'
    return "{\n" + head + '  "weight_map": ' + p.map(comma=",\n    ", colon=": ") + "\n}\n"


def _spaced(p: IndexParts) -> str:
    tail = "" if p.metadata is None else f' , "metadata":{p.metadata}'
    return '\r\n\t {\t"weight_map" :\r\n' + p.map(comma=" ,\t", colon=" :\n") + tail + " }\r\n \t"


def _map_in_metadata(p: IndexParts) -> str:
    other = ",".join(f"{json_text(t)}:{json_text(s)}" for t, s in reversed(list(_turned(p.pairs))))
    return p.whole(metadata=f'{{"total_size":{p.total},"weight_map":{{{other}}}}}')


def _turned(pairs: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return [(t, s) for (t, _), (_, s) in zip(pairs, reversed(pairs), strict=True)]


LAYOUTS: dict[str, Callable[[IndexParts], str]] = {
    "plain": lambda p: p.whole(),
    "pretty": _pretty,
    "spaced": _spaced,
    "map-first": lambda p: (
        f'{{"weight_map":{p.map()}' + ("" if p.metadata is None else f',"metadata":{p.metadata}') + "}"
    ),
    "escapes": lambda p: p.whole().replace(
        f'"weight_map":{p.map()}', f'"weight\\u005fmap":{p.map(escaped=True)}'
    ),
    "map-in-metadata": _map_in_metadata,
}

CHOICES: dict[str, Callable[[IndexParts], str]] = {
    "index-bom": lambda p: "\ufeff" + p.whole(),
    "index-flat-map": lambda p: p.map(),
    "index-unknown-members": lambda p: p.whole(members=['"version":1', '"files":["x",{"a":"b"}]']),
}


def _append_to_name(p: IndexParts, junk: bytes) -> bytes:
    return p.whole().encode().replace(p.first.encode(), p.first.encode()[:-1] + junk + b'"', 1)


def _comma_in_map(p: IndexParts) -> str:
    if not p.pairs:
        raise PlanError("the map is empty, so no comma can follow a member")
    return p.whole().replace(p.map(), p.map()[:-1] + ",}")


def _maps(p: IndexParts, first: Sequence[tuple[str, Any]], second: Sequence[tuple[str, Any]]) -> str:
    maps = [IndexParts(pairs, None, 0).map() for pairs in (first, second)]
    return f'{{"metadata":{{"total_size":{p.total}}},"weight_map":{maps[0]},"weight_map":{maps[1]}}}'


FAULTY: dict[str, tuple[PlanFault, Callable[[IndexParts], str | bytes]]] = {
    "nothing": (NO_OBJECT, lambda _: ""),
    "array": (NO_OBJECT, lambda p: f"[{p.whole()}]"),
    "string": (NO_OBJECT, lambda _: '"weight_map"'),
    "null": (NO_OBJECT, lambda _: "null"),
    "number": (NO_OBJECT, lambda _: "7"),
    "safetensors-file": (NO_OBJECT, lambda _: b"\x02\0\0\0\0\0\0\0{}"),
    "cut-off": (NOT_JSON, lambda p: p.whole()[:-1]),
    "cut-off-in-map": (NOT_JSON, lambda p: p.whole()[:-2]),
    "comma-at-end-of-map": (NOT_JSON, _comma_in_map),
    "comma-at-end": (NOT_JSON, lambda p: p.whole()[:-1] + ",}"),
    "comment": (NOT_JSON, lambda p: "/* index */" + p.whole()),
    "single-quotes": (NOT_JSON, lambda p: p.whole().replace('"', "'")),
    "nan": (NOT_JSON, lambda p: p.with_total("NaN")),
    "leading-zero": (NOT_JSON, lambda p: p.with_total(f"0{p.total or 1}")),
    "second-object": (NOT_JSON, lambda p: p.whole() * 2),
    "nul-behind": (NOT_JSON, lambda p: p.whole() + "\0"),
    "word-behind": (NOT_JSON, lambda p: p.whole() + " x"),
    "raw-line-feed": (NOT_JSON, lambda p: p.with_total(f'{p.total},"by":"a\nb"')),
    "utf-16": (NOT_JSON, lambda p: p.whole().encode("utf-16-le")),
    "utf-16-with-mark": (NOT_JSON, lambda p: p.whole().encode("utf-16")),
    "lone-byte-in-name": (NOT_JSON, lambda p: _append_to_name(p, b"\xe9")),
    "lone-byte-in-metadata": (
        NOT_JSON,
        lambda p: p.with_total(f'{p.total},"by":"Andr@"').encode().replace(b"@", b"\xe9"),
    ),
    "surrogate": (NOT_JSON, lambda p: _append_to_name(p, b"\xed\xa0\x80")),
    "map-missing": (NO_MAP, lambda p: f'{{"metadata":{p.metadata or "{}"}}}'),
    "map-null": (NO_MAP, lambda p: p.whole().replace(p.map(), "null")),
    "map-string": (NO_MAP, lambda p: p.whole().replace(p.map(), '"model.safetensors"')),
    "map-array": (NO_MAP, lambda p: p.whole().replace(p.map(), json.dumps([s for _, s in p.pairs]))),
    "map-of-other-case": (NO_MAP, lambda p: p.whole().replace('"weight_map"', '"Weight_Map"')),
    "map-only-in-metadata": (NO_MAP, lambda p: f'{{"metadata":{{"total_size":0,"weight_map":{p.map()}}}}}'),
    "two-maps": (TWICE, lambda p: _maps(p, p.pairs, p.pairs)),
    "two-maps-other-first": (TWICE, lambda p: _maps(p, _turned(p.pairs), p.pairs)),
    "two-maps-split": (TWICE, lambda p: _maps(p, p.pairs[:1], p.pairs[1:])),
}
RENDERERS = {**LAYOUTS, **CHOICES, **{name: render for name, (_, render) in FAULTY.items()}}


def metadata_choice(text: str | None, total: int) -> str | None:
    """Return the choice that covers the metadata of an index."""
    if text is None:
        return "index-metadata"
    value = json.loads(text)
    if not isinstance(value, dict):
        return "index-metadata-type"
    if "total_size" not in value:
        return "index-metadata"
    size = value["total_size"]
    if type(size) is not int:
        return "index-total-size-type"
    return None if size == total else "index-total-size"


SUFFIX = ".safetensors"
SHARD_FAULTS: dict[str, tuple[str, str]] = {
    **index.SHARD_FAULTS,
    "empty-file": ("FRM-03", "FRM_TOO_SHORT"),
    "pickle": ("IDX-07", "FRM_HEADER_OVER_LIMIT"),
}
ORDER = (
    "index-dot-slash", "index-subfolder", "index-bom", "index-flat-map", "index-surplus-tensor",
    "index-total-size", "index-tensor-twice", "index-empty-map", "index-unknown-members", "index-several",
    "index-metadata-type", "index-metadata", "index-total-size-type",
)  # fmt: skip
"""Choices in order of precedence. Choices that the hardened profile rejects come first."""
CODES = {
    "index-surplus-tensor": "IDX_TENSOR_UNINDEXED",
    "index-tensor-twice": "IDX_TENSOR_DUPLICATE",
    "index-dot-slash": "IDX_BAD_FILENAME",
    "index-subfolder": "IDX_BAD_FILENAME",
    "index-bom": "IDX_NOT_JSON",
    "index-flat-map": "IDX_NO_WEIGHT_MAP",
    "index-total-size": "IDX_SIZE_MISMATCH",
}
Pair = tuple[str, str]


@dataclass(frozen=True)
class LoadResult:
    """Expected result of loading a checkpoint, with the mapped and unmapped tensors."""

    ruling: Ruling
    found: list[Pair]
    surplus: list[Pair]


def resolve_shard(name: Any, files: Mapping[str, Any]) -> tuple[str, str | None] | PlanFault:
    """Return the file that a shard name refers to and the choice that covers it, or the fault in the name."""
    if not isinstance(name, str):
        return PlanFault(("IDX-01",), ("IDX_NO_WEIGHT_MAP", "IDX_BAD_FILENAME"))
    plain = not any(c in "\\:" or c < " " or c == "\x7f" for c in name)
    parts = name.split("/")
    if plain and len(parts) > 1 and parts[-1]:
        rest = [part for part in parts if part != "."]
        bare = "/".join(rest)
        if bare in files and ".." not in rest and "" not in rest and name.endswith(SUFFIX):
            if len(rest) == len(parts):
                return bare, "index-subfolder"
            if len(rest) == 1:
                return bare, "index-dot-slash"
            raise PlanError("the path of a subfolder contains a dot segment")
    if not plain or len(parts) > 1 or name in ("", ".", ".."):
        return PlanFault(("IDX-04", "IDX-05"), ("IDX_BAD_FILENAME", "IDX_SHARD_MISSING", "IDX_BAD_EXTENSION"))
    if not name.endswith(SUFFIX):
        return PlanFault(("IDX-07",), ("IDX_BAD_EXTENSION", "IDX_SHARD_MISSING"))
    if name not in files:
        return PlanFault(("IDX-08",), ("IDX_SHARD_MISSING",))
    return name, None


def judge_checkpoint(plan: Plan, shards: Mapping[str, Mapping[str, Any]], total: int) -> LoadResult:
    faults = [FAULTY[plan["text"]][0]] if plan["text"] in FAULTY else []
    choices = set(_text_choices(plan, total))
    found: list[Pair] = []
    names = [tensor for tensor, _ in plan["map"]]
    if len(set(names)) != len(names):
        faults.append(PlanFault(("IDX-12",), ("HDR_DUP_KEY", "IDX_TENSOR_DUPLICATE", "IDX_BAD_FILENAME")))
    for tensor, name in plan["map"]:
        if names.count(tensor) > 1:
            continue  # it is ambiguous which shard applies
        where = resolve_shard(name, shards)
        if isinstance(where, PlanFault):
            faults.append(where)
            continue
        shard, choice = where
        if choice is not None:
            choices.add(choice)
        fault = shards[shard]["fault"]
        if fault is not None:
            rule, code = SHARD_FAULTS[fault]
            faults.append(PlanFault((rule, "IDX-08"), (code,)))
        elif tensor not in {row["name"] for row in shards[shard]["tensors"]}:
            faults.append(PlanFault(("IDX-09", "IDX-14"), ("IDX_TENSOR_MISSING",), "should"))
        found.append((tensor, shard))
    if faults:
        return LoadResult(reject_ruling(faults), [], [])
    surplus = list(_surplus(found, shards))
    if surplus:
        choices.add("index-surplus-tensor")
    loaded = {shard for _, shard in found}
    for tensor, shard in found:
        if any(tensor == row["name"] for other in loaded - {shard} for row in shards[other]["tensors"]):
            choices.add("index-tensor-twice")
    return LoadResult(_ruling(plan, choices, shards), found, surplus)


def _text_choices(plan: Plan, total: int) -> Iterator[str]:
    if plan["text"] in CHOICES:
        yield plan["text"]
    if plan["text"] not in FAULTY and plan["text"] not in ("index-flat-map", "map-in-metadata"):
        choice = metadata_choice(metadata_text(plan, total), total)
        if choice is not None:
            yield choice
    if not plan["map"]:
        yield "index-empty-map"
    if any(name.endswith(".index.json") for name, _ in plan["others"]):
        yield "index-several"


def metadata_text(plan: Plan, total: int) -> str | None:
    text: str | None = plan["metadata"]
    return None if text is None else text.replace("$n", str(total))


def _surplus(found: Sequence[Pair], shards: Mapping[str, Mapping[str, Any]]) -> Iterator[Pair]:
    """Yield the unmapped tensors of the mapped shards. Raises PlanError if two of them have the same name."""
    mapped, seen = {tensor for tensor, _ in found}, set()
    for shard in dict.fromkeys(shard for _, shard in found):
        for row in shards[shard]["tensors"]:
            if row["name"] not in mapped:
                if row["name"] in seen:
                    raise PlanError("two unmapped tensors have the same name")
                seen.add(row["name"])
                yield row["name"], shard


def _ruling(plan: Plan, choices: set[str], shards: Mapping[str, Mapping[str, Any]]) -> Ruling:
    choice = next((name for name in ORDER if name in choices), None)
    if choice is None:
        if plan["metadata"] not in ('{"total_size":$n}', None) and plan["text"] != "map-in-metadata":
            return accept_ruling("IDX-01", "IDX-02", level="may")
        used = {shard for _, shard in plan["map"]}
        rules = ["IDX-15"] if set(shards) - used or plan["others"] else []
        rules += ["IDX-12"] if any(tensor in used for tensor, _ in plan["map"]) else []
        return accept_ruling("IDX-01", *rules)
    if len(choices) > 1 and choices & {"index-surplus-tensor"}:
        raise PlanError("unmapped tensors cannot be combined with another choice")
    return choice_ruling(choice, reject(CODES.get(choice, "UNCLASSIFIED")), "IDX-01", beside=choices)
