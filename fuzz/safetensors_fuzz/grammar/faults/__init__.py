"""The registry of faults. Each fault names the rules that it breaks."""

from __future__ import annotations

from collections.abc import Callable

from safetensors_corpus.features.tree import Change, Mutation, mutation

FAULTS: list[Mutation] = []


def fault(*rules: str) -> Callable[[Change], Change]:
    def enter(change: Change) -> Change:
        FAULTS.append(mutation(change, *rules))
        return change

    return enter
