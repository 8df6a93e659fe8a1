"""Finds the feature of a valid file that causes a reader to reject it. The reader's message is ignored."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from safetensors_corpus.features import longer, plainest, within, without
from safetensors_corpus.features.draft import Draft
from safetensors_corpus.features.feature import Feature
from safetensors_corpus.features.tree import File, Obj, Value, entry_tree, written
from safetensors_corpus.features.vocabulary import RESERVED
from safetensors_reference import explain
from safetensors_reference.rules.book import ProfileName

from ..finding import Cause, unknown

MAX_RUNS = 40
MAX_CAUSES = 2
"""Maximum number of features in a combination that causes a rejection."""
CONFIRMATIONS = 2


def cause_of_refusal(
    data: bytes,
    accepts: Callable[[bytes], bool],
    profile: ProfileName | None = None,
    *,
    questions: int = MAX_RUNS,
) -> Cause:
    """Find the features that cause a reader to reject a valid file.

    The search calls ``accepts``, which runs the reader, at most ``questions`` times.
    """
    search = _Search(accepts, questions)
    try:
        if Draft.of(data) is not None:
            return search.cause(data)
        return search.tolerated(data, profile or "hardened")
    except _SpentError:
        return unknown(f"the cause was not found within {questions} runs")


class _SpentError(Exception):
    """The limit on the number of runs has been reached."""


class _Search:
    def __init__(self, accepts: Callable[[bytes], bool], questions: int) -> None:
        self._accepts, self._left = accepts, questions

    def accepts(self, data: bytes) -> bool:
        if not self._left:
            raise _SpentError
        self._left -= 1
        return self._accepts(data)

    def tolerated(self, data: bytes, profile: ProfileName) -> Cause:
        rules = tuple(dict.fromkeys(fault.rule for fault in explain(data, profile).tolerated))
        twin = strict_twin(data, profile)
        if twin is None or not rules:
            return unknown("the file cannot be rewritten without the parts that only some readers accept")
        if not self.accepts(twin):
            return self.cause(twin)
        found = Cause(rules, "accepted without the parts that the profile tolerates")
        if len(rules) > 1:
            found = unknown("the file has several parts that only some readers accept")
        return self._confirmed(found, {twin: True, data: False})

    def cause(self, data: bytes) -> Cause:
        parts = _Parts(data)
        if not self.accepts(plainest(data)):
            return unknown("the reader does not accept the plainest form of the file either")
        if self.accepts(longer(data)):
            return unknown("the answer changes if only the length of the file changes")
        causes = parts.closest([f for f, variant in parts.variants.items() if self.accepts(variant)])
        if not causes:
            return self._alone(parts)
        answers = {parts.variants[cause]: True for cause in causes[:MAX_CAUSES]}
        found = self._confirmed(_cause_of(causes), {data: False, **answers})
        only = parts.only(causes) if found.rules else None
        return self._smallest(parts) if only is not None and self.accepts(only) else found

    def _alone(self, parts: _Parts) -> Cause:
        refused: dict[Feature, bytes] = {}
        seen: dict[bytes, bool] = {}
        for feature in parts.variants:
            only = parts.only([feature])
            if only is None:
                continue
            if only not in seen:
                seen[only] = self.accepts(only)
            if not seen[only]:
                refused[feature] = only
        causes = [f for f in refused if not any(parts.holds(g, f) for g in refused)]
        if not causes:
            return self._smallest(parts)
        answers = {refused[cause]: False for cause in causes[:MAX_CAUSES]}
        return self._confirmed(_cause_of(causes, "not accepted with"), answers)

    def _smallest(self, parts: _Parts) -> Cause:
        """Find a minimal set of features with which the reader still rejects the file."""
        data = parts.data
        for feature in reversed(parts.variants):
            fewer = without(data, [feature])
            if fewer is not None and fewer != data and not self.accepts(fewer):
                data = fewer
        parts = _Parts(data)
        causes = parts.closest([f for f, variant in parts.variants.items() if self.accepts(variant)])
        if not causes or len(causes) > MAX_CAUSES:
            return unknown("neither a single feature nor a pair of features explains the rejection")
        return self._confirmed(_cause_of(causes), {data: False, parts.variants[causes[0]]: True})

    def _confirmed(self, cause: Cause, answers: Mapping[bytes, bool]) -> Cause:
        """Return the cause if the reader repeats these answers."""
        again = [(data, answer) for _ in range(CONFIRMATIONS) for data, answer in answers.items()]
        same = all(self.accepts(data) == answer for data, answer in again)
        return cause if same else unknown("the answers vary")


class _Parts:
    """The features of a file.

    Each feature has a variant of the file without the feature, and a list of the features inside it.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        made = {feature: feature.without(data) for feature in within(data)}
        self.variants = {feature: variant for feature, variant in made.items() if variant is not None}
        self._contained = {
            feature: [f for f in self.variants if f is not feature and not f.within(variant)]
            for feature, variant in self.variants.items()
        }

    def holds(self, outer: Feature, inner: Feature) -> bool:
        return inner in self._contained[outer] and outer not in self._contained[inner]

    def closest(self, causes: Collection[Feature]) -> list[Feature]:
        out: list[Feature] = []
        for cause in causes:
            if any(self.holds(cause, other) for other in causes):
                continue
            if not any(cause in self._contained[kept] and kept in self._contained[cause] for kept in out):
                out.append(cause)
        return out

    def only(self, features: Collection[Feature]) -> bytes | None:
        """Remove all features except these and the features around them. Returns None if this fails."""
        kept = {*features, *(f for f, inner in self._contained.items() if any(g in inner for g in features))}
        made = without(self.data, [feature for feature in self.variants if feature not in kept])
        return made if made is not None and all(feature.within(made) for feature in features) else None


def _cause_of(causes: Iterable[Feature], how: str = "accepted without") -> Cause:
    causes = list(causes)
    words = ", or ".join(cause.name for cause in causes)
    return Cause(tuple(dict.fromkeys(cause.rule for cause in causes)), f"{how} {words}")


def strict_twin(data: bytes, profile: ProfileName) -> bytes | None:
    """Return a file with the same content, plain spelling and no fault, or None if that is impossible."""
    header = explain(data, profile).header
    if header is None:
        return None
    rows: list[list[Value]] = []
    if header.metadata is not None:
        pairs: list[list[Value]] = [[written(k), written(v)] for k, v in header.metadata.items()]
        rows.append([RESERVED, Obj(pairs)])
    for tensor in header.tensors.values():
        entry = entry_tree(tensor.dtype.encode(), list(tensor.shape), tensor.begin, tensor.end)
        rows.append([written(tensor.name), entry])
    file = File(Obj(rows), data[header.data_start :])
    file.padding = b" " * ((header.data_start - 8 - len(file.header())) % 8)
    made = file.render()
    return made if Draft.of(made) is not None else None
