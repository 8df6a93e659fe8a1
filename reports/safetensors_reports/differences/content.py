"""What one reader found in one file, and whether two readers found the same.

Only what both tell can differ: a reader that lists names and shapes agrees with one that also hands out
bytes. So agreement is symmetric but not transitive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from safetensors_corpus.judging.bounded import METADATA, NAMES, digests
from safetensors_corpus.judging.content import FIELDS, differing_fields
from safetensors_reference.rules.faults import quote

from ..text import visible

Tensor = dict[str, Any]


@dataclass(frozen=True)
class Reading:
    """An accepting reader's view of a file.

    Attributes:
        tensors: name -> what was reported under it, usually one row; None when the reader tells no tensors.
        metadata: the metadata map, empty for none; None when the reader does not report metadata.
        content: as it stands in the record.
    """

    tensors: dict[str, list[Tensor]] | None
    metadata: dict[str, Any] | None
    content: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, content: dict[str, Any] | None) -> Reading:
        """Build from the ``content`` of a result."""
        content = content or {}
        rows = content.get("tensors")
        tensors: dict[str, list[Tensor]] | None = None if rows is None else {}
        for row in rows or ():
            assert tensors is not None
            tensors.setdefault(row["name"], []).append(row)
        return cls(tensors, (content["metadata"] or {}) if "metadata" in content else None, content)

    @property
    def is_cut(self) -> bool:
        """Whether the record keeps only the first tensors and digests of all."""
        return "digests" in self.content

    @property
    def digests(self) -> Mapping[str, str]:
        """Digests of the whole content, by what they are of."""
        return self.content["digests"] if self.is_cut else digests(self.content)

    @property
    def told(self) -> int:
        """How many facts the reader tells; a measure of how much can contradict it."""
        if self.is_cut:
            return int(self.content.get("tensor_count", 0)) * len(self.digests) + 1
        rows = [row for same in (self.tensors or {}).values() for row in same]
        facts = sum(1 + sum(row.get(f) is not None for f in FIELDS) for row in rows)
        return facts + (self.tensors is not None) + (self.metadata is not None)


def difference(a: Reading, b: Reading, label_a: str, label_b: str) -> str | None:
    """Return the first difference between two readings in one line, None when they agree.

    Names are compared first, as sets, then each tensor by name, then metadata. Values are given in the order
    ``label_a`` against ``label_b``; the text is escaped and bounded.
    """
    if a.is_cut or b.is_cut:
        return _cut_differ(a, b)
    if a.tensors is not None and b.tensors is not None:
        lone = min(a.tensors.keys() ^ b.tensors.keys(), default=None)
        if lone is not None:
            return f"tensor {quote(lone)} only in {visible(label_a if lone in a.tensors else label_b, 60)}"
        for name in sorted(a.tensors):
            found = _rows_differ(a.tensors[name], b.tensors[name])
            if found:
                return f"{quote(name)}: {found}"
    if a.metadata is not None and b.metadata is not None and a.metadata != b.metadata:
        return _metadata_differs(a.metadata, b.metadata, label_a, label_b)
    return None


def _cut_differ(a: Reading, b: Reading) -> str | None:
    """Compare by digests: the record of one of the two does not hold all that was reported."""
    mine, others = a.digests, b.digests
    told = [of for of in (NAMES, *FIELDS, METADATA) if of in mine and of in others]
    apart = next((of for of in told if mine[of] != others[of]), None)
    if apart is None:
        return None
    what = {NAMES: "the names of tensors", METADATA: "the metadata"}.get(apart, f"{apart} of a tensor")
    return f"{what} by digest: {mine[apart][:12]}… against {others[apart][:12]}…"


def _rows_differ(a: list[Tensor], b: list[Tensor]) -> str | None:
    """Compare what two readers report under one name; rows of a name reported twice go in any order."""
    lonely = [x for x in a if all(_row_differs(x, y) for y in b)]
    if lonely:
        return _row_differs(lonely[0], b[0])
    lonely = [y for y in b if all(_row_differs(x, y) for x in a)]
    return _row_differs(a[0], lonely[0]) if lonely else None


def _row_differs(a: Tensor, b: Tensor) -> str | None:
    for name in differing_fields(a, b):
        if name == "sha256":
            return "sha256 differs"
        return f"{name} {visible(str(a[name]), 60)} against {visible(str(b[name]), 60)}"
    return None


def _show(value: object) -> str:
    return quote(value) if isinstance(value, str) else visible(str(value), 60)


def _metadata_differs(a: dict[str, Any], b: dict[str, Any], label_a: str, label_b: str) -> str:
    # A key whose value is told as null is there all the same.
    key = min(k for k in a.keys() | b.keys() if k not in a or k not in b or a[k] != b[k])
    if key in a and key in b:
        return f"metadata[{quote(key)}]: {_show(a[key])} against {_show(b[key])}"
    return f"metadata {quote(key)} only in {visible(label_a if key in a else label_b, 60)}"
