"""Where the implementations of a report disagree with one another, whoever is right.

Cases are compared that all have, so that readers of a few areas, writers and readers of indexes would leave
next to nothing to compare: those with less than half of the plain files are set aside, and named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..differences.compare import compare
from .stable_text import stable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from safetensors_corpus import Manifest

    from ..differences.compare import Cluster
    from ..record.run import RunRecord

SHARE = 0.5
"""Share of the corpus's plain files of which a run must have a result to be compared."""


def agreement_part(
    records: Sequence[RunRecord], labels: Sequence[str], manifest: Manifest, *, public: bool
) -> dict[str, Any]:
    """Return the splits by cluster and by pair; implementations are numbers, from 0 on in their order.

    Published pages get the numbers alone: a case that divides readers shows how to bring that about.
    """
    kept = _comparable(records, manifest)
    comparison = compare([records[i] for i in kept])
    number = dict(zip(comparison.labels, kept, strict=True))
    return {
        "compared": comparison.compared,
        "unanswered": comparison.unanswered,
        "left_out": comparison.left_out,
        "set_aside": [label for i, label in enumerate(labels) if i not in kept],
        "content_splits": len(comparison.content_splits),
        "verdict_splits": len(comparison.verdict_splits),
        "clusters": [] if public else [_cluster(c, number) for c in comparison.clusters],
        "pairs": [
            {"between": [number[a], number[b]], "content": splits.content, "verdict": splits.verdict}
            for (a, b), splits in comparison.pairs.items()
        ],
        "notes": [stable(note, 300) for note in comparison.notes],
    }


def _comparable(records: Sequence[RunRecord], manifest: Manifest) -> list[int]:
    """Return the positions of the runs to compare: those of most files, all where that leaves none."""
    plain = {case.id for case in manifest.reading}
    have = [len({row["case"] for row in record.results} & plain) for record in records]
    # Filtered runs are held against the fullest of them, not against a corpus that nobody asked for.
    kept = [i for i, number in enumerate(have) if number and number >= SHARE * max(have)]
    return kept if len(kept) > 1 else list(range(len(records)))


def _cluster(cluster: Cluster, number: Mapping[str, int]) -> dict[str, Any]:
    groups: dict[str, list[int]] = {}
    for label, token in cluster.vector.items():
        groups.setdefault(token, []).append(number[label])
    first = cluster.splits[0]
    return {
        "kind": cluster.kind,
        "answers": {token: groups[token] for token in sorted(groups)},
        "dissenter": None if first.dissenter is None else number[first.dissenter],
        "cases": list(cluster.cases),
        "difference": stable(first.difference) if first.difference else "",
        "between": [number[label] for label in first.between] if first.between else None,
    }
