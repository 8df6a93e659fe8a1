"""The text of an index: unusual layouts that are JSON all the same, and texts that are no index."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from safetensors_corpus.author.file import json_text

from ..question import Fault, PlanError

NOT_JSON = Fault(("IDX-01",), ("IDX_NOT_JSON",))
NO_OBJECT = Fault(("IDX-01",), ("IDX_NOT_JSON", "IDX_NO_WEIGHT_MAP"))
NO_MAP = Fault(("IDX-01",), ("IDX_NO_WEIGHT_MAP",))
TWICE = Fault(("IDX-12",), ("HDR_DUP_KEY",))


@dataclass(frozen=True)
class Parts:
    """What an index is made of.

    Attributes:
        pairs: tensor and shard, in order; a shard may be something other than a string.
        metadata: JSON text of the metadata, None for none.
        total: bytes of all tensors.
    """

    pairs: Sequence[tuple[str, Any]]
    metadata: str | None
    total: int

    def map(self, *, comma: str = ",", colon: str = ":", escaped: bool = False) -> str:
        """Return the JSON text of the map."""
        spell = _escaped if escaped else json_text
        return "{" + comma.join(f"{spell(t)}{colon}{json_text(s)}" for t, s in self.pairs) + "}"

    @property
    def first(self) -> str:
        """The name of the first tensor. Raises PlanError."""
        if not self.pairs:
            raise PlanError("the text is changed at a tensor, and there is none")
        return json_text(self.pairs[0][0])

    def whole(self, *, metadata: str | None = None, members: Sequence[str] = ()) -> str:
        """Return the text of the index with other metadata and further members at the end."""
        told = self.metadata if metadata is None else metadata
        head = [] if told is None else [f'"metadata":{told}']
        return "{" + ",".join([*head, f'"weight_map":{self.map()}', *members]) + "}"

    def with_total(self, text: str) -> str:
        """Return the text of the index with the total size spelled so."""
        return self.whole(metadata=f'{{"total_size":{text}}}')


def _escaped(text: str) -> str:
    units = text.encode("utf-16-be")
    return '"' + "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2)) + '"'


def _pretty(p: Parts) -> str:
    """Lay the text out over several lines, without metadata where there are none."""
    head = "" if p.metadata is None else f'  "metadata": {p.metadata},\n'
    return "{\n" + head + '  "weight_map": ' + p.map(comma=",\n    ", colon=": ") + "\n}\n"


def _spaced(p: Parts) -> str:
    tail = "" if p.metadata is None else f' , "metadata":{p.metadata}'
    return '\r\n\t {\t"weight_map" :\r\n' + p.map(comma=" ,\t", colon=" :\n") + tail + " }\r\n \t"


def _map_first(p: Parts) -> str:
    tail = "" if p.metadata is None else f',"metadata":{p.metadata}'
    return f'{{"weight_map":{p.map()}{tail}}}'


def _map_in_metadata(p: Parts) -> str:
    other = ",".join(f"{json_text(t)}:{json_text(s)}" for t, s in reversed(list(_turned(p.pairs))))
    return p.whole(metadata=f'{{"total_size":{p.total},"weight_map":{{{other}}}}}')


def _turned(pairs: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return the pairs with the shards in the opposite order."""
    return [(t, s) for (t, _), (_, s) in zip(pairs, reversed(pairs), strict=True)]


LAYOUTS: dict[str, Callable[[Parts], str]] = {
    "plain": lambda p: p.whole(),
    "pretty": _pretty,
    "spaced": _spaced,
    "map-first": _map_first,
    "escapes": lambda p: p.whole().replace(
        f'"weight_map":{p.map()}', f'"weight\\u005fmap":{p.map(escaped=True)}'
    ),
    "map-in-metadata": _map_in_metadata,
}
"""Texts that are an index, however unusual."""

CHOICES: dict[str, Callable[[Parts], str]] = {
    "index-bom": lambda p: "\ufeff" + p.whole(),
    "index-flat-map": lambda p: p.map(),
    "index-unknown-members": lambda p: p.whole(members=['"version":1', '"files":["x",{"a":"b"}]']),
}
"""Texts that a loader may take for an index or not."""


def _lone_byte(p: Parts) -> bytes:
    return p.whole().encode().replace(p.first.encode(), p.first.encode()[:-1] + b'\xe9"', 1)


def _surrogate(p: Parts) -> bytes:
    return p.whole().encode().replace(p.first.encode(), p.first.encode()[:-1] + b'\xed\xa0\x80"', 1)


def _comma_in_map(p: Parts) -> str:
    if not p.pairs:
        raise PlanError("a comma behind nothing")
    return p.whole().replace(p.map(), p.map()[:-1] + ",}")


def _maps(p: Parts, first: Sequence[tuple[str, Any]], second: Sequence[tuple[str, Any]]) -> str:
    maps = [Parts(pairs, None, 0).map() for pairs in (first, second)]
    return f'{{"metadata":{{"total_size":{p.total}}},"weight_map":{maps[0]},"weight_map":{maps[1]}}}'


FAULTY: dict[str, tuple[Fault, Callable[[Parts], str | bytes]]] = {
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
    "lone-byte-in-name": (NOT_JSON, _lone_byte),
    "lone-byte-in-metadata": (
        NOT_JSON,
        lambda p: p.with_total(f'{p.total},"by":"Andr@"').encode().replace(b"@", b"\xe9"),
    ),
    "surrogate": (NOT_JSON, _surrogate),
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
"""Texts that are no index: why, and how they are made."""


def metadata_choice(text: str | None, total: int) -> str | None:
    """Return the choice that the metadata of an index fall under. Raises PlanError for no JSON text.

    Args:
        text: their JSON text, None for none.
        total: bytes of all tensors mapped.
    """
    if text is None:
        return "index-metadata"
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except ValueError as err:
        raise PlanError(f"no metadata: {err}") from err
    if not isinstance(value, dict):
        return "index-metadata-type"
    if "total_size" not in value:
        return "index-metadata"
    size = value["total_size"]
    if type(size) is not int:
        return "index-total-size-type"
    return None if size == total else "index-total-size"


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
