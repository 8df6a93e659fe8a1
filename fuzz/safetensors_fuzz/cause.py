"""The search for what brings about a wrong answer: features are taken out of the input, the answers tell."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic

from .features.feature import D, Feature, Features, T
from .finding import NOT_KNOWN

QUESTIONS = 40
"""Most questions for one finding."""
TOGETHER = 2
"""Most features that are charged where it takes all of them."""
CONFIRMED = 2
"""How often the answers that decide are asked for again."""


@dataclass(frozen=True)
class Cause:
    """What a wrong answer is charged with.

    Attributes:
        rules: ids of rules, the first speaks; empty where none can be told.
        words: why these and no others, or why none, in one line.
    """

    rules: tuple[str, ...] = ()
    words: str = ""


def unknown(why: str) -> Cause:
    """Return that no rule can be told, and why."""
    return Cause((), f"{NOT_KNOWN}: {why}")


class SpentError(Exception):
    """No more questions may be asked."""


class Search(Generic[T, D]):
    """One search, with a number of questions that may be asked."""

    def __init__(
        self,
        features: Features[T, D],
        right: Callable[[T], bool],
        *,
        questions: int = QUESTIONS,
        verb: str = "accepted",
        control: Callable[[T], T] | None = None,
    ) -> None:
        """Prepare a search.

        Args:
            features: what inputs may have.
            right: asks, and says whether the answer to an input is not wrong in this way.
            questions: most calls of ``right``.
            verb: what is done to inputs that are answered rightly.
            control: changes an input and none of its features; where that alone changes the answer, no
                feature is the cause.
        """
        self._features, self._right, self._left = features, right, questions
        self._verb, self._control = verb, control

    def right(self, item: T) -> bool:
        """Ask. Raises SpentError."""
        if not self._left:
            raise SpentError
        self._left -= 1
        return self._right(item)

    def cause(self, item: T) -> Cause:
        """Return for which features the answer to a valid input is wrong. Raises SpentError.

        A feature is a cause when the answer is right without it; several such are named in the order of the
        table, those left out that only contain another. Where no feature is one by itself, each is tried
        alone in the plainest input, and then the smallest set is looked for that is answered wrongly.
        """
        if not self.right(self._features.plainest(item)):
            return unknown(f"the input is not {self._verb} either when nothing about it is special")
        if self._control is not None and self.right(self._control(item)):
            return unknown("the length of the input alone changes the answer")
        variants = self._variants(item)
        contained = self._contained(variants)
        causes = _closest([one for one, made in variants.items() if self.right(made)], contained)
        if not causes:
            return self._alone(item, tuple(variants), contained)
        if not self.stays((item, False), *((variants[one], True) for one in causes[:TOGETHER])):
            return unknown("the answers vary")
        only = self._only(item, causes, tuple(variants), contained)
        if only is not None and self.right(only):
            return self._smallest(item, tuple(variants))
        return self._charged(causes)

    def _alone(
        self,
        item: T,
        present: Sequence[Feature[D]],
        contained: Mapping[Feature[D], Collection[Feature[D]]],
    ) -> Cause:
        """Try each feature alone in an input that is else as plain as can be."""
        wrong: dict[Feature[D], T] = {}
        for one in present:
            only = self._only(item, [one], present, contained)
            if only is not None and not self.right(only):
                wrong[one] = only
        # What is contained in another was there beside it: the other is enough.
        causes = [one for one in wrong if not any(_holds(contained, other, one) for other in wrong)]
        if not causes:
            return self._smallest(item, present)
        if not self.stays(*((wrong[one], False) for one in causes[:TOGETHER])):
            return unknown("the answers vary")
        return self._charged(causes, "not {} with")

    def _smallest(self, item: T, present: Sequence[Feature[D]]) -> Cause:
        """Take out features for good as long as the answer is wrong; what is left over is needed."""
        for one in reversed(present):
            fewer = self._features.without(item, [one])
            if fewer is not None and fewer != item and not self.right(fewer):
                item = fewer
        variants = self._variants(item)
        needed = [one for one, made in variants.items() if self.right(made)]
        causes = _closest(needed, self._contained(variants))
        if not causes or len(causes) > TOGETHER:
            return unknown(f"no feature of the input keeps it by itself from being {self._verb}, nor do two")
        if not self.stays((item, False), (variants[causes[0]], True)):
            return unknown("the answers vary")
        return self._charged(causes)

    def stays(self, *answers: tuple[T, bool]) -> bool:
        """Return whether the same questions get the same answers again. Raises SpentError."""
        return all(self.right(item) == answer for _ in range(CONFIRMED) for item, answer in answers)

    def _variants(self, item: T) -> dict[Feature[D], T]:
        """Return every feature that can be taken out, with the input without it."""
        made = {one: self._features.lacking(one, item) for one in self._features.of(item)}
        return {one: variant for one, variant in made.items() if variant is not None}

    def _contained(self, variants: Mapping[Feature[D], T]) -> dict[Feature[D], frozenset[Feature[D]]]:
        """Return feature -> the others that go with it when it is taken out."""
        return {
            one: frozenset(f for f in variants if f is not one and not self._features.has(f, made))
            for one, made in variants.items()
        }

    def _only(
        self,
        item: T,
        chosen: Collection[Feature[D]],
        present: Sequence[Feature[D]],
        contained: Mapping[Feature[D], Collection[Feature[D]]],
    ) -> T | None:
        """Return the plainest input that has some features, None where there is none."""
        kept = {*chosen, *(one for one, inner in contained.items() if any(f in inner for f in chosen))}
        made = self._features.without(item, [one for one in present if one not in kept])
        if made is None or not all(self._features.has(one, made) for one in chosen):
            return None
        return made

    def _charged(self, causes: Sequence[Feature[D]], how: str = "{} without") -> Cause:
        words = ", or ".join(one.words for one in causes)
        return Cause(tuple(dict.fromkeys(one.rule for one in causes)), f"{how.format(self._verb)} {words}")


def _holds(
    contained: Mapping[Feature[D], Collection[Feature[D]]], outer: Feature[D], inner: Feature[D]
) -> bool:
    """Return whether the inner one goes when the outer one is taken out, and not the other way round."""
    return inner in contained.get(outer, ()) and outer not in contained.get(inner, ())


def _closest(
    causes: Collection[Feature[D]], contained: Mapping[Feature[D], Collection[Feature[D]]]
) -> list[Feature[D]]:
    """Leave out causes that only contain another; of two that contain one another the first is kept."""
    out: list[Feature[D]] = []
    for cause in causes:
        if any(_holds(contained, cause, other) for other in causes):
            continue
        if not any(cause in contained[kept] and kept in contained[cause] for kept in out):
            out.append(cause)
    return out
