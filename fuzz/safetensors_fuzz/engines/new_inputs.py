"""Decides which inputs are new, so that they become bases for others, and which rejections are familiar.

An input is new if it is the first with its broken rules and answers, or with its first rule and its shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from safetensors_conformance.outcome import StepResult
from safetensors_corpus.features.tree import EARLIER, File, Obj
from safetensors_reports.differences.signatures import message_class

from ..grammar.grammar import MAX_FAULTS

POOL = 4000
LARGEST_BASE = 4096
MESSAGE_CACHE = 4096


class NewInputs:
    """The new inputs of a campaign. Small ones with few faults are bases, which ``store`` also receives."""

    def __init__(self, store: Callable[[bytes], None]) -> None:
        self._store = store
        self._seen: set[tuple[object, ...]] = set()
        self.bases: list[File] = []
        self.kept = 0
        """Number of inputs that became bases, including those that later ones replaced."""
        self.tuples = 0
        """Number of combinations of broken rules and answers."""

    def is_new(self, file: File, rules: tuple[str, ...], answers: Iterable[StepResult]) -> bool:
        answered = (rules, *[(r.outcome, class_of(r.message)) for r in answers])
        shaped = (rules[:1], _shape(file))
        self.tuples += answered not in self._seen
        new = answered not in self._seen or shaped not in self._seen
        self._seen.update((answered, shaped))
        return new

    def keep(self, file: File, data: bytes) -> None:
        if len(data) > LARGEST_BASE or len(file.faults) >= MAX_FAULTS:
            return
        if len(self.bases) < POOL:
            self.bases.append(file)
        else:
            self.bases[self.kept % POOL] = file
        self.kept += 1
        self._store(data)


def _shape(file: File) -> int:
    if len(file.faults) > 1:
        return 0
    members = len(file.root.members) if type(file.root) is Obj else 0
    return min(members, 4) * 100 + min(len(file.data).bit_length(), 9) * 10 + min(len(file.padding), 9)


class_of = lru_cache(MESSAGE_CACHE)(message_class)


def rejection_key(faults: tuple[str, ...], answers: Iterable[StepResult]) -> tuple[object, ...] | None:
    """Return a key for an invalid input that every subject rejected, or None for any other input.

    Explaining a file takes most of the time, so the campaign explains only the first input with each key and
    a sample of the remaining inputs. The key ignores pairs of faults, because most pairs occur only once.
    """
    if not faults or faults == EARLIER:
        return None
    words: list[object] = [faults if len(faults) < MAX_FAULTS else MAX_FAULTS]
    for result in answers:
        if result.outcome not in ("reject", "unsupported"):
            return None
        words += (result.outcome, class_of(result.message))
    return tuple(words)
