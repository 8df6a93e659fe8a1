"""Comparison of two implementations that both accept a file that readers may reject."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations
from typing import Any

from safetensors_conformance.outcome import StepResult
from safetensors_corpus.judging.content import Difference, first_disagreement
from safetensors_reference.rules.book import rule_book
from safetensors_reports.differences.signatures import signature_of

from ..finding import AGREEMENT
from .expectation import DIFFERENT_CONTENT, FileQuestion, kind_of_part
from .question import Account, Cause, Examiner, Keys, Mistake, Question, unknown
from .subjects import Subject
from .twin import valid_twin


def differences(one: StepResult, other: StepResult) -> tuple[Difference, Difference] | None:
    """Return the difference between two accepting answers from the viewpoint of each, if any."""
    of_one = first_disagreement(other.content or {}, one.content or {})
    of_other = first_disagreement(one.content or {}, other.content or {})
    return None if of_one is None or of_other is None else (of_one, of_other)


def content_disagreements(answers: dict[str, StepResult]) -> dict[str, tuple[str, str]]:
    """Map each implementation to the first one whose content differs from it, and to the difference."""
    out: dict[str, tuple[str, str]] = {}
    for name, other in permutations(answers, 2):
        found = differences(answers[name], answers[other])
        if found is not None:
            out.setdefault(name, (other, found[0].text))
    return out


def disagreement_text(difference: str, other: str) -> str:
    return f"{difference} (as {other} reads it)"


@dataclass
class PairQuestion(FileQuestion):
    """A file that two subjects may reject. If both accept it, they must return the same content."""

    first: Subject = field(kw_only=True)
    second: Subject = field(kw_only=True)

    @classmethod
    def of(cls, file: FileQuestion, first: Subject, second: Subject) -> PairQuestion:
        parts = (file.data, file.required, file.faults, file.choices, file.header, file.profile)
        return cls(*parts, first=first, second=second)

    def about(self, data: bytes) -> PairQuestion:
        return PairQuestion.of(super().about(data), self.first, self.second)

    def examine(self, examiner: Examiner) -> Mistake | None:
        if self.required != "open":
            return None
        mistake = self.compare(*self._answers(self.data, examiner))
        return None if mistake is None or self._recurs_on_twin(mistake, examiner) else mistake

    def _answers(self, data: bytes, examiner: Examiner) -> tuple[StepResult, StepResult]:
        path = examiner.path(data)
        one, other = (s.answer(data, path, examiner.step) for s in (self.first, self.second))
        return one, other

    @cached_property
    def twin(self) -> FileQuestion | None:
        data = valid_twin(self.data)
        twin = None if data is None else super().about(data)
        return twin if twin is not None and twin.required == "accept" else None

    def _recurs_on_twin(self, mistake: Mistake, examiner: Examiner) -> bool | None:
        """Return whether the valid twin shows the same difference, or None if there is nothing to compare."""
        if self.twin is None:
            return None
        one, other = self._answers(self.twin.data, examiner)
        if one.outcome != "accept" or other.outcome != "accept":
            return None
        again = self.compare(one, other)
        return again is not None and again.kind == mistake.kind

    def blame_on_valid_twin(
        self, mistake: Mistake, examiner: Examiner
    ) -> list[tuple[Examiner, FileQuestion, Mistake]] | None:
        """Return the mistakes on the valid twin, or None if the subjects do not differ there in this way."""
        twin = self.twin
        if twin is None or not self._recurs_on_twin(mistake, examiner):
            return None
        out = []
        for subject, answer in zip(examiner.subjects, self._answers(twin.data, examiner), strict=True):
            wrong = twin.mistake_in(answer, subject.lacks)
            if wrong is not None:
                out.append((Examiner([subject], examiner.step, examiner.profile), twin, wrong))
        return out

    def compare(self, one: StepResult, other: StepResult) -> Mistake | None:
        both = differences(one, other)
        if both is None:
            return None
        return Mistake("deviation:content", "", kind_of_part(both[1].part), differences=both)

    @property
    def expected(self) -> str:
        return AGREEMENT

    @property
    def expectation(self) -> Mapping[str, Any]:
        codes, choices = list(self.codes), list(self.choices)
        return {"outcome": "open", "agree": True, "codes": codes, "choices": choices}

    def same_bug(self, mistake: Mistake, other: Question, again: Mistake) -> bool:  # noqa: ARG002
        return again.kind == mistake.kind

    def keys(self, examiner: Examiner, mistake: Mistake) -> Keys:
        names = {"a": examiner.subject.plain, "b": self.second.plain}
        signature = f"{signature_of(self.subject, DIFFERENT_CONTENT, names)} [{mistake.kind}]"
        return Keys(signature, f"{'+'.join(self.choices)}: {signature}")

    def explain(self, examiner: Examiner, mistake: Mistake) -> Account:
        cause = unknown("there is no similar valid file that both accept and that could be compared")
        if self._recurs_on_twin(mistake, examiner) is False:
            rules = self.rules or tuple(rule_book().choices[choice].rule for choice in self.choices)
            cause = Cause(rules, "the two do not differ in this way on the most similar valid file")
        (one, other), name, second = mistake.differences, examiner.subject.name, self.second.name
        got = {
            name: f"accept, but {disagreement_text(one.text, second)}",
            second: f"accept, but {disagreement_text(other.text, name)}",
        }
        return Account(cause, mistake.verdict, got)
